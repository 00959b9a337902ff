"""The demo: a bundled project, released by three agents, of whom one is killed and one lies."""

from __future__ import annotations

import os
import signal

from interlock.app.team import Team
from interlock.demo import HALFWAY, materialise
from interlock.errors import InterlockError
from interlock.model.driving import Update
from interlock.processes.ref import ProcessRef

__all__ = ["Sabotage", "materialise"]


class Sabotage:
    """Kills ben's program once, in the middle of his task, and tells afterwards what went wrong in the team."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self.killed: str | None = None
        """The task whose run was killed."""

    def heard(self, update: Update) -> None:
        """Kill the program that says it is half way."""
        run = self._team.runs(update.task_id)[-1] if not self.killed and update.text.strip() == HALFWAY else None
        if run is not None and run.process is not None:
            os.killpg(ProcessRef.parse(run.process).pid, signal.SIGKILL)
            self.killed = update.task_id

    def story(self) -> list[str]:
        """What happened, in sentences."""
        lines = []
        if self.killed is not None:
            runs = self._team.runs(self.killed)
            again = f"run {len(runs)} took the task up again and finished it"
            lines.append(f"ben was killed in run 1 ({runs[0].reason}); {again}.")
        try:
            events, _ = self._team.events()
        except InterlockError:
            events = []
        if any(event.type == "verify.finished" and not event.payload["passed"] for event in events):
            lines.append("cleo said she was done; the check said otherwise, and she was given its findings.")
        return lines
