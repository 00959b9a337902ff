"""What a team says about its worktrees, and the `Trees` that go with it."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from interlock.ledger import Rows
from interlock.workspace import Workspace
from interlock.worktrees.outside import notes
from interlock.worktrees.repository import check_copies, open_repository
from interlock.worktrees.trees import DIRECTORY, Trees


@dataclass(frozen=True, slots=True)
class Isolation:
    """A team's settings for worktrees. Times in seconds; `identity` is the team's own id."""

    on: bool
    setup: str | None
    copy: tuple[str, ...]
    workdir: str
    identity: str
    setup_timeout: float
    verify_timeout: float
    git_timeout: float
    stop_grace: float
    output_bytes: int


def isolation(workspace: Workspace, rows: Rows) -> Isolation:
    """How the team has its worktrees now."""
    team, settings = rows.team.get(), workspace.settings(rows)
    return Isolation(
        on=settings.get("isolation") == "worktree",
        setup=str(settings.get("worktree_setup")).strip() or None,
        copy=tuple(line.strip() for line in str(settings.get("worktree_copy")).splitlines() if line.strip()),
        workdir=team.workdir or os.getcwd(),
        identity=team.id,
        setup_timeout=float(settings.get("setup_timeout")),
        verify_timeout=float(settings.get("verify_timeout")),
        git_timeout=float(settings.get("git_timeout")),
        stop_grace=float(settings.get("stop_grace")),
        output_bytes=int(settings.get("output_bytes")),
    )


def look(workspace: Workspace) -> Isolation:
    """The same, read now."""
    with workspace.ledger.snapshot() as rows:
        return isolation(workspace, rows)


def trees(workspace: Workspace, how: Isolation, *, token: str | None = None) -> Trees:
    """The team's branches and worktrees. `token`: see `git.Git`.

    Raises:
        WorktreeRefused, GitFailed: the team's working directory is not fit for worktrees.
    """
    repository = open_repository(how.workdir, timeout=how.git_timeout, token=token)
    return Trees(repository, workspace.name, how.identity, os.path.join(workspace.directory, DIRECTORY))


def check(
    workdir: str, copy: tuple[str, ...], *, timeout: float, team: str, but: Collection[str] = ()
) -> tuple[str, ...]:
    """Refuse a plan that could not be carried out in worktrees, before anything is made; what its tasks will begin
    without, in sentences (`outside`). `but`: files that no task needs.

    Raises:
        WorktreeRefused, GitFailed: with the reason, and what to do.
    """
    repository = open_repository(workdir, timeout=timeout)
    check_copies(repository, workdir, copy)
    return notes(repository, team, but)
