"""What tells people what needs them, with the settings of a home as they are now."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from interlock.runner.notifications import Notifications, NotificationTarget, targets
from interlock.settings import Settings

if TYPE_CHECKING:
    from interlock.clients.local.home import LocalHome
    from interlock.clock import Clock


def notices(
    home: LocalHome, settings: Settings, clock: Clock, team: str | None, link: Callable[[], str | None]
) -> Notifications:
    """See `client.Home.notices`."""

    def set_now() -> tuple[list[NotificationTarget], float]:
        found = targets(str(settings.get("notify.command")), str(settings.get("notify.webhook")))
        return found, float(settings.get("notify.interval"))

    names = home.teams if team is None else lambda: [team]
    return Notifications(home.path, names, home.workspace, set_now, clock, link)
