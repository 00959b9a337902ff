"""Subagent Dispatcher: gives pieces of a run's work to agents of their own, each with its own context (FR22, FR23)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import anyio

from interlock.agent import Agent, Opening, Session, Update
from interlock.errors import AgentError
from interlock.workflow.agents.assignment import Assignment, Report

POOL = 10


class Subagent:
    """One subagent with an open session: several prompts, one context."""

    def __init__(self, assignment: Assignment, session: Session, on_update: Callable[[Update], None]) -> None:
        self.assignment = assignment
        self._session = session
        self._on_update = on_update

    async def say(self, text: str, time_limit: float = 0.0) -> Report:
        """One prompt and what comes back, within so many seconds (0: the session's own limit)."""
        began = anyio.current_time()
        turn = None
        with anyio.move_on_after(time_limit or None):
            turn = await self._session.prompt(text, self._on_update)
        seconds = anyio.current_time() - began
        label, id, model = self.assignment.label, self._session.agent_session, self.assignment.model
        if turn is None or turn.stop == "timeout":
            await self._session.cancel()
            return Report(label, "timeout", "", id, model, f"no answer within {time_limit:g} s", seconds)
        statuses = {"end": "completed", "capacity": "capacity", "cancelled": "cancelled"}
        status = statuses.get(turn.stop, "failed")
        return Report(label, status, turn.output, id, model, turn.detail, seconds, turn.retry_at)  # type: ignore[arg-type]

    async def close(self) -> None:
        """End the session."""
        await self._session.close()


class SubagentDispatcher:
    """The subagents of one run. `opening` is what each is opened with."""

    def __init__(
        self,
        agent: Agent,
        opening: Opening,
        on_update: Callable[[Update], None] = lambda update: None,
        size: int = POOL,
    ) -> None:
        self._agent = agent
        self._opening = opening
        self._on_update = on_update
        self._room = anyio.CapacityLimiter(size)

    async def open(self, assignment: Assignment) -> Subagent:
        """A subagent for several prompts; whoever opens it closes it.

        Raises:
            AgentError: its program did not start.
        """
        opening = replace(self._opening, model=assignment.model or self._opening.model, resume=assignment.agent_id)
        return Subagent(assignment, await self._agent.open(opening), self._on_update)

    async def run(self, assignment: Assignment) -> Report:
        """Carry out one assignment. Never raises for what the agent does."""
        async with self._room:
            try:
                subagent = await self.open(assignment)
            except AgentError as error:
                return Report(assignment.label, "failed", detail=error.message)
            try:
                return await subagent.say(assignment.prompt, assignment.time_limit)
            finally:
                with anyio.CancelScope(shield=True):
                    await subagent.close()

    async def run_all(self, assignments: Sequence[Assignment]) -> list[Report]:
        """Carry them all out at once, as far as there is room; the reports in the order of the assignments."""
        reports: dict[int, Report] = {}

        async def one(place: int, assignment: Assignment) -> None:
            reports[place] = await self.run(assignment)

        async with anyio.create_task_group() as group:
            for place, assignment in enumerate(assignments):
                group.start_soon(one, place, assignment)
        return [reports[place] for place in range(len(assignments))]
