"""Who acts, and the one unit of work: a verb is one transaction, after which the files follow and waiters are woken.

    with workspace.act(caller) as act:      # one write transaction: check, change, append the events
        task = claim(act, find(act.rows, "003"))
    # here it is durable; the files are up to date or owed (`act.warnings`), and waiters have been woken

A `Principal` is what a face says about its caller; a session is (member, session id). The runner, an MCP connection or
a hook names its own; without one it is the lasting session `cli:<member>`. The first act of a session is its
beginning: what earlier sessions of that member were given and never acknowledged is then offered again, marked as
redelivered (decision 5).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property
from typing import Any

from interlock import mirror, model
from interlock.clock import Clock, iso, seconds
from interlock.errors import AnswerLost, Forbidden, InterlockError, InvalidRequest, MemberNotFound
from interlock.lazy_dataclass import dataclass
from interlock.mirror.projector import RESTORED, Mirror
from interlock.model.names import HUMAN, LEAD, PERSON_KEY, SESSION_KEY_LIMIT, SYSTEM, check_text
from interlock.model.task import Task
from interlock.model.team import ActingMember, Member
from interlock.processes import ancestry
from interlock.settings import Settings
from interlock.storage.catalog import Catalog
from interlock.storage.history import Written
from interlock.storage.ledger import Rows
from interlock.wakeup.notifier import Notifier

RUN_SESSION = "run:"
"""How the ids of sessions begin that a runner opened for one run."""
KEYS_KEPT = 3600.0
"""Seconds for which a change with a key is known."""
ANSWER_KEPT = 65_536
"""Characters of an answer that is kept for whoever asks again."""
SET_BACK = 2.0
"""Seconds by which the clock may lie behind the newest event before it counts as set back."""
SERVERS = ("http", "mcp-http", "page")
"""Faces whose process is a server: where it runs says nothing of who calls."""


@dataclass(slots=True)
class Principal:
    """Who calls, as far as a face knows. A `person` gets a place in the team with the first act, as `human` does."""

    name: str = HUMAN
    session: str | None = None
    run: int | None = None
    """The number of the run it works on."""
    face: str = "python"
    process: str | None = None
    program: str | None = None
    """The kind of a program that joined."""
    person: bool = False
    origin: model.run.RunOrigin | None = None
    """The run that a caller over the wire belongs to; of others the workspace finds it out itself."""


class KeyedRequest:
    """A request that makes its change once, however often and to whichever server it is sent.

    The first transaction of it that writes an event writes the key beside it; one that finds the key there is undone.
    """

    def __init__(self, id: str, digest: str) -> None:
        self.id = id
        self.digest = digest
        self.made: model.event.KeyedChange | None = None
        """What it has changed when it was sent before."""
        self.asked: Workspace | None = None
        """Whose ledger it would change."""
        self._in: Workspace | None = None

    def check(self, rows: Rows) -> None:
        """Raise AnswerLost where it has been done, InvalidRequest where the key is that of another request."""
        self.made = rows.upkeep.change(self.id) if self._in is None else None
        if self.made is None:
            return
        if self.made.digest != self.digest:
            raise InvalidRequest("That Idempotency-Key belongs to another request. Make one for each.", field="key")
        wrote = rows.events.since(self.made.first - 1, self.made.last - self.made.first + 1)
        task = next((event.task_id for event in wrote if event.task_id and event.actor != SYSTEM), None)
        raise AnswerLost(
            f"This wrote the events {self.made.first} to {self.made.last} when it was sent first, and its answer was "
            "lost. Look at what there is; do not send it again.",
            task=task,
            events=[self.made.first, self.made.last],
        )

    def keep(self, act: UnitOfWork) -> bool:
        """Write it beside what `act` has changed; whether it was."""
        if self._in is not None or not act.head:
            return False
        change = model.event.KeyedChange(self.id, self.digest, act.at, act.rows.start.head + 1, act.head)
        act.rows.upkeep.keep_change(change, iso(act.clock.now() - KEYS_KEPT))
        return True

    def kept(self, workspace: Workspace) -> None:
        """The change is in the ledger of that team."""
        self._in = workspace

    def settle(self, status: int, answer: str) -> None:
        """Keep the answer of a request that was sent before and has changed nothing: no other copy of it, which may be
        held up on the way or in another server, changes anything from now on.

        Raises:
            AnswerLost: another copy has changed something meanwhile.
            LedgerBusy, LedgerUnusable, StorageError: it cannot be kept.
        """
        if self.asked is None or self._in is not None or self.made is not None:
            return
        with self.asked.ledger.transaction() as rows:
            self.check(rows)
            head, now = rows.start.head, self.asked.clock.now()
            change = model.event.KeyedChange(self.id, self.digest, iso(now), head + 1, head)
            rows.upkeep.keep_change(change, iso(now - KEYS_KEPT))
            if len(answer) <= ANSWER_KEPT:
                rows.upkeep.keep_answer(self.id, status, answer)

    def answered(self, status: int, answer: str) -> None:
        """Write down what was answered, where the change is in a ledger."""
        if self._in is not None and len(answer) <= ANSWER_KEPT:
            with suppress(InterlockError), self._in.ledger.transaction() as rows:
                rows.upkeep.keep_answer(self.id, status, answer)


KEYED: ContextVar[KeyedRequest | None] = ContextVar("keyed", default=None)
"""The request that is carried out here."""


class UnitOfWork:
    """One verb under way: the rows of its transaction, who acts, and whom to wake after the commit."""

    __slots__ = (
        "_settings", "after_commit", "at", "clock", "face", "head", "home", "member", "name", "origin", "process",
        "program", "role", "rows", "run", "session", "topics", "warnings",
    )  # fmt: skip

    def __init__(self, rows: Rows, caller: Principal, settings: Settings, clock: Clock) -> None:
        self.rows = rows
        self.clock = clock
        self.home = settings
        self.face = caller.face
        self.origin: model.run.RunOrigin | None = None
        self.run = caller.run
        self.process = caller.process
        self.program = caller.program
        self.at = iso(clock.now())
        self.head = 0
        self.topics: set[str] = set()
        self.warnings: list[str] = []
        self.after_commit: list[Callable[[], object]] = []
        """What is to be done in memory once it is durable."""
        self._settings: Settings | None = None
        self.member: ActingMember | None = None
        self.name = caller.name
        self.role = SYSTEM
        self.session = ""

    @property
    def settings(self) -> Settings:
        """The settings with the team's own laid over."""
        if self._settings is None:
            self._settings = self.home.for_team(self.rows.start.settings)
        return self._settings

    @property
    def lasting(self) -> bool:
        """Whether this is a session without an id of its own."""
        return self.session.startswith("cli:")

    @property
    def leads(self) -> bool:
        """Whether the actor may do what only the lead may: people and the lead, outside of every run."""
        return self.origin is None and self.role in (LEAD, "person", SYSTEM)

    @property
    def commands(self) -> bool:
        """Whether what the actor names may be executed: it is a person, or a lead, outside every run, also where a
        runner speaks for it."""
        return self.leads and (self.role == SYSTEM or not self.session.startswith(RUN_SESSION))

    def event(self, type: str, task_id: str | None = None, /, **payload: Any) -> int:
        """Append an event of this verb."""
        self.topics.add("events")
        self.head = self.rows.events.append(type, self.name, task_id, self.at, payload)
        return self.head

    def later(self, seconds: float) -> str:
        """The time `seconds` from now."""
        return iso(self.clock.now() + seconds)


