"""The demo: a bundled project, released by three agents, of whom one is killed and one lies."""

from __future__ import annotations

import os
import signal

from interlock.app.team import Team
from interlock.demo import HALFWAY, materialise
from interlock.model.driving import Update
from interlock.model.event import Event
from interlock.processes.ref import ProcessRef

__all__ = ["Sabotage", "materialise"]

CHANGELOG = "cleo"
"""Who says that she is done when she is not."""


class Sabotage:
    """Kills ben's program once, in the middle of his task, and tells what goes wrong in the team while it happens."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self.killed: str | None = None
        """The task whose run was killed."""
        self._lied: str | None = None

    def heard(self, update: Update) -> None:
        """Kill the program that says it is half way."""
        run = self._team.runs(update.task_id)[-1] if not self.killed and update.text.strip() == HALFWAY else None
        if run is not None and run.process is not None:
            self.killed = update.task_id
            os.killpg(ProcessRef.parse(run.process).pid, signal.SIGKILL)

    def line(self, event: Event) -> str | None:
        """What to say of an event that belongs to the kill or to the lie; `None` for all others."""
        task, said = event.task_id, event.payload
        match event.type:
            case "task.failed" if task == self.killed:
                return "ben KILLED halfway with SIGKILL; back to the queue"
            case "task.claimed" if task == self.killed and not said["run"].endswith(".1"):
                return "ben starts again (run 2) and undoes his half edit"
            case "verify.finished" if task == self.killed and said["passed"]:
                return "check passed: verified, in spite of the kill"
            case "task.completed" if event.actor == CHANGELOG and self._lied is None:
                self._lied = task
                return "cleo says that she is done"
            case "verify.finished" if task == self._lied and not said["passed"]:
                return "NOT done: its check failed; cleo gets the findings"
            case "verify.finished" if task == self._lied:
                return "check passed: now it is verified"
        return None
