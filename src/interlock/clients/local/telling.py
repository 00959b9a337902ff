"""What tells people what needs them, with the settings of a home as they are now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from interlock.commands import words_of
from interlock.runner.notices import Notices
from interlock.runner.sending import Way, ways
from interlock.settings import Settings

if TYPE_CHECKING:
    from interlock.clients.local.home import LocalHome
    from interlock.clock import Clock


def notices(
    home: LocalHome, settings: Settings, clock: Clock, team: str | None, link: Callable[[], str | None]
) -> Notices:
    """See `client.Home.notices`."""

    def set_now() -> tuple[list[Way], float]:
        found = ways(str(settings.get("notify.command")), str(settings.get("notify.webhook")))
        return found, float(settings.get("notify.interval"))

    names = home.teams if team is None else lambda: [team]
    return Notices(home.path, names, home.workspace, set_now, clock, link)


def check_programs(changes: Mapping[str, Any]) -> None:
    """Whether settings that name programs and addresses make sense, before they are kept.

    Raises:
        InvalidRequest: one does not.
    """
    if any(name.startswith("notify.") for name in changes):
        ways(str(changes.get("notify.command") or ""), str(changes.get("notify.webhook") or ""))
    for name in ("forgetful_command", "serena_command"):
        if changes.get(name):
            words_of(str(changes[name]), name)
