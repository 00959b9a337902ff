"""What a rollback replaces, kept so that the rollback itself can be undone, and finished after a crash (BMAD-3.7.7).

`<output>/.rollback-archive/<time>/` holds `rollback.json`, the journal, and under `files/` every file as it was before,
which the resumed run does not use; the run's repository holds the same contents. The journal is written first;
`carry_out` then may be killed and repeated: a file that is neither as it was nor as it should be belongs to somebody
else by now, and is left alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from interlock.workflow.state import files
from interlock.workflow.state.document import WorkflowState
from interlock.workflow.state.snapshots import Snapshots, current, sha_of

JOURNAL = "rollback.json"
MEANWHILE = "changed by somebody meanwhile"


@dataclass
class Item:
    """One file: the ids of the content that it has and is to have, null for no file, and its modes now and then."""

    path: str
    have: str | None
    want: str | None
    mode: int | None = None
    had_mode: int | None = None


@dataclass
class Journal:
    """One rollback, or the undoing of one. `document` is the state before it."""

    workflow_id: str
    kind: str
    at: str
    step: Any
    checkpoint: str
    document: dict[str, Any]
    items: list[Item] = field(default_factory=list)


class Archive:
    """One directory below `.rollback-archive`. `name` is its own."""

    def __init__(self, state: WorkflowState, name: str) -> None:
        self.name = name
        self.project = state.plan.project
        self._snapshots = Snapshots(self.project, state.plan.output_folder, state.workflow_id)
        self.path = os.path.join(self._snapshots.output, files.ARCHIVE_FOLDER, name)

    def write(self, journal: Journal) -> None:
        """Keep the files as they are, and then the journal.

        Raises:
            StorageError, GitFailed: the file system or git refused.
            ValueError: a file changed while it was copied.
        """
        replaced = [item for item in journal.items if item.have is not None]
        for item in replaced:
            data, found = files.get(files.inside(self.project, item.path)), current(self.project, item.path)
            if data is None or found is None or files.sha(data) != item.have:
                raise ValueError(f"{item.path} is being changed just now")
            item.had_mode = found.mode
            files.put(os.path.join(self.path, "files", *item.path.split("/")), data, item.had_mode)
        self._snapshots.keep([os.path.join(self.path, "files", *item.path.split("/")) for item in replaced])
        files.put(os.path.join(self.path, JOURNAL), json.dumps(asdict(journal), ensure_ascii=False, indent=1).encode())

    def read(self) -> Journal:
        """The journal.

        Raises:
            ValueError: it is gone or damaged, or of an earlier version.
        """
        data = files.get(os.path.join(self.path, JOURNAL))
        try:
            found: Mapping[str, Any] = json.loads(data or b"")
            if "source" in found:
                raise ValueError(f"{self.name}/{JOURNAL} was written by an earlier version of Interlock")
            return Journal(**{**found, "items": [Item(**one) for one in found["items"]]})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"the journal {self.name}/{JOURNAL} is gone or damaged ({error})") from error

    def check(self, journal: Journal) -> None:
        """Read every content that `journal` needs.

        Raises:
            ValueError: one is gone or damaged.
        """
        for _ in self._snapshots.contents(item.want for item in journal.items if item.want is not None):
            continue

    def carry_out(self, journal: Journal) -> list[str]:
        """Put the files in place; answers those that were left because somebody changed them.

        Raises:
            ValueError: a content is missing or damaged.
            GitFailed, StorageError: what is done so far stays; repeat it, or carry the reverse out.
        """
        left, due = [], dict[str, list[Item]]()
        for item in journal.items:
            now = sha_of(self.project, item.path)
            if now == item.want:
                continue
            if now != item.have:
                left.append(item.path)
            elif item.want is None:
                files.drop(files.inside(self.project, item.path))
            else:
                due.setdefault(item.want, []).append(item)
        for sha, data in self._snapshots.contents(due):
            for item in due[sha]:
                if sha_of(self.project, item.path) == item.have:
                    files.put(files.inside(self.project, item.path), data, item.mode)
                else:
                    left.append(item.path)
        return left

    @staticmethod
    def reverse(journal: Journal, at: str) -> Journal:
        """The journal that takes this one back, once it was carried out."""
        items = [Item(one.path, one.want, one.have, one.had_mode) for one in journal.items if one.want != one.have]
        return Journal(journal.workflow_id, "undo", at, journal.step, journal.checkpoint, {}, items)


def stamp(at: str, taken: Iterable[str]) -> str:
    """A directory's name for that time, other than those `taken`."""
    base = at.replace("-", "").replace(":", "")
    names, number, name = set(taken), 1, base
    while name in names:
        number += 1
        name = f"{base}-{number}"
    return name