def begin(rows: Rows, caller: Principal, settings: Settings, clock: Clock, *, acknowledge: bool = False) -> UnitOfWork:
    """Start a verb: find the member, begin its session where it is new, and, for a verb that is a turn boundary of a
    session without an id, note that what was delivered to it was seen.

    Raises:
        MemberNotFound: nobody of that name.
        Forbidden: a person has the name of a member, as whom a person must not act.
    """
    act = UnitOfWork(rows, caller, settings, clock)
    _follow(act, rows.start.at)
    if caller.name == SYSTEM:
        return act
    found = rows.team.enter(caller.name, caller.session, act.at)
    if found is None and (caller.person or caller.name == HUMAN):
        add_person(act, caller.name)
        found = rows.team.enter(caller.name, caller.session, act.at)
    if found is None:
        raise unknown_member(rows, caller.name)
    act.member, act.name, act.role = found, found.name, found.role
    if caller.person and act.role != "person":
        raise Forbidden(f"{act.name} is a member of this team, and you come in as a person.", member=act.name)
    act.session = caller.session or f"cli:{act.name}"
    if not found.known:
        open_session(act)
    else:
        if not act.lasting and not act.session.startswith(RUN_SESSION):
            rows.sessions.note_alive(act.name, act.session, act.process)
        if acknowledge and found.delivered and act.lasting and act.face not in ("http", "page"):
            acknowledged(act)
    return act


