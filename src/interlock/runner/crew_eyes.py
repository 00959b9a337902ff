"""How a crew sees the processes that runs hang on: of its own runs it knows who is at them."""

from __future__ import annotations

from collections.abc import Callable

from interlock.model.task import Run, Task
from interlock.runner.findings import Eyes
from interlock.runner.lifesigns import lives


class CrewEyes(Eyes):
    """A crew knows of its own runs which of them somebody is at (`drives` a run, is `at` a task), and may have been
    told that another machine is gone.

    A run of ours that no worker is at: this process has driven the team before and was stopped, or could not write down
    how the run ended.
    """

    def __init__(self, own: str, drives: Callable[[Run], bool], at: Callable[[Task], bool], *, take_over: bool) -> None:
        self.own = own
        self._drives = drives
        self._at = at
        self._take_over = take_over

    def alive(self, process: str) -> bool | None:
        found = lives(process)
        return False if found is None and self._take_over else found

    def at(self, task: Task) -> bool:
        return self._at(task)

    def gone(self, run: Run) -> bool:
        return not self._drives(run) if run.runner == self.own else super().gone(run)
