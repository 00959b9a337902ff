"""What lies in a worktree: taken when it is ready and when its work is over, and compared with what was committed.

Git's word is not enough: its index can be told not to look, and what it ignores it does not name. So the files are
listed as they are (stat data, no link is followed), and only those that differ from the first inventory are read. What
the commit does not hold, byte for byte, has to be kept somewhere before the worktree goes.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import field

from interlock.gitwork.git import Git
from interlock.lazy_dataclass import dataclass

CACHES = frozenset(
    "__pycache__ .pytest_cache .mypy_cache .ruff_cache .hypothesis .tox .nox .venv venv .eggs node_modules .npm "
    ".gradle .parcel-cache .next .nuxt .turbo .svelte-kit .terraform .direnv".split()
)
"""Directories that programs make again by themselves."""
CACHE_FILES = frozenset({".coverage", ".DS_Store"})
CACHE_ENDINGS = (".pyc", ".pyo")
"""Files of that kind: their names, and how the names end."""
BUILDS = {"target": ("Cargo.toml", "pom.xml", "build.sbt"), "build": ("build.gradle", "build.gradle.kts")}
"""Directories that are a cache where one of these files lies beside them."""
TAG = "CACHEDIR.TAG"
"""By this file a program marks a directory as a cache (bford.info/cachedir)."""
REPLACED = ".git.replaced"
"""What an agent had put in the place of a worktree's `.git`, the link to the repository."""

Stat = tuple[int, int, int, int, int]


@dataclass(slots=True)
class Inventory:
    """Files by path below `top`, with mode, size, times of change (ns) and inode; directories that are caches; what
    could not be looked at, with the reason."""

    top: str
    files: dict[str, Stat] = field(default_factory=dict)
    caches: set[str] = field(default_factory=set)
    unreadable: dict[str, str] = field(default_factory=dict)

    def save(self, path: str) -> None:
        """Write it to a file, whole or not at all."""
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        written = f"{path}.{os.getpid()}.tmp"
        with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            json.dump({"files": self.files, "caches": sorted(self.caches)}, file)
        os.replace(written, path)


def load(path: str, top: str) -> Inventory:
    """The inventory that was saved there; an empty one, beside which everything is new, where there is none."""
    try:
        with open(path, encoding="ascii") as file:
            found = json.load(file)
        files = {name: tuple(values) for name, values in found["files"].items()}
        return Inventory(top, files, set(found["caches"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Inventory(top)


def take(top: str) -> Inventory:
    """List what lies below `top`, but its own `.git`. No link is followed and no file opened; a directory of ours that
    nobody may read is made readable."""
    found = Inventory(top)
    waiting = [""]
    while waiting:
        here = waiting.pop()
        try:
            if not os.access(os.path.join(top, here), os.R_OK | os.X_OK):
                os.chmod(os.path.join(top, here), stat.S_IRWXU)
            with os.scandir(os.path.join(top, here)) as entries:
                listed = list(entries)
        except OSError as error:
            found.unreadable[here or "."] = str(error.strerror or error)
            continue
        names = {entry.name for entry in listed}
        if here and TAG in names:
            found.caches.add(here)
            continue
        for entry in listed:
            path = os.path.join(here, entry.name)
            if path == ".git":
                continue
            if entry.is_dir(follow_symlinks=False):
                build = any(one in names for one in BUILDS.get(entry.name, ()))
                if build or entry.name in CACHES or entry.name.endswith(".egg-info"):
                    found.caches.add(path)
                else:
                    waiting.append(path)
                continue
            try:
                said = entry.stat(follow_symlinks=False)
            except OSError as error:
                found.unreadable[path] = str(error.strerror or error)
                continue
            if entry.name in CACHE_FILES or entry.name.endswith(CACHE_ENDINGS):
                found.caches.add(path)
            else:
                found.files[path] = (said.st_mode, said.st_size, said.st_mtime_ns, said.st_ctime_ns, said.st_ino)
    return found


def unsaved(git: Git, before: Inventory, after: Inventory, commit: str) -> list[str]:
    """The files that a run made or changed and that `commit` does not hold as they are, byte for byte; also sockets
    and the like, which hold nothing that could be kept."""
    differing = [path for path, stats in after.files.items() if before.files.get(path) != stats]
    here = git.at(after.top)
    held: dict[str, tuple[str, str]] = {}  # (mode, object) of every file of the commit
    for entry in git("ls-tree", "-r", "-z", "--full-tree", commit).names if differing else ():
        said, _, path = entry.partition("\t")
        mode_text, _, name = said.split(" ")
        held[path] = (mode_text, name)
    found, regular, by_mode = list[str](), list[str](), list[str]()
    for path in differing:
        kind, name = held.get(path, ("", ""))
        mode = after.files[path][0]
        if stat.S_ISREG(mode) and kind == ("100755" if mode & stat.S_IXUSR else "100644"):
            regular.append(path)
        elif stat.S_ISLNK(mode) and kind == "120000":
            leads = os.readlink(os.path.join(after.top, path))
            if here("hash-object", "--stdin", stdin=leads).text != name:
                found.append(path)
        else:
            (by_mode if stat.S_ISREG(mode) and kind in ("100755", "100644") else found).append(path)
    if by_mode:  # Where git takes no notice of the executable bit, as on a disk of Windows, any file may have it.
        noticed = git("config", "--type=bool", "core.fileMode", ok=(0, 1)).text != "false"
        (found if noticed else regular).extend(by_mode)
    odd = [path for path in regular if "\n" in path or path.startswith('"')]
    plain = sorted(set(regular).difference(odd))
    names = here("hash-object", "--stdin-paths", stdin="".join(f"{path}\n" for path in plain)).text.split("\n")
    hashed = dict(zip(plain, names, strict=False)) | {path: here("hash-object", "--", path).text for path in odd}
    return sorted([*found, *(path for path, name in hashed.items() if name != held[path][1])])