def _follow(act: UnitOfWork, newest: str) -> None:
    """Where the clock was set back behind the event `newest`, date what waits for a time earlier, too: nothing waits
    longer than it would have when that event was written."""
    if not set_back(newest, act.clock):
        return
    by = seconds(newest) - act.clock.now()
    for task in (None, *act.rows.set_back(by)):
        act.head = act.rows.events.append("clock.set_back", SYSTEM, task, act.at, {"seconds": round(by, 3)})
    act.topics |= {"events", "tasks"}


def set_back(newest: str, clock: Clock) -> bool:
    """Whether the newest event of a ledger is from a time that the clock has yet to come to."""
    return newest > iso(clock.now() + SET_BACK)


def open_session(act: UnitOfWork) -> None:
    """Begin the act's session; unacknowledged mail of earlier ones goes back to the inbox.

    Raises:
        InvalidRequest: its id is no text of at most 200 characters.
    """
    check_text(act.session, "session", limit=SESSION_KEY_LIMIT, required=True)
    act.rows.sessions.begin(act.name, act.session, act.at, act.process, act.program)
    again = act.rows.messages.requeue(act.name, except_session=act.session, numbers=None)
    act.event("session.began", member=act.name, session=act.session, redelivered=len(again))
    _requeued(act, act.name, again, "new_session")


def requeue(act: UnitOfWork, reason: str, *, numbers: Sequence[int] | None = None) -> None:
    """Put what the actor was given and never acknowledged, or these messages of it, back into its inbox."""
    again = act.rows.messages.requeue(act.name, except_session=None, numbers=numbers)
    _requeued(act, act.name, again, reason)


def _requeued(act: UnitOfWork, member: str, ids: list[str], reason: str) -> None:
    if ids:
        act.event("message.requeued", to=member, ids=ids, reason=reason)
        act.topics.add(f"inbox:{member}")


def close_session(act: UnitOfWork, member: str, session: str) -> None:
    """That session is over: what it was given and has never shown to have seen goes back to the inbox at once."""
    act.rows.sessions.end(member, session, act.at)
    act.event("session.ended", member=member, session=session)
    again = act.rows.messages.requeue(member, except_session=None, numbers=None, session=session)
    _requeued(act, member, again, "session_ended")


def acknowledged(act: UnitOfWork) -> None:
    """A turn boundary of the act's session: what was delivered to it has been seen."""
    seen = act.rows.messages.acknowledge(act.name, act.session, act.at)
    if seen:
        act.event("message.acknowledged", to=act.name, session=act.session, ids=seen)


def add_person(act: UnitOfWork, name: str) -> None:
    """Give a person a place for mail; people are in the table of members, but are not members."""
    taken = act.rows.team.inbox_taken(name)
    if taken is not None:
        raise Forbidden(f"{name!r} collides with the inbox of {taken}: come in under another name.", member=name)
    person = Member(
        name=name, session_key=f"{PERSON_KEY}{name}", inbox=name, role="person", agent=None, command=None, type=None,
        model=None, permissions=None, status="active", unread=0, session=None, joined_at=act.at, last_active_at=None,
    )  # fmt: skip
    act.rows.team.add_member(person)


