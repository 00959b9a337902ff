"""PORT: one team's ledger, the truth everything else mirrors.

A `Ledger` gives out two kinds of views of the same rows:

* `with ledger.transaction() as rows:` is the only way to change anything. One writer per team at a time; all or
  nothing; whatever a rule reads inside it stays true until the commit. Raising rolls back.
* `with ledger.snapshot() as rows:` reads a single moment and never waits for a writer.

The port speaks in rows of an aggregate, never in SQL. The rules (who may claim, what unblocks) stand above it, in
`tasks/`, `mailbox` and `teams`, and are written once; a backend only reads and writes. `tests/conformance/` holds
every backend to this page. Code imports this module for types only: hooks do not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from interlock.ledger_work import GraphRows, RunRows, TaskRows
from interlock.ledger_workflow import QueueRows, WorkflowRows
from interlock.model.event import Event
from interlock.model.group import Group
from interlock.model.handoff import Handoff
from interlock.model.message import Message
from interlock.model.question import Question
from interlock.model.team import Member, Team


class TeamRows(Protocol):
    """The team's one row, its members and their sessions."""

    def get(self) -> Team:
        """The team."""

    def settings(self) -> dict[str, Any]:
        """The team's own settings, without the rest of its row."""

    def update(self, team: Team, **changes: Any) -> None:
        """Write these fields, in the row and in `team`."""

    def day_number(self, day: str) -> int:
        """The next task number of that UTC day (1, 2, …), counted up in the row."""

    def count_open(self, change: int) -> int:
        """Add `change` to the number of open tasks and answer it."""

    def add_member(self, member: Member) -> None:
        """Store a new member."""

    def update_member(self, member: Member, **changes: Any) -> None:
        """Write these fields, in the row and in `member`."""

    def remove_member(self, name: str) -> None:
        """Forget a member; its messages and runs stay."""

    def member(self, name: str) -> Member | None:
        """The member of that name."""

    def member_by_key(self, session_key: str) -> Member | None:
        """The member with that session key."""

    def members(self) -> list[Member]:
        """All, the lead first, then by joining; people last."""

    def inbox_taken(self, directory: str) -> str | None:
        """The name of the member whose inbox directory equals that, without regard to case."""

    def session_known(self, member: str, session: str) -> bool:
        """Whether that session has begun."""

    def begin_session(
        self, member: str, session: str, at: str, process: str | None, program: str | None = None
    ) -> None:
        """Store a session that begins, or goes on, with the process it lives in, if known, and, where it is a program
        that joined, the kind of it."""

    def seats(
        self, session: str | None = None, process: str | None = None
    ) -> list[tuple[str, str, str | None, str | None]]:
        """(member, session, process, ended at) of the sessions of programs that joined: the open ones, or all with
        that id, or all of that process; the newest first."""

    def holds_work(self, member: str, session: str) -> bool:
        """Whether that session has open runs which no runner drives; asked by hooks, which load nothing of runs."""

    def sent_back(self, member: str, session: str) -> bool:
        """Whether that session was sent back in its present turn."""

    def note_sent_back(self, member: str, session: str, sent: bool) -> None:
        """Note that it was, or that a new turn begins."""

    def end_session(self, member: str, session: str, at: str) -> None:
        """Note that a session has ended."""

    def touch(self, member: str, session: str, at: str) -> None:
        """Note that a member acted, and in which session."""

    def address(self, name: str) -> tuple[str, str, str, int] | None:
        """(name, inbox, role, unread) of a member, by name or session key: all that mail needs."""

    def names(self) -> list[str]:
        """The names of all members and people."""

    def living_sessions(self, member: str) -> list[tuple[str, str | None]]:
        """(session, process) of the sessions of that member that have not ended."""

    def kept_sessions(self) -> list[tuple[str, str]]:
        """(member, session) of the sessions that runners opened and that have not ended."""

    def session(self, member: str, session: str) -> tuple[str | None, str | None] | None:
        """(process, gone since) of that session; gone since null while it is not known to be gone, or to have ended."""

    def session_lives(self, member: str, session: str, process: str | None) -> None:
        """Note that a session acts, in `process` where that is known: an agent may have been started anew. The process
        of a program that joined is the one it was begun with, whoever acts for it."""

    def note_gone(self, member: str, session: str, at: str) -> None:
        """Note since when the process of a session is known to be gone, unless that is noted already."""


