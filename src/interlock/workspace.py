"""One team open for work: runs verbs as transactions, then brings the mirror up to them and wakes who waits.

    with workspace.act(caller) as act:      # one write transaction: check, change, append the events
        task = claim(act, find(act.rows, "003"))
    # here it is durable; the files are up to date or owed (`act.warnings`), and waiters have been woken

Everything that uses the core (the client, the runner, a server) does so through here.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress

from interlock import ancestry
from interlock.clock import iso
from interlock.errors import Forbidden, InterlockError
from interlock.mirror.projector import RESTORED, Mirror
from interlock.model.names import HUMAN, LEAD, SYSTEM
from interlock.sessions import SERVERS, Act, Caller, begin, set_back

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.ancestry import Origin
    from interlock.clock import Clock
    from interlock.notifier import Notifier
    from interlock.settings import Settings
    from interlock.storage.ledger import Ledger, Rows


class Workspace:
    """A team's ledger, mirror and notifier together. Safe to share among threads."""

    def __init__(
        self, name: str, directory: str, ledger: Ledger, notifier: Notifier, settings: Settings, clock: Clock
    ) -> None:
        self.name = name
        self.directory = directory
        self.ledger = ledger
        self.notifier = notifier
        self.home_settings = settings
        self.clock = clock
        self.mirror = Mirror(directory, ledger, clock)
        self.unsaid: dict[str, None] = {}
        """Warnings that readers met and that nobody has asked for since."""
        self.closes = 0
        """How often the home was closed: whoever waits then waits no longer."""
        self.named = False
        """Whether the ledger has been seen to be that of the team `name`."""

    def log_path(self, task_id: str, run: int, kind: str = "output") -> str:
        """Where what a run (`output`), or its verify (`verify`), printed is kept."""
        return os.path.join(self.directory, "runs", task_id, f"{kind}.{run}.log")

    def artifact_path(self, task_id: str, run: int, path: str | None = None) -> str:
        """Where what a run made that is in no commit is kept; without `path` the directory."""
        place = os.path.join(self.directory, "runs", task_id, "artifacts", str(run))
        return place if path is None else os.path.join(place, path)

    def member_log_path(self, member: str) -> str:
        """Where what an agent printed outside of any task is kept."""
        return os.path.join(self.directory, "desks", f"{member}.log")

    @property
    def home(self) -> str:
        """The home that the team is in, also where a link leads to it from another one."""
        return os.path.dirname(os.path.dirname(os.path.realpath(self.directory)))

    def origin(self, caller: Caller) -> Origin | None:
        """The run that the caller's process belongs to; null outside of every run, and for Interlock itself."""
        if caller.name == SYSTEM:
            return None
        if caller.face in SERVERS:
            return caller.origin
        found = ancestry.origin(self.home)
        return self.adrift() if found is None and (caller.person or caller.name in (HUMAN, LEAD)) else found

    def adrift(self) -> Origin | None:
        """What this process counts as where it may have got out of a run of the team (macOS)."""
        if ancestry.SUBREAPED:
            return None
        with self.ledger.snapshot() as rows:
            return ancestry.adrift([run.process for run in rows.runs.open()])

    def note_refusal(self, origin: Origin, caller: Caller, error: Forbidden) -> None:
        """Write down that a process of a run was refused what is not its member's to do; once for each refusal."""
        if error.noted:
            return
        error.noted = True
        with suppress(InterlockError), self.act(Caller(SYSTEM)) as act:
            runs = act.rows.runs.open() if origin.session is not None else []
            task, run = next(((one.task_id, one.id) for one in runs if one.session == origin.session), (None, None))
            tried = {"member": origin.member, "team": origin.team, "by": caller.name, "face": caller.face, "run": run}
            act.event("access.refused", task, **tried, process=origin.pid, reason=error.message)

    @contextmanager
    def act(self, caller: Caller, *, acknowledge: bool = False) -> Iterator[Act]:
        """One verb: everything inside is one transaction. Raising changes nothing.

        Args:
            acknowledge: whether the verb is a turn boundary for a session without an id.

        Raises:
            MemberNotFound: `caller` names nobody.
            Forbidden: its process belongs to a run of somebody else; that is an event.
            LedgerBusy, LedgerUnusable, StorageError, TeamNotFound: see `ledger.Ledger.transaction`.
        """
        origin = self.origin(caller)
        try:
            with self.ledger.transaction() as rows:
                act = begin(rows, caller, self.home_settings, self.clock, acknowledge=acknowledge)
                if origin is not None:
                    act.origin = origin
                    origin.must_be(self.name, act.name)
                yield act
                head = act.head or rows.events.head()
                mirrored = act.settings.get("mirror")
        except Forbidden as error:
            if origin is not None:
                self.note_refusal(origin, caller, error)
            raise
        # A verb that changed nothing, as most hooks do, leaves files that are most likely there already.
        act.warnings = self._mirrored(head, just_now=bool(act.head)) if mirrored else []
        if act.topics:
            self.notifier.notify(self.name, act.topics)

    @contextmanager
    def look(self) -> Iterator[Rows]:
        """One consistent moment, read only; files that are owed are written first."""
        self.unsaid.update(dict.fromkeys(self.settle()))
        with self.ledger.snapshot() as rows:
            yield rows

    def settle(self) -> list[str]:
        """Finish what the mirror owes; the warnings where that is not possible now."""
        with self.ledger.snapshot() as rows:
            head, at = rows.events.newest()
            mirrored = self.settings(rows).get("mirror")
        if set_back(at, self.clock):
            with suppress(InterlockError), self.act(Caller(SYSTEM)) as act:  # Where nothing can be written we read on.
                head = act.head or head
        return self._mirrored(head) if mirrored else []

    def _mirrored(self, head: int, *, just_now: bool = False) -> list[str]:
        warnings = self.mirror.catch_up(head, just_now=just_now)
        if RESTORED in warnings:
            # The change, or what was read, stands, whether or not this can be written now.
            with suppress(InterlockError), self.ledger.transaction() as rows:
                head = rows.events.append("ledger.restored", SYSTEM, None, iso(self.clock.now()), {"head": head})
            self.mirror.catch_up(head, just_now=True)
            self.notifier.notify(self.name, {"events"})
        return warnings

    def settings(self, rows: Rows) -> Settings:
        """The settings with the team's own laid over."""
        return self.home_settings.for_team(rows.team.settings())
