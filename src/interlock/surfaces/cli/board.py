"""What a run looks like while it lasts: a live board on a terminal, one plain line per event anywhere else.

Both only read the team, so they show a run of another process just as well.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Any, Self

import click

from interlock.app.team import Team
from interlock.clock import seconds
from interlock.errors import InterlockError
from interlock.model import text as words
from interlock.model.driving import Update
from interlock.model.event import Event
from interlock.model.evidence import ended, in_words
from interlock.model.question import failure_asked
from interlock.model.task import Task

REFRESHES = 4
"""Times a second the board is redrawn."""
LOOK_EVERY = 0.2
"""Seconds between two looks for new lines."""
GLYPHS = {
    "backlog": ("·", "dim"),
    "ready": ("○", "cyan"),
    "in-progress": ("●", "yellow"),
    "awaiting-response": ("?", "magenta"),
    "blocked": ("■", "red"),
    "review": ("◐", "magenta"),
    "done": ("✓", "green"),
    "deadletter": ("✗", "bold red"),
    "cancelled": ("–", "dim"),
}
ORDER = ("in-progress", "review", "awaiting-response", "blocked", "deadletter", "ready", "backlog", "done", "cancelled")
ROOM_AROUND = 8
"""Lines of the board that are not tasks."""


def of_the_run(update: Update) -> bool:
    """Whether it concerns the run as a whole, such as a member that is left out; no event tells that."""
    return update.kind == "notice" and not update.task_id and not update.member


class View(AbstractContextManager["View"]):
    """What shows a run while it lasts: a context manager around the run."""

    finishing = "finishing current tasks"
    """What the first Ctrl-C comes to."""

    def heard(self, update: Update) -> None:
        """Something an agent said or did."""

    @abstractmethod
    def tell(self, text: str) -> None:
        """Something that whoever watches must know now."""


class LiveView(View):
    """A live display at the foot of the terminal, redrawn from `draw`; its last line is `foot`, or what was told."""

    transient = True
    """Whether it is gone when the run is over."""

    def __init__(self, team: Team, hint: str) -> None:
        self.note: str | None = None
        self._team = team
        self._hint = hint
        self._console: Any = None
        self._live: Any = None

    def tell(self, text: str) -> None:
        self.note = text

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.live import Live

        self._console = Console()
        self._live = Live(
            get_renderable=self.draw, console=self._console, refresh_per_second=REFRESHES, transient=self.transient
        )
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    @abstractmethod
    def draw(self) -> Any:
        """What is shown now."""

    def foot(self, text: str) -> Any:
        from rich.text import Text

        style = "bold yellow" if self.note else "dim"
        return Text(f" {self.note or text}", style=style, no_wrap=True, overflow="ellipsis")


class LineView(View):
    """Prints what is new again and again, in a thread of its own, while its block lasts, and once more at its end."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="interlock-lines", daemon=True)

    def tell(self, text: str) -> None:
        click.echo(text, err=True)

    @abstractmethod
    def print_new(self) -> None:
        """Print what has happened since the last call."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.print_new()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_EVERY):
            try:
                self.print_new()
            except InterlockError:
                continue  # A busy ledger: the next look shows it.
            except BrokenPipeError:
                return  # Nobody reads it. The work continues; the last look, at the end, says so.


class TaskBoard(LiveView):
    def __init__(self, team: Team, hint: str) -> None:
        super().__init__(team, hint)
        self._began = time.time()
        self._words: dict[str, str] = {}
        self._keys: dict[str, str] = {}

    def heard(self, update: Update) -> None:
        if of_the_run(update):
            self.say(words.clean(update.text))
        elif update.text.strip():
            self._words[update.task_id] = update.text.strip()

    def say(self, line: str) -> None:
        """Print a line above the board, which stays."""
        from rich.text import Text

        self._console.print(Text(f" {line}", style="bold yellow"), soft_wrap=True)

    def draw(self) -> Any:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        try:
            tasks = self._team.tasks()
        except InterlockError as error:
            return Text(error.message, style="red")
        self._keys = {task.id: task.plan_key or task.id.rpartition("-")[2] for task in tasks}
        done = sum(task.state == "done" for task in tasks)
        asked = sum(task.question is not None for task in tasks)
        head = Text.assemble(
            (f" {self._team.name} ", "bold reverse"),
            f"  {done} of {len(tasks)} done",
            (f"  {_duration(time.time() - self._began)}", "dim"),
            (f"  {asked} for you: interlock question list --team {self._team.name}" if asked else "", "magenta"),
        )
        table = Table(box=None, expand=True, padding=(0, 1), show_header=False)
        table.add_column(width=1)
        table.add_column(no_wrap=True)
        table.add_column(ratio=2, no_wrap=True, overflow="ellipsis")
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(ratio=3, no_wrap=True, overflow="ellipsis", style="dim")
        # Rows that stay where they are read best; only what does not fit makes the active ones come first.
        room = max(5, int(self._console.size.height) - ROOM_AROUND)
        if len(tasks) > room:
            tasks = sorted(tasks, key=lambda task: (ORDER.index(task.state), task.n))
        for task in tasks[:room]:
            glyph, style = GLYPHS[task.state]
            works = task.state in ("in-progress", "review") and task.claimed_at is not None
            table.add_row(
                Text(glyph, style=style),
                self._keys[task.id],
                Text(task.subject),
                Text(task.owner or task.reserved_for or "", style=style),
                _duration(time.time() - seconds(str(task.claimed_at))) if works else "",
                Text(self._about(task)),
            )
        more = [Text(f"  … and {len(tasks) - room} more", style="dim")] if len(tasks) > room else []
        return Group(head, Text(""), table, *more, Text(""), self.foot(self._hint))

    def _about(self, task: Task) -> str:
        last = self._words.get(task.id, "")
        if task.question is not None:
            return _asked(task.question)
        if task.state == "in-progress":
            return last
        if task.state == "review" and task.merging is not None:
            return last if task.merging["stage"] == "merging" else "waits for its merge"
        if task.state == "review":
            return f"checking: {task.verify}" if task.verifying else f"waits for review by {task.review or 'human'}"
        if task.state == "backlog":
            return f"waits for {', '.join(self._keys.get(id, id) for id in task.blocked_by)}"
        if task.state == "ready" and task.failures:
            return f"attempt {task.failures} failed, tried again soon"
        if task.state == "done":
            return f"{in_words(task.evidence)}{words.after_failed_checks(task.rounds)}"
        return (task.output or "").splitlines()[0] if task.output and task.state in ("deadletter", "blocked") else ""


class ToldBoard(TaskBoard):
    """The board, with a line above it for each event that `told` words; what it showed last stays."""

    transient = False

    def __init__(self, team: Team, hint: str, told: Callable[[Event], str | None]) -> None:
        super().__init__(team, hint)
        self._lines = Lines(team, self.say, told, room=9)

    def __enter__(self) -> Self:
        super().__enter__()
        self._lines.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.__exit__()
        self._hint = ""
        super().__exit__()


class Lines(LineView):
    """One plain line per event that matters, for logs and pipes; `told` words an event, `room` is for the task."""

    def __init__(
        self, team: Team, say: Callable[[str], None], told: Callable[[Event], str | None] | None = None, room: int = 24
    ) -> None:
        super().__init__(say)
        self._team = team
        self._told = told or line_for
        self._room = room
        self._subjects: dict[str | None, str] = {None: ""}
        self._notices: SimpleQueue[str] = SimpleQueue()
        self._since = team.head()

    def heard(self, update: Update) -> None:
        """Keep what concerns the run as a whole until the events before it are printed."""
        if of_the_run(update):
            self._notices.put(f"{words.clock(time.time())}  {'':<{self._room}}  {words.clean(update.text)}")

    def print_new(self) -> None:
        notices = self._notices.qsize()
        events, self._since = self._team.events(self._since)
        for event in events:
            text = self._told(event)
            if text is None:
                continue
            if event.task_id is not None and event.task_id not in self._subjects:
                task = self._team.task(event.task_id)
                self._subjects[task.id] = task.plan_key or task.subject
            at = words.clock(seconds(event.at))
            self._say(f"{at}  {self._subjects[event.task_id]:<{self._room}.{self._room}}  {text}")
        for _ in range(notices):
            self._say(self._notices.get())


class HeardLines(View):
    """What is said of the runs of this process, line by line: for a team that only its server can look at."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def heard(self, update: Update) -> None:
        for line in update.text.splitlines():
            if line.strip():
                self._say(f"{words.clock(time.time())}  {update.task_id:<24.24}  {words.clean(line)}")

    def tell(self, text: str) -> None:
        click.echo(text, err=True)

    def __exit__(self, *_: object) -> None:
        pass


