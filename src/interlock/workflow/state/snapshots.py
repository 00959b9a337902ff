"""Files as they were at a checkpoint: commits of a private git repository of the run (decision 35).

It lies in `<output>/.workflow-state/<workflow id>.git/`, for its owner only. The user's repository, index,
configuration and hooks are never touched, attributes and filters of the project do not count, and a file that was not
touched since the last snapshot is not read again. Left out are hidden files and directories (where secrets lie),
vendored ones, and files above a size; a project with too many files is covered in its output folder only. A commit's
message says what was left out, and the modes that git does not know.

How the row of a run holds the states of its checkpoints: each as what differs from the one after it, the newest from
the state itself. Whole, they are ten copies of the state's history, written again with every prompt. What cannot be
read is null, which a rollback refuses as damaged. Pure.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from interlock.errors import GitFailed, StorageError
from interlock.gitwork.git import NOBODY, Git
from interlock.storage.files import locked_directory
from interlock.workflow.state import files

FILE_BYTES = 4_000_000
FILES = 5_000
TOTAL_BYTES = 200_000_000
TIMEOUT = 120.0
SKIPPED = frozenset(
    ("node_modules", "bower_components", "venv", "__pycache__", "dist", "build", "target", "vendor", "_bmad")
)
"""Directories whose content is made by tools, or must never be changed by a run (NFR14)."""
AT_ONCE = 50  # contents that are read together
CONFIG = """[core]
	repositoryFormatVersion = 0
	bare = false
	fileMode = true
	autocrlf = false
	ignoreCase = false
	precomposeUnicode = false
	protectNTFS = false
	protectHFS = false
	looseCompression = 1
	fsync = none
