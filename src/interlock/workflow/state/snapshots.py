"""Files as they were at a checkpoint: commits of a private git repository of the run (decision 35).

It lies in `<output>/.workflow-state/<workflow id>.git/`, for its owner only. Its objects are written and read here, in
git's own form, because each step makes a snapshot and a process of git costs more than the rest of the step; every git
can read them. Git's settings, attributes and filters do not count, and a file that was not touched since the last
snapshot is not read again. Left out are hidden files and directories (where secrets lie), vendored ones, and files
above a size; a project with too many files is covered in its output folder only. A commit's message says what was left
out, the modes that git does not know, and the state of the run.
"""

from __future__ import annotations

import json
import os
import stat
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from operator import attrgetter

from interlock.errors import StorageError
from interlock.gitwork.git import NOBODY
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.storage.files import locked_directory
from interlock.workflow.state import files

FILE_BYTES = 4_000_000
FILES = 5_000
TOTAL_BYTES = 200_000_000
SKIPPED = frozenset(
    ("node_modules", "bower_components", "venv", "__pycache__", "dist", "build", "target", "vendor", "_bmad")
)
"""Directories whose content is made by tools, or must never be changed by a run (NFR14)."""
CONFIG = "[core]\n\trepositoryFormatVersion = 0\n\tbare = true\n"
FIRST = "first"
"""In the repository: the id of its first snapshot, which is kept: what the run has changed is counted from it."""
SEEN = "seen.json"
"""In the repository: size, times, inode and content of each file at the last snapshot, by path."""
SETTLED = 2_000_000_000
"""Nanoseconds after which another change of a file shows in its times, on every file system."""
TREE = "40000"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file: the id of its content, and its permission bits."""

    sha: str
    mode: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """Files by path from the project's root. `whole` says that every file of the project is here or in `left_out`."""

    entries: Mapping[str, FileEntry] = field(default_factory=dict)
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

    def take(self, reason: str, known: Iterable[str] = (), state: bytes = b"{}") -> tuple[str, Manifest]:
        """Commit the files as they are now, and what is to be kept of the run's state, a JSON object. `known`: paths
        that must be in it where not all of the project is.

        Raises:
            StorageError, OSError: the file system refused.
        """
        paths, whole = self.paths()
        left_out, entries, seen, total = list[str](), dict[str, FileEntry](), dict[str, list[int | str]](), 0
        self._prepare()
        with locked_directory(self.folder):
            before, settled = self._seen(), time.time_ns() - SETTLED
            for name in dict.fromkeys([*paths, *(() if whole else known)]):
                path = os.path.join(self.project, name)
                found = regular(path)
                if found is None:
                    continue
                total += found.st_size
                if found.st_size > FILE_BYTES or total > TOTAL_BYTES:
                    left_out.append(name)
                    continue
                *looks, sha = before.get(name, [""])
                now = [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
                if looks != now or not os.path.exists(self._object(str(sha))):
                    data = files.get(path)
                    if data is None:
                        continue
                    sha = self._keep(data)
                entries[name] = FileEntry(str(sha), stat.S_IMODE(found.st_mode))
                if max(found.st_mtime_ns, found.st_ctime_ns) < settled:
                    seen[name] = [*now, sha]
            modes = {name: one.mode for name, one in entries.items() if one.mode not in (0o644, 0o755)}
            about = json.dumps({"left_out": left_out, "whole": whole, "modes": modes})
            by = f"{NOBODY['NAME']} <{NOBODY['EMAIL']}> {int(time.time())} +0000"
            text = (
                f'tree {self._keep_tree(entries)}\nauthor {by}\ncommitter {by}\n\n{reason}\n\n{about[:-1]}, "state": '
            )
            commit = self._keep(os.fsencode(text) + state + b"}\n", "commit")
            if seen != before:
                self._put(os.path.join(self.folder, SEEN), json.dumps(seen).encode())
            if self._first() is None:
                self._put(os.path.join(self.folder, FIRST), commit.encode())
        return commit, Manifest(entries, tuple(left_out), whole)

    def since_first(self, known: Iterable[str]) -> list[str] | None:
        """The files that have changed since the run's first snapshot; None without one. `known` as for `take`.

        Raises:
            StorageError, OSError, ValueError: the file system refused, or it is damaged.
        """
        first = self._first()
        if first is None:
            return None
        before, now = self.manifest(first).entries, self.take("what has changed", known)[1].entries
        return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))

    def _first(self) -> str | None:
        found = files.get(os.path.join(self.folder, FIRST))
        return found.decode() if found else None

    def manifest(self, commit: str) -> Manifest:
        """What a snapshot holds.

        Raises:
            ValueError: it is gone or damaged.
        """
        try:
            tree, about = self._commit(commit)
            entries = {
                path: FileEntry(sha, about["modes"].get(path, int(mode, 8) & 0o777))
                for mode, path, sha in self._listed(tree)
                if mode != TREE
            }
            return Manifest(entries, tuple(about["left_out"]), bool(about["whole"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"its snapshot of the files ({commit[:12]}) is gone or damaged: {error}") from error

    def state(self, commit: str) -> Json:
        """What a snapshot holds of the run's state.

        Raises:
            ValueError: it is gone or damaged.
        """
        try:
            found = self._commit(commit)[1]["state"]
            if isinstance(found, str):  # As earlier versions kept it: a blob of its own.
                found = json.loads(self._content(found))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"its snapshot of the state ({commit[:12]}) is gone or damaged: {error}") from error
        return dict(found)

    def _commit(self, commit: str) -> tuple[str, Json]:
        """The tree of a snapshot, and what its message says."""
        data = self._content(commit, "commit")
        about: Json = json.loads(data.rpartition(b"\n\n")[2])
        return data[5:45].decode(), about

    def keep(self, data: bytes) -> str:
        """Keep a content beside the snapshots, as long as none is forgotten. Its id.

        Not synced: a content that power loss took is noticed by its hash, and the rollback refused.
        """
        self._prepare()
        return self._keep(data)

    def _keep(self, data: bytes, kind: str = "blob") -> str:
        sha = files.sha(data, kind)
        path = self._object(sha)
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._put(path, zlib.compress(b"%s %d\0" % (kind.encode(), len(data)) + data, 1))
        return sha

    def contents(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Contents by their ids, each once.

        Raises:
            ValueError: one is gone or damaged.
        """
        for one in dict.fromkeys(ids):
            yield one, self._content(one)

    def forget_all_but(self, commits: Iterable[str]) -> None:
        """Drop what only other snapshots need. What cannot be dropped takes room, and harms nothing."""
        needed = set[str]()
        with suppress(ValueError, OSError), locked_directory(self.folder):
            for commit in {*commits, *filter(None, [self._first()])}:
                needed.add(commit)
                tree, about = self._commit(commit)
                needed.update([tree, *(one[2] for one in self._listed(tree, known=needed))])
                needed.update(found for found in [about.get("state")] if isinstance(found, str))
            for folder, _, names in os.walk(os.path.join(self.folder, "objects")):
                for name in names:
                    if os.path.basename(folder) + name not in needed:
                        files.drop(os.path.join(folder, name))

    def _object(self, sha: str) -> str:
        return os.path.join(self.folder, "objects", sha[:2], sha[2:])

    def _put(self, path: str, data: bytes) -> None:
        """A file of the repository, whole or not at all."""
        temporary = f"{path}.{os.getpid()}.tmp"
        with open(temporary, "wb") as file:
            file.write(data)
        os.rename(temporary, path)

    def _seen(self) -> dict[str, list[int | str]]:
        """What `SEEN` holds; nothing where it is damaged."""
        try:
            found = json.loads(files.get(os.path.join(self.folder, SEEN)) or b"{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _keep_tree(self, entries: Mapping[str, FileEntry]) -> str:
        """The id of the tree that holds these files."""
        lines, below = list[tuple[str, str, str]](), dict[str, dict[str, FileEntry]]()
        for path, entry in entries.items():
            name, inside, rest = path.partition("/")
            if inside:
                below.setdefault(name, {})[rest] = entry
            else:
                lines.append((name, "100755" if entry.mode & 0o100 else "100644", entry.sha))
        lines += [(f"{name}/", TREE, self._keep_tree(part)) for name, part in below.items()]
        listed = sorted((os.fsencode(name), mode, sha) for name, mode, sha in lines)  # git sorts a tree as "name/"
        parts = (b"%s %s\0" % (mode.encode(), name.rstrip(b"/")) + bytes.fromhex(sha) for name, mode, sha in listed)
        return self._keep(b"".join(parts), "tree")

    def _listed(self, tree: str, prefix: str = "", known: set[str] | None = None) -> Iterator[tuple[str, str, str]]:
        """(mode, path, id) of everything in a tree, without what is in a tree that is `known`."""
        data = self._content(tree, "tree")
        while data:
            head, _, data = data.partition(b"\0")
            mode, _, name = os.fsdecode(head).partition(" ")
            sha, data = data[:20].hex(), data[20:]
            if mode == TREE and (known is None or sha not in known):
                yield from self._listed(sha, f"{prefix}{name}/", known)
            yield mode, prefix + name, sha

    def _content(self, sha: str, kind: str = "blob") -> bytes:
        try:
            with open(self._object(sha), "rb") as file:
                data = zlib.decompress(file.read()).partition(b"\0")[2]
        except (OSError, zlib.error) as error:
            raise ValueError(f"a kept {kind} ({sha[:12]}) is gone or damaged") from error
        if files.sha(data, kind) != sha:
            raise ValueError(f"a kept {kind} ({sha[:12]}) is damaged")
        return data

    def _prepare(self) -> None:
        """Make the repository, by hand: no template, no hook, nothing that the user configured for new ones."""
        if os.path.exists(os.path.join(self.folder, "HEAD")):
            return
        try:
            os.makedirs(os.path.dirname(self.folder), exist_ok=True)
            for name in ("", "objects", "refs"):
                os.makedirs(os.path.join(self.folder, name), mode=0o700, exist_ok=True)
        except OSError as error:
            said = f"{self.folder} could not be made: {error.strerror or error}."
            raise StorageError(said, path=self.folder) from error
        for name, text in (
            ("config", CONFIG),
            (".gitignore", "*\n"),
            ("HEAD", "ref: refs/heads/none\n"),
        ):
            files.put(os.path.join(self.folder, name), text.encode(), 0o600, named=False)

    def _walk(self, start: str, most: int | None = None) -> Iterator[str]:
        """The files below `start`; with `most` one more than that at most."""
        waiting, count = [start], 0
        while waiting:
            here = waiting.pop()
            try:
                with os.scandir(here) as listed:
                    inside = sorted(listed, key=attrgetter("name"))
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


def current(project: str, path: str) -> FileEntry | None:
    """A file of the project as it is; null where there is none, or no regular file.

    Raises:
        InvalidRequest: it leads out of the project.
        StorageError: it cannot be read.
    """
    whole = files.inside(project, path)
    data = files.get(whole)
    found = regular(whole)
    return None if data is None or found is None else FileEntry(files.sha(data), stat.S_IMODE(found.st_mode))


def sha_of(project: str, path: str) -> str | None:
    """The id of a file's content; null and raises as `current`."""
    data = files.get(files.inside(project, path))
    return None if data is None else files.sha(data)


def regular(path: str) -> os.stat_result | None:
    """The status of a regular file; null where there is none, or something else."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None
