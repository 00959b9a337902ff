"""PORT: one team's ledger, the truth everything else mirrors.

A `Ledger` gives out two kinds of views of the same rows:

* `with ledger.transaction() as rows:` is the only way to change anything. One writer per team at a time; all or
  nothing; whatever a rule reads inside it stays true until the commit. Raising rolls back.
* `with ledger.snapshot() as rows:` reads a single moment and never waits for a writer.

The port speaks in rows of an aggregate, never in SQL. The rules (who may claim, what unblocks) are written once, above
it, in `core`; a backend only reads and writes. `update` writes the fields it is given, in the row and in the value in
hand. Times are ISO 8601 UTC. `tests/conformance/` holds every backend to this page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from interlock import model, storage
from interlock.clock import Clock
from interlock.model.json import Json
from interlock.model.task import Task
from interlock.model.team import ActingMember, LedgerStart, Member, Outstanding, TeamRecord


class TaskPage(NamedTuple):
    """A task, and what its files show beside it."""

    task: Task
    newest: int
    """The newest event about it."""
    log: list[tuple[str, str, str]]
    handoff: model.run.Handoff | None


class TeamRows(Protocol):
    """The team's one row, and its members."""

    def get(self) -> TeamRecord:
        """The team."""

    def update(self, team: TeamRecord, **changes: Any) -> None:
        """Write these fields."""

    def number_task(self, day: str) -> tuple[int, int]:
        """Count a new task: its number of that UTC day (1, 2, …), and how many tasks are open with it."""

    def count_open(self, change: int) -> None:
        """Add `change` to the number of open tasks."""

    def add_member(self, member: Member) -> None:
        """Store a new member; mail that waits for the name is counted as unread."""

    def update_member(self, member: Member, **changes: Any) -> None:
        """Write these fields."""

    def remove_member(self, name: str) -> None:
        """Forget a member; its messages and runs stay."""

    def member(self, name: str) -> Member | None:
        """The member of that name."""

    def members(self) -> list[Member]:
        """All, the lead first, then in the order they joined; people last."""

    def names(self) -> list[str]:
        """The names of all members and people, in the order they joined."""

    def inbox_taken(self, directory: str) -> str | None:
        """The member whose inbox directory equals that, ignoring case."""

    def address(self, name: str) -> tuple[str, str, str, int] | None:
        """(name, inbox, role, unread) of a member, by name or session key: all that mail needs."""

    def workers(self) -> dict[str, model.worker.WorkerRecord]:
        """The processes that do the team's tasks, and those that did, by name."""

    def put_worker(self, worker: model.worker.WorkerRecord) -> None:
        """Store a worker as it is now, in place of one that had its name."""

    def enter(self, name: str, session: str | None, at: str) -> ActingMember | None:
        """Note that a member, named by name or session key, acts in that session (None: `cli:<its name>`)."""


class SessionRows(Protocol):
    """The sessions of members. One is gone when its process is known not to exist any more."""

    def known(self, member: str, session: str) -> bool:
        """Whether that session has begun and has not ended."""

    def begin(self, member: str, session: str, at: str, process: str | None, program: str | None = None) -> None:
        """Store a session that begins or resumes, with its process and, for a program that joined, its kind."""

    def end(self, member: str, session: str, at: str) -> None:
        """Note that a session has ended."""

    def get(self, member: str, session: str) -> tuple[str | None, str | None] | None:
        """(process, gone or ended since) of that session."""

    def living(self, member: str) -> list[tuple[str, str | None]]:
        """(session, process) of the sessions of that member that have not ended."""

    def of_runners(self) -> list[tuple[str, str, str]]:
        """(member, session, process) of the sessions that runners opened and that have not ended, nor are known to be
        gone."""

    def joined(
        self, session: str | None = None, process: str | None = None
    ) -> list[tuple[str, str, str | None, str | None]]:
        """(member, session, process, ended at) of the sessions of programs that joined, newest first: the open ones, or
        all with that id or of that process."""

    def hold_work(self, member: str, session: str) -> bool:
        """Whether that session has open runs which no runner drives."""

    def note_alive(self, member: str, session: str, process: str | None) -> None:
        """Note that a session acts, in `process` where that is known: an agent may have been restarted. The process of
        a program that joined stays the one it began with, whoever acts for it."""

    def note_gone(self, member: str, session: str, at: str) -> None:
        """Note since when a session's process is known to be gone, unless that is noted already."""

    def sent_back(self, member: str, session: str) -> bool:
        """Whether that session was sent back in its present turn."""

    def note_sent_back(self, member: str, session: str, sent: bool) -> None:
        """Note that it was, or that a new turn begins."""


