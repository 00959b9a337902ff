"""What a commit changes against another one: files, links that lead out of the repository, and submodules.

And a worktree in which some files are as they were before: by that, a check that a task has changed is told from one
that it has passed.
"""

from __future__ import annotations

import os
import posixpath
import shutil
import tempfile
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress

from interlock.gitwork.git import Git
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json

RAW = ("--raw", "--no-abbrev", "--no-renames", "--no-relative", "--ignore-submodules=none", "-z")
LINK, SUBMODULE = "120000", "160000"
WORDS = {"A": "added", "D": "deleted"}
EMPTY = {"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391", "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"}
"""What git calls a file without content, by SHA-1 and by SHA-256."""
LISTED = 50
"""How many files of a task are kept by name."""


@dataclass(frozen=True, slots=True)
class ChangedPath:
    """A path that differs: `before` and `after` are its (mode, object), with the mode 000000 where it is not there."""

    path: str
    status: str
    before: tuple[str, str]
    after: tuple[str, str]

    @property
    def added(self) -> bool:
        return self.status == "A"

    @property
    def submodule(self) -> bool:
        return SUBMODULE in (self.before[0], self.after[0])

    @property
    def empty(self) -> bool:
        """Whether it is a file without content now."""
        return self.after[1] in EMPTY


def between(git: Git, before: str, after: str) -> list[ChangedPath]:
    """What the commit `after` has otherwise than `before`, sorted by path."""
    return read(git("diff", *RAW, before, after).names)


def read(said: Sequence[str]) -> list[ChangedPath]:
    """The changes that `git diff` with the options `RAW` has named."""
    found = []
    for about, path in zip(said[0::2], said[1::2], strict=False):
        mode, new_mode, name, new_name, status = about.removeprefix(":").split(" ")
        found.append(ChangedPath(path, status[0], (mode, name), (new_mode, new_name)))
    return found


def listed(git: Git, changes: Sequence[ChangedPath], first: Collection[str] = ()) -> Json:
    """The changes as they are kept with a task: its files, those in `first` first, how many there are, links that lead
    out of the repository, and submodules."""
    ordered = sorted(changes, key=lambda one: (shown(one.path) not in first, one.path))
    files = [{"path": shown(one.path), "status": WORDS.get(one.status, "changed")} for one in ordered[:LISTED]]
    links = [(one.path, git("cat-file", "blob", one.after[1]).out) for one in changes if one.after[0] == LINK]
    return {
        "files": files,
        "count": len(changes),
        "links": [shown(f"{path} -> {to}") for path, to in links if _leaves(path, to)][:LISTED],
        "submodules": [shown(f"{one.path} at {one.after[1][:12]}") for one in changes if one.after[0] == SUBMODULE][
            :LISTED
        ],
    }


def shown(name: str) -> str:
    """The name of a file as text, whatever its bytes are."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _leaves(path: str, to: str) -> bool:
    inside = posixpath.normpath(posixpath.join(posixpath.dirname(path), to))
    return posixpath.isabs(to) or inside.split("/")[0] == ".."


def exchange(git: Git, commit: str, changes: Iterable[ChangedPath]) -> None:
    """Make the worktree at `git` the one of `commit`, but the files that `changes` name as they were before.

    All of it is done by git, which follows no link. The compiled form of these files goes as well: it names the size
    and the second of its source, and would be taken for the other version's.
    """
    there = [one for one in changes if not one.submodule]
    gone = [f"0 {'0' * len(one.after[1])}\t{one.path}" for one in there]
    back = [f"{one.before[0]} {one.before[1]}\t{one.path}" for one in there if not one.added]
    with tempfile.TemporaryDirectory(prefix="interlock-") as place:
        index = {"GIT_INDEX_FILE": os.path.join(place, "index")}
        git("read-tree", commit, variables=index)
        entries = "".join(f"{entry}\0" for entry in (*gone, *back))
        git("update-index", "--add", "--replace", "-z", "--index-info", stdin=entries, variables=index)
        tree = git("write-tree", variables=index).text
    git("read-tree", "--reset", "-u", tree)
    top = os.path.realpath(git.directory)
    for where in {os.path.dirname(os.path.join(top, one.path)) for one in there}:
        if os.path.realpath(where) == where:
            with suppress(OSError):
                shutil.rmtree(os.path.join(where, "__pycache__"))


def unpublished(git: Git, commit: str) -> list[str]:
    """The submodules of the worktree at `git` whose commits, as `commit` names them, only this worktree has."""
    if not os.path.exists(os.path.join(git.directory, ".gitmodules")):
        return []
    found = []
    for entry in git("ls-tree", "-r", "-z", "--full-tree", commit).names:
        said, _, path = entry.partition("\t")
        mode, _, name = said.split(" ")
        here = git.at(os.path.join(git.directory, path))
        if mode != SUBMODULE or not os.path.lexists(os.path.join(here.directory, ".git")):
            continue
        if here.commit_of(name) is None:
            continue
        if not here("for-each-ref", f"--contains={name}", "--count=1", "refs/remotes").text:
            found.append(f"{path} at {name[:12]}")
    return found
