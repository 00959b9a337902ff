"""What a rollback replaces, kept so that the rollback itself can be undone, and finished after a crash (BMAD-3.7.7).

`<output>/.rollback-archive/<time>/` holds `rollback.json`, the journal, and under `files/` every file as it was before,
which the resumed run does not use. The journal is written first; `carry_out` then may be killed and repeated: a file
that is neither as it was nor as it should be belongs to somebody else by now, and is left alone.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from interlock.workflow.state import files
from interlock.workflow.state.checkpoints import BY_GIT, Place
from interlock.workflow.state.document import WorkflowState
from interlock.workflow.state.snapshots import current

JOURNAL = "rollback.json"
FILES = "files"
BY_ARCHIVE = "archive"
MEANWHILE = "changed by somebody meanwhile"


@dataclass
class Item:
    """One file: the hash it has, whether it is to exist, the hash it is to have (null: git knows), its mode, and its
    mode now."""

    path: str
    have: str | None
    exists: bool
    want: str | None
    mode: int | None = None
    had_mode: int | None = None


@dataclass
class Journal:
    """One rollback, or the undoing of one. `document` is the state before it; `source` says where the wanted contents
    are: a commit, our snapshots, or the archive of an earlier one. `tip` is the commit the branch was at."""

    workflow_id: str
    kind: str
    at: str
    step: Any
    checkpoint: str
    source: dict[str, Any]
    document: dict[str, Any]
    items: list[Item] = field(default_factory=list)
    branch: str | None = None
    tip: str | None = None
    target: str | None = None

    def as_bytes(self) -> bytes:
        """How it is stored."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=1).encode()


class Archive:
    """One directory below `.rollback-archive`. `name` is its own."""

    def __init__(self, state: WorkflowState, name: str) -> None:
        self.state = state
        self.name = name
        self.project = state.plan.project
        self.output = files.output_folder(self.project, state.plan.output_folder)
        self.path = os.path.join(self.output, files.ARCHIVE_FOLDER, name)

    def write(self, journal: Journal) -> None:
        """Keep the files as they are, and then the journal.

        Raises:
            StorageError: the file system refused.
            ValueError: a file changed while it was copied.
        """
        for item in journal.items:
            if item.have is None:
                continue
            whole = files.inside(self.project, item.path)
            data = files.get(whole)
            if data is None or files.sha(data) != item.have:
                raise ValueError(f"{item.path} is being changed just now")
            item.had_mode = stat.S_IMODE(os.stat(whole).st_mode)
            files.put(self._copy(item.path), data, item.had_mode)
        self.note(journal)

    def note(self, journal: Journal) -> None:
        """Write the journal."""
        files.put(os.path.join(self.path, JOURNAL), journal.as_bytes())

    def read(self) -> Journal:
        """The journal.

        Raises:
            ValueError: it is gone or damaged.
        """
        data = files.get(os.path.join(self.path, JOURNAL))
        try:
            found: Mapping[str, Any] = json.loads(data or b"")
            items = [Item(**one) for one in found["items"]]
            return Journal(**{**found, "items": items})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"the journal {self.name}/{JOURNAL} is gone or damaged") from error

    def content(self, path: str, sha: str) -> bytes:
        """A file as it was before.

        Raises:
            ValueError: its copy is gone or damaged.
        """
        data = files.get(self._copy(path))
        if data is None or files.sha(data) != sha:
            raise ValueError(f"the copy of {path} in {self.name} is gone or damaged")
        return data

    def carry_out(self, journal: Journal) -> list[str]:
        """Put the files in place, and the branch; answers those that were left because somebody changed them.

        Raises:
            ValueError: a content is missing or damaged.
            GitFailed, StorageError: what is done so far stays; repeat it, or carry the reverse out.
        """
        place = Place(self.state, journal.branch)
        left, by_git = [], []
        for item in journal.items:
            now = self._now(item.path)
            if now != item.have:
                if not self._is_done(item, now):
                    left.append(item.path)
            elif not item.exists:
                files.drop(files.inside(self.project, item.path))
            elif journal.source["kind"] == BY_GIT:
                by_git.append(item)
            elif item.want != now:
                files.put(files.inside(self.project, item.path), self._wanted(journal, item, place), item.mode)
        if journal.branch is not None and journal.target is not None:
            if place.branch is None:
                raise ValueError(f"the branch {journal.branch} is not checked out in {self.project}")
            place.branch.put_back(journal.source.get("commit", journal.target), [item.path for item in by_git])
            self._learn(journal)
            place.branch.reset(journal.target)
        self.note(journal)
        return left

    def reverse(self, journal: Journal, at: str) -> Journal:
        """The journal that takes this one back, once it was carried out."""
        items = [
            Item(one.path, self._after(one), one.have is not None, one.have, one.had_mode)
            for one in journal.items
            if self._after(one) != one.have
        ]
        source = {"kind": BY_ARCHIVE, "archive": self.name}
        return Journal(
            journal.workflow_id, "undo", at, journal.step, journal.checkpoint, source, {}, items, journal.branch,
            journal.target, journal.tip,
        )  # fmt: skip

    def _learn(self, journal: Journal) -> None:
        """What git has written is known only now."""
        for item in journal.items:
            if item.exists and item.want is None and journal.source["kind"] == BY_GIT:
                item.want, item.mode = current(self.project, item.path) or (None, None)

    def _wanted(self, journal: Journal, item: Item, place: Place) -> bytes:
        assert item.want is not None
        if journal.source["kind"] == BY_ARCHIVE:
            return Archive(self.state, journal.source["archive"]).content(item.path, item.want)
        return place.snapshots.content(item.want)

    def _is_done(self, item: Item, now: str | None) -> bool:
        """Whether a file that is not as it was is as it should be. Of what git wrote the hash is not known: the way
        was interrupted there, and git writes a file whole."""
        if not item.exists:
            return now is None
        return now is not None and item.want in (None, now)

    @staticmethod
    def _after(item: Item) -> str | None:
        return item.want if item.exists else None

    def _now(self, path: str) -> str | None:
        found = current(self.project, path)
        return found[0] if found else None

    def _copy(self, path: str) -> str:
        return os.path.join(self.path, FILES, *path.split("/"))


def stamp(at: str, taken: Iterable[str]) -> str:
    """A directory's name for that time, other than those `taken`."""
    base = at.replace("-", "").replace(":", "")
    names, number, name = set(taken), 1, base
    while name in names:
        number += 1
        name = f"{base}-{number}"
    return name