class MessageRows(Protocol):
    """Mail. Stages change for many messages at once; the recipient's `unread` counter follows."""

    def insert(self, message: model.message.Message, client_id: str | None) -> int:
        """Store a message, set and return its `n`, and count it as unread."""

    def by_client_id(self, sender: str, client_id: str) -> list[model.message.Message]:
        """What that sender stored under that id of its own."""

    def offerable(self, recipient: str, limit: int, urgent_only: bool) -> list[tuple[model.message.Message, str, str]]:
        """Messages not yet delivered, in order, each with the process that last offered it and when."""

    def offer(self, recipient: str, numbers: Sequence[int], session: str, process: str, at: str) -> None:
        """Mark messages as being handed to a session by a process, and count the attempt."""

    def deliver(self, recipient: str, numbers: Sequence[int], session: str, at: str) -> list[str]:
        """Mark offered messages of that session as delivered; the ids that were."""

    def acknowledge(self, recipient: str, session: str, at: str) -> list[str]:
        """Mark what was delivered to that session as seen; the ids that were."""

    def acknowledge_ids(self, recipient: str, ids: Sequence[str], at: str) -> list[str]:
        """Mark those that were handed over at least once as seen; the ids that were not seen before."""

    def seen(self, recipient: str, ids: Sequence[str]) -> list[str]:
        """Those of these messages that were acknowledged."""

    def unacknowledged(self, recipient: str, limit: int, after: int = 0) -> list[model.message.Message]:
        """What has not been seen yet, in order; marks nothing."""

    def requeue(
        self, recipient: str, *, except_session: str | None, numbers: Sequence[int] | None, session: str | None = None
    ) -> list[str]:
        """Put messages that were offered or delivered but not acknowledged back to stored; the ids that were. Those of
        `session` only, of all but `except_session`, or with these `numbers`."""

    def undelivered(self, recipient: str, after: int = 0) -> list[model.message.Message]:
        """Not yet delivered, in order: what `messages.jsonl` shows."""

    def numbered(self, numbers: Sequence[int]) -> list[model.message.Message]:
        """The messages with those numbers."""

    def history(
        self, *, member: str | None, limit: int, before: int | None, request_id: str | None = None
    ) -> list[model.message.Message]:
        """Messages to or from a member (or all), the newest `limit`, in order."""

    def unread_of(self, recipient: str) -> int:
        """How many messages a member has not read."""


class QuestionRows(Protocol):
    """Questions to people."""

    def insert(self, question: model.question.Question) -> None:
        """Store an open question."""

    def update(self, question: model.question.Question, **changes: Any) -> None:
        """Write these fields."""

    def get(self, question_id: str) -> model.question.Question | None:
        """That question."""

    def open(self, task_id: str | None = None) -> list[model.question.Question]:
        """Open questions, oldest first, of one task or all."""

    def of_task(self, task_id: str) -> list[model.question.Question]:
        """Every question ever asked about the task, oldest first."""

    def by_key(self, task_id: str, key: str) -> model.question.Question | None:
        """The question about that task which was asked with that key."""


class RequestRows(Protocol):
    """Shutdown requests and their answers."""

    def insert(self, request: model.question.StopRequest) -> None:
        """Store an open request."""

    def update(self, request: model.question.StopRequest, **changes: Any) -> None:
        """Write these fields."""

    def get(self, request_id: str) -> model.question.StopRequest | None:
        """That request."""

    def open(self) -> list[model.question.StopRequest]:
        """Requests not yet granted, rejected or expired."""


