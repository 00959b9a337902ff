"""What leaves the worktrees: a task's changes to look at, and work merged into a branch of the user's.

Only `merge_into` changes a branch of the user's, or a checkout of one: as a fast-forward to a commit that was made
elsewhere, so that it happens whole or not at all, and never over a change that is not committed.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from interlock.errors import GitFailed, WorktreeRefused
from interlock.gitwork.changes import RAW, ChangedPath, between, listed, read, shown
from interlock.gitwork.git import Git
from interlock.gitwork.repository import HEADS
from interlock.gitwork.staging import difference
from interlock.gitwork.trees import DELIVERING, Trees
from interlock.model.json import Json
from interlock.model.views import MergeResult

PATCH = ("--unified=3", "--src-prefix=a/", "--dst-prefix=b/", "--no-relative", "--no-textconv", "--submodule=short")
"""What a patch that git takes needs, whatever the user's configuration says of diffs."""


REFUSED = re.compile(r"[Aa]borting|index\.lock")
"""What git says where it has looked, and has not begun: another git may be at work there."""


def changes(
    found: Trees, known: Mapping[str, Any], *, stat: bool = False, binary: bool = False, start: int = 0, most: int
) -> tuple[bytes, int]:
    """What a task changed, as a patch or (`stat`) as a list of files; binary files are whole in it or only named. For
    an open task: all that lies in its worktree, committed or not, against what it has of the integration branch; for a
    merged one: what the merge brought.

    Returns:
        (`most` bytes of it, from the byte `start` on, and how many there are): no more of it is in memory.
    """
    words = ["--stat=100"] if stat else [*PATCH, *(["--binary"] if binary else [])]
    with tempfile.TemporaryDirectory(prefix="interlock-") as place:
        path = os.path.join(place, "diff")
        _write(found, known, "--no-color", f"--output={path}", *words)
        with open(path, "rb") as file:
            file.seek(start)
            return file.read(most), os.fstat(file.fileno()).st_size


def _write(found: Trees, known: Mapping[str, Any], *words: str) -> None:
    git = found.repository.git
    merged, head = known.get("merged"), known.get("head")
    if merged and git.commit_of(f"{merged}^2") == head:
        git("diff", "--no-ext-diff", *words, f"{merged}^1", str(merged))
    elif merged or not found.have(known):
        tip = _tip(found, known)
        git("diff", "--no-ext-diff", *words, _start(found, known, tip), tip)
    else:
        tree = git.at(str(known["path"]))
        difference(tree, found.rules(), _start(found, known, tree.commit_of("HEAD") or "HEAD"), *words)


def changed(found: Trees, known: Mapping[str, Any], sealed: str | None = None) -> list[ChangedPath]:
    """What an open task has changed, committed or not; `sealed` is the commit that has all of it, if there is one."""
    git = found.repository.git
    if sealed or not found.have(known):  # It was done on another machine, and is here as a branch.
        tip = sealed or _tip(found, known)
        return between(git, _start(found, known, tip), tip)
    tree = git.at(str(known["path"]))
    start = _start(found, known, tree.commit_of("HEAD") or "HEAD")
    return read(difference(tree, found.rules(), start, *RAW).rstrip("\0").split("\0"))


def listed_of(found: Trees, known: Mapping[str, Any], sealed: str | None = None) -> Json:
    """What an open task has changed, as it is kept with it; `sealed` as of `changed`."""
    return listed(found.repository.git, changed(found, known, sealed))


def _tip(found: Trees, known: Mapping[str, Any]) -> str:
    tip = str(known.get("head") or HEADS + str(known["branch"]))
    commit = found.repository.git.commit_of(tip)
    if commit is None:
        raise WorktreeRefused(f"The worktree and the branch {known['branch']} are gone.", branch=known["branch"])
    return commit


def _start(found: Trees, known: Mapping[str, Any], tip: str) -> str:
    shared = found.repository.git("merge-base", str(found.known()[0]), tip, ok=(0, 1, 128)).text
    return shared or str(known["base"])


