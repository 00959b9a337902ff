"""The mirror: after a commit, the files that show the ledger are brought up to it.

Files are made from the current rows, never from an event, so a late writer cannot bring back the past. Whoever holds
`.mirror.lock` drains everything up to the head; a process that waits for the lock returns as soon as somebody has
drained past its own change. How far the mirror has come is a small file beside it, not a row: a second durable commit
for each verb would halve the speed, and after power loss `interlock doctor` compares every file anyway.

What is written and what is noted as written come from one snapshot, and every step may be done twice: a pass that was
killed is done again from where the position file stands. Without a position that can be read, everything is written.

A commit that stands is never undone for a file's sake: what cannot be written now is owed, the verb succeeds with the
warning `mirror_pending`, and the team's next verb, a read too, tries again before it answers. The mirror only reads the
ledger: files that it found edited and moved aside are returned to the caller, who records them.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from interlock import mirror
from interlock.clock import Clock
from interlock.errors import InterlockError
from interlock.mirror.position import LOCK, POSITION, Position
from interlock.model.task import STATES
from interlock.settings import Settings
from interlock.storage.files import Tree
from interlock.storage.history import RawEvent, Written
from interlock.storage.ledger import Ledger, Rows

PENDING = "mirror_pending"
RESTORED = "ledger_restored"
PATIENCE = 2.0
"""Seconds a verb waits for another process's pass."""
SHORT_PATIENCE = 0.1
"""Seconds it waits for one that has already taken longer than that: its process is most likely stopped."""
LONGEST_PAUSE = 0.002
REBUILD_PATIENCE = 10.0
AT_ONCE = 1000
"""Events of one pass. A team that was long without its mirror is brought up in several, each with its own snapshot."""

_RUN_EVENTS = frozenset(
    "task.claimed task.completed task.reclaimed task.transitioned clock.set_back run.heartbeat run.reported "
    "run.parked verify.finished".split()
)
_REWRITING = frozenset({"message.delivered", "message.requeued"})
_SHOWN = ("message.", "member.", "team.", "ledger.")
"""What the types of events begin with that concern files and are of no task."""
_OF_WORKFLOWS = "workflow."
_CHANGING = frozenset({"workflow.queued", "workflow.reprioritised", "workflow.started"})
"""Those that change something in a task, by themselves."""