class HandoffRows(Protocol):
    """Tasks that were handed over."""

    def put(self, handoff: model.run.Handoff) -> None:
        """Store the newest handoff of a task, as it is now."""

    def get(self, task_id: str) -> model.run.Handoff | None:
        """The newest handoff of that task."""


class GroupRows(Protocol):
    """Chat sessions with their tasks counted."""

    def insert(self, group: model.group.Group) -> None:
        """Store a new group, without tasks."""

    def get(self, group_id: str) -> model.group.Group | None:
        """That group."""

    def page(self, offset: int, limit: int) -> list[model.group.Group]:
        """Groups, the most recently changed first."""

    def count(self) -> int:
        """How many there are."""

    def added(self, group_id: str, task_id: str, state: str, at: str) -> None:
        """Count a new task of the group, in that state."""

    def moved(self, group_id: str, origin: str, target: str, at: str) -> None:
        """Count that a task of the group changed its state; a deleted one leaves the group."""

    def tasks(self, group_id: str) -> list[str]:
        """Ids of the group's tasks, oldest first, without deleted ones."""


class TaskRows(Protocol):
    """Tasks and their Work Logs."""

    def insert(self, task: Task) -> int:
        """Store a new task and return its `n`; `n` and `rank` of `task` are set to it."""

    def update(self, task: Task, **changes: Any) -> None:
        """Write these fields."""

    def get(self, task_id: str) -> Task | None:
        """The task with exactly that id."""

    def page(self, task_id: str) -> TaskPage | None:
        """All that the task's files show but its runs."""

    def named(self, key: str, ending: str | None, limit: int) -> list[Task]:
        """The newest task made from that key of a plan, and the newest `limit` whose ids end in `-<ending>`."""

    def by_plan_key(self, key: str) -> Task | None:
        """The newest task made from that key of a plan."""

    def planned(self) -> list[Task]:
        """The newest task of each plan key."""

    def select(
        self,
        *,
        states: Iterable[str] | None = None,
        owner: str | None = None,
        limit: int | None = None,
        after: int = 0,
        before: int | None = None,
        ended_since: str | None = None,
    ) -> list[Task]:
        """Tasks in order of creation, after the `n` `after`; without `states` all but deleted ones. With `before`, an
        `n`, the newest below it come first. `ended_since`: those that were finished then or later."""

    def evidence(self, ended_since: str | None) -> Iterable[tuple[list[Json], int]]:
        """The evidence of done tasks, with how many have it; those that have none are one entry."""

    def troubled(
        self, outcomes: Collection[str], events: Mapping[str, Sequence[tuple[str, object]]], since: str, limit: int
    ) -> list[Task]:
        """Tasks that had a run which ended otherwise than with `outcomes`, or an event of one of these types in
        which one of these names has that value, where any are given. Those with the latest of these, at `since` or
        later, at most `limit`, in order of creation."""

    def board(self, column: str, sought: model.views.BoardFilter, *, limit: int, offset: int = 0) -> list[Task]:
        """The tasks of one column, or in one state: next ones as queued, done ones newest first, others by age."""

    def board_counts(self, sought: model.views.BoardFilter) -> dict[str, int]:
        """How many tasks are in each column."""

    def epics(self) -> list[str]:
        """The epics that tasks are of, in the order of their numbers or names."""

    def next_ready(
        self, member: str, *, shell: bool | None, now: str, labels: Collection[str] = (), ageing: float = 0,
        only: Collection[str] | None = None,
    ) -> Task | None:  # fmt: skip
        """The ready task that `member` should take: most urgent, then oldest. `shell`: only tasks with (or without)
        a command of their own; those that ask for other labels than `labels`, and queued workflows, are passed over;
        so are those with other plan keys than `only`. `ageing`: seconds by which a task of the next lower priority must
        be older to go first; 0: none does."""

    def ready(self, limit: int, ageing: float = 0) -> list[Task]:
        """The ready queue in its order."""

    def ready_after(self, now: str) -> str | None:
        """The earliest `not_before` after `now` among ready tasks."""

    def owned(self, member: str) -> list[Task]:
        """Tasks that member holds now."""

    def verifying(self) -> list[Task]:
        """Tasks whose verify is running, or was when its process ended."""

    def merging(self) -> list[Task]:
        """Tasks whose branch waits for its merge or is being merged, or was when the process ended."""

    def worktrees(self) -> list[Task]:
        """Tasks that were begun in a worktree of their own, whatever their state, even where it is gone by now."""

    def kept(self, states: Collection[str]) -> list[Task]:
        """Those of them in these states, or whose worktree stays since not all in it could be kept."""

    def merged(self) -> int:
        """How many of them are done and merged."""

    def undelivered(self) -> list[Task]:
        """Those of them that are done and merged, and are in no branch of the user's yet."""

    def baseline(self, tree: str, setup: str, command: str) -> tuple[bool | None] | None:
        """(failed,) for that check on that tree before any work, (None,): it did not finish; None: it was not run."""

    def baselined(self, tree: str, setup: str, command: str, red: bool | None, at: str) -> None:
        """Store that."""

    def current(self) -> dict[str, str]:
        """For each owner the task in progress it took last."""

    def counts(self) -> dict[str, int]:
        """How many tasks are in each state."""

    def add_log(self, task_id: str, at: str, author: str, text: str) -> None:
        """Append a Work Log line."""

    def log(self, task_id: str) -> list[tuple[str, str, str]]:
        """The Work Log as (at, author, text)."""


