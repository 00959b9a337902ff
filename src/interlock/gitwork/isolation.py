"""What a team says about its worktrees, the `Trees` that go with it, and what its tasks will not find in them."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from interlock.core.tasks import merge
from interlock.core.unit_of_work import Principal, Workspace
from interlock.gitwork.repository import HEADS, Repository, check_copies, open_repository
from interlock.gitwork.trees import DIRECTORY, Trees
from interlock.lazy_dataclass import dataclass
from interlock.model.names import SYSTEM
from interlock.settings import Settings
from interlock.storage.ledger import Rows

NAMED = 5


@dataclass(frozen=True, slots=True)
class Isolation:
    """A team's settings for worktrees. Times in seconds; `identity` is the team's own id."""

    on: bool
    setup: str | None
    copy: tuple[str, ...]
    check_files: tuple[str, ...]
    workdir: str
    identity: str
    setup_timeout: float
    verify_timeout: float
    git_timeout: float
    stop_grace: float
    output_bytes: int


def look(workspace: Workspace) -> Isolation:
    """How the team has its worktrees now."""
    with workspace.ledger.snapshot() as rows:
        return isolation_of(rows, workspace.settings(rows))


def isolation_of(rows: Rows, settings: Settings) -> Isolation:
    """How the team has its worktrees, at this moment."""
    team = rows.team.get()
    return Isolation(
        on=settings.get("isolation") == "worktree",
        setup=str(settings.get("worktree_setup")).strip() or None,
        copy=_lines(settings.get("worktree_copy")),
        check_files=_lines(settings.get("check_files")),
        workdir=team.workdir or os.getcwd(),
        identity=team.id,
        setup_timeout=float(settings.get("setup_timeout")),
        verify_timeout=float(settings.get("verify_timeout")),
        git_timeout=float(settings.get("git_timeout")),
        stop_grace=float(settings.get("stop_grace")),
        output_bytes=int(settings.get("output_bytes")),
    )


def _lines(text: object) -> tuple[str, ...]:
    return tuple(line.strip() for line in str(text).splitlines() if line.strip())


def trees(workspace: Workspace, how: Isolation, *, token: str | None = None) -> Trees:
    """The team's branches and worktrees. `token`: see `git.Git`.

    Raises:
        WorktreeRefused, GitFailed: the team's working directory is not fit for worktrees.
    """
    repository = open_repository(how.workdir, timeout=how.git_timeout, token=token)
    root = os.path.join(workspace.directory, DIRECTORY)
    return Trees(repository, workspace.name, how.identity, root, _Landings(workspace, root))


class _Landings:
    """See `trees.Landings`."""

    def __init__(self, workspace: Workspace, root: str) -> None:
        self._workspace = workspace
        self._root = root

    def commits(self) -> tuple[str | None, str | None]:
        with self._workspace.ledger.snapshot() as rows:
            return merge.landed(rows)

    def begins(self, commit: str, into: str | None) -> None:
        with self._workspace.act(Principal(SYSTEM)) as act:
            merge.begun(act, commit, into)

    def moved(self, here: str | None, landed: str, lines: Sequence[str], work_of: str | None) -> str | None:
        with self._workspace.act(Principal(SYSTEM)) as act:
            return merge.put_back(act, here, landed, lines, work_of=work_of, root=self._root)


def check(
    workdir: str, copy: tuple[str, ...], *, timeout: float, team: str, but: Collection[str] = ()
) -> tuple[str, ...]:
    """Refuse a plan that could not be carried out in worktrees, before anything is made. A worktree begins with what is
    committed, and with what the integration branch has, whatever lies in the user's checkout.

    Returns:
        A sentence for each thing that tasks begin without, with what to do about it; `but` are files that none needs.

    Raises:
        WorktreeRefused, GitFailed: with the reason, and what to do.
    """
    repository = open_repository(workdir, timeout=timeout)
    check_copies(repository, workdir, copy)
    if repository.git.commit_of(f"{HEADS}interlock/{team}") is None:  # It is made from what is checked out.
        repository.need_branch()
    return tuple(note for note in (_not_committed(repository, but), _behind(repository, team)) if note)


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
    return f"tasks do not see what is not committed: {shown}. Commit what they need (`git add`, `git commit`)"


def _behind(repository: Repository, team: str) -> str | None:
    """What the user has committed that the team's branch lacks: it gets nothing of the user's while work of its own is
    not merged."""
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
