"""Handing mail over to a session that the ledger knows: the second half of the hooks' short start.

Nothing here is new: the statements are those of the ledger's rows (`storage.sql.delivery`), the amounts those of
the mailbox and the text that of a message (both `model.handover`), and the two commits those of decision 5. What
needs more (a session that begins, the lead's report, mail in the hands of another process, a run around us, a ledger
that is busy) is not begun here, but left to the rest of Interlock.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable

import interlock
from interlock.hooks_team import LocalTeam
from interlock.mirror.position import LOCK, POSITION, Position
from interlock.model import handover
from interlock.model.handover import teammate_message
from interlock.processes import marked_host
from interlock.storage.files import Tree
from interlock.storage.sql import VERSION, delivery
from interlock.wakeup.socket import SocketNotifier

RUN_TOKEN = b"INTERLOCK_RUN_TOKEN="
NOW = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
# A session that goes on, of a member other than the lead, in a ledger of ours whose clock stands, with all of its mail
# (or no other than urgent mail) free to be handed over.
READY = (
    f"SELECT inbox, seq, now FROM members JOIN sessions ON member = name, ({delivery.NEWEST}), "
    f"(SELECT {NOW} AS now) WHERE name = ? AND sessions.id = ? AND ended_at IS NULL "
    "AND role <> 'lead' AND at <= now AND (SELECT user_version FROM pragma_user_version) = ? AND NOT EXISTS "
    "(SELECT 1 FROM team WHERE status = 'deleted') AND NOT EXISTS (SELECT 1 FROM messages "
    "WHERE recipient = name AND (stage = 'offered' OR stage = 'stored' AND urgent < ?))"
)
ALONE = " AND NOT EXISTS (SELECT 1 FROM sessions WHERE program IS NOT NULL AND ended_at IS NULL)"
"""Nobody has joined, so that who names no session is in none of those."""
REPORTED = (
    " AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.ended_at IS NULL AND runner IS NULL "
    "AND runs.member = name AND runs.session = sessions.id)"
)
SENT_BACK = "SELECT sent_back FROM sessions WHERE member = ? AND id = ?"
WAITING = (
    "SELECT n, id, attempt, sender, type, content, summary, request_id, approve, reason FROM messages "
    "WHERE recipient = ? AND stage = 'stored' ORDER BY urgent DESC, n LIMIT ?"
)
Waiting = tuple[int, str, int, str, str, str, str | None, str | None, int | None, str | None]
"""A row of `WAITING`."""


class Handover:
    """The mail of one session on its way: offered before a byte is printed, delivered after the last (decision 5).

    Args:
        event: what happens in the window (`integrations.HOOKS`); None for `inject`.
        again: the program says that this stop follows one that was refused.
        urgent: only urgent mail.
    """

    def __init__(
        self, team: LocalTeam, member: str, session: str, *, event: str | None = None, again: bool = False, urgent: bool
    ) -> None:
        self.team = team
        self.member = member
        self.session = session
        self._event = event
        self._again = again
        self._urgent = urgent
        self._inbox = self._at = ""
        self._before = self._head = self._events = 0
        """The newest event before ours, the newest of ours, and how many are ours."""

    def carry_out(self, say: Callable[[str, int], None]) -> bool:
        """Offer what waits, have `say` print it (the text and how many messages), and mark it delivered; False where
        nothing was done.

        Raises:
            OSError: the reader is gone; the mail is back in the inbox.
        """
        process = this_process()
        if process is None:
            return False
        try:
            ledger = self.team.open("rw")
        except (sqlite3.Error, ValueError):
            return False
        try:
            try:
                ledger.execute("PRAGMA synchronous=FULL")
                ledger.execute("BEGIN IMMEDIATE")
                mail = self._offer(ledger, process)
                if mail is None:
                    return False
                ledger.execute("COMMIT")
            except sqlite3.Error:
                return False
            if mail:
                numbers = [row[0] for row in mail]
                try:
                    say("".join(block(row) for row in mail), len(mail))
                except BaseException:
                    self._finish(numbers, delivered=False)
                    raise
                self._deliver(ledger, numbers)
        finally:
            ledger.close()
        if self._events:
            if not self._mirrored(bool(mail)):
                self._finish([])
            SocketNotifier(self.team.home).notify(self.team.name, {"events"})
        return True

    def _offer(self, ledger: sqlite3.Connection, process: str) -> list[Waiting] | None:
        """What `mailbox.offer` does at this boundary of a turn; None where it has to."""
        asked = (self.member, self.session)
        ready, count, size = READY, handover.HOOK_COUNT, handover.HOOK_BYTES
        if self._event is None:
            ready += ALONE if self.session.startswith("cli:") else ""
            count, size = handover.INJECT_COUNT, handover.INJECT_BYTES
        elif self._event == "stop":
            ready += REPORTED
        known = ledger.execute(ready, (*asked, VERSION, self._urgent)).fetchone()
        if known is None:
            return None
        mail = ledger.execute(WAITING, (self.member, count + 1)).fetchall()
        if self._event == "stop" and (self._again or ledger.execute(SENT_BACK, asked).fetchone()[0]):
            mail = []  # Once a turn is enough: this time it may go.
        if len(mail) > count or handover.fitting((len(row[5]) for row in mail), size) < len(mail):
            return None
        self._inbox, self._before, self._at = known
        self._acted(ledger)
        if self._event == "prompt" or (self._event == "stop" and mail):
            ledger.execute(delivery.NOTE_SENT_BACK, (self._event == "stop", self.member, self.session))
        if self._event != "tool":
            seen = ledger.execute(delivery.UNACKNOWLEDGED, (self.member, self.session)).fetchall()
            if seen:
                ledger.execute(delivery.ACKNOWLEDGE, (self._at, self.member, self.session))
                self._note(ledger, "message.acknowledged", [id for (id,) in seen])
        if mail:
            numbers = str([row[0] for row in mail])
            ledger.execute(delivery.OFFER, (self.session, process, self._at, numbers))
            self._note(ledger, "message.offered", [row[1] for row in mail], [row[1] for row in mail if row[2]])
        return mail

    def _deliver(self, ledger: sqlite3.Connection, numbers: list[int]) -> None:
        try:
            ledger.execute("BEGIN IMMEDIATE")
            (self._at,) = ledger.execute(f"SELECT {NOW}").fetchone()
            self._acted(ledger)
            done = ledger.execute(delivery.DELIVER, (self._at, str(numbers), self.session)).fetchall()
            ledger.execute(delivery.COUNT_UNREAD, (-len(done), self.member))
            if done:
                self._note(ledger, "message.delivered", [id for (id,) in done])
            ledger.execute("COMMIT")
        except sqlite3.Error:
            ledger.close()
            self._finish(numbers, delivered=True)

    def _acted(self, ledger: sqlite3.Connection) -> None:
        if not self.session.startswith(("cli:", "run:")):
            ledger.execute(delivery.NOTE_ALIVE, (None, self.member, self.session))
        ledger.execute(delivery.TOUCH, (self._at, self.session, self.member))

    def _note(self, ledger: sqlite3.Connection, type: str, ids: list[str], again: list[str] | None = None) -> None:
        shape, values = "'to', ?, 'session', ?, 'ids', json(?)", [self.member, self.session, _listed(ids)]
        if again is not None:
            shape, values = f"{shape}, 'again', json(?)", [*values, _listed(again)]
        (payload,) = ledger.execute(f"SELECT json_object({shape})", values).fetchone()
        self._head = ledger.execute(delivery.EVENT, (type, self._at, self.member, None, payload)).lastrowid or 0
        self._events += 1

    def _mirrored(self, emptied: bool) -> bool:
        """Bring the team's files up to our last event, where they showed everything before our first and nobody else
        is at them; `emptied`: the inbox's file goes. False where there is more to do."""
        try:
            with Tree(self.team.directory) as tree:
                return self._written(tree, emptied)
        except OSError:
            return False

    def _written(self, tree: Tree, emptied: bool) -> bool:
        lock = tree.lock(LOCK)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            noted = tree.read(POSITION)
            if noted is None:
                return True  # No files are kept; where they should be, the next verb writes all of them.
            position = Position.parse(noted)
            if position is None or position.owed or position.view or not tree.is_same(LOCK, lock):
                return False
            if position.seq != self._before or self._head - self._before != self._events:
                return position.covers(self._head)
            if emptied:
                path = f"inbox/{self._inbox}/messages.jsonl"
                size, _ = position.inboxes.pop(self.member, (0, 0))
                if (tree.size(path) or 0) != size:
                    return False  # Somebody else wrote to it.
                tree.remove(path)
            position.seq, position.at = self._head, self._at
            tree.overwrite(POSITION, position.as_bytes())
            return True
        finally:
            os.close(lock)

    def _finish(self, numbers: list[int], *, delivered: bool = False) -> None:
        """Do the rest with the patience of all other verbs: give the messages back or mark them delivered, and bring
        the files up to it."""
        home = interlock.connect(self.team.home)
        try:
            if numbers:
                mail = home.mailing(self.team.name, self.member, session=self.session, face="cli")
                mail.finish_handover(numbers, delivered=delivered)
            else:
                home.workspace(self.team.name).settle()
        finally:
            home.close()


def block(row: Waiting) -> str:
    """A message as XML, as it is shown now that it has been offered once more."""
    _, _, attempt, sender, type, content, summary, request, approve, reason = row
    return teammate_message(
        sender, type, content, summary=summary, request_id=request, reason=reason, redelivered=attempt > 0,
        approve=None if approve is None else bool(approve),
    )  # fmt: skip


def _listed(ids: list[str]) -> str:
    return f"""["{'", "'.join(ids)}"]""" if ids else "[]"


def this_process() -> str | None:
    """This process as `processes.ref` stores it; None within a run, and where that cannot be told here.

    Only a supervisor is asked elsewhere: a program may change its own variables, not those of what is above it.
    """
    pid, started, token = os.getpid(), b"", RUN_TOKEN
    try:
        while pid > 0:
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                fields = file.read().rpartition(b")")[2].split()
            started = started or fields[19]
            try:
                with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
                    if token in file.read():
                        return None
            except PermissionError:
                pass  # another user's
            pid = int(fields[1])
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as text:
            boot = text.read().strip()
    except (OSError, IndexError):
        return None
    return f"{marked_host()}|{boot}|{os.getpid()}|{started.decode()}"
