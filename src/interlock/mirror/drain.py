"""One pass of the mirror over what the events after its position touched.

The rows that are written and the head that is noted come from the same snapshot. Called only by the holder of
`.mirror.lock`.
"""

from __future__ import annotations

import json

from interlock.mirror.write import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.clock import Clock
    from interlock.ledger import Ledger, Rows
    from interlock.mirror import Position
    from interlock.mirror.files import Tree

AT_ONCE = 1000
"""Events of one pass. A team that was long without its mirror is brought up in several, each with its own snapshot."""

_RUN_EVENTS = frozenset(
    {
        "task.claimed",
        "task.completed",
        "task.reclaimed",
        "task.transitioned",
        "clock.set_back",
        "run.heartbeat",
        "run.reported",
        "verify.finished",
    }
)
_REWRITING = frozenset({"message.delivered", "message.requeued"})


class Drain:
    """Moves `position` on as far as one snapshot goes."""

    def __init__(self, tree: Tree, directory: str, ledger: Ledger, clock: Clock, position: Position) -> None:
        self._ledger = ledger
        self._position = position
        self._writer = Writer(tree, directory, ledger, clock, position)

    def advance(self) -> bool | None:
        """Write what changed and what was owed; what cannot be written now is owed in the position. False, with
        nothing written, where the ledger does not have the event that the position stands at; null where its schema is
        newer than the files, which may be of another form then."""
        position, writer = self._position, self._writer
        with self._ledger.snapshot() as rows:
            work = Work(rows, position)
            if work.restored or work.migrated:
                return None if work.migrated else False
            position.owed = []
            if work.config:
                writer.attempt("config", "", lambda: writer.config(rows))
            for name, anew in work.inboxes.items():
                writer.attempt("inbox", name, lambda: writer.inbox(rows, name, anew))  # noqa: B023
            for task_id, origins in work.tasks.items():
                runs = task_id in work.runs
                writer.attempt("task", task_id, lambda: writer.task(rows, task_id, origins, runs))  # noqa: B023
            position.seq, position.at = work.head, work.at
        return True


def events_since(rows: Rows, position: Position) -> list[tuple[int, str, str | None, str, str]] | None:
    """The events after the one that the position stands at; None where that is not in the ledger, because an older
    state of the ledger was put back."""
    if position.seq == 0:
        return rows.events.raw_since(0, AT_ONCE)
    last, *after = rows.events.raw_since(position.seq - 1, AT_ONCE + 1) or [(0, "", None, "", "")]
    return after if last[0] == position.seq and position.at in (None, last[4]) else None


class Work:
    """What has to be written: tasks (with the states their files may lie in), inboxes (and whether to write them
    anew), and whether config.json."""

    __slots__ = ("at", "config", "head", "inboxes", "migrated", "restored", "runs", "tasks")

    def __init__(self, rows: Rows, position: Position) -> None:
        self.head, self.at = position.seq, position.at
        self.config = self.migrated = False
        self.tasks: dict[str, set[str]] = {}
        self.runs: set[str] = set()
        self.inboxes: dict[str, bool] = {}
        found = events_since(rows, position)
        self.restored = found is None
        for seq, type, task_id, payload, at in found or ():
            self.head, self.at = seq, at
            if task_id is not None:
                self._of_task(rows, type, task_id, payload)
            else:
                self._of_team(type, payload)
        for kind, name in position.owed:
            if kind == "task":
                from interlock.model.task import STATES

                self.tasks.setdefault(name, set()).update(STATES)
                self.runs.add(name)
            elif kind == "inbox":
                self.inboxes[name] = True
            else:
                self.config = True

    def _of_task(self, rows: Rows, type: str, task_id: str, payload: str) -> None:
        origins = self.tasks.setdefault(task_id, set())
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