class MessageRows(Protocol):
    """Mail. Stages change for many messages at once; the recipient's `unread` counter goes with them."""

    def insert(self, message: Message, client_id: str | None) -> int:
        """Store a message, answer its `n` (also set on it) and count it as unread."""

    def by_client_id(self, sender: str, client_id: str) -> list[Message]:
        """What that sender stored under that id of its own."""

    def offerable(self, recipient: str, limit: int, urgent_only: bool) -> list[tuple[Message, str, str]]:
        """Messages not yet delivered, in order, each with the process that last offered it and when."""

    def offer(self, recipient: str, numbers: Sequence[int], session: str, process: str, at: str) -> None:
        """Mark messages as being handed to a session by a process; counts up their attempts."""

    def deliver(self, recipient: str, numbers: Sequence[int], session: str, at: str) -> list[str]:
        """Mark offered messages of that session as delivered; the ids that were."""

    def acknowledge(self, recipient: str, session: str, at: str) -> list[str]:
        """Mark what was delivered to that session as seen; the ids that were."""

    def acknowledge_ids(self, recipient: str, ids: Sequence[str], at: str) -> list[str]:
        """Mark those of these messages as seen that were handed over at least once; the ids that were not seen yet."""

    def seen(self, recipient: str, ids: Sequence[str]) -> list[str]:
        """Those of these messages that were acknowledged."""

    def unacknowledged(self, recipient: str, limit: int, after: int = 0) -> list[Message]:
        """What has not been seen yet, in order; marks nothing."""

    def requeue(
        self, recipient: str, *, except_session: str | None, numbers: Sequence[int] | None, session: str | None = None
    ) -> list[str]:
        """Put messages that were offered or delivered but not acknowledged back to stored; the ids that were. Those of
        `session` only, of all but `except_session`, or with these `numbers`."""

    def undelivered(self, recipient: str, after: int = 0) -> list[Message]:
        """What `messages.jsonl` shows: not yet delivered, in order."""

    def numbered(self, numbers: Sequence[int]) -> list[Message]:
        """The messages with those numbers."""

    def history(
        self, *, member: str | None, limit: int, before: int | None, request_id: str | None = None
    ) -> list[Message]:
        """Messages to or from a member (or all), the newest `limit`, in order."""

    def unread_of(self, recipient: str) -> int:
        """How many messages a member has not read."""


class QuestionRows(Protocol):
    """Questions to people."""

    def insert(self, question: Question) -> None:
        """Store an open question."""

    def update(self, question: Question, **changes: Any) -> None:
        """Write these fields, in the row and in `question`."""

    def get(self, question_id: str) -> Question | None:
        """That question."""

    def open(self, task_id: str | None = None) -> list[Question]:
        """Open questions, oldest first, of one task or all."""

    def of_task(self, task_id: str) -> list[Question]:
        """Every question there ever was about the task, oldest first."""

    def by_key(self, task_id: str, key: str) -> Question | None:
        """The question about that task which was asked with that key."""


class RequestRows(Protocol):
    """Shutdown requests and their answers."""

    def insert(self, request: dict[str, Any]) -> None:
        """Store an open request: id, subject, asked_by, asked (list of names), at, expires_at."""

    def get(self, request_id: str) -> dict[str, Any] | None:
        """That request, with `state` and `answers`."""

    def open(self) -> list[dict[str, Any]]:
        """Requests not yet granted, rejected or expired."""

    def update(self, request_id: str, **changes: Any) -> None:
        """Write these fields."""


class HandoffRows(Protocol):
    """Tasks that were handed over."""

    def put(self, handoff: Handoff) -> None:
        """Store the newest handoff of a task, in the place of an earlier one."""

    def update(self, handoff: Handoff, **changes: Any) -> None:
        """Write these fields, in the row and in `handoff`."""

    def get(self, task_id: str) -> Handoff | None:
        """The newest handoff of that task."""


