"""What the tasks of a plan will not find in their worktrees, said before anything starts: a worktree begins with what
is committed, and with what the integration branch has, whatever lies in the user's checkout."""

from __future__ import annotations

import os
from collections.abc import Collection

from interlock.worktrees.repository import HEADS, Repository

NAMED = 5


def notes(repository: Repository, team: str, but: Collection[str] = ()) -> tuple[str, ...]:
    """A sentence for each thing that tasks begin without, with what to do about it. `but`: files that no task needs.

    Raises:
        GitFailed: git refused.
    """
    return tuple(note for note in (_not_committed(repository, but), _ahead(repository, team)) if note)


def _not_committed(repository: Repository, but: Collection[str]) -> str | None:
    left_out = {os.path.relpath(os.path.realpath(path), os.path.realpath(repository.top)) for path in but}
    said = iter(repository.git.at(repository.top)("status", "--porcelain", "-z", "--untracked-files=normal").names)
    names = []
    for entry in said:
        if entry[0] in "RC":  # Its old name comes as an entry of its own.
            next(said, None)
        if entry[3:] not in left_out:
            names.append(entry[3:])
    if not names:
        return None
    shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    return f"not committed, so tasks begin without it: {shown}. Commit what they need (`git add`, `git commit`)"


def _ahead(repository: Repository, team: str) -> str | None:
    """The team's branch goes its own way as long as work of it is not merged, and gets nothing of the user's."""
    git, branch, ours = repository.git, repository.branch(), f"interlock/{team}"
    here = git.commit_of(HEADS + ours)
    if here is None or branch is None or branch == ours or git.contains(here, "HEAD"):
        return None
    count = int(git("rev-list", "--count", f"{here}..HEAD").text)
    if not count:
        return None
    commits = "1 commit" if count == 1 else f"{count} commits"
    return (
        f"{branch} has {commits} that {ours} has not, so tasks begin without: "
        f"`interlock merge --all --team {team}` brings both together, and the next run starts from there"
    )
