"""The mirror: after a commit, the files that show the ledger are brought up to it.

Files are made from the current rows, never from an event, so a late writer cannot bring back the past. Whoever holds
`.mirror.lock` drains everything up to the head; who waits for the lock goes home as soon as somebody has drained past
its own change. How far the mirror has come is a small file beside it, not a row: a second durable commit for each verb
would halve the speed, and after power loss `interlock doctor` compares every file anyway.

A commit that stands is never undone for a file's sake: what cannot be written now is owed, the verb succeeds with the
warning `mirror_pending`, and the team's next verb, a read too, tries again before it answers.
"""

from __future__ import annotations

import fcntl
import json
import os

from interlock.mirror import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from interlock.clock import Clock
    from interlock.ledger import Ledger, Rows

PENDING = "mirror_pending"
LOCK = ".mirror.lock"
POSITION = ".mirror.json"
PATIENCE = 2.0
_RUN_EVENTS = frozenset({"task.claimed", "run.heartbeat", "task.transitioned"})
_MAIL_EVENTS = ("message.sent", "message.delivered", "message.requeued")


class Mirror:
    """The files of one team. `directory` is the team's own."""

    def __init__(self, directory: str, ledger: Ledger, clock: Clock) -> None:
        self.directory = directory
        self._ledger = ledger
        self._clock = clock

    def catch_up(self, head: int) -> list[str]:
        """Bring the files up to the event `head`; answers `["mirror_pending"]` where that is not possible now."""
        try:
            if self._covered(self._position(), head):
                return []
            return self._with_lock(head)
        except OSError:
            return [PENDING]

    def rebuild(self) -> list[str]:
        """Write every file again, whatever the position says; the paths that could not be written."""
        with self._ledger.snapshot() as rows:
            work = Work.everything(rows)
        lock = os.open(os.path.join(self.directory, LOCK), os.O_WRONLY | os.O_CREAT, files.FILE_MODE)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            position: dict[str, Any] = {"seq": 0, "inboxes": {}, "owed": None}
            return self._drain(position, work)
        finally:
            os.close(lock)

    def position(self) -> int:
        """The newest event the files show."""
        return int(self._position()["seq"])

    def _with_lock(self, head: int) -> list[str]:
        lock = os.open(os.path.join(self.directory, LOCK), os.O_WRONLY | os.O_CREAT, files.FILE_MODE)
        try:
            pause, deadline = 0.000_3, self._clock.monotonic() + PATIENCE
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if self._covered(self._position(), head):
                        return []
                    if self._clock.monotonic() > deadline:
                        return [PENDING]
                    self._clock.sleep(pause)
                    pause = min(pause * 1.6, 0.01)
            position = self._position()
            if self._covered(position, head):
                return []
            with self._ledger.snapshot() as rows:
                work = Work.since(rows, position)
            return [PENDING] if self._drain(position, work) else []
        finally:
            os.close(lock)

    def _drain(self, position: dict[str, Any], work: Work) -> list[str]:
        from interlock.mirror.drain import Drain

        drain = Drain(self.directory, self._ledger, self._clock, position["inboxes"])
        owed = drain.run(work)
        position["seq"] = work.head
        position["owed"] = owed or None
        files.replace(os.path.join(self.directory, POSITION), json.dumps(position).encode())
        drain.log_conflicts()
        return owed

    def _position(self) -> dict[str, Any]:
        data = files.read(os.path.join(self.directory, POSITION))
        if data is not None:
            try:
                position = json.loads(data)
                return {"seq": int(position["seq"]), "inboxes": dict(position["inboxes"]), "owed": position["owed"]}
            except (KeyError, TypeError, ValueError):
                pass  # Torn by power loss: start from nothing, which writes everything again.
        return {"seq": 0, "inboxes": {}, "owed": None}

    def _covered(self, position: dict[str, Any], head: int) -> bool:
        return position["seq"] >= head and not position["owed"]


class Work:
    """What has to be written: which tasks (with the states their files may lie in), inboxes, whether config.json."""

    __slots__ = ("config", "fresh", "head", "inboxes", "runs", "tasks")

    def __init__(self) -> None:
        self.head = 0
        self.config = False
        self.tasks: dict[str, set[str]] = {}
        self.runs: set[str] = set()
        self.inboxes: dict[str, bool] = {}
        self.fresh: dict[str, list[int]] = {}

    @classmethod
    def since(cls, rows: Rows, position: dict[str, Any]) -> Work:
        """What the events after the position touched, and what an earlier attempt still owes."""
        work = cls()
        work.head = position["seq"]
        for seq, type, task_id, payload in rows.events.raw_since(position["seq"]):
            work.head = seq
            work._note(type, task_id, payload)
        for kind, name in position["owed"] or ():
            if kind == "task":
                work.tasks.setdefault(name, set()).update(_all_states())
                work.runs.add(name)
            elif kind == "inbox":
                work.inboxes[name] = True
            else:
                work.config = True
        return work

    @classmethod
    def everything(cls, rows: Rows) -> Work:
        """All files of the team."""
        work = cls()
        work.head = rows.events.head()
        work.config = True
        work.inboxes = dict.fromkeys(rows.team.names(), True)
        states = set(_all_states())
        work.tasks = {task.id: set(states) for task in rows.tasks.select(states=states)}
        work.runs = set(work.tasks)
        return work

    def _note(self, type: str, task_id: str | None, payload: str) -> None:
        if task_id is not None:
            if not type.startswith(("question.", "mirror.")):
                origins = self.tasks.setdefault(task_id, set())
                if type == "task.transitioned":
                    origins.add(json.loads(payload)["from"])
                if type in _RUN_EVENTS:
                    self.runs.add(task_id)
        elif type in _MAIL_EVENTS:
            fields = json.loads(payload)
            name = fields["to"]
            if type == "message.sent":
                self.inboxes.setdefault(name, False)
                self.fresh.setdefault(name, []).append(fields["n"])
            else:
                self.inboxes[name] = True
        elif type.startswith(("team.", "member.")):
            self.config = True
            if type.startswith("member."):
                self.inboxes[json.loads(payload)["name"]] = True


def _all_states() -> tuple[str, ...]:
    from interlock.model.task import STATES

    return STATES
