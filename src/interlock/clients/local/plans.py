"""A plan, examined before anything is made of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from interlock.core.unit_of_work import Workspace
from interlock.gitwork import preflight
from interlock.gitwork.isolation import check
from interlock.model.team import Member
from interlock.plan.document import Plan, whole_digest
from interlock.plan.faults import Faults
from interlock.plan.reading import load
from interlock.runner import plan_apply
from interlock.runner.executor import Executor
from interlock.settings import Settings


def examined(
    path: str,
    team: Callable[[str], Workspace | None],
    settings: Settings,
    executor_for: Callable[[Member], Executor],
    *,
    new: bool = False,
) -> tuple[Plan, str, tuple[str, ...]]:
    """The plan at `path` with its isolation decided, the digest of it as it was written, and what one should know
    before. `team` finds the team of a name, where it exists.

    Raises:
        PlanError, AgentError, WorktreeRefused, GitFailed: it could not be carried out.
    """
    found, timeout = load(path), float(settings.get("git_timeout"))
    for planned in found.members.values():
        executor_for(plan_apply.as_member(planned))
    isolated = plan_apply.isolated(found, team(found.team), settings, new=new)
    notes = preflight.notes(found, isolated=isolated)
    if isolated:
        own = os.path.join(found.workdir, "interlock.toml")
        notes += check(found.workdir, found.copy, timeout=timeout, team=found.team, but=(path, own))
    faults = Faults(path)
    notes += preflight.examine(found, faults, isolated=isolated, timeout=timeout)
    if faults:
        raise faults.error()
    return replace(found, isolation="worktree" if isolated else "none"), whole_digest(found), notes
