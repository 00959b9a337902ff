"""A task that one agent handed to another (AOF/1, decision 14)."""

from __future__ import annotations

from interlock.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Handoff(Record):
    """The newest handoff of one task. Agents are member names where the team knows them, else as they were written.

    `payload` is the request as it came, camelCase; `state` is requested, accepted or rejected.
    """

    task_id: str
    parent_id: str
    from_agent: str
    to_agent: str
    payload: dict[str, Any]
    state: str
    reason: str | None
    requested_at: str
    answered_at: str | None
