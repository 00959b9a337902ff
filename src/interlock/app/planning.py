"""Plans as the verbs use them: examined before anything is made, applied, or asked of an agent."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from shutil import which
from tempfile import TemporaryDirectory

from interlock.app.blocking import run_async
from interlock.core import teams
from interlock.core.unit_of_work import Workspace
from interlock.errors import (
    AgentError,
    GitFailed,
    InterlockError,
    InvalidRequest,
    MemberLimit,
    TaskLimit,
    TeamExists,
    WorktreeRefused,
)
from interlock.gitwork import place, preflight
from interlock.gitwork.isolation import check
from interlock.lazy_dataclass import dataclass
from interlock.model.driving import Update
from interlock.model.json import Json
from interlock.model.names import LEAD, PROGRAMS
from interlock.model.plan import FirstPlan, ImportedPlan, Plan, PlanMember, StagedPlan, in_order, whole_digest
from interlock.model.team import Member
from interlock.model.text import count
from interlock.plan.comparing import PlanChanges, compare
from interlock.plan.detecting import inspect, team_name
from interlock.plan.faults import Faults
from interlock.plan.initial import initialise
from interlock.plan.proposal import GOAL_CHARS, file_name
from interlock.plan.reading import load, parse, read
from interlock.plan.schema import json_schema
from interlock.runner.executor import Executor
from interlock.runner.plan_apply import as_member, isolated, preview, stage, staged
from interlock.runner.plan_generation import AgentRequest, AnswerLimits, Planner, obtain
from interlock.runner.plan_generation import propose as ask
from interlock.settings import Settings

__all__ = [
    "AgentRequest",
    "ExaminedPlan",
    "ExecutorFor",
    "FirstPlan",
    "ImportedPlan",
    "MeantTeam",
    "Plan",
    "StagedPlan",
    "TemporaryDirectory",
    "apply",
    "asked_of",
    "default_agent",
    "draft",
    "examined",
    "file_name",
    "in_order",
    "initialise",
    "inspect",
    "json_schema",
    "load",
    "obtain",
    "parse",
    "place",
    "propose",
    "run_async",
    "team_name",
]  # fmt: skip

ExecutorFor = Callable[[Member], Executor]


@dataclass(frozen=True, slots=True)
class MeantTeam:
    """The team that a plan is for: the plan with its name, the team where it exists and works in that directory, or is
    to (`workdir` is where it works now), why it is `refused` where it works elsewhere, and what one should know."""

    plan: Plan
    workspace: Workspace | None = None
    workdir: str | None = None
    refused: TeamExists | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExaminedPlan:
    """A plan that can be carried out, with its isolation decided: the `digest` of it as it was written, its team, and
    what one should know before."""

    plan: Plan
    digest: str
    team: MeantTeam
    notes: tuple[str, ...]


def examined(
    path: str, meant: Callable[[Plan], MeantTeam], settings: Settings, executor_for: ExecutorFor, *, new: bool = False
) -> ExaminedPlan:
    """The plan at `path`, examined; `meant` says which team it is for.

    Raises:
        TeamExists: its team works elsewhere.
        PlanError: it has faults; all that can be known are told at once.
        AgentError: it can be read, and a member's agent cannot be had; told with all else that is wrong.
        TaskLimit, MemberLimit, WorktreeRefused, GitFailed: it could not be carried out, for that reason alone.
    """
    faults, timeout = Faults(path), float(settings.get("git_timeout"))
    written = read(path, faults)
    if written is None:
        raise faults.error()
    sound, team = not faults, meant(written)
    found = team.plan
    apart = isolated(found, team.workspace, settings, new=new) if sound else None
    others: list[tuple[int | None, InterlockError]] = []
    if team.refused is not None:
        others.append((found.lines.get("team"), team.refused))
    limit = int(settings.get("task_limit"))
    if len(found.tasks) > limit and team.workspace is None:
        message = f"{path} has {len(found.tasks):,} tasks, and a team may have {limit:,} that are open"
        message += ". Divide it, or raise the setting task_limit."
        others.append((found.lines.get("tasks"), TaskLimit(message, limit=limit, setting="task_limit")))
    if (crowded := _too_many_members(found, team.workspace, settings)) is not None:
        others.append((found.lines.get("members"), crowded))
    for planned in found.members.values():
        try:
            executor_for(as_member(planned))
        except AgentError as error:
            others.append((planned.line, error))
    notes = team.notes + (preflight.notes(found, isolated=bool(apart)) if sound else ())
    if apart or (apart is None and found.isolation == "worktree" and os.path.isdir(found.workdir)):
        own = os.path.join(found.workdir, "interlock.toml")
        try:
            notes += check(found.workdir, found.copy, timeout=timeout, team=found.team, but=(path, own))
        except (WorktreeRefused, GitFailed) as error:
            apart = None
            others.append((found.lines.get("isolation"), error))
    notes += preflight.examine(found, faults, isolated=apart, timeout=timeout)
    if faults or others:
        refused = _refusal(faults, others, sound)
        refused.details["notes"] = list(notes)
        raise refused
    decided = replace(found, isolation="worktree" if apart else "none")
    return ExaminedPlan(decided, whole_digest(found), team, notes)


def _too_many_members(plan: Plan, workspace: Workspace | None, settings: Settings) -> MemberLimit | None:
    """Why the team, with whoever is in it beside the plan, cannot have the members of `plan`."""
    names = {LEAD, *plan.members}
    if workspace is not None:
        with workspace.look() as rows:
            settings, present = workspace.settings(rows), {member.name for member in teams.members(rows)}
        if present.issuperset(plan.members):
            return None
        names |= present
    if len(names) <= settings.get("member_limit"):
        return None
    return teams.too_many_members(f"With this plan the team would have {count(len(names), 'member')}", settings)


def _refusal(faults: Faults, others: Sequence[tuple[int | None, InterlockError]], sound: bool) -> InterlockError:
    """Everything that is wrong as one error; `sound`: the plan could be read whole."""
    agents = any(isinstance(error, AgentError) for _, error in others)
    if not faults and len(others) == 1 and not agents:
        [(line, error)] = others
        error.details["errors"] = [{"path": faults.path, "line": line, "message": error.message}]
        return error
    for line, error in others:
        faults.add(line, error.message)
    told = faults.error()
    return AgentError(told.message, **told.details) if sound and agents else told


def apply(
    workspace: Workspace | None, found: ExaminedPlan, *, redo: Collection[str], new: bool, dry_run: bool
) -> StagedPlan:
    """Bring a team up to a plan that was `examined`; with `dry_run`, or without a team yet, say what that would be."""
    plan = found.plan
    if workspace is None:
        changes: PlanChanges = compare(plan, {}, redo)
    elif dry_run:
        changes = preview(workspace, plan, redo=redo, new=new)
    else:
        changes = stage(workspace, plan, found.digest, found.team.workdir, redo=redo, new=new)
    return staged(plan, changes, found.notes)


def draft(directory: str, team: str, tasks: Json, *, agent: str | None, command: Sequence[str], at_once: int) -> Json:
    """A plan, as its file has it, for tasks that are listed elsewhere: each in a worktree where there is git, judged by
    the project's tests. `agent` is the one of every member, with its `command`; by default one that is found.

    Raises:
        InvalidRequest: no agent program was found.
    """
    found = inspect(directory)
    if agent is None and not found.agents:
        raise InvalidRequest("No agent program was found here: name one with --agent.", field="agent")
    member = {
        "agent": {agent: list(command)} if agent is not None and command else agent or found.agents[0],
        "permissions": "workspace",
    }
    return {
        "team": team,
        "workdir": directory,
        "parallel": at_once,
        "members": {f"dev-{number}": dict(member) for number in range(1, at_once + 1)},
        "tasks": tasks,
        **({"isolation": "worktree"} if found.has_commits else {}),
        **({"setup": found.setup} if found.has_commits and found.setup else {}),
        **({"verify": found.test_command} if found.test_command else {}),
    }


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


def asked_of(
    executor_for: ExecutorFor, settings: Settings, agent: str, command: tuple[str, ...]
) -> tuple[Planner, AnswerLimits]:
    """Who is asked for a proposal, and what holds for the answer. Raises InvalidRequest, AgentError."""
    if agent == "shell":
        raise InvalidRequest("A shell proposes no plan; name an agent with --agent.", field="agent")
    # It is to look and say: whatever else it wants to do is not asked about.
    planner = hired("planner", agent, command or None, permissions=None if command else "read-only")
    terms = AnswerLimits(
        float(settings.get("task_timeout")), float(settings.get("stop_grace")), int(settings.get("output_bytes"))
    )
    return Planner(agent, command, executor_for(planner)), terms


def hired(name: str, agent: str, command: Sequence[str] | None, *, permissions: str | None = None) -> Member:
    """A member that no team has, to find out whether its agent can be had."""
    return as_member(PlanMember(name, agent, tuple(command) if command else None, permissions=permissions))


def propose(
    executor_for: ExecutorFor, settings: Settings, goal: str, *, agent: str, command: tuple[str, ...],
    directory: str, path: str, on_update: Callable[[Update], None],
) -> str:  # fmt: skip
    """See `Home.propose`."""
    if not goal.strip() or len(goal) > GOAL_CHARS:
        raise InvalidRequest(f"The goal must be a text of at most {GOAL_CHARS:,} characters.", field="goal")
    asked, terms = asked_of(executor_for, settings, agent, command)
    return run_async(
        partial(
            ask, goal, asked, terms, directory=os.path.abspath(directory), path=path, base=os.environ,
            on_update=on_update,
        )
    )  # fmt: skip
