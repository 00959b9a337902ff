"""Whether git's configuration names programs that git would start: filters, drivers, helpers and the like.

An agent can write there. Asking git takes two calls, so the answer is kept for as long as the files that it came from,
and those that would count if they were there, are what they were.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from interlock.errors import InterlockError

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
    r"|hook\..+|includeif\.(onbranch|hasconfig).*\.path",
    re.IGNORECASE | re.DOTALL,
)
_NAMES_ONE_FAR = re.compile(
    r"core\.(alternaterefscommand|askpass|gitproxy|sshcommand)|credential\.(.+\.)?helper|protocol\.(.+\.)?allow"
    r"|remote\..+\.(uploadpack|receivepack|vcs)|submodule\..+\.update|url\..+\.(insteadof|pushinsteadof)",
    re.IGNORECASE | re.DOTALL,
)

Ask = Callable[..., str]
State = dict[str, object]


class _Known:
    """What was found for one directory, and the files that it came from as they were then."""

    state: State | None = None
    near = True
    far = True


@lru_cache(maxsize=1024)
def _known(directory: str) -> _Known:
    return _Known()


def may_start(command: str, directory: str, ask: Ask) -> bool:
    """Whether that command of git may start a program that the configuration names which counts in `directory`; True,
    too, where that cannot be told. `ask` runs a git there and returns what it prints."""
    if command in PLAIN:
        return False
    known = _known(directory)
    if known.state is None or _state(known.state) != known.state:
        try:
            known.state, names = _look(directory, ask)
        except (InterlockError, OSError, ValueError):
            return True
        known.near = any(_NAMES_ONE.fullmatch(name) for name in names)
        known.far = known.near or any(_NAMES_ONE_FAR.fullmatch(name) for name in names)
    return known.far if command in FAR else known.near


def _look(directory: str, ask: Ask) -> tuple[State, list[str]]:
    """The files that the configuration comes from, and the names of all that is configured in them."""
    own, common = ask("rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir").splitlines()
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    users = [os.environ.get("GIT_CONFIG_GLOBAL") or os.path.expanduser("~/.gitconfig"), f"{home}/git/config"]
    before = _state([f"{common}/config", f"{own}/config.worktree", *users])
    found = ask("config", "--list", "--null", "--show-origin").split("\0")
    names, others = [], []
    for origin, entry in zip(found[::2], found[1::2], strict=False):
        kind, _, file = origin.partition(":")
        name, _, value = entry.partition("\n")
        if kind == "file":
            file = os.path.join(directory, file)
            names.append(name)
            others.append(file)
            if name.startswith("include"):  # It may not be there yet.
                others.append(os.path.join(os.path.dirname(file), os.path.expanduser(value)))
    return _state(others) | before, names


def _state(files: Iterable[str]) -> State:
    found: State = {}
    for file in files:
        try:
            said = os.stat(file)
            found[file] = (said.st_mtime_ns, said.st_size, said.st_ino)
        except OSError:
            found[file] = None
    return found
