"""Asking an agent for a plan, on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import anyio

from interlock.agents.session import Update
from interlock.errors import InvalidRequest
from interlock.model.team import Member
from interlock.plan.document import PlanMember
from interlock.plan.proposal import GOAL_CHARS
from interlock.runner.executor import Executor
from interlock.runner.plan_apply import as_member
from interlock.runner.plan_generation import AnswerLimits, Planner
from interlock.runner.plan_generation import propose as ask
from interlock.settings import Settings


def propose(
    executor_for: Callable[[Member], Executor],
    settings: Settings,
    goal: str,
    agent: str,
    command: tuple[str, ...],
    directory: str,
    path: str,
    on_update: Callable[[Update], None],
) -> str:
    """See `client.Home.propose`."""
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
    return anyio.run(
        partial(
            ask, goal, asked, terms, directory=os.path.abspath(directory), path=path, base=os.environ,
            on_update=on_update,
        )
    )  # fmt: skip
