"""The user's repository, as a team with worktrees finds it: is it fit for that, and where does the team's branch stand.

Everything here reads the user's checkout; what it writes are references of our own, several in one transaction of git.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Sequence
from contextlib import suppress

from interlock.errors import GitFailed, WorktreeRefused
from interlock.gitwork.git import Git
from interlock.lazy_dataclass import dataclass
from interlock.plan.detecting import checkout_of

HEADS = "refs/heads/"
LOOKED_AT = (
    *("--is-bare-repository", "--is-inside-work-tree", "--show-prefix", "--show-toplevel"),
    *("--path-format=absolute", "--git-dir", "--git-common-dir", "HEAD^{commit}"),
)
"""What git is asked about the place that a repository is opened from."""
NONE = ""
"""Given as the commit that a reference must have now: there must be none."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository with a checkout. `top` is the checkout's own directory, `prefix` the way from there to the team's
    working directory (empty, or ending in `/`); git keeps what it knows of this checkout in `own`, and what all
    checkouts share in `common`."""

    git: Git
    top: str
    prefix: str
    own: str
    common: str

    def within(self, worktree: str) -> str:
        """Where the team's working directory lies in another checkout."""
        return os.path.normpath(os.path.join(worktree, self.prefix))

    def branch(self) -> str | None:
        """The branch that the user has checked out; None for a detached HEAD."""
        return self.git("symbolic-ref", "--quiet", "--short", "HEAD", ok=(0, 1)).text or None

    def need_branch(self) -> str:
        """That branch.

        Raises:
            WorktreeRefused: HEAD is detached.
        """
        if (branch := self.branch()) is None:
            raise WorktreeRefused(
                f"{self.top} has no branch checked out (a detached HEAD), so there is none to come back to: "
                "`git switch BRANCH`, or `git switch -c NAME`, first.",
                path=self.top,
            )
        return branch

    def checked_out(self) -> dict[str, str]:
        """Where each branch is checked out, ours and the user's: branch to directory."""
        found, where = {}, ""
        for line in self.git("worktree", "list", "--porcelain").out.split("\n"):
            word, _, rest = line.partition(" ")
            if word == "worktree":
                where = rest
            elif word == "branch":
                found[rest.removeprefix(HEADS)] = where
        return found

    def worktrees(self) -> dict[str, str]:
        """The repository's worktrees but the first: the directory, links resolved and whether or not it is there, to
        where git keeps what it knows of it."""
        below, found = os.path.join(self.common, "worktrees"), {}
        for name in os.listdir(below) if os.path.isdir(below) else ():
            known = os.path.join(below, name)
            with suppress(OSError), open(os.path.join(known, "gitdir"), "rb") as file:
                if said := os.fsdecode(file.read()).strip():
                    found[os.path.realpath(os.path.dirname(said))] = known
        return found

    def ignored_everywhere(self) -> str:
        """What the user's git ignores in every repository: the text of the file that says so, empty without one."""
        named = self.git("config", "--get", "--type=path", "core.excludesFile", ok=(0, 1)).text
        config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        try:
            with open(named or f"{config}/git/ignore", encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except OSError:
            return ""

    def move(self, changes: Sequence[tuple[str, str, str | None]]) -> bool:
        """Set references, all or none: (name, new commit, the commit it must have now; None for any, NONE for none).
        False where one is not what it should be."""
        lines = ["start"]
        for name, new, old in changes:
            word = "create" if old == NONE else "update"
            lines.append(f"{word} {name} {new} {old or ''}".rstrip())
        lines += ["prepare", "commit", ""]
        said = self.git("update-ref", "--stdin", ok=(0, 1, 128), stdin="\n".join(lines))
        lost = "reference already exists" in said.err or "but expected" in said.err
        if said.code != 0 and not lost:
            raise GitFailed(f"git could not move {changes[0][0]}: {said.err.strip()}", git=said.err.strip())
        return said.code == 0


def open_repository(workdir: str, *, timeout: float, token: str | None = None) -> Repository:
    """The repository around `workdir`.

    Raises:
        WorktreeRefused: there is none, it is bare, or it has no commit.
        GitFailed: git is missing, or refuses the directory.
    """
    git = Git(workdir, timeout=timeout, token=token)
    try:
        found = git("rev-parse", *LOOKED_AT, ok=(0, 128))
    except GitFailed as error:
        if not os.path.isdir(workdir):
            raise WorktreeRefused(f"The working directory {workdir} does not exist: make it.", path=workdir) from error
        raise
    if "dubious ownership" in found.err:
        raise GitFailed(f"git does not trust {workdir}: {found.err.strip()}", git=found.err.strip())
    lines = [*found.out.split("\n"), *[""] * 7]
    if lines[0] == "true":
        top = checkout_of(workdir)
        if top is not None and os.path.isfile(os.path.join(top, ".git", "index")):
            raise WorktreeRefused(
                f"git takes {top} for a bare repository, though there is a checkout: an agent or another program has "
                f"set core.bare. `git -C {shlex.quote(top)} config core.bare false`, then run it again or retry its "
                "tasks.",
                path=top,
            )
        raise WorktreeRefused(
            f"{workdir} is a bare repository, which has no checkout to start from. Clone it, and let the plan's "
            "workdir name the clone.",
            path=workdir,
        )
    if not lines[5] and lines[1] != "false" and "not a git repository" not in found.err:  # It may be readable again.
        raise GitFailed(f"git cannot look at {workdir}: {found.err.strip()}", git=found.err.strip())
    if not lines[5] or lines[1] != "true":
        raise WorktreeRefused(
            f"{workdir} is not in a git repository, and `isolation: worktree` needs one: `git init`, and commit what "
            "is there; or take `isolation: worktree` out of the plan.",
            path=workdir,
        )
    if not re.fullmatch("[0-9a-f]+", lines[6]):
        raise WorktreeRefused(
            f"{workdir} has no commit yet, so there is nothing for a worktree to start from: commit something first.",
            path=workdir,
        )
    return Repository(git, top=lines[3], prefix=lines[2], own=lines[4], common=lines[5])


def check_copies(repository: Repository, workdir: str, paths: Sequence[str]) -> None:
    """Refuse files and directories that cannot be copied into worktrees, before anything starts.

    What is copied must be ignored by git, and by what is committed: the worktree has what is tracked already, and what
    is not ignored there would end up in the agent's next commit.

    Raises:
        WorktreeRefused: with what is wrong, and with which of them.
    """
    for path in paths:
        source_of(workdir, path)
        git = repository.git.at(repository.top)
        here = os.path.relpath(os.path.join(os.path.realpath(workdir), path), repository.top)
        rule = git("check-ignore", "--verbose", "--", here, ok=(0, 1, 128))
        if rule.code != 0:
            raise WorktreeRefused(
                f"copy: {path} is not ignored by git, so it would end up in an agent's commit. Add it to .gitignore; "
                "what is tracked by git is in every worktree anyway.",
                path=path,
            )
        by = rule.text.partition(":")[0]
        if os.path.basename(by) == ".gitignore" and git("status", "--porcelain", "--", by).text:
            raise WorktreeRefused(
                f"copy: {path} is ignored by {by}, whose changes are not committed, so a worktree would not ignore it. "
                f"Commit {by}.",
                path=path,
            )


def source_of(workdir: str, path: str) -> str:
    """The file or directory below `workdir` that `path` names, links resolved.

    Raises:
        WorktreeRefused: it is absolute, leads outside, is git's own, or is neither a regular file nor a directory.
    """
    parts = path.replace("\\", "/").split("/")
    root = os.path.realpath(workdir)
    real = os.path.realpath(os.path.join(root, path))
    problem = None
    if os.path.isabs(path) or ".." in parts or os.path.commonpath([root, real]) != root:
        problem = "leads out of the working directory; name files below it"
    elif ".git" in parts:
        problem = "is git's own"
    elif not os.path.exists(real):
        problem = "does not exist; make it, or take it out of `copy`"
    elif not (stat.S_ISREG(mode := os.stat(real).st_mode) or stat.S_ISDIR(mode)):
        problem = "is neither a file nor a directory"
    if problem is not None:
        raise WorktreeRefused(f"copy: {path} {problem}.", path=path)
    return real
