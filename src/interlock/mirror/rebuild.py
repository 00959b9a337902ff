"""Comparing every file with the ledger, and writing again what differs. Bounded in memory: some tasks at a time.

Each portion has its own snapshot, the position is that of the first one: whatever changes meanwhile is seen again by
the next pass, and the files cannot go back.
"""

from __future__ import annotations

from interlock.clock import Clock
from interlock.mirror.position import Position
from interlock.mirror.writer import Writer, is_inbox
from interlock.model.task import STATES
from interlock.storage.files import Tree
from interlock.storage.ledger import Ledger, Rows

AT_ONCE = 200


def compare(directory: str, ledger: Ledger, clock: Clock) -> list[tuple[str, str]]:
    """(what, path) of every file that is not as the ledger has it: `missing`, `differs`, `edited`, `stray`, and
    `unreadable` for what cannot be looked at."""
    position = Position()
    with Recorder(directory) as recorder:
        rebuild(Comparer(recorder, directory, clock, position, [], thorough=True), ledger)
    return recorder.found + [("unreadable", f"{kind} {name}".rstrip()) for kind, name in position.owed]


def rebuild(writer: Writer, ledger: Ledger) -> None:
    """Have `writer` write every file of the team, and its position note from where to go on."""
    tree, position = writer.tree, writer.position
    in_states: dict[str, list[str]] = {}
    for state in STATES:
        for name in tree.names(f"tasks/{state}"):  # A task's file, or its companion directory.
            in_states.setdefault(name.removesuffix(".md"), []).append(state)
    with ledger.snapshot() as rows:
        position.seq = rows.start.head
        position.at = rows.start.at or None
        writer.attempt("config", "", lambda: writer.config(rows))
        for name in rows.team.names():
            writer.attempt("inbox", name, lambda: writer.inbox(rows, name, True))  # noqa: B023
        for gone in _abandoned_inboxes(tree, rows):
            writer.attempt("inbox", gone, lambda: writer.drop_inbox(gone))  # noqa: B023
    after = 0
    while True:
        with ledger.snapshot() as rows:
            tasks = rows.tasks.select(states=STATES, after=after, limit=AT_ONCE)
            for task in tasks:
                origins = dict.fromkeys(in_states.get(task.id, ()))
                writer.attempt("task", task.id, lambda: writer.task(rows, task.id, origins, True))  # noqa: B023
        if len(tasks) < AT_ONCE:
            return
        after = tasks[-1].n


class Recorder(Tree):
    """Records what would be written, and writes nothing."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.found: list[tuple[str, str]] = []

    def __enter__(self) -> Recorder:
        return self

    def replace(self, path: str, data: bytes) -> None:
        if ("edited", path) not in self.found[-1:]:
            self.found.append(("missing" if self.size(path) is None else "differs", path))

    def append(self, path: str, data: bytes, size: int) -> bool:
        return False

    def remove(self, path: str) -> None:
        if self.size(path) is not None:
            self.found.append(("stray", path))

    def move(self, source: str, target: str) -> bool:
        exists = self.is_directory(source) or self.size(source) is not None
        if exists:
            self.found.append(("stray", source))
        return exists

    def make(self, path: str) -> None:
        return

    def remove_directory(self, path: str) -> None:
        return


class Comparer(Writer):
    """A writer for a `Recorder`: notes an edited file and leaves it where it is."""

    def _move_aside(self, path: str, beside: str, task_id: str | None) -> None:
        assert isinstance(self.tree, Recorder)
        self.tree.found.append(("edited", path))


def _abandoned_inboxes(tree: Tree, rows: Rows) -> list[str]:
    """The directories of inboxes that nobody has any more and that hold what the mirror wrote."""
    taken = {found[1] for name in rows.team.names() if (found := rows.team.address(name)) is not None}
    gone = []
    for name in tree.names("inbox"):
        try:
            content = tree.read(f"inbox/{name}/messages.jsonl")
        except OSError:
            continue
        if name not in taken and content and is_inbox(content):
            gone.append(name)
    return gone
