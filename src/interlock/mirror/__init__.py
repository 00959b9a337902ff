"""The mirror: after a commit, the files that show the ledger are brought up to it.

Files are made from the current rows, never from an event, so a late writer cannot bring back the past. Whoever holds
`.mirror.lock` drains everything up to the head; who waits for the lock goes home as soon as somebody has drained past
its own change. How far the mirror has come is a small file beside it, not a row: a second durable commit for each verb
would halve the speed, and after power loss `interlock doctor` compares every file anyway.

What is written and what is noted as written come from one snapshot, and every step may be done twice: a pass that was
killed is done again from where the position file stands. Without a position that can be read, everything is written.

A commit that stands is never undone for a file's sake: what cannot be written now is owed, the verb succeeds with the
warning `mirror_pending`, and the team's next verb, a read too, tries again before it answers.
"""

from __future__ import annotations

import fcntl
import os
import time
from binascii import crc32

from interlock.errors import InterlockError
from interlock.mirror.files import Tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.clock import Clock
    from interlock.ledger import Ledger

PENDING = "mirror_pending"
RESTORED = "ledger_restored"
LOCK = ".mirror.lock"
POSITION = ".mirror.position"
PATIENCE = 2.0
"""Seconds a verb waits for another process's pass."""
SHORT_PATIENCE = 0.1
"""Seconds it waits for one that has gone on for longer than that: its process is most likely stopped."""
LONGEST_PAUSE = 0.002
REBUILD_PATIENCE = 10.0


class Position:
    """How far the files have come: the newest event they show and its time, what could not be written, and for each
    inbox file its size and the number of the last message it took in."""

    __slots__ = ("at", "inboxes", "owed", "seq")

    def __init__(self) -> None:
        self.seq = 0
        self.at: str | None = None
        self.owed: list[tuple[str, str]] = []
        self.inboxes: dict[str, tuple[int, int]] = {}

    @classmethod
    def parse(cls, data: bytes | None) -> Position | None:
        """The position in a file's content; null where it is missing or torn."""
        # What follows the line is the end of a longer one, from a process killed before it had cut it off.
        sum_, _, text = (data or b"").partition(b"\n")[0].partition(b" ")
        found = cls()
        try:
            if int(sum_, 16) != crc32(text):
                return None
            seq, *rest = text.decode().split("\t")
            found.seq = int(seq)
            for word in rest:
                kind, name, *numbers = word.split("=")
                if kind == "at":
                    found.at = name
                elif numbers:
                    size, n = numbers
                    found.inboxes[name] = (int(size), int(n))
                else:
                    found.owed.append((kind, name))
        except ValueError:
            return None
        return found

    def as_bytes(self) -> bytes:
        """The reverse of `parse`: one line after its checksum, since the file is written in place.

        Not JSON: every verb reads this, and the hook command would pay for the module at each start.
        """
        owed = [f"{kind}={name}" for kind, name in self.owed]
        inboxes = [f"inbox={name}={size}={n}" for name, (size, n) in self.inboxes.items()]
        at = [f"at={self.at}"] if self.at else []
        text = "\t".join([str(self.seq), *at, *owed, *inboxes]).encode()
        return b"%08x %b\n" % (crc32(text), text)

    def covers(self, head: int) -> bool:
        """Whether nothing up to the event `head` is left to do."""
        return self.seq >= head and not self.owed


class Mirror:
    """The files of one team. `directory` is the team's own."""

    def __init__(self, directory: str, ledger: Ledger, clock: Clock) -> None:
        self.directory = directory
        self._ledger = ledger
        self._clock = clock

    def catch_up(self, head: int, *, just_now: bool = False) -> list[str]:
        """Bring the files up to the event `head`.

        Returns:
            `["mirror_pending"]` where that is not possible now; `["ledger_restored"]` where the files showed events
            that the ledger does not have, and were written again from it.

        `just_now`: the caller has just committed it, so that nobody will have been here before.
        """
        try:
            with Tree(self.directory) as tree:
                if not just_now and _covered(tree, head) and self._stands(tree, head):
                    return []
                lock = self._lock(tree, PATIENCE, head)
                if lock is None:
                    return [] if _covered(tree, head) else [PENDING]
                try:
                    position = self._drain(tree, head)
                    restored = position is None
                    owed = (position or self._rebuild(tree)).owed
                    return [RESTORED] * restored + [PENDING] * bool(owed)
                finally:
                    os.close(lock)
        except (OSError, InterlockError):
            # Whatever keeps the files back, a full disk or a ledger that is busy, the commit stands.
            return [PENDING]

    def rebuild(self) -> list[str]:
        """Compare every file with the ledger, and write again what differs; answers what could not be written.

        Raises:
            OSError: the team's directory cannot be written at all.
        """
        with Tree(self.directory) as tree:
            lock = self._lock(tree, REBUILD_PATIENCE, None)
            if lock is None:
                return [f"everything: another process holds {LOCK}"]
            try:
                return [f"{kind} {name}".rstrip() for kind, name in self._rebuild(tree).owed]
            finally:
                os.close(lock)

    def position(self) -> int | None:
        """The newest event the files show; null where that is not known."""
        with Tree(self.directory) as tree:
            found = _position(tree)
        return None if found is None else found.seq

    def _lock(self, tree: Tree, patience: float, head: int | None) -> int | None:
        """The lock; null when somebody else has covered `head` meanwhile, or kept the lock for too long."""
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
        from interlock.mirror.drain import events_since

        with self._ledger.snapshot() as rows:
            return events_since(rows, position) is not None

    def _drain(self, tree: Tree, head: int) -> Position | None:
        """Write what changed since the position; None where the ledger does not have what the files show."""
        from interlock.mirror.drain import AT_ONCE, Drain

        position = _position(tree)
        if position is None:
            return self._rebuild(tree)
        while True:
            # Also where others have been here since the caller's commit: it may be that the files are of another past.
            before, noted = position.seq, position.as_bytes()
            done = Drain(tree, self.directory, self._ledger, self._clock, position).advance()
            if not done:
                return self._rebuild(tree) if done is None else None
            if position.as_bytes() != noted:
                tree.overwrite(POSITION, position.as_bytes())
            if position.seq - before < AT_ONCE:
                return position

    def _rebuild(self, tree: Tree) -> Position:
        from interlock.mirror.rebuild import rebuild

        position = rebuild(tree, self.directory, self._ledger, self._clock)
        tree.overwrite(POSITION, position.as_bytes())
        return position


def _position(tree: Tree) -> Position | None:
    return Position.parse(tree.read(POSITION))


def _covered(tree: Tree, head: int) -> bool:
    position = _position(tree)
    return position is not None and position.covers(head)


__all__ = ["LOCK", "PENDING", "POSITION", "Mirror", "Position"]
