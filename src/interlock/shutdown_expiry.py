"""Shutdown requests whose time is up. Apart from the handshake itself, since every look at one's mail passes here."""

from __future__ import annotations

from interlock.mailbox import send
from interlock.model.names import SYSTEM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from interlock.sessions import Act


def expire(act: Act) -> list[dict[str, Any]]:
    """Close requests whose time is up, and tell who asked that nobody answered."""
    late = [found for found in act.rows.requests.open() if found["expires_at"] <= act.at]
    for found in late:
        silent = [name for name in found["asked"] if name not in found["answers"]]
        act.rows.requests.update(found["id"], state="expired")
        act.event("shutdown.expired", request=found["id"], waiting_for=silent)
        if act.rows.team.address(found["asked_by"]) is not None:
            send(
                act, found["asked_by"],
                f"{', '.join(silent)} did not answer the shutdown request. "
                f"`interlock stop --now --member {found['subject']}` ends {found['subject']} without an answer.",
                type="message", request_id=found["id"], notice=True, sender=SYSTEM,
                summary="shutdown request unanswered",
            )  # fmt: skip
    return late
