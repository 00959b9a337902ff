"""PORT: the history of a team, the runs in it, and what is kept for a time only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from interlock.model.event import Event, KeyedChange
from interlock.model.json import Json
from interlock.model.run import Artifact, Run

RawEvent = tuple[int, str, str | None, str, str]
"""(seq, type, task id, payload as JSON text, time) of an event: all the mirror needs."""


class Written(NamedTuple):
    """The events that a transaction has written, after the event `head` of the time `at`."""

    head: int
    at: str
    events: Sequence[RawEvent]


class EventRows(Protocol):
    """The team's history."""

    written: list[RawEvent]
    """What this transaction has appended."""

    def append(self, type: str, actor: str, task_id: str | None, at: str, payload: Mapping[str, Any]) -> int:
        """Write an event and return its `seq`."""

    def since(self, seq: int, limit: int | None = None) -> list[Event]:
        """Events after `seq`, in order."""

    def of_task(self, task_id: str, limit: int | None = None) -> list[Event]:
        """Events about one task, in order; the newest `limit`."""

    def of_tasks(self, task_ids: Sequence[str], types: Sequence[str]) -> dict[str, list[Event]]:
        """Events of these types by their task, in order."""

    def latest(self, before: int | None, most: int, types: Sequence[str] = (), by: str = "") -> list[Event]:
        """The newest `most` events below `seq` `before` (None: of all), newest first; of these types or `by` one."""

    def raw_since(self, seq: int, limit: int | None = None) -> list[RawEvent]:
        """Those after `seq`, in order."""


class RunRows(Protocol):
    """Attempts at tasks."""

    def begin(self, run: Run) -> None:
        """Store a new run."""

    def begin_aside(self, member: str, session: str, at: str) -> int:
        """Store the account of a prompt that belongs to no task, with an unknown part until it is closed; its number
        among those, whose task id is empty."""

    def update(self, run: Run, **changes: Any) -> None:
        """Write these fields."""

    def end(self, task_id: str, number: int, at: str, outcome: str, reason: str | None) -> None:
        """Close that run, if it is open."""

    def reopen(self, task_id: str, number: int) -> None:
        """Open that run again."""

    def get(self, task_id: str, number: int) -> Run | None:
        """That run."""

    def of_task(self, task_id: str) -> list[Run]:
        """All runs of a task, oldest first."""

    def by_task(self, task_ids: Sequence[str]) -> dict[str, list[Run]]:
        """All runs of those of these tasks that have one, oldest first."""

    def of_session(self, task_id: str, session: str) -> Run | None:
        """The newest run of the task that belonged to that session."""

    def open(self) -> list[Run]:
        """Runs that have not ended."""

    def open_count(self) -> int:
        """How many of them a runner drives: no place is taken by manual claims, nor by what waits for a person."""

    def lapsed(self, now: str) -> list[Run]:
        """Open runs of tasks in progress or in review whose lease has expired by `now`, oldest first."""

    def runners(self) -> list[str]:
        """The runners of open runs, each once."""

    def of_runner(self, runner: str) -> list[Run]:
        """The open runs that runner drives."""

    def spent(self, now: str, *, task: str | None = None, member: str | None = None, since: str = "") -> Json:
        """What runs used together, of one task or member or all, begun at `since` or later: `turns`, `tokens`,
        `input_tokens`, `output_tokens`, `cost_usd`, and `time` in seconds until `now`."""

    def totals(self, now: str, since: str) -> Json:
        """The same of runs that somebody worked in, of tasks that are not deleted, which ended at `since` or later or
        are open; and `runs`, how many there are, with `began_at` and `ended_at`, the first and the last time."""

    def last_agent_session(self, member: str) -> str | None:
        """The agent's own id of that member's last session that reported one."""

    def joined(self) -> list[tuple[str, str, str, str | None]]:
        """(member, session, process, gone since) of sessions with a process that hold open runs no runner drives."""

    def of_member_session(self, member: str, session: str) -> list[Run]:
        """The open runs of that session which no runner drives, of tasks in progress."""

    def by_hand(self) -> list[str]:
        """Ids of the tasks whose open run no runner drives."""

    def keep(self, task_id: str, number: int, artifacts: Sequence[Artifact]) -> None:
        """Record what that run made that is in no commit, in place of what was recorded before."""

    def artifacts(self, task_id: str) -> list[Artifact]:
        """What the runs of a task made that is in no commit, by run and path."""

    def artifacts_by_task(self, task_ids: Sequence[str]) -> dict[str, list[Artifact]]:
        """The same of those of these tasks that have any."""


class UpkeepRows(Protocol):
    """Changes with a key, and history that is old enough to go."""

    def change(self, id: str) -> KeyedChange | None:
        """That change, if it was made."""

    def keep_change(self, change: KeyedChange, until: str) -> None:
        """Store one that is made in this transaction, and forget some that were made before `until`."""

    def keep_answer(self, id: str, status: int, answer: str) -> None:
        """Store what was answered to it."""

    def pruned(self) -> int:
        """The event up to which some may have been pruned; 0 where none was."""

    def last_before(self, at: str) -> int:
        """The newest event that is older than that; 0 where there is none."""

    def prune_events(self, before: str, after: int, through: int, limit: int) -> tuple[int, int]:
        """Delete what is old enough among the next `limit` events after `after`: how far it looked, and how many went.
        What stays: events of tasks that are open, or were when `before` was; of each task, that it was made and moved;
        and those of the team that tell more than that somebody wrote, came or went."""

    def prune_messages(self, before: str, after: int, limit: int) -> tuple[int, int]:
        """The same for messages that were acknowledged, but for those of a shutdown."""

    def prune_sessions(self, before: str, limit: int) -> int:
        """Delete at most `limit` sessions that were over before that, and return how many went. One that nobody can
        see ending, since it has no process here, counts by when it began. What stays: the newest one of each member,
        those with an open run or with mail in hand, and those of programs that joined, which may be resumed."""

    def settled(self, before: str, after: int, limit: int) -> list[tuple[int, str]]:
        """(number, id) of the next `limit` tasks after the number `after` that were finished before that."""