def merge_into(
    found: Trees, commits: Sequence[tuple[str, str]], into: str | None, *, dry_run: bool = False
) -> MergeResult:
    """Merge these commits, each with the message of its merge, into the branch `into`, or into the one that is checked
    out. With conflicts, or with changes in its checkout that are not committed and would be touched, nothing changes.

    Raises:
        WorktreeRefused: there is no such branch, it is one of Interlock's, or it was moved at this moment.
        GitFailed: git refused; nothing was changed.
    """
    repository, git = found.repository, found.repository.git
    target = into or repository.branch()
    if target is None:
        raise WorktreeRefused("No branch is checked out (a detached HEAD): name one with --into BRANCH.")
    if target.startswith(("interlock/", "interlock-work/")):
        raise WorktreeRefused(f"{target} is Interlock's own; name a branch of yours with --into BRANCH.", branch=target)
    tip = git.commit_of(HEADS + target)
    if tip is None:
        raise WorktreeRefused(f"There is no branch {target}: `git branch {target}` makes it.", branch=target)
    plan = MergeResult(target, tip, tip)
    wanted = [(message, commit) for message, commit in commits if not git.contains(commit, tip)]
    if len(wanted) == 1 and git.contains(tip, wanted[0][1]):
        plan.after = wanted[0][1]  # The very commit that was proved.
    elif wanted:
        _merge_in_own_checkout(found, wanted, plan)
    if plan.after is None or plan.after == tip:
        return plan
    plan.stat = git("diff", "--stat=100", "--no-ext-diff", tip, plan.after).text
    plan.commits = int(git("rev-list", "--count", f"{tip}..{plan.after}").text)
    where = repository.checked_out().get(target)
    touched = between(git, tip, plan.after)
    if where is not None:  # Uncommitted changes in it that the merge would touch are in the way.
        plan.dirty = [shown(name) for name in _uncommitted(git.at(where), touched)]
    if not dry_run and not plan.dirty:
        _land(found, plan, where, touched)
    return plan


def _merge_in_own_checkout(found: Trees, wanted: Sequence[tuple[str, str]], plan: MergeResult) -> None:
    """Make the commit that the branch is to be on."""
    git = found.repository.git
    path = found.path(str(os.getpid()), DELIVERING)
    try:
        found.detached(path, plan.before)
        for message, commit in wanted:
            if git.contains(commit, git.at(path).commit_of("HEAD") or ""):
                continue
            plan.after, conflicts = found.merge(path, commit, message)
            if plan.after is None:
                plan.conflicts = [shown(name) for name in conflicts]
                return
    finally:
        found.remove(path)


def _uncommitted(git: Git, touched: Sequence[ChangedPath]) -> list[str]:
    """Which of these the checkout at `git` has otherwise than its last commit."""
    entries = git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all").names
    return sorted({one.path for one in touched}.intersection(entry[3:] for entry in entries))


def _land(found: Trees, plan: MergeResult, where: str | None, touched: Sequence[ChangedPath]) -> None:
    after = str(plan.after)
    if where is None:
        if not found.repository.move([(HEADS + plan.into, after, plan.before)]):
            raise WorktreeRefused(f"{plan.into} was moved at this very moment; nothing was changed. Try again.")
        return
    git = found.repository.git.at(where)
    if git("symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).text != HEADS + plan.into:
        raise WorktreeRefused(f"{where} is no longer on {plan.into}; nothing was changed. Try again.")
    new = [path for one in touched if one.added and not os.path.lexists(path := os.path.join(where, one.path))]
    try:
        git("merge", "--ff-only", "--no-overwrite-ignore", "--quiet", after)
    except GitFailed as error:
        if git.commit_of("HEAD") == after:
            return  # The branch is moved last: it took too long to end.
        said = str(error.details.get("git", error))
        if "setting" in error.details:  # It took too long and was killed, with its lock on the user's index.
            with suppress(OSError):
                os.unlink(os.path.join(where, git("rev-parse", "--git-path", "index.lock").text))
        left = [] if REFUSED.search(said) else _put_back(git, plan.before, touched, new)
        what = "nothing was changed"
        if left:
            what = f"these files are half changed: {shown(', '.join(left))}. `git checkout HEAD -- FILE` puts one back"
        raise GitFailed(f"git did not move {plan.into} in {where}, and {what}: {said}", git=said) from error


def _put_back(git: Git, commit: str, touched: Sequence[ChangedPath], new: Sequence[str]) -> list[str]:
    """Make these files of the checkout at `git` what they are in `commit`, after a git that failed while it wrote them,
    as where a filter fails or the disk is full; `new` were not there before. Answers what could not be put back."""
    for path in new:
        with suppress(OSError):
            os.unlink(path)
    with suppress(GitFailed):
        if half := _uncommitted(git, touched):
            words = ("--literal-pathspecs", "checkout", "--quiet", "--force", commit)
            git(*words, "--pathspec-from-file=-", "--pathspec-file-nul", stdin="\0".join(half))
    try:
        return _uncommitted(git, touched)
    except GitFailed:
        return [one.path for one in touched]
