"""With what a process carries effects out: the agents, the desk, the checkpoints, and the project's own hooks.

It knows nothing of the run, and is handed to whoever waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from interlock.lazy_dataclass import dataclass
from interlock.workflow.agents.pool import AgentPool
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from interlock.workflow.agents.watch import Limits
from interlock.workflow.engine.ports import Checkpoints, Desk
from interlock.workflow.state.document import WorkflowState


class HookOutput(Protocol):
    """What a project's hooks have printed."""

    def with_context(self, state: WorkflowState, prompt: str) -> str:
        """A prompt, with what they have printed since the last one."""

    def told(self, state: WorkflowState) -> None:
        """The agent has read it."""


class Hooks(Protocol):
    """The project's own programs, run at certain moments of a run."""

    @property
    def records(self) -> HookOutput:
        """What they have printed."""

    def at_work(
        self, runtime: Runtime, apply: Callable[..., Any], save: Callable[[], Awaitable[None]]
    ) -> AbstractAsyncContextManager[None]:
        """While this lasts, those of tools run beside the turns. `apply` changes the run (`context.Apply`)."""

    def cancel(self) -> None:
        """End the one that runs now; none begins any more."""

    async def begin(self) -> bool:
        """Those of the beginning, where they are due; whether the run may go on."""

    async def stop(self, status: str) -> bool:
        """Those of the end of the step at hand; whether the run may go on."""

    async def settle(self) -> None:
        """Wait for those of the tools that were used so far."""

    def halted(self) -> bool:
        """Whether a critical one has failed: then the run has ended."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """All of it, for one run in one process."""

    pool: AgentPool
    desk: Desk
    checkpoints: Checkpoints
    dispatcher: SubagentDispatcher | None = None
    hooks: Hooks | None = None

    @property
    def limits(self) -> Limits:
        """How long anything may take."""
        return self.pool.limits
