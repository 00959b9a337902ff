"""Plans as the verbs use them: examined before anything is made, applied, or asked of an agent."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from shutil import which

from anyio import run as run_async

from interlock.core.unit_of_work import Workspace
from interlock.errors import InvalidRequest
from interlock.gitwork import preflight
from interlock.gitwork.isolation import check
from interlock.model.driving import Update
from interlock.model.names import PROGRAMS
from interlock.model.plan import FirstPlan, Plan, PlanMember, StagedPlan, in_order, whole_digest
from interlock.model.team import Member
from interlock.plan.comparing import PlanChanges, compare
from interlock.plan.detecting import inspect, team_name
from interlock.plan.faults import Faults
from interlock.plan.initial import initialise
from interlock.plan.proposal import GOAL_CHARS, file_name
from interlock.plan.reading import load, parse
from interlock.plan.schema import json_schema
from interlock.runner.executor import Executor
from interlock.runner.plan_apply import as_member, isolated, preview, stage, staged
from interlock.runner.plan_generation import AnswerLimits, Planner
from interlock.runner.plan_generation import propose as ask
from interlock.settings import Settings

__all__ = [
    "ExecutorFor",
    "FirstPlan",
    "Plan",
    "StagedPlan",
    "apply",
    "default_agent",
    "examined",
    "file_name",
    "in_order",
    "initialise",
    "inspect",
    "json_schema",
    "parse",
    "propose",
    "team_name",
]  # fmt: skip

ExecutorFor = Callable[[Member], Executor]


def examined(
    path: str, team: Callable[[str], Workspace | None], settings: Settings, executor_for: ExecutorFor,
    *, new: bool = False,
) -> tuple[Plan, str, tuple[str, ...]]:  # fmt: skip
    """The plan at `path` with its isolation decided, the digest of it as it was written, and what one should know
    before. `team` finds the team of a name, where it exists.

    Raises:
        PlanError, AgentError, WorktreeRefused, GitFailed: it could not be carried out.
    """
    found, timeout = load(path), float(settings.get("git_timeout"))
    for planned in found.members.values():
        executor_for(as_member(planned))
    apart = isolated(found, team(found.team), settings, new=new)
    notes = preflight.notes(found, isolated=apart)
    if apart:
        own = os.path.join(found.workdir, "interlock.toml")
        notes += check(found.workdir, found.copy, timeout=timeout, team=found.team, but=(path, own))
    faults = Faults(path)
    notes += preflight.examine(found, faults, isolated=apart, timeout=timeout)
    if faults:
        raise faults.error()
    return replace(found, isolation="worktree" if apart else "none"), whole_digest(found), notes


def apply(
    workspace: Workspace | None, found: tuple[Plan, str, tuple[str, ...]], *, redo: Collection[str], new: bool,
    dry_run: bool,
) -> StagedPlan:  # fmt: skip
    """Bring a team up to a plan that was `examined`; with `dry_run`, or without a team yet, say what that would be."""
    plan, written, notes = found
    if workspace is None:
        changes: PlanChanges = compare(plan, {}, redo)
    elif dry_run:
        changes = preview(workspace, plan, redo=redo, new=new)
    else:
        changes = stage(workspace, plan, written, redo=redo, new=new)
    return staged(plan, changes, notes)


def default_agent() -> str:
    """The agent program on this machine that is asked unless another is named. Raises InvalidRequest."""
    for agent in PROGRAMS:
        if which(agent):
            return agent
    raise InvalidRequest(
        f"No agent program was found on this machine ({', '.join(PROGRAMS)}). Install one, or name one of your own: "
        '--agent \'["PROGRAM", "ARGUMENT"]\'.',
        field="agent",
    )


def propose(
    executor_for: ExecutorFor, settings: Settings, goal: str, *, agent: str, command: tuple[str, ...],
    directory: str, path: str, on_update: Callable[[Update], None],
) -> str:  # fmt: skip
    """See `Home.propose`."""
    if not goal.strip() or len(goal) > GOAL_CHARS:
        raise InvalidRequest(f"The goal must be a text of at most {GOAL_CHARS:,} characters.", field="goal")
    if agent == "shell":
        raise InvalidRequest("A shell proposes no plan; name an agent with --agent.", field="agent")
    # It is to look and say: whatever else it wants to do is not asked about.
    planner = PlanMember("planner", agent, command or None, permissions=None if command else "read-only")
    asked = Planner(agent, command, executor_for(as_member(planner)))
    terms = AnswerLimits(
        float(settings.get("task_timeout")), float(settings.get("stop_grace")), int(settings.get("output_bytes"))
    )
    return run_async(
        partial(
            ask, goal, asked, terms, directory=os.path.abspath(directory), path=path, base=os.environ,
            on_update=on_update,
        )
    )  # fmt: skip