class Mirror:
    """The files of one team. `directory` is the team's own."""

    def __init__(self, directory: str, ledger: Ledger, clock: Clock, settings: Settings | None = None) -> None:
        self.directory = directory
        self._settings = settings
        self._ledger = ledger
        self._clock = clock

    def is_at(self, head: int) -> bool:
        """Whether the files show exactly what the ledger says up to the event `head`, and nothing is owed."""
        try:
            with Tree(self.directory) as tree:
                position = _position(tree)
                return position is not None and position.seq == head and not position.owed
        except (OSError, InterlockError):
            return False

    def catch_up(self, head: int, written: Written | None = None) -> tuple[list[str], list[mirror.writer.EditedFile]]:
        """Bring the files up to the event `head`.

        Args:
            written: what the caller has just committed, if anything: nobody will have been here before.

        Returns:
            Warnings, and the edited files that were moved aside. The warnings are `mirror_pending` where not everything
            can be written now, and `ledger_restored` where the files showed events that the ledger does not have, and
            were written again from it.
        """
        edited: list[mirror.writer.EditedFile] = []
        try:
            with Tree(self.directory) as tree:
                if not (written and written.events) and _covered(tree, head) and self._stands(tree, head):
                    return [], []
                with self._locked(tree, PATIENCE, head) as locked:
                    if not locked:
                        return [] if _covered(tree, head) else [PENDING], []
                    position = self._drain(tree, edited, written)
                    restored = position is None
                    owed = (position or self._rebuild(tree, edited)).owed
                    return [RESTORED] * restored + [PENDING] * bool(owed), edited
        except (OSError, InterlockError):
            # Whatever keeps the files back, a full disk or a ledger that is busy, the commit stands.
            return [PENDING], edited

    def rebuild(self) -> tuple[list[str], list[mirror.writer.EditedFile]]:
        """Compare every file with the ledger, and write again what differs.

        Returns:
            What could not be written, and the edited files that were moved aside.

        Raises:
            OSError: the team's directory cannot be written at all.
        """
        edited: list[mirror.writer.EditedFile] = []
        with Tree(self.directory) as tree, self._locked(tree, REBUILD_PATIENCE, None) as locked:
            if not locked:
                return [f"everything: another process holds {LOCK}"], []
            return [f"{kind} {name}".rstrip() for kind, name in self._rebuild(tree, edited).owed], edited

    def position(self) -> int | None:
        """The newest event the files show; None where that is not known."""
        with Tree(self.directory) as tree:
            found = _position(tree)
        return None if found is None else found.seq

    @contextmanager
    def _locked(self, tree: Tree, patience: float, head: int | None) -> Iterator[bool]:
        """Hold the lock; False when somebody else has covered `head` meanwhile, or kept the lock for too long."""
        lock = self._lock(tree, patience, head)
        try:
            yield lock is not None
        finally:
            if lock is not None:
                os.close(lock)

    def _lock(self, tree: Tree, patience: float, head: int | None) -> int | None:
        pause, started = 0.000_3, self._clock.monotonic()
        while True:
            lock = tree.lock(LOCK)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if tree.is_same(LOCK, lock):
                    os.utime(lock)  # Tells the others since when it is held.
                    return lock
            except BlockingIOError:
                waited = self._clock.monotonic() - started
                stuck = waited > SHORT_PATIENCE and time.time() - os.fstat(lock).st_mtime > patience
                if (head is not None and _covered(tree, head)) or waited > patience or stuck:
                    os.close(lock)
                    return None
                self._clock.sleep(pause)
                pause = min(pause * 1.6, LONGEST_PAUSE)
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)

    def _stands(self, tree: Tree, head: int) -> bool:
        """Whether the ledger has what the files show, where they show more than `head`: others may have gone on."""
        position = _position(tree)
        if position is None or position.seq <= head:
            return True
        with self._ledger.snapshot() as rows:
            return _events_since(rows, position) is not None

    def _drain(self, tree: Tree, edited: list[mirror.writer.EditedFile], written: Written | None) -> Position | None:
        """Write what changed since the position; None where the ledger does not have what the files show."""
        position = _position(tree)
        if position is None:
            return self._rebuild(tree, edited)
        if written is not None and _follows(written, position) and _shown_nowhere(written.events):
            position.seq, *_, position.at = written.events[-1]
            tree.overwrite(POSITION, position.as_bytes())
            return position
        writer = mirror.writer.Writer(tree, self.directory, self._clock, position, edited)
        while True:
            # Also where others have been here since the caller's commit: it may be that the files are of another past.
            before, noted = position.seq, position.as_bytes()
            with self._ledger.snapshot() as rows:
                work = Work(rows, position)
                if work.restored:
                    return None
                if not work.migrated:
                    work.do(rows, writer, position)
                    self._show(rows, writer, whole=work.config, tasks=work.tasks, inboxes=work.inboxes)
            if work.migrated:  # A newer schema may show other files.
                return self._rebuild(tree, edited)
            if position.as_bytes() != noted:
                tree.overwrite(POSITION, position.as_bytes())
            if position.seq - before < AT_ONCE:
                return position

    def _rebuild(self, tree: Tree, edited: list[mirror.writer.EditedFile]) -> Position:
        position = Position()
        writer = mirror.writer.Writer(tree, self.directory, self._clock, position, edited, thorough=True)
        mirror.rebuild.rebuild(writer, self._ledger)
        with self._ledger.snapshot() as rows:
            self._show(rows, writer, whole=True)
        tree.overwrite(POSITION, position.as_bytes())
        return position

    def _show(
        self, rows: Rows, writer: mirror.writer.Writer, *, whole: bool, tasks: Iterable[str] = (),
        inboxes: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """Write what is shown of the team elsewhere, where it is."""
        directory = str(self._settings.for_team(rows.start.settings).get("mirror.claude")) if self._settings else ""
        writer.position.view = bool(directory)
        if directory:
            write = partial(
                mirror.claude_view.write, directory, writer, rows, whole=whole, tasks=tasks, inboxes=inboxes
            )
            writer.attempt("view", "", write)


class Work:
    """What the events after a position touched: tasks (with the states whose directories their files may be in),
    inboxes (and whether to write them whole), and whether config.json."""

    def __init__(self, rows: Rows, position: Position) -> None:
        self.head, self.at = position.seq, position.at
        self.config = self.migrated = False
        self.tasks: dict[str, set[str]] = {}
        self.runs: set[str] = set()
        self.inboxes: dict[str, bool] = {}
        found = _events_since(rows, position)
        self.restored = found is None
        for seq, type, task_id, payload, at in found or ():
            self.head, self.at = seq, at
            if task_id is None:
                self._of_team(type, payload)
            elif _is_shown(type):
                self._of_task(rows, type, task_id, payload)
        for kind, name in position.owed:
            if kind == "task":
                self.tasks.setdefault(name, set()).update(STATES)
                self.runs.add(name)
            elif kind == "inbox":
                self.inboxes[name] = True
            else:
                self.config = True

    def _of_task(self, rows: Rows, type: str, task_id: str, payload: str) -> None:
        origins = self.tasks.setdefault(task_id, set())
        if type == "dependency.removed":
            self.tasks.setdefault(json.loads(payload)["on"], set())
        if type in _RUN_EVENTS:
            self.runs.add(task_id)
        if type == "task.transitioned":
            origin = json.loads(payload)["from"]
            origins.add(origin)
            if origin == "deadletter":
                # Its dependents showed it as broken, and no event of theirs says that it no longer is.
                for dependent in rows.graph.dependents(task_id):
                    self.tasks.setdefault(dependent, set())

    def _of_team(self, type: str, payload: str) -> None:
        if type == "message.sent":
            self.inboxes.setdefault(json.loads(payload)["to"], False)
        elif type in _REWRITING:
            self.inboxes[json.loads(payload)["to"]] = True
        elif type == "message.offered":
            fields = json.loads(payload)
            if fields.get("again"):
                self.inboxes[fields["to"]] = True  # They are now marked as redelivered.
        elif type.startswith("member."):
            self.config = True
            self.inboxes[json.loads(payload)["name"]] = True
        elif type.startswith("team."):
            self.config = True
        elif type == "ledger.migrated":
            self.migrated = True

    def do(self, rows: Rows, writer: mirror.writer.Writer, position: Position) -> None:
        """Write it, and move `position` on; what cannot be written now is owed there."""
        position.owed = []
        if self.config:
            writer.attempt("config", "", lambda: writer.config(rows))
        for name, whole in self.inboxes.items():
            writer.attempt("inbox", name, lambda: writer.inbox(rows, name, whole))  # noqa: B023
        for task_id, origins in self.tasks.items():
            writer.attempt("task", task_id, lambda: writer.task(rows, task_id, origins, task_id in self.runs))  # noqa: B023
        position.seq, position.at = self.head, self.at


def _follows(written: Written, position: Position) -> bool:
    """Whether the files show everything but what was written, and owe nothing."""
    return bool(written.events) and (position.seq, position.at) == (written.head, written.at) and not position.owed


def _shown_nowhere(events: Iterable[RawEvent]) -> bool:
    """Whether none of them, such as that a session began, changes a file."""
    return all(not (type.startswith(_SHOWN) if task is None else _is_shown(type)) for _, type, task, *_ in events)


def _is_shown(type: str) -> bool:
    """Whether an event of a task changes its files. The engine of workflows saves several times a step."""
    return not type.startswith(_OF_WORKFLOWS) or type in _CHANGING


def _events_since(rows: Rows, position: Position) -> list[RawEvent] | None:
    """The events after the one that the position stands at; None where that is not in the ledger, because an older
    state of the ledger was put back."""
    if position.seq == 0:
        return rows.events.raw_since(0, AT_ONCE)
    last, *after = rows.events.raw_since(position.seq - 1, AT_ONCE + 1) or [(0, "", None, "", "")]
    if last[0] > position.seq and rows.upkeep.pruned() >= position.seq:
        # What came between is not known any more: all files are compared, as after a migration.
        return [(position.seq, "ledger.migrated", None, "", ""), last, *after]
    return after if last[0] == position.seq and position.at in (None, last[4]) else None


def _position(tree: Tree) -> Position | None:
    return Position.parse(tree.read(POSITION))


def _covered(tree: Tree, head: int) -> bool:
    position = _position(tree)
    return position is not None and position.covers(head)
