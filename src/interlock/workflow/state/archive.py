"""What a rollback replaces, kept first: `<output>/.rollback-archive/<time>/` (BMAD-3.7, decision 35).

It holds `rollback.json`, the journal, and under `files/` every file as it was before, which the resumed run does not
use; the run's repository holds the same contents. The journal is written first, so putting the files in place may be
killed and repeated (BMAD-3.7.7): a file that is neither as it was nor as it should be belongs to somebody else by now,
and is left alone.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field
from typing import Any

from interlock.errors import InvalidRequest, StorageError
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow.errors import RollbackRefused
from interlock.workflow.state import files
from interlock.workflow.state.document import (
    CheckpointRow,
    WorkflowState,
)
from interlock.workflow.state.rollback_plan import Preview
from interlock.workflow.state.snapshots import Snapshots, current, sha_of

JOURNAL = "rollback.json"


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
    document: Json
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
            StorageError, OSError: the file system refused.
            ValueError: a file changed while it was copied.
        """
        for item in journal.items:
            if item.have is None:
                continue
            data, found = files.get(files.inside(self.project, item.path)), current(self.project, item.path)
            if data is None or found is None or files.sha(data) != item.have:
                raise ValueError(f"{item.path} is being changed just now")
            item.had_mode = found.mode
            files.put(os.path.join(self.path, "files", *item.path.split("/")), data, item.had_mode)
            self._snapshots.keep(data)
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
            StorageError: what is done so far stays; repeat it, or carry the reverse out.
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


def credited(state: WorkflowState, journal: Journal) -> None:
    """What a rollback put in place is as the run had left it; undoing it brings back what was known then."""
    if journal.kind == "rollback":
        for item in journal.items:
            state.written[item.path] = item.want or ""


def journal_of(state: WorkflowState, checkpoint: CheckpointRow, planned: Preview, kind: str, at: str) -> Journal:
    """What is to be done about the files, for `planned`."""
    return Journal(
        state.workflow_id, kind, at, checkpoint["step_id"], str(checkpoint["id"]), state.as_dict(),
        [Item(one.path, one.have, one.want, one.mode) for one in planned.chosen],
    )  # fmt: skip


def kept_first(state: WorkflowState, journal: Journal) -> Archive:
    """Copy what is to be replaced, and write the journal.

    Raises:
        RollbackRefused: it could not be copied; nothing was changed.
    """
    output = files.output_folder(state.plan.project, state.plan.output_folder)
    folder = os.path.join(output, files.ARCHIVE_FOLDER)
    archive = Archive(state, stamp(journal.at, os.listdir(folder) if os.path.isdir(folder) else ()))
    try:
        archive.write(journal)
    except (ValueError, StorageError, OSError, InvalidRequest) as error:
        shutil.rmtree(archive.path, ignore_errors=True)
        raise RollbackRefused(
            f"What would be replaced could not be kept first: {error}. Nothing was changed.", reason=str(error)
        ) from error
    return archive