"""
"""Not synced: a content that power loss took is noticed by its hash, and the rollback refused."""
ATTRIBUTES = "* -text -eol -filter -ident -working-tree-encoding\n"
"""Above all that the project says: a content is kept as it is, byte for byte."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: the id of its content, and its permission bits."""

    sha: str
    mode: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """Files by path from the project's root. `whole` says that every file of the project is here or in `left_out`."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    whole: bool = True


class Snapshots:
    """The private repository of one run."""

    def __init__(self, project: str, output_folder: str, workflow_id: str) -> None:
        self.project = os.path.realpath(project)
        self.output = files.output_folder(project, output_folder)
        self.folder = os.path.join(self.output, files.STATE_FOLDER, f"{workflow_id}.git")

    def paths(self) -> tuple[list[str], bool]:
        """Every file that counts, from the project's root, and whether that is all of the project."""
        found = list(dict.fromkeys(path for start in (self.project, self.output) for path in self._walk(start, FILES)))
        whole = len(found) <= FILES
        listed = found if whole else self._walk(self.output)
        return sorted({os.path.relpath(path, self.project).replace(os.sep, "/") for path in listed}), whole

    def covers(self, path: str) -> bool:
        """Whether a file of that path would be in a snapshot, if it is not too large."""
        whole = os.path.join(self.project, path)
        base = self.output if self.in_output(path) else self.project
        *parents, name = os.path.relpath(whole, base).split(os.sep)
        return not name.startswith(".") and not any(one.startswith(".") or one in SKIPPED for one in parents)

    def in_output(self, path: str) -> bool:
        """Whether a file lies in the output folder, which every snapshot covers."""
        return os.path.join(self.project, path).startswith(self.output.rstrip(os.sep) + os.sep)

    def take(self, reason: str, known: Iterable[str] = ()) -> tuple[str, Manifest]:
        """Commit the files as they are now. `known`: paths that must be in it where not all of the project is.

        Raises:
            StorageError, GitFailed: the file system or git refused.
        """
        paths, whole = self.paths()
        left_out, modes, total = list[str](), dict[str, int](), 0
        for name in dict.fromkeys([*paths, *(() if whole else known)]):
            found = regular(os.path.join(self.project, name))
            if found is None:
                continue
            total += found.st_size
            if found.st_size > FILE_BYTES or total > TOTAL_BYTES:
                left_out.append(name)
            else:
                modes[name] = stat.S_IMODE(found.st_mode)
        about = {
            "left_out": left_out,
            "whole": whole,
            "modes": {name: mode for name, mode in modes.items() if mode not in (0o644, 0o755)},
        }
        self._prepare()
        with locked_directory(self.folder):
            files.drop(os.path.join(self.folder, "index.lock"))  # left by a git that was killed
            gone = [name for name in self._git("ls-files", "-z").names if name not in modes]
            for words, names in (("--force-remove", gone), ("--add", list(modes))):
                if names:
                    given = "".join(f"{name}\0" for name in names)
                    self._git("update-index", words, "--remove", "--replace", "-z", "--stdin", stdin=given)
            tree = self._git("write-tree").text
            commit = self._git("commit-tree", tree, stdin=f"{reason}\n\n{json.dumps(about)}\n").text
        return commit, self.manifest(commit)

    def manifest(self, commit: str) -> Manifest:
        """What a snapshot holds.

        Raises:
            ValueError: it is gone or damaged.
        """
        try:
            data = os.fsencode(self._git("cat-file", "commit", commit).out)
            if files.sha(data, "commit") != commit:
                raise ValueError("it is another one")
            about = json.loads(data.rpartition(b"\n\n")[2])
            entries = dict[str, Entry]()
            for line in self._git("ls-tree", "-r", "-z", "--full-tree", commit).names:
                kind, _, name = line.partition("\t")
                mode, _, sha = kind.split(" ")
                entries[name] = Entry(sha, about["modes"].get(name, int(mode, 8) & 0o777))
            return Manifest(entries, tuple(about["left_out"]), bool(about["whole"]))
        except (GitFailed, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"its snapshot of the files ({commit[:12]}) is gone or damaged: {error}") from error

    def keep(self, paths: Iterable[str]) -> None:
        """Keep these files as they are now, beside the snapshots, as long as none is forgotten.

        Raises:
            GitFailed: git refused.
        """
        given = "".join(f"{path}\n" for path in paths if "\n" not in path)
        if given:
            self._prepare()
            self._git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=given)

    def contents(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Contents by their ids, each once.

        Raises:
            ValueError: one is gone or damaged.
        """
        wanted = list(dict.fromkeys(ids))
        for start in range(0, len(wanted), AT_ONCE):
            part = wanted[start : start + AT_ONCE]
            try:
                data = os.fsencode(self._git("cat-file", "--batch", stdin="".join(f"{one}\n" for one in part)).out)
            except GitFailed as error:
                raise ValueError(f"a kept file is gone or damaged: {error}") from error
            for one in part:
                line, _, data = data.partition(b"\n")
                size = int(line.rpartition(b" ")[2]) if b" blob " in line else -1
                if size < 0 or files.sha(data[:size]) != one:
                    raise ValueError(f"a kept file ({one[:12]}) is gone or damaged")
                yield one, data[:size]
                data = data[size + 1 :]

    def forget_all_but(self, commits: Iterable[str]) -> None:
        """Drop what only other snapshots need. What cannot be dropped takes room, and harms nothing."""
        try:
            self._git("prune", "--expire=now", "--", *commits)
        except GitFailed:
            return

    def _prepare(self) -> None:
        """Make the repository, by hand: no template, no hook, nothing that the user configured for new ones."""
        if os.path.exists(os.path.join(self.folder, "HEAD")):
            return
        try:
            os.makedirs(os.path.dirname(self.folder), exist_ok=True)
            for name in ("", "objects", "refs", "info"):
                os.makedirs(os.path.join(self.folder, name), mode=0o700, exist_ok=True)
        except OSError as error:
            said = f"{self.folder} could not be made: {error.strerror or error}."
            raise StorageError(said, path=self.folder) from error
        for name, text in (
            ("config", CONFIG),
            ("info/attributes", ATTRIBUTES),
            (".gitignore", "*\n"),
            ("HEAD", "ref: refs/heads/none\n"),
        ):
            files.put(os.path.join(self.folder, name), text.encode(), 0o600, named=False)

    def _git(self, *words: str, stdin: str | None = None) -> Any:
        variables = {
            "GIT_DIR": self.folder, "GIT_WORK_TREE": self.project, "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{role}_{part}": name for part, name in NOBODY.items() for role in ("AUTHOR", "COMMITTER")},
        }  # fmt: skip
        return Git(self.project, timeout=TIMEOUT)(*words, stdin=stdin, variables=variables)

    def _walk(self, start: str, most: int | None = None) -> Iterator[str]:
        """The files below `start`; with `most` one more than that at most."""
        waiting, count = [start], 0
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
                    count += 1
                    if most is not None and count > most:
                        return


def current(project: str, path: str) -> Entry | None:
    """A file of the project as it is; null where there is none, or no regular file.

    Raises:
        InvalidRequest: it leads out of the project.
        StorageError: it cannot be read.
    """
    whole = files.inside(project, path)
    data = files.get(whole)
    found = regular(whole)
    return None if data is None or found is None else Entry(files.sha(data), stat.S_IMODE(found.st_mode))


def sha_of(project: str, path: str) -> str | None:
    """The id of a file's content; null and raises as `current`."""
    found = current(project, path)
    return found.sha if found else None


def regular(path: str) -> os.stat_result | None:
    """The status of a regular file; null where there is none, or something else."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


SNAPSHOT = "state_snapshot"
PACKED = "differs_from_the_next"
"""Marks a packed snapshot; its value is by field how to get there: `is`, `set` and `gone`, or `front` and `then`."""


def packed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A state's document as its row holds it."""
    found: list[Any] = []
    after: Mapping[str, Any] | None = document
    for one in reversed(document["checkpoints"]):
        snapshot = one.get(SNAPSHOT)
        if after is not None and isinstance(snapshot, Mapping):
            ways = {name: way for name, value in snapshot.items() if (way := _way(value, after.get(name))) is not None}
            one = {**one, SNAPSHOT: {PACKED: ways, "fields": list(snapshot)}}
        found.append(one)
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
            try:
                ways, names = snapshot[PACKED], snapshot["fields"]
                whole = {name: _value(ways.get(name, {}), after.get(name)) for name in names} if after else None
            except (TypeError, AttributeError, KeyError):
                whole = None
            snapshot, one = whole, {**one, SNAPSHOT: whole}
        found.append(one)
        after = snapshot if isinstance(snapshot, Mapping) else None
    return {**document, "checkpoints": found[::-1]}


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
