"""What a run of a workflow looks like while it lasts: live on a terminal, lines anywhere else (FR57, FR58, BMAD-7.7).

Both read the team and show what `model.progress` makes of it, in the mode that was said last, so a run of
another process looks the same. That a human is needed is shown in every mode.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from interlock.agents.session import Update
from interlock.app.team import Team
from interlock.errors import InterlockError
from interlock.model import text as words
from interlock.model.progress import SILENT, ProgressDisplay, live, percent
from interlock.model.workflow import is_gate
from interlock.surfaces.cli.board import LineView, LiveView, line_for

ALWAYS = frozenset({"question.asked", "task.failed", "task.warning", "team.paused", "member.paused"})
"""What is said in `silent` too."""
LATER = 1.0
"""Seconds after which the run is looked at again where nothing has happened."""
AROUND = 9
"""Lines of the live view that are not steps."""
MARKS = {
    "completed": ("✓", "green"),
    "in_progress": ("▶", "yellow"),
    "failed": ("✗", "red"),
    "skipped": ("–", "dim"),
    "rolled_back": ("↩", "dim"),
}
FINISHING = "continuing until this workflow has ended or needs you"
"""What the first Ctrl-C comes to: a workflow is one task, and what runs is finished."""


class RunFollower:
    """A run as its events tell it: `news` are the lines since the last call, `run` the run as it is."""

    def __init__(self, team: Team, run_id: str, clock: Callable[[], float] = time.time) -> None:
        self._team = team
        self._clock = clock
        self.run = team.workflow_run(run_id)
        self.display = ProgressDisplay(str(self.run["progress_mode"]))
        self._since = team.head()
        self._looked = clock()
        self._heard: list[str] = []

    def heard(self, update: Update) -> None:
        """Something the agent said or did: a tool that has ended is told in `verbose`."""
        if update.kind == "tool" and update.data.get("status") in ("completed", "failed"):
            title = str(update.data.get("title") or update.text or update.data.get("kind") or "tool")
            self._heard.append(f"{words.clean(title)}, {update.data['status']}")

    def news(self) -> list[str]:
        """The lines that are due."""
        now = self._clock()
        events, self._since = self._team.events(self._since)
        events = [one for one in events if one.task_id == self.run["task_id"]]
        if events or now - self._looked >= LATER:
            self.run = self._team.workflow_run(self.run["workflow_id"])
            self._looked = now
            self.display.mode = str(self.run["progress_mode"])
        heard, self._heard = self._heard, []
        lines = [line for one in heard for line in self.display.heard(one)]
        for event in events:
            quiet = self.display.mode == SILENT and event.type not in ALWAYS
            told = None if quiet else line_for(event)
            lines += [told] if told else self.display.advance([event], self.run, now)
        return [words.clean(line) for line in [*lines, *self.display.tick(self.run, now)]]


class WorkflowLines(LineView):
    """Plain lines, each with its time."""

    finishing = FINISHING

    def __init__(self, team: Team, run_id: str, say: Callable[[str], None], interval: float = 0.2) -> None:
        super().__init__(say, interval)
        self._following = RunFollower(team, run_id)

    def heard(self, member: str, task_id: str, update: Update) -> None:
        if task_id == self._following.run["task_id"]:
            self._following.heard(update)

    def print_new(self) -> None:
        for line in self._following.news():
            self._say(f"{time.strftime('%H:%M:%S')}  {line}")


def last_words(text: str) -> str:
    """The last line of what an agent said that is for people: neither the JSON that ends its turn nor a fence."""
    for line in reversed(text.strip().splitlines()):
        said = re.sub(r"^\[[\w-]+\] ", "", line).strip()
        if said and not said.startswith(("{", "}", "```")):
            return words.clean(line)
    return ""


class WorkflowBoard(LiveView):
    """The live view: its lines scroll by above the steps and how far it is."""

    finishing = FINISHING

    def __init__(self, team: Team, run_id: str, hint: str) -> None:
        super().__init__()
        self._following = RunFollower(team, run_id)
        self._hint = hint
        self._words = ""

    def heard(self, member: str, task_id: str, update: Update) -> None:
        if task_id != self._following.run["task_id"]:
            return
        self._following.heard(update)
        if update.kind in ("text", "tool", "notice"):
            self._words = last_words(update.text) or self._words

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        for line in self._following.news():
            self._console.print(f"  {line}", style="dim", markup=False, highlight=False)

    def draw(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        try:
            lines = self._following.news()
        except InterlockError as error:
            return Text(error.message, style="red")
        run, now = self._following.run, time.time()
        parts: list[Any] = [Text(f"  {line}", style="dim") for line in lines]
        if lines:
            # Above the live view, where they stay.
            self._live.console.print(*parts, sep="\n")
        if self._following.display.mode == SILENT:
            return Text(f" {run['skill']}  {self.note or 'silent until it has ended'}", style="dim")
        much = percent(run, now)
        head = Text.assemble(
            (f" {run['skill']} ", "bold reverse"),
            f"  {'█' * (much // 5):░<20} {much} %  ",
            (f"{run['completed_count']} of {run['completed_count'] + run['remaining_count']} steps", "dim"),
        )
        foot = live(run, now) or self._words or self._hint
        return Group(head, Text(""), *self._steps(run, now), Text(""), self.foot(foot))

    def _steps(self, run: dict[str, Any], now: float) -> list[Any]:
        from rich.text import Text

        progress, steps = run["progress"], run["steps"]
        done, left = progress["completed_steps"], progress["remaining_steps"]
        room = max(3, int(self._console.size.height) - AROUND)
        before = done[-max(1, room // 2) :]
        shown = [*before, *left][:room]
        hidden = len(done) - len(before)
        lines = [Text(f"  ✓ {hidden} more", style="dim")] if hidden else []
        for one in shown:
            record = steps.get(f"step_{one['step']}", {})
            mark, style = MARKS.get(str(record.get("status")), ("·", "dim"))
            took = record.get("duration_ms")
            since = f"  {took / 1000:.1f} s" if took and record.get("status") == "completed" else ""
            name = words.clean(str(one["name"]))
            number = "" if is_gate(one["step"]) else one["step"]
            lines.append(Text.assemble((f"  {mark} ", style), f"{number!s:>3}  {name}", (since, "dim")))
        further = len(done) + len(left) - hidden - len(shown)
        return [*lines, *([Text(f"  · {further} more", style="dim")] if further > 0 else [])]
