"""A run in a git worktree of its own: each step ends in a commit on its branch, and rollback resets that branch only
(decision 35).

Only a linked worktree whose branch is the run's counts: the user's own checkout is never committed to or reset.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from interlock.errors import GitFailed
from interlock.gitwork.git import Git
from interlock.workflow.state import files

WORK = "interlock-work/"
"""How the branches of tasks begin (`interlock.gitwork`)."""
TRAILER = "Interlock-Workflow"
KEPT = "refs/interlock/rollback/"
TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Changed:
    """What differs from a commit: paths that are there now or were there then, from the project's root.

    `uncommitted` and `foreign` (touched by commits that are not this run's) are among them.
    """

    paths: tuple[str, ...]
    uncommitted: frozenset[str]
    foreign: frozenset[str]
    commits: tuple[str, ...] = ()


class RunBranch:
    """The branch a run works on, in its project's directory."""

    def __init__(self, git: Git, branch: str, workflow_id: str, output: str) -> None:
        self.branch = branch
        self._git = git
        self._id = workflow_id
        inside = files.relative(git.directory, output)
        self._files = [".", *(f":(exclude){inside}/{name}" for name in files.OURS)]

    def head(self) -> str:
        """The commit it is at."""
        return self._git("rev-parse", "--verify", "HEAD").text

    def commit(self, message: str) -> str:
        """Commit everything that changed, if anything did; the commit it is at then.

        Raises:
            GitFailed: git refused.
        """
        self._git("add", "--all", "--", *self._files)
        if self._git("diff", "--cached", "--quiet", ok=(0, 1)).code == 1:
            self._git(
                "commit", "--quiet", "--no-verify", "--message", message, "--trailer", f"{TRAILER}: {self._id}",
                variables=self._git.identity(),
            )  # fmt: skip
        return self.head()

    def has(self, commit: str) -> bool:
        """Whether the branch has that commit in its history."""
        return self._git.commit_of(commit) is not None and self._git.contains(commit, "HEAD")

    def changed(self, commit: str) -> Changed:
        """What differs now from `commit`."""
        untracked = self._git("ls-files", "--others", "--exclude-standard", "-z", "--", *self._files).names
        paths = self._names("diff", "--no-renames", "--name-only", "--relative", "-z", commit)
        uncommitted = {*self._names("diff", "--no-renames", "--name-only", "--relative", "-z", "HEAD"), *untracked}
        theirs = self._foreign(commit)
        foreign: set[str] = set()
        for one in theirs:
            foreign |= set(
                self._names("diff-tree", "-m", "-r", "--no-commit-id", "--name-only", "--relative", "-z", one)
            )
        return Changed(tuple(sorted({*paths, *untracked})), frozenset(uncommitted), frozenset(foreign), tuple(theirs))

    def there(self, commit: str, paths: Sequence[str]) -> set[str]:
        """Those of `paths` that `commit` has."""
        listed = self._git("ls-tree", "-r", "--name-only", "-z", commit, "--", *self._files[:1]).names
        return set(listed) & set(paths)

    def put_back(self, commit: str, paths: Sequence[str]) -> None:
        """Write these files as `commit` has them; index and branch stay."""
        if paths:
            given = "\0".join(paths)
            self._git(
                "--literal-pathspecs", "restore", f"--source={commit}", "--worktree", "--pathspec-from-file=-",
                "--pathspec-file-nul", stdin=given,
            )  # fmt: skip

    def keep(self, stamp: str) -> str:
        """Note the commit it is at under a name, so that git never collects it; answers the commit."""
        head = self.head()
        self._git("update-ref", f"{KEPT}{self._id}/{stamp}", head)
        return head

    def reset(self, commit: str) -> None:
        """Take branch and index to `commit`; the files stay as they are."""
        self._git("reset", "--quiet", "--mixed", commit)

    def _names(self, command: str, *words: str) -> list[str]:
        return self._git(command, *words, "--", *self._files).names

    def _foreign(self, commit: str) -> list[str]:
        said = self._git("log", f"--format=%H%x00%(trailers:key={TRAILER},valueonly,separator=%x2C)", f"{commit}..HEAD")
        found = []
        for line in said.out.splitlines():
            sha, _, whose = line.partition("\0")
            if sha and self._id not in whose.split(","):
                found.append(sha)
        return found


def of_project(project: str, workflow_id: str, output: str, branch: str | None = None) -> RunBranch | None:
    """The run's branch, where `project` lies in a linked worktree that has it checked out; else null.

    Args:
        branch: the run's own; by default any branch of a task (`interlock-work/…`).
    """
    root = os.path.realpath(project)
    if not _may_be_linked(root):
        return None
    git = Git(root, timeout=TIMEOUT)
    try:
        found = git("rev-parse", "--is-inside-work-tree", "--absolute-git-dir", "--git-common-dir", ok=(0, 128))
        lines = [*found.out.split("\n"), "", "", ""]
        common = os.path.realpath(os.path.join(git.directory, lines[2]))
        if found.code != 0 or lines[0] != "true" or os.path.realpath(lines[1]) == common:
            return None
        here = git("symbolic-ref", "--quiet", "--short", "HEAD", ok=(0, 1)).text
        if not here or (here != branch if branch is not None else not here.startswith(WORK)):
            return None
        return RunBranch(git, here, workflow_id, output) if git.commit_of("HEAD") else None
    except GitFailed:
        return None  # Without git there are no worktrees: the files are kept by ourselves.


def _may_be_linked(directory: str) -> bool:
    """Whether `directory` may lie in a linked worktree, whose `.git` is a file: git need not be started to say no."""
    while True:
        if os.path.isfile(os.path.join(directory, ".git")):
            return True
        directory, below = os.path.dirname(directory), directory
        if directory == below:
            return False
