"""What all subagents of a run share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from interlock.agents.session import Agent, Opening, Update
from interlock.workflow.agents.subagent_pool import SubagentPool
from interlock.workflow.agents.subagent_registry import SubagentRegistry
from interlock.workflow.agents.watch import Limits


@dataclass(frozen=True)
class SubagentContext:
    """See the module. `registry` is asked for anew each time, for the run comes after its agents."""

    agent: Agent
    opening: Opening
    on_update: Callable[[Update], None]
    limits: Limits
    pool: SubagentPool
    registry: Callable[[], SubagentRegistry]
