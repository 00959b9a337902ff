"""What all subagents of a run share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from interlock.agent import Agent, Opening, Update
from interlock.workflow.agents.employer import Employer
from interlock.workflow.agents.subagent_pool import SubagentPool
from interlock.workflow.agents.watch import Limits


@dataclass(frozen=True)
class Firm:
    """See the module. `employer` is asked for anew each time, for the run comes after its agents."""

    agent: Agent
    opening: Opening
    on_update: Callable[[Update], None]
    limits: Limits
    pool: SubagentPool
    employer: Callable[[], Employer]
