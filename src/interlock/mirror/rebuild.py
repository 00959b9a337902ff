"""Comparing every file with the ledger, and writing again what differs. Bounded in memory: some tasks at a time.

Each portion has its own snapshot, the position is that of the first one: whatever changes meanwhile is seen again by
the next pass, and the files cannot go back.
"""

from __future__ import annotations

from interlock.clock import Clock
from interlock.mirror.position import Position
from interlock.mirror.task_view import complete
from interlock.mirror.writer import Writer, is_inbox
from interlock.model.task import STATES
from interlock.storage.files import Tree
from interlock.storage.ledger import Ledger, Rows

AT_ONCE = 200


def rebuild(tree: Tree, directory: str, ledger: Ledger, clock: Clock) -> Position:
    """Bring every file up to the ledger; the position from which to go on."""
    position = Position()
    everything(Writer(tree, directory, ledger, clock, position), tree, ledger, position)
    return position


def compare(directory: str, ledger: Ledger, clock: Clock) -> list[tuple[str, str]]:
    """(what, path) of every file that is not as the ledger has it: `missing`, `differs`, `edited`, `stray`, and
    `unreadable` for what cannot be looked at."""
    position = Position()
    recorder = Recorder(directory)
    with recorder:
        everything(Comparer(recorder, directory, ledger, clock, position), recorder, ledger, position)
    return recorder.found + [("unreadable", f"{kind} {name}".rstrip()) for kind, name in position.owed]


def everything(writer: Writer, tree: Tree, ledger: Ledger, position: Position) -> None:
    """Have `writer` write every file of the team."""
    writer.thorough = True
    lying = where_tasks_lie(tree)
    with ledger.snapshot() as rows:
        position.seq = rows.events.head()
        position.at = next((at for *_, at in rows.events.raw_since(position.seq - 1, 1)), None)
        writer.attempt("config", "", lambda: writer.config(rows))
        for name in rows.team.names():
            writer.attempt("inbox", name, lambda: writer.inbox(rows, name, True))  # noqa: B023
        for gone in abandoned_inboxes(tree, rows):
            writer.attempt("inbox", gone, lambda: writer.drop_inbox(gone))  # noqa: B023
    after = 0
    while True:
        with ledger.snapshot() as rows:
            tasks = complete(rows, rows.tasks.select(states=STATES, after=after, limit=AT_ONCE))
            for task in tasks:
                origins = lying.get(task.id, ())
                writer.attempt("task", task.id, lambda: writer.shown_task(rows, task, origins, True))  # noqa: B023
        if len(tasks) < AT_ONCE:
            return
        after = tasks[-1].n


class Recorder(Tree):
    """Writes down what would be written, and writes nothing."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.found: list[tuple[str, str]] = []

    def replace(self, path: str, data: bytes) -> None:
        if ("edited", path) not in self.found[-1:]:
            self.found.append(("missing" if self.size(path) is None else "differs", path))

    def append(self, path: str, data: bytes, size: int) -> bool:
        return False

    def remove(self, path: str) -> None:
        if self.size(path) is not None:
            self.found.append(("stray", path))

    def move(self, source: str, target: str) -> bool:
        lies = self.is_directory(source) or self.size(source) is not None
        if lies:
            self.found.append(("stray", source))
        return lies

    def make(self, path: str) -> None:
        return

    def remove_directory(self, path: str) -> None:
        return


class Comparer(Writer):
    """A writer for a `Recorder`: notes an edited file and leaves it where it is."""

    def _move_aside(self, path: str, beside: str, task_id: str | None) -> None:
        assert isinstance(self._tree, Recorder)
        self._tree.found.append(("edited", path))


def where_tasks_lie(tree: Tree) -> dict[str, list[str]]:
    """For each task id the states in whose directories a file, or a companion directory, of it lies."""
    found: dict[str, list[str]] = {}
    for state in STATES:
        for name in tree.names(f"tasks/{state}"):
            states = found.setdefault(name.removesuffix(".md"), [])
            if state not in states:
                states.append(state)
    return found


def abandoned_inboxes(tree: Tree, rows: Rows) -> list[str]:
    """The directories of inboxes that nobody has any more and that hold what the mirror wrote."""
    addresses = [rows.team.address(name) for name in rows.team.names()]
    taken = {found[1] for found in addresses if found is not None}
    return [
        name
        for name in tree.names("inbox")
        if name not in taken and is_inbox(_content(tree, f"inbox/{name}/messages.jsonl"))
    ]


def _content(tree: Tree, path: str) -> bytes:
    try:
        return tree.read(path) or b"?\n"
    except OSError:
        return b"?\n"
