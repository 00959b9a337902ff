"""Whether git's configuration names programs that git would start: filters, drivers, helpers and the like.

An agent can write there. Asking git takes two calls, so the answer is kept for as long as the files that it came from,
and those that would count if they were there, are what they were.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from interlock.errors import InterlockError
from interlock.lazy_dataclass import dataclass

PLAIN = frozenset(
    (
        *(
            "branch",
            "cat-file",
            "check-attr",
            "check-ignore",
            "check-ref-format",
            "commit-tree",
            "config",
            "for-each-ref",
        ),
        *("init", "ls-files", "ls-tree", "merge-base", "mktree", "prune", "rev-list", "rev-parse", "symbolic-ref"),
        *("tag", "update-ref", "var", "version", "write-tree"),
    )
)
"""What starts no program, as it is called here."""
FAR = frozenset(("-c", "clone", "fetch", "ls-remote", "pull", "push", "remote", "submodule"))
"""What may speak to another repository. Only these start helpers for credentials, which most users have configured."""
_NAMES_ONE = re.compile(
    r"filter\..+\.(clean|smudge|process)|diff\.external|diff\..+\.(command|textconv)|merge\..+\.driver|gpg\.(.+\.)?program"
    r"|hook\..+|remote\..+\.promisor|extensions\.partialclone|includeif\.(onbranch|hasconfig).*\.path",
    re.IGNORECASE | re.DOTALL,
)
_NAMES_ONE_FAR = re.compile(
    r"core\.(alternaterefscommand|askpass|gitproxy|sshcommand)|credential\.(.+\.)?helper|protocol\.(.+\.)?allow"
    r"|remote\..+\.(uploadpack|receivepack|vcs)|submodule\..+\.update|url\..+\.(insteadof|pushinsteadof)",
    re.IGNORECASE | re.DOTALL,
)

KEPT = 1024  # directories
DEPTH = 5  # files that are found in files that are found …

Ask = Callable[..., str]
State = dict[str, object]


@dataclass(frozen=True, slots=True)
class _Found:
    """Whether programs are named, for commands of this repository and for those that reach others, and the files which
    said so, as they were before they were read."""

    state: State
    near: bool
    far: bool


_found: dict[str, _Found] = {}
"""By directory. A value is replaced and never changed, since any thread may look."""
_elsewhere = set[str]()
"""Files that were named in some directory and whose place git alone knows, such as the machine's own. It is not asked a
second time, in the next directory, because of them."""


def may_start(command: str, directory: str, ask: Ask) -> bool:
    """Whether that command of git may start a program that the configuration names which counts in `directory`; True,
    too, where that cannot be told. `ask` runs a git there and returns what it prints."""
    if command in PLAIN:
        return False
    known = _found.get(directory)
    if known is None or _state(known.state) != known.state:
        try:
            known = _look(directory, ask)
        except (InterlockError, OSError, ValueError):
            return True
        if len(_found) >= KEPT or len(_elsewhere) >= KEPT:
            _found.clear()
            _elsewhere.clear()
        _found[directory] = known
    return known.far if command in FAR else known.near


def _look(directory: str, ask: Ask) -> _Found:
    own, common = ask("rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir").splitlines()
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    user = os.environ.get("GIT_CONFIG_GLOBAL") or os.path.expanduser("~/.gitconfig")
    files = {f"{common}/config", f"{own}/config.worktree", user, f"{home}/git/config", *_elsewhere}
    for _ in range(DEPTH):
        before = _state(files)
        names, others = _listed(directory, ask("config", "--list", "--null", "--show-origin"))
        if others <= files:
            near = any(_NAMES_ONE.fullmatch(name) for name in names)
            return _Found(before, near, near or any(_NAMES_ONE_FAR.fullmatch(name) for name in names))
        _elsewhere.update(others - files)
        files |= others  # What they said may be old by now.
    raise ValueError("the files of the configuration are others each time")


def _listed(directory: str, said: str) -> tuple[list[str], set[str]]:
    """The names of all that is configured in files, and these files, with those that may come to be included."""
    names, files = [], set()
    fields = said.split("\0")
    for origin, entry in zip(fields[::2], fields[1::2], strict=False):
        kind, _, file = origin.partition(":")
        name, _, value = entry.partition("\n")
        if kind == "file":
            file = os.path.join(directory, file)
            names.append(name)
            files.add(file)
            if name.startswith("include"):
                files.add(os.path.join(os.path.dirname(file), os.path.expanduser(value)))
    return names, files


def _state(files: Iterable[str]) -> State:
    found: State = {}
    for file in files:
        try:
            said = os.stat(file)
            found[file] = (said.st_mtime_ns, said.st_size, said.st_ino)
        except OSError:
            found[file] = None
    return found
