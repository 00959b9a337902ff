"""What people look at: the board of a team, one task with all that belongs to it, members, output, and merges."""

from __future__ import annotations

from dataclasses import field

from interlock.lazy_dataclass import dataclass
from interlock.model.event import Event
from interlock.model.json import Json
from interlock.model.question import Question
from interlock.model.run import Handoff, Run
from interlock.model.task import Task
from interlock.model.team import Member


@dataclass(slots=True, frozen=True)
class BoardFilter:
    """Which tasks of a board are meant: with all of these words, held by or meant for that member, so urgent, of that
    epic."""

    words: str = ""
    member: str = ""
    priority: str = ""
    epic: str = ""

    def __bool__(self) -> bool:
        return bool(self.words.strip() or self.member or self.priority or self.epic)


EVERYTHING = BoardFilter()


@dataclass(slots=True, frozen=True)
class Board:
    """The tasks of a team by column: how many there are, and the first of them; `states` counts them all by state,
    `epics` are those that tasks are of."""

    states: dict[str, int]
    counts: dict[str, int]
    tasks: dict[str, list[Task]]
    epics: list[str]


@dataclass(slots=True, frozen=True)
class TaskStory:
    """Everything about one task. `log` is (at, author, text); `questions` are all that were asked, oldest first;
    `blockers` and `dependents` are tasks, also finished ones."""

    task: Task
    runs: list[Run]
    log: list[tuple[str, str, str]]
    events: list[Event]
    questions: list[Question]
    handoff: Handoff | None
    parent: Task | None
    blockers: list[Task]
    dependents: list[Task]


@dataclass(slots=True, frozen=True)
class Occupation:
    """A task that a member works on, or `reviews`, `since` when."""

    task_id: str
    subject: str
    state: str
    reviews: bool
    since: str | None
    run: int


@dataclass(slots=True, frozen=True)
class MemberOverview:
    """A member with what it is doing, and what its runs used; `capacity_at`: until when it has none left."""

    member: Member
    unread: int
    tasks: list[Occupation]
    last_words: str | None
    spent: Json
    capacity_at: str | None


@dataclass(slots=True, frozen=True)
class OutputLines:
    """Lines of what a run printed, with the escapes for a terminal.

    Attributes:
        first: the number of the first of them, from 1.
        total: how many lines there are; `size` the bytes of all of them.
        found: the number of the line that has what was looked for.
    """

    run: int
    first: int
    lines: list[str]
    total: int
    size: int
    found: int | None


@dataclass(slots=True, frozen=True)
class FilePart:
    """Bytes of what a run printed, or of a file that it left.

    Attributes:
        start: the number of the first of them, from 0; `size`: how many the file has now.
        ended: nothing is added to the file any more.
    """

    __pydantic_config__ = {"ser_json_bytes": "base64", "val_json_bytes": "base64"}  # noqa: RUF012

    run: int
    start: int
    data: bytes
    size: int
    ended: bool


@dataclass(slots=True, frozen=True)
class TaskDiff:
    """What a task with a worktree of its own has changed, as a patch or as a list of files, which has `size` bytes:
    all of it, or a part before the byte `next`. `merged` is the commit that merged it; `raw` its bytes, where they are
    no UTF-8, so that `diff` has U+FFFD for some."""

    __pydantic_config__ = {"ser_json_bytes": "base64", "val_json_bytes": "base64"}  # noqa: RUF012

    task_id: str
    branch: str
    base: str
    merged: str | None
    diff: str
    raw: bytes | None
    size: int
    next: int | None

    @property
    def content(self) -> bytes:
        """What git wrote, byte by byte."""
        return self.diff.encode() if self.raw is None else self.raw


@dataclass(slots=True, frozen=True)
class MergedTask:
    """A task whose work a merge brought into a branch; `key` is its key in the plan."""

    task_id: str
    key: str | None
    subject: str


@dataclass(slots=True)
class MergeResult:
    """What a merge into a branch of the user's did, or would do: the branch, its commit `before` and `after`, and what
    is in the way (files with `conflicts`, and `dirty` ones, whose changes are not committed). `warnings` say how
    somebody else had moved the integration branch, which is back in its place."""

    into: str
    before: str
    after: str | None
    merged: bool = False
    commits: int = 0
    tasks: list[MergedTask] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    dirty: list[str] = field(default_factory=list)
    stat: str = ""
    warnings: list[str] = field(default_factory=list)
