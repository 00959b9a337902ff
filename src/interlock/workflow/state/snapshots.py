"""Files as they were at a checkpoint, where no git worktree keeps them (decision 35).

A manifest lists every file of the project with the hash of its content; a content is kept once, below
`<output>/.workflow-state/<workflow id>.files/`, for its owner only. A file that was not touched since the last
manifest is not read again. Left out are hidden files and directories (where secrets lie), vendored ones, and files
above a size. A project with too many files is covered in its output folder only, and the manifest says so.

How the row of a run holds the snapshots of its checkpoints: each as what differs from the one after it, the newest
from the state itself. Whole, they are ten copies of the state's history, written again with every prompt.

A row from before this has whole ones, which are read as they are. What cannot be read is null, which a rollback refuses
as damaged. Pure.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from interlock.errors import StorageError
from interlock.workflow.state import files

FILE_BYTES = 4_000_000
FILES = 5_000
TOTAL_BYTES = 200_000_000
SKIPPED = frozenset(
    ("node_modules", "bower_components", "venv", "__pycache__", "dist", "build", "target", "vendor", "_bmad")
)
"""Directories whose content is made by tools, or must never be changed by a run (NFR14)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: the hash of its content, its permission bits, and by what a change is noticed."""

    sha: str
    mode: int
    mark: tuple[int, ...] = ()


@dataclass(slots=True)
class Manifest:
    """Files by path from the project's root. `whole` says that every file of the project is here or in `left_out`."""

    entries: dict[str, Entry] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    whole: bool = True

    def as_bytes(self) -> bytes:
        """How it is stored."""
        shown = {path: [one.sha, one.mode, *one.mark] for path, one in sorted(self.entries.items())}
        return json.dumps({"files": shown, "left_out": sorted(self.left_out), "whole": self.whole}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """The reverse.

        Raises:
            ValueError: it is damaged.
        """
        try:
            found: Mapping[str, Any] = json.loads(data)
            entries = {path: Entry(sha, mode, tuple(mark)) for path, (sha, mode, *mark) in found["files"].items()}
            return cls(entries, list(found["left_out"]), bool(found["whole"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a manifest: {error}") from error


class Snapshots:
    """The kept files of one run."""

    def __init__(self, project: str, output: str, workflow_id: str) -> None:
        self.project = os.path.realpath(project)
        self.output = output
        self.folder = os.path.join(output, files.STATE_FOLDER, f"{workflow_id}.files")

    def paths(self) -> tuple[list[str], bool]:
        """Every file that counts, from the project's root, and whether that is all of the project."""
        found = self._paths()
        listed = [*self._walk(self.output)] if found is None else found
        return sorted({os.path.relpath(path, self.project).replace(os.sep, "/") for path in listed}), found is not None

    def covers(self, path: str) -> bool:
        """Whether a file of that path would be in a manifest, if it is not too large."""
        whole = os.path.join(self.project, path)
        base = self.output if whole.startswith(self.output.rstrip(os.sep) + os.sep) else self.project
        *parents, name = os.path.relpath(whole, base).split(os.sep)
        return not name.startswith(".") and not any(one.startswith(".") or one in SKIPPED for one in parents)

    def take(self, previous: Manifest | None, known: Iterable[str] = ()) -> str:
        """Keep the files as they are now; answers the manifest's name. `known`: paths that must be in it.

        Raises:
            StorageError: the file system refused.
        """
        before = previous.entries if previous else {}
        manifest = Manifest()
        paths = self._paths()
        if paths is None:
            manifest.whole = False
            paths = [*self._walk(self.output), *(os.path.join(self.project, path) for path in known)]
        total = 0
        for path in dict.fromkeys(paths):
            name = os.path.relpath(path, self.project).replace(os.sep, "/")
            found = _stat(path)
            if found is None:
                continue
            total += found.st_size
            if found.st_size > FILE_BYTES or total > TOTAL_BYTES:
                manifest.left_out.append(name)
                continue
            entry = before.get(name)
            if entry is None or entry.mark != _mark(found):
                entry = self._keep(path, found)
            if entry is not None:
                manifest.entries[name] = entry
        data = manifest.as_bytes()
        name = files.sha(data)
        self._store(f"{name}.json", data)
        return name

    def manifest(self, name: str) -> Manifest:
        """A manifest by name.

        Raises:
            ValueError: it is gone or damaged.
        """
        data = files.get(os.path.join(self.folder, f"{name}.json"))
        if data is None or files.sha(data) != name:
            raise ValueError(f"its list of files ({name[:12]}) is {'gone' if data is None else 'damaged'}")
        return Manifest.from_bytes(data)

    def content(self, sha: str) -> bytes:
        """A content by its hash.

        Raises:
            ValueError: it is gone or damaged.
        """
        data = files.get(os.path.join(self.folder, sha))
        if data is None or files.sha(data) != sha:
            raise ValueError(f"a kept file ({sha[:12]}) is {'gone' if data is None else 'damaged'}")
        return data

    def forget(self, name: str) -> None:
        """Drop a manifest, and every content that no other manifest needs."""
        try:
            doomed = {one.sha for one in self.manifest(name).entries.values()}
            others = [one for one in os.listdir(self.folder) if one.endswith(".json") and one != f"{name}.json"]
            for other in others:
                doomed -= {one.sha for one in self.manifest(other.removesuffix(".json")).entries.values()}
            for sha in doomed:
                files.drop(os.path.join(self.folder, sha))
            files.drop(os.path.join(self.folder, f"{name}.json"))
        except (ValueError, OSError, StorageError):
            return  # What is left takes room, and harms nothing.

    def _paths(self) -> list[str] | None:
        """Every file that counts; null where there are too many."""
        found = []
        for start in (self.project, self.output):
            for path in self._walk(start):
                found.append(path)
                if len(found) > FILES:
                    return None
        return found

    def _walk(self, start: str) -> Iterator[str]:
        waiting = [start]
        while waiting:
            here = waiting.pop()
            try:
                with os.scandir(here) as listed:
                    inside = sorted(listed, key=lambda one: one.name)
            except OSError:
                continue
            for one in inside:
                if one.is_dir(follow_symlinks=False):
                    if not one.name.startswith(".") and one.name not in SKIPPED:
                        waiting.append(one.path)
                elif one.is_file(follow_symlinks=False) and not one.name.startswith("."):
                    yield one.path

    def _keep(self, path: str, found: os.stat_result) -> Entry | None:
        data = files.get(path)
        if data is None:
            return None
        sha = files.sha(data)
        self._store(sha, data)
        return Entry(sha, stat.S_IMODE(found.st_mode), _mark(found))

    def _store(self, name: str, data: bytes) -> None:
        """Not synced: a content that power loss took is noticed by its hash, and the rollback refused."""
        path = os.path.join(self.folder, name)
        if os.path.exists(path):
            return
        temporary = f"{path}.{os.getpid()}.tmp"
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            # The copies of what only its owner may read are no more public than it is.
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(data)
            os.rename(temporary, path)
        except OSError as error:
            raise StorageError(f"{path} could not be written: {error.strerror or error}.", path=path) from error


def current(project: str, path: str) -> tuple[str, int] | None:
    """(hash, permission bits) of a file of the project; null where there is none, or no regular file.

    Raises:
        InvalidRequest: it leads out of the project.
        StorageError: it cannot be read.
    """
    whole = files.inside(project, path)
    data = files.get(whole)
    found = _stat(whole)
    return None if data is None or found is None else (files.sha(data), stat.S_IMODE(found.st_mode))


def _stat(path: str) -> os.stat_result | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _mark(found: os.stat_result) -> tuple[int, ...]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


SNAPSHOT = "state_snapshot"
PACKED = "differs_from_the_next"
"""Marks a packed snapshot; its value is by field how to get there: `is`, `set` and `gone`, or `front` and `then`."""


def packed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A state's document as its row holds it."""
    found: list[Any] = []
    after: Mapping[str, Any] | None = document
    for one in reversed(document["checkpoints"]):
        snapshot = one.get(SNAPSHOT)
        found.append(
            one if after is None or not isinstance(snapshot, Mapping) else _with(one, _packed(snapshot, after))
        )
        after = snapshot if isinstance(snapshot, Mapping) else None
    return {**document, "checkpoints": found[::-1]}


def unpacked(document: Mapping[str, Any]) -> dict[str, Any]:
    """The reverse. Whatever is damaged is left for whoever reads the document to notice."""
    checkpoints = document.get("checkpoints")
    if not isinstance(checkpoints, list):
        return dict(document)
    found: list[Any] = []
    after: Mapping[str, Any] | None = document
    for one in reversed(checkpoints):
        snapshot = one.get(SNAPSHOT) if isinstance(one, Mapping) else None
        if isinstance(snapshot, Mapping) and PACKED in snapshot:
            snapshot = None if after is None else _unpacked(snapshot, after)
            one = _with(one, snapshot)
        found.append(one)
        after = snapshot if isinstance(snapshot, Mapping) else None
    return {**document, "checkpoints": found[::-1]}


def _with(checkpoint: Mapping[str, Any], snapshot: Any) -> dict[str, Any]:
    return {**checkpoint, SNAPSHOT: snapshot}


def _packed(snapshot: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    ways = {name: way for name, value in snapshot.items() if (way := _way(value, after.get(name))) is not None}
    return {PACKED: ways, "fields": list(snapshot)}


def _unpacked(short: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        ways = short[PACKED]
        return {name: _value(ways.get(name, {}), after.get(name)) for name in short["fields"]}
    except (TypeError, AttributeError, KeyError):
        return None


def _way(value: Any, after: Any) -> dict[str, Any] | None:
    """How to get from the later value of a field to the earlier one; null where they are the same."""
    if value == after and type(value) is type(after):
        return None
    if isinstance(value, dict) and isinstance(after, dict):
        new = [key for key in value if key not in after]
        if list(value) == [*(key for key in after if key in value), *new]:  # else another order, which is kept too
            return {
                "set": {key: one for key, one in value.items() if key not in after or after[key] != one},
                "gone": [key for key in after if key not in value],
            }
    if isinstance(value, list) and isinstance(after, list):
        # A list grows at its end, and one that is limited loses its first entries meanwhile.
        for front in range(len(value)):
            then = len(value) - front
            if value[front:] == after[:then]:
                return {"front": value[:front], "then": then}
    return {"is": value}


def _value(way: Mapping[str, Any], after: Any) -> Any:
    """Nothing of it is shared with the later value: the state's goes on changing."""
    if "is" in way:
        return way["is"]
    if "set" in way:
        others = {key: _copy(one) for key, one in after.items() if key not in way["set"]}
        found = {key: way["set"].get(key, others.get(key)) for key in after if key not in way["gone"]}
        return {**found, **way["set"]}
    if "then" in way:
        return [*way["front"], *_copy(after[: way["then"]])]
    return _copy(after)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_copy(one) for one in value]
    return value