def line_for(event: Event) -> str | None:
    """What to say of an event; `None` for those nobody waits for."""
    payload = event.payload
    match event.type:
        case "task.claimed":
            number = int(payload["run"].rpartition(".")[2])
            return f"{payload['owner']} started" + (f", run {number}" if number > 1 else "")
        case "task.failed" if payload.get("retry_at"):  # Else it is told as the task's state.
            return f"attempt {payload['attempt']} failed ({_first_line(payload['reason']).rstrip(':')}), tried again"
        case "task.reclaimed":
            return f"returned to queue: {payload['reason']}"
        case "setup.started":
            return f"preparing its worktree: {_first_line(payload['command'])}"
        case "verify.finished":
            passed = "check passed" if payload["passed"] else f"check FAILED: {ended(payload)}"
            return f"{passed} ({payload['seconds']:.1f} s)"
        case "merge.finished" if payload["outcome"] in ("conflict", "red"):
            return f"not merged: {_first_line(payload['reason'])}"
        case "question.asked":
            return _asked(payload)
        case "task.warning":
            return f"warning: {payload['reason']}"
        case "task.transitioned" if payload["to"] in ("done", "blocked", "cancelled"):  # A failure is a question, too.
            return str(payload["to"]) + (f": {payload['reason']}" if payload["to"] != "done" else "")
        case "review.started":
            return f"{payload['member']} reviews it"
        case "review.failed":
            return f"no verdict: {payload['reason']}"
        case "team.paused":
            return "paused: nothing new starts until `interlock resume`"
        case "member.paused":
            return f"{payload['name']} is {payload['status']}: `interlock resume --member {payload['name']}`"
        case "team.resumed":
            return "resumed"
        case "member.resumed":
            return f"{payload['name']} resumed"
        case "runner.started":
            return "worker started" if payload.get("endless") else "run started"
        case "runner.stopped":
            if payload.get("endless"):
                return f"worker stopped: {payload['reason']}"
            return "run finished" if payload["reason"] == "finished" else f"run ended: {payload['reason']}"
    return None


def _asked(question: Mapping[str, Any]) -> str:
    why = failure_asked(question["text"]) if question["kind"] == "escalation" else None
    return f"failed: {words.clean(why)}; retry or cancel?" if why else f"needs you: {_first_line(question['text'])}"


def _first_line(text: object) -> str:
    return words.clean(str(text).partition("\n")[0])


def _duration(length: float) -> str:
    whole = max(0, int(length))
    if whole < 60:
        return f"{whole}s"
    return f"{whole // 60}m{whole % 60:02d}" if whole < 3600 else f"{whole // 3600}h{whole % 3600 // 60:02d}"
