"""One team open for work: runs verbs as transactions, then brings the mirror up to them and wakes who waits.

    with workspace.act(caller) as act:      # one write transaction: check, change, append the events
        task = claim(act, find(act.rows, "003"))
    # here it is durable; the files are up to date or owed (`act.warnings`), and waiters have been woken

Everything that uses the core (the client, the runner, a server) does so through here.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from interlock.clock import iso
from interlock.mirror import RESTORED, Mirror
from interlock.model.names import SYSTEM
from interlock.sessions import Act, Caller, begin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.clock import Clock
    from interlock.ledger import Ledger, Rows
    from interlock.notifier import Notifier
    from interlock.settings import Settings


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

    @contextmanager
    def act(self, caller: Caller, *, acknowledge: bool = False) -> Iterator[Act]:
        """One verb: everything inside is one transaction. Raising changes nothing.

        Args:
            acknowledge: whether the verb is a turn boundary for a session without an id.

        Raises:
            MemberNotFound: `caller` names nobody.
            LedgerBusy, LedgerUnusable, StorageError, TeamNotFound: see `ledger.Ledger.transaction`.
        """
        with self.ledger.transaction() as rows:
            act = begin(rows, caller, self.home_settings, self.clock, acknowledge=acknowledge)
            yield act
            head = act.head or rows.events.head()
            mirrored = act.settings.get("mirror")
        # A verb that changed nothing, as most hooks do, leaves files that are most likely there already.
        act.warnings = self._mirrored(head, just_now=bool(act.head)) if mirrored else []
        if act.topics:
            self.notifier.notify(self.name, act.topics)

    @contextmanager
    def look(self) -> Iterator[Rows]:
        """One consistent moment, read only; files that are owed are written first."""
        self.settle()
        with self.ledger.snapshot() as rows:
            yield rows

    def settle(self) -> list[str]:
        """Finish what the mirror owes; the warnings where that is not possible now."""
        with self.ledger.snapshot() as rows:
            head = rows.events.head()
            mirrored = self.settings(rows).get("mirror")
        return self._mirrored(head) if mirrored else []

    def _mirrored(self, head: int, *, just_now: bool = False) -> list[str]:
        warnings = self.mirror.catch_up(head, just_now=just_now)
        if RESTORED in warnings:
            with self.ledger.transaction() as rows:
                head = rows.events.append("ledger.restored", SYSTEM, None, iso(self.clock.now()), {"head": head})
            self.mirror.catch_up(head, just_now=True)
            self.notifier.notify(self.name, {"events"})
        return warnings

    def settings(self, rows: Rows) -> Settings:
        """The settings with the team's own laid over."""
        return self.home_settings.for_team(rows.team.settings())