class GraphRows(Protocol):
    """Dependencies. Edges outlive completion."""

    def add(self, blocker: str, blocked: str, by: str | None = None) -> bool:
        """Store an edge and who made it; False where it exists already."""

    def maker(self, blocker: str, blocked: str) -> str | None:
        """Who made that edge; None where there is none."""

    def remove(self, blocker: str, blocked: str) -> bool:
        """Drop an edge; False where there is none."""

    def blockers(self, task_id: str) -> list[tuple[str, str]]:
        """(id, state) of everything the task depends or depended on."""

    def dependents(self, task_id: str) -> list[str]:
        """Ids of everything that depends or depended on the task."""

    def holding_up(self, after: int) -> list[Task]:
        """What tasks in backlog wait for, near and far, as far as it is not done; of tasks after the `n` `after`."""

    def open_dependents(self, task_id: str) -> list[Task]:
        """The dependents of a task that are not final."""

    def edges(self) -> list[tuple[str, str]]:
        """All edges as (blocker, blocked)."""

    def edges_of(self, task_ids: Sequence[str]) -> list[tuple[str, str, str, str]]:
        """(blocker, its state, blocked, its state) of every edge that touches one of those."""

    def broken(self) -> list[tuple[str, str, str, str, str]]:
        """(id, subject) of each task in backlog, with (id, subject, state) of a blocker that unblocks nothing."""

    def rank(self, task_id: str) -> int:
        """The task's rank (see `model.graph`)."""

    def set_ranks(self, ranks: Mapping[str, int]) -> None:
        """Store new ranks."""


class WorkflowRows(Protocol):
    """The states of workflow runs, each one versioned row with the entries of what it has collected."""

    def insert(self, row: model.workflow.WorkflowRow) -> bool:
        """Store a new run; False, and nothing written, where that id exists."""

    def replace(self, row: model.workflow.WorkflowRow, version: int) -> bool:
        """Write `row` over `version`; False, and nothing written, where the row has another version."""

    def change_entries(
        self, workflow_id: str, written: Iterable[model.workflow.WorkflowEntry], removed: Iterable[tuple[str, str]]
    ) -> None:
        """Write these entries of a run and remove those of these kinds and keys; a row is written without them."""

    def get(self, workflow_id: str) -> model.workflow.WorkflowRow | None:
        """That run, its entries by kind and place."""

    def select(
        self,
        *,
        skill: str | None = None,
        task_id: str | None = None,
        open_only: bool = False,
        limit: int | None = None,
    ) -> list[model.workflow.WorkflowRow]:
        """Runs, newest first; `open_only`: those without an outcome."""

    def session(self, id: str) -> Json:
        """What the workflows of that session share; empty where nothing was kept."""

    def keep_session(self, id: str, document: Json, at: str) -> None:
        """Keep it, replacing what was there."""