class EventRows(Protocol):
    """The team's history."""

    def append(self, type: str, actor: str, task_id: str | None, at: str, payload: Mapping[str, Any]) -> int:
        """Write an event and answer its `seq`."""

    def since(self, seq: int, limit: int | None = None) -> list[Event]:
        """Events after `seq`, in order."""

    def of_task(self, task_id: str, limit: int | None = None) -> list[Event]:
        """Events about one task, in order; the newest `limit`."""

    def latest(self, before: int | None, limit: int, types: Sequence[str] = ()) -> list[Event]:
        """The newest `limit` events below the `seq` `before` (null: of all), the newest first; of these types only,
        where any are named."""

    def head(self) -> int:
        """The newest `seq`."""

    def newest(self) -> tuple[int, str]:
        """(seq, at) of the newest event."""

    def raw_since(self, seq: int, limit: int | None = None) -> list[tuple[int, str, str | None, str, str]]:
        """(seq, type, task id, payload as JSON text, time) after `seq`: all the mirror needs."""


class GroupRows(Protocol):
    """Chat sessions with their tasks counted."""

    def insert(self, group: Group) -> None:
        """Store a new group, without tasks."""

    def get(self, group_id: str) -> Group | None:
        """That group."""

    def page(self, offset: int, limit: int) -> list[Group]:
        """Groups in order of their newest change, the newest first."""

    def count(self) -> int:
        """How many there are."""

    def added(self, group_id: str, task_id: str, state: str, at: str) -> None:
        """Count a new task of the group, in that state."""

    def moved(self, group_id: str, origin: str, target: str, at: str) -> None:
        """Count that a task of the group has changed its state; a deleted one leaves the group."""

    def tasks(self, group_id: str) -> list[str]:
        """Ids of the group's tasks, oldest first, without deleted ones."""


class Rows(Protocol):
    """Everything in one team's ledger, as one transaction or one snapshot sees it."""

    @property
    def team(self) -> TeamRows:
        """The team, its members and sessions."""

    @property
    def tasks(self) -> TaskRows:
        """Tasks and Work Logs."""

    @property
    def graph(self) -> GraphRows:
        """Who waits for whom."""

    @property
    def runs(self) -> RunRows:
        """Attempts at tasks."""

    @property
    def messages(self) -> MessageRows:
        """Mail."""

    @property
    def questions(self) -> QuestionRows:
        """Questions to people."""

    @property
    def requests(self) -> RequestRows:
        """Shutdown requests."""

    @property
    def events(self) -> EventRows:
        """The history."""

    @property
    def groups(self) -> GroupRows:
        """Chat sessions."""

    @property
    def handoffs(self) -> HandoffRows:
        """What was handed over."""

    @property
    def workflows(self) -> WorkflowRows:
        """The states of workflow runs."""

    @property
    def queue(self) -> QueueRows:
        """Workflows that wait for their turn."""

    def set_back(self, seconds: float) -> list[str]:
        """Date what waits for a time, and open runs, that much earlier; the ids of the tasks that are concerned."""


class Ledger(Protocol):
    """One team's store."""

    @property
    def path(self) -> str:
        """Where the store lies, for messages and for looking at it by hand."""

    def transaction(self) -> AbstractContextManager[Rows]:
        """The one write transaction of the team.

        Raises:
            LedgerBusy: it stayed locked past `busy_timeout`; nothing was changed.
            TeamNotFound: the team was deleted meanwhile.
        """

    def snapshot(self) -> AbstractContextManager[Rows]:
        """One consistent moment, read only."""

    def watch(self) -> Callable[[], bool]:
        """A cheap function that says whether another connection has committed since its last call."""

    def check(self) -> list[str]:
        """Faults the store itself finds; empty when sound."""

    def backup(self, path: str) -> None:
        """Copy the ledger, consistent, to a new file."""

    def close(self) -> None:
        """Give the connections back."""


class Ledgers(Protocol):
    """Where ledgers are kept: opens them, makes them, and caches what it opened."""

    def create(self, directory: str, team: Team, lead: Member, at: str) -> None:
        """Make the ledger of a new team in `directory`."""

    def has(self, directory: str) -> bool:
        """Whether `directory` has a ledger, be it damaged; that of another program is none."""

    def open(self, directory: str) -> Ledger:
        """The ledger in `directory`, migrated to this version.

        Raises:
            TeamNotFound: there is none.
            LedgerUnusable: damaged, newer than this version, or on a network file system.
        """

    def inspect(self, path: str) -> list[str]:
        """Faults of a ledger file that nobody uses, such as a backup; empty when it is sound. Changes nothing."""

    def forget(self, directory: str) -> None:
        """Close the ledger in `directory`, if it is open here: the team is gone."""

    def close(self) -> None:
        """Close every ledger opened here."""
