"""What tells people what needs them, with the settings of a home as they are now."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from interlock.runner.notices import Notices
from interlock.runner.sending import Way, ways
from interlock.settings import Settings, read_file

if TYPE_CHECKING:
    from interlock.clients.local.home import LocalHome
    from interlock.clock import Clock


def notices(
    home: LocalHome, settings: Settings, clock: Clock, team: str | None, link: Callable[[], str | None]
) -> Notices:
    """See `client.Home.notices`."""

    def set_now() -> tuple[list[Way], float]:
        # Read anew each time: who sets it while a run goes on means this run, too.
        now = settings.for_home(read_file(os.path.join(home.path, "settings.json")))
        return ways(str(now.get("notify.command")), str(now.get("notify.webhook"))), float(now.get("notify.interval"))

    names = home.teams if team is None else lambda: [team]
    return Notices(home.path, names, home.workspace, set_now, clock, link)