def unknown_member(rows: Rows, name: str) -> MemberNotFound:
    """The error for a name nobody has, with the nearest that somebody has."""
    from difflib import get_close_matches

    names = rows.team.names()
    near = get_close_matches(name, names)
    hint = f" Did you mean {near[0]}?" if near else " `interlock member list` shows who takes part."
    return MemberNotFound(f"No member {name!r} in this team.{hint}", member=name, suggestion=near[0] if near else None)


class Workspace:
    """A team's ledger, mirror and notifier together. Safe to share among threads."""

    def __init__(
        self, name: str, directory: str, catalog: Catalog, notifier: Notifier, settings: Settings, clock: Clock
    ) -> None:
        self.name = name
        self.directory = directory
        self.catalog = catalog
        self.ledger = catalog.open(name)
        self.notifier = notifier
        self.home_settings = settings
        self.clock = self.ledger.clock
        self.mirror = Mirror(directory, self.ledger, self.clock, settings)
        self.unsaid: dict[str, None] = {}
        """Warnings that readers met and that nobody has asked for since."""
        self.closes = 0
        """How often the home was closed: whoever waits then waits no longer."""
        self.named = False
        """Whether the ledger has been seen to be that of the team `name`."""
        self.finishing: Callable[[Workspace, Task, str], None] | None = None
        """What adds to the merged tree of a workflow's task, in the checkout named, before it is checked."""

    def log_path(self, task_id: str, run: int, kind: str = "output") -> str:
        """Where what a run (`output`), or its verify (`verify`), printed is kept."""
        return os.path.join(self.directory, "runs", task_id, f"{kind}.{run}.log")

    def artifact_path(self, task_id: str, run: int, *path: str) -> str:
        """Where what a run made that is in no commit is kept: the directory, or the file with that `path` in it."""
        return os.path.join(self.directory, "runs", task_id, "artifacts", str(run), *path)

    def member_log_path(self, member: str) -> str:
        """Where what an agent printed outside of any task is kept."""
        return os.path.join(self.directory, "desks", f"{member}.log")

    @cached_property
    def home(self) -> str:
        """The home that the team is in, also where a link leads to it from another one."""
        return os.path.dirname(os.path.dirname(os.path.realpath(self.directory)))

    def origin(self, caller: Principal) -> model.run.RunOrigin | None:
        """The run that the caller's process belongs to; None outside of every run, and for Interlock itself."""
        if caller.name == SYSTEM:
            return None
        if caller.face in SERVERS:
            return caller.origin
        found = ancestry.origin(self.home)
        return self.adrift() if found is None and (caller.person or caller.name in (HUMAN, LEAD)) else found

    def adrift(self) -> model.run.RunOrigin | None:
        """What this process counts as where it may have got out of a run (macOS), or out of sight of one (Linux)."""
        if ancestry.SUBREAPED:
            return ancestry.hidden_run(self.home)
        with self.ledger.snapshot() as rows:
            return ancestry.possible_run([run.process for run in rows.runs.open()])

    def note_refusal(self, origin: model.run.RunOrigin, caller: Principal, error: Forbidden) -> None:
        """Write down that a process of a run was refused what is not its member's to do; once for each refusal."""
        if error.noted:
            return
        error.noted = True
        with suppress(InterlockError), self.act(Principal(SYSTEM)) as act:
            runs = act.rows.runs.open() if origin.session is not None else []
            task, run = next(((one.task_id, one.id) for one in runs if one.session == origin.session), (None, None))
            tried = {"member": origin.member, "team": origin.team, "by": caller.name, "face": caller.face, "run": run}
            act.event("access.refused", task, **tried, process=origin.pid, reason=error.message)

    @contextmanager
    def act(self, caller: Principal, *, acknowledge: bool = False) -> Iterator[UnitOfWork]:
        """One verb: everything inside is one transaction. Raising changes nothing.

        Args:
            acknowledge: whether the verb is a turn boundary for a session without an id.

        Raises:
            MemberNotFound: `caller` names nobody.
            Forbidden: its process belongs to a run of somebody else; that is an event.
            LedgerBusy, LedgerUnusable, StorageError, TeamNotFound: see `ledger.Ledger.transaction`.
        """
        origin = self.origin(caller)
        keyed = None if caller.name == SYSTEM else KEYED.get()
        if keyed is not None:
            keyed.asked = self
        try:
            entering = None if caller.name == SYSTEM else (caller.name, caller.session)
            with self.ledger.transaction(entering) as rows:
                if keyed is not None:
                    keyed.check(rows)
                act = begin(rows, caller, self.home_settings, self.clock, acknowledge=acknowledge)
                if origin is not None:
                    act.origin = origin
                    origin.must_be(self.name, act.name)
                yield act
                head = act.head or rows.start.head
                written = Written(rows.start.head, rows.start.at, rows.events.written)
                mirrored = act.settings.get("mirror")
                kept = keyed is not None and keyed.keep(act)
        except Forbidden as error:
            if origin is not None:
                self.note_refusal(origin, caller, error)
            raise
        if keyed is not None and kept:
            keyed.kept(self)
        for follow in act.after_commit:
            follow()
        # A verb that changed nothing, as most hooks do, leaves files that are most likely there already.
        act.warnings = self._mirrored(head, written) if mirrored else []
        if act.topics:
            self.notifier.notify(self.name, act.topics)

    @contextmanager
    def look(self) -> Iterator[Rows]:
        """One consistent moment, read only; files that are owed are written first."""
        with self.ledger.snapshot() as rows:
            head, at = rows.start.head, rows.start.at
            mirrored = self.settings(rows).get("mirror")
            if not set_back(at, self.clock) and (not mirrored or self.mirror.is_at(head)):
                yield rows
                return
        self.unsaid.update(dict.fromkeys(self._settle(head, at, mirrored=mirrored)))
        with self.ledger.snapshot() as rows:
            yield rows

    def settle(self) -> list[str]:
        """Finish what the mirror owes; the warnings where that is not possible now."""
        with self.ledger.snapshot() as rows:
            head, at = rows.start.head, rows.start.at
            mirrored = self.settings(rows).get("mirror")
        return self._settle(head, at, mirrored=mirrored)

    def _settle(self, head: int, at: str, *, mirrored: bool) -> list[str]:
        if set_back(at, self.clock):
            with suppress(InterlockError), self.act(Principal(SYSTEM)) as act:  # A ledger that is full can be read.
                head = act.head or head
        return self._mirrored(head) if mirrored else []

    def _mirrored(self, head: int, written: Written | None = None) -> list[str]:
        warnings, edited = self.mirror.catch_up(head, written)
        if RESTORED in warnings or edited:
            self._record(edited, head if RESTORED in warnings else None)
        return warnings

    def rebuild_mirror(self) -> list[str]:
        """Compare every file with the ledger, and write again what differs; what could not be written.

        Raises:
            OSError: the team's directory cannot be written at all.
        """
        problems, edited = self.mirror.rebuild()
        if edited:
            self._record(edited, None)
        return problems

    def _record(self, edited: Sequence[mirror.writer.EditedFile], restored: int | None) -> None:
        """Write down what the mirror found: files that somebody had edited, and, with the newest event then, that an
        older ledger was put back. The change, or what was read, stands whether or not this can be written now."""
        at = iso(self.clock.now())
        with suppress(InterlockError):
            with self.ledger.transaction() as rows:
                for file in edited:
                    kept = {"path": file.path, "kept": file.kept}
                    head = rows.events.append("mirror.conflict", SYSTEM, file.task_id, at, kept)
                if restored is not None:
                    head = rows.events.append("ledger.restored", SYSTEM, None, at, {"head": restored})
            self.mirror.catch_up(head)
        self.notifier.notify(self.name, {"events"})

    def settings(self, rows: Rows) -> Settings:
        """The settings with the team's own laid over."""
        return self.home_settings.for_team(rows.start.settings)
