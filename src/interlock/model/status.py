"""What a team does now, and what needs a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from interlock.lazy_dataclass import dataclass
from interlock.model import text as words
from interlock.model.json import Json, fields_of


@dataclass(slots=True)
class Need:
    """Something that waits for a person; `core.reports.needs` lists the kinds. `count`: it stands for so many tasks.
    `cause` is all that is known of why a task failed, which `folded` goes by. `subject` is that of a task which `text`
    does not name."""

    kind: str
    task_id: str
    text: str
    verb: str
    count: int | None = None
    cause: str | None = None
    subject: str | None = None

    @property
    def headline(self) -> str:
        """The text with what it is about, for a list of needs of several tasks."""
        return self.text if self.subject is None else f"{self.subject}: {self.text}"

    def as_dict(self) -> Json:
        """The contract's shape: `count` only where there is one."""
        return fields_of(self, ("kind", "task_id", "text", "verb") + (("count",) if self.count is not None else ()))


@dataclass(slots=True)
class HeldTask:
    """A task that somebody holds, `since` when."""

    task_id: str
    subject: str
    key: str | None
    member: str | None
    state: str
    since: str | None
    attempt: int


@dataclass(slots=True)
class RunningTask(HeldTask):
    """One that is worked on; `last_words` is the last line its run printed, or what is known of a program
    that claimed it and is not seen to live."""

    last_words: str | None


@dataclass(slots=True)
class WaitingTask(HeldTask):
    """One that goes no further without somebody else, and `why`, where that is known."""

    why: str | None


@dataclass(slots=True)
class TaskBrief:
    """A task in a list of a report."""

    task_id: str
    subject: str
    state: str
    key: str | None
    priority: str
    assignee: str | None


@dataclass(slots=True)
class NextTask(TaskBrief):
    """A ready one; `not_before`: when it is tried again; `why`: what it waits for, where that is known."""

    not_before: str | None
    why: str | None


@dataclass(slots=True)
class KeptWorktree:
    """The worktree of a task that came to nothing, or that holds what could not be kept: `why`, and `size` in bytes."""

    task_id: str
    subject: str
    key: str | None
    state: str
    path: str
    branch: str
    why: str | None
    size: int | None


@dataclass(slots=True)
class UnableMember:
    """A member whose agent is not available on this machine, and why."""

    member: str
    agent: str | None
    why: str


@dataclass(slots=True)
class StatusReport:
    """What a team does now.

    Attributes:
        status: active or paused.
        runner: the process that drives the team, if one has signed on; `driven`: whether it lives.
        workers: other processes that work on its tasks, servers among them.
        unread: mail of those who are told of it nowhere else.
    """

    team: str
    status: str = "active"
    paused: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    runner: str | None = None
    needs_me: list[Need] = field(default_factory=list)
    running: list[RunningTask] = field(default_factory=list)
    waiting: list[WaitingTask] = field(default_factory=list)
    next: list[NextTask] = field(default_factory=list)
    kept: list[KeptWorktree] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    spent: Json = field(default_factory=dict)
    retry_at: str | None = None
    unread: dict[str, int] = field(default_factory=dict)
    unable: list[UnableMember] = field(default_factory=list)
    driven: bool = False
    workers: list[str] = field(default_factory=list)


def folded(needs: Sequence[Need]) -> list[Need]:
    """The same for people, one for each cause: tasks that failed for the same reason are one, and what waits only for a
    task in deadletter is told there, since one answer fixes it all."""
    failed: dict[str, list[Need]] = {}
    for need in needs:
        if need.kind == "deadletter":
            failed.setdefault(need.cause or need.task_id, []).append(need)
    groups = {need.verb: group for group in failed.values() for need in group}
    waiting: dict[str, set[str]] = {}
    for need in needs:
        if need.kind == "broken" and need.verb in groups:
            waiting.setdefault(groups[need.verb][0].verb, set()).add(need.task_id)
    found = []
    for need in needs:
        group = groups.get(need.verb, [need])
        if (need.kind == "broken" and need.verb in groups) or need is not group[0]:
            continue
        more, behind = len(group) - 1, len(waiting.get(group[0].verb, ())) if need.kind == "deadletter" else 0
        told = [f"{words.count(more, 'more task')} failed for the same reason"] if more else []
        told += (
            [f"{'1 task waits' if behind == 1 else f'{behind} tasks wait'} for {'them' if more else 'it'}"]
            if behind
            else []
        )
        if more:
            need = replace(need, verb=f"{need.verb} --alike", count=len(group))
        if told:
            need = replace(need, text=f"{need.text} ({'; '.join(told)})")
        found.append(need)
    return found


def cannot_work(one: UnableMember) -> str:
    """What one of `unable` comes to, and what to do about it."""
    return (
        f"{one.member} cannot work here: {one.why} The others work without it. `interlock agents list` shows "
        "what is installed."
    )
