"""What a run made that is in no commit, and where it is kept."""

from __future__ import annotations

from interlock.model.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEPT = frozenset({"file", "link", "patch"})
"""The kinds that are kept with the run; a `cache` or a `special` file (a socket, a pipe) is only listed."""


class Artifact(Record):
    """One of the files of a run outside git. `path` is where it lay below the top of the worktree, with bytes that are
    no UTF-8 written out; `size` in bytes and `sha256` are null where nothing is kept."""

    task_id: str
    run: int
    path: str
    kind: str
    size: int | None = None
    sha256: str | None = None

    def as_dict(self, where: str) -> dict[str, Any]:
        """All of it; `file` is where it is kept, null where it is not."""
        file = where if self.kind in KEPT else None
        return {
            "run": self.run, "path": self.path, "kind": self.kind, "size": self.size, "sha256": self.sha256,
            "file": file,
        }  # fmt: skip