class QueueRows(Protocol):
    """Workflows that wait for their turn, each a task that nobody may pull while it is queued."""

    def insert(self, entry: model.workflow.QueueEntry) -> None:
        """Store an entry behind all others and set its `n`, which no queued entry shares."""

    def get(self, task_id: str) -> model.workflow.QueueEntry | None:
        """The entry of that task."""

    def entries(self) -> list[model.workflow.QueueEntry]:
        """All, in their order: more urgent first, then first come."""

    def oldest(self) -> model.workflow.QueueEntry | None:
        """The one that was queued first, whatever its priority."""

    def count(self) -> int:
        """How many there are."""

    def update(self, entry: model.workflow.QueueEntry, **changes: Any) -> None:
        """Write these fields."""

    def remove(self, task_id: str) -> bool:
        """Drop the entry of a task; False where there is none."""

    def active(self) -> int:
        """How many tasks of type WORKFLOW are in progress or ready for a worker, and not queued."""


class Rows(Protocol):
    """Everything in one team's ledger, as one transaction or one snapshot sees it."""

    @property
    def start(self) -> LedgerStart: ...
    @property
    def team(self) -> TeamRows: ...
    @property
    def sessions(self) -> SessionRows: ...
    @property
    def tasks(self) -> TaskRows: ...
    @property
    def graph(self) -> GraphRows: ...
    @property
    def runs(self) -> storage.history.RunRows: ...
    @property
    def messages(self) -> MessageRows: ...
    @property
    def questions(self) -> QuestionRows: ...
    @property
    def requests(self) -> RequestRows: ...
    @property
    def events(self) -> storage.history.EventRows: ...
    @property
    def groups(self) -> GroupRows: ...
    @property
    def handoffs(self) -> HandoffRows: ...
    @property
    def workflows(self) -> WorkflowRows: ...
    @property
    def queue(self) -> QueueRows: ...
    @property
    def upkeep(self) -> storage.history.UpkeepRows: ...

    def outstanding(self, now: str) -> Outstanding:
        """What waits at the time `now` for somebody to see to it."""

    def set_back(self, seconds: float) -> list[str]:
        """Date what waits for a time, and open runs, that much earlier; the ids of the tasks concerned."""


class Ledger(Protocol):
    """One team's store."""

    @property
    def location(self) -> str:
        """Where the store is, for messages: a path, or the address of a server."""

    @property
    def id(self) -> str | None:
        """The id by which a server lists the team; None where only the ledger itself says who it is."""

    @property
    def clock(self) -> Clock:
        """The time in it, by which everything in it is dated and judged: the machine's, or that of its server."""

    def transaction(self, entering: tuple[str, str | None] | None = None) -> AbstractContextManager[Rows]:
        """The one write transaction of the team. Who is to `enter` first, in which session, may be sent with its start.

        Raises:
            LedgerBusy: it stayed locked past `busy_timeout`; nothing was changed.
            TeamNotFound: the team was deleted meanwhile.
        """

    def snapshot(self) -> AbstractContextManager[Rows]:
        """One consistent moment, read only."""

    def watch(self) -> Callable[[], bool]:
        """A cheap function that says whether another connection has committed an event since its last call."""

    def check(self) -> list[str]:
        """Faults the store itself finds; empty when sound."""

    def export(self, path: str) -> str:
        """Write one moment of it to a new file (`sql.archive`), the same from every database; its SHA-256."""

    def retire(self, rows: Rows) -> str:
        """Within its transaction: what it holds is elsewhere from now on. Where it is kept, no team any more."""

    def back_up(self, label: str) -> str:
        """Copy the ledger, consistent, under a name with that label and the time; where the copy is.

        Raises:
            StorageError: it cannot be written.
        """

    def close(self) -> None:
        """Give the connections back."""
