"""Subagent Dispatcher: gives pieces of a run's work to agents of their own, each with its own context (FR22, FR23).

It decides who does a piece of work (`assignment.route`) and with which model (`assignment.select`), has the pool find a
seat for it (`pool`), and lets the subagent work (`Subagent`). Whatever its agents do, each assignment comes to exactly
one report. What a role that judges is told is its prompt alone, in a session of its own. An agent that analyses, writes
code or does whatever there is goes back to the pool afterwards, and may be given more work of the same kind, role,
model and rights.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from interlock.agents.session import Update
from interlock.workflow.agents import models as classes
from interlock.workflow.agents.assignment import CODE_REVIEW, Assignment, Report
from interlock.workflow.agents.models import CLASSES, Model, class_of
from interlock.workflow.agents.records import SubagentRecord, SubagentRegistry, input_of
from interlock.workflow.agents.roles import route
from interlock.workflow.agents.seats import SubagentPool
from interlock.workflow.agents.subagent import Staffing, Subagent
from interlock.workflow.agents.watch import Limits

POOL = 10
SAYS_WHO = "You are "
"""How a prompt begins that says itself who is asked."""


class SubagentDispatcher:
    """The subagents of one run: sessions of its `own` program, `size` of them at once at most, and of the `reviewer` to
    review code, where that is another one. `max_model` is the largest class of model that may be chosen."""

    def __init__(
        self,
        own: Staffing,
        on_update: Callable[[Update], None] = lambda update: None,
        size: int = POOL,
        *,
        limits: Limits | None = None,
        max_model: str | None = None,
        reviewer: Staffing | None = None,
    ) -> None:
        self.on_update = on_update
        self._own = own
        self._reviewer = reviewer or own
        self.limits = limits or Limits()
        self.pool = SubagentPool(size)
        self.registry: SubagentRegistry = SubagentRegistry()
        """Whose work it is; the run, which comes after its agents, puts itself here."""
        self._max_model = max_model

    @property
    def stopped(self) -> bool:
        """Whether it was told to stop: what is reported since says nothing about the work."""
        return self.pool.stopped

    def program(self, kind: str) -> Staffing:
        """What work of that kind is given to."""
        return self._reviewer if kind == CODE_REVIEW else self._own

    @property
    def agents(self) -> int:
        """How many there are now, at work or idle."""
        return len(self.pool.seats)

    async def open(self, assignment: Assignment) -> Subagent:
        """A subagent for several prompts; whoever opens it closes it. Nothing is put before what it is told.

        Raises:
            AgentError: its program did not start.
        """
        subagent = self._assign(assignment, alone=True)
        try:
            await subagent.ready()
        except BaseException:
            await subagent.close()
            raise
        return subagent

    async def run(self, assignment: Assignment) -> Report:
        """Carry out one assignment. Never raises for what the agent does."""
        earlier = self.registry.left_open(input_of(assignment), assignment.label)
        subagent = self._assign(assignment, earlier)
        try:
            interrupted = earlier is not None
            report = await subagent.say(assignment.prompt, assignment.time_limit, interrupted=interrupted)
        finally:
            await subagent.close()
        await self.registry.keep(subagent.record)
        return report

    def select(self, assignment: Assignment) -> Model:
        """The model for an assignment that names none.

        A model that the member itself was given is the largest it uses where its class is known, and used for
        everything where it is not: somebody chose it.
        """
        program = self.program(assignment.kind)
        terms, own = self.registry.terms(), program.opening.model
        own_class = class_of(own, program.models)
        caps = [one for one in (self._max_model, terms.max_model, own_class) if one in CLASSES]
        cap = min(caps, key=CLASSES.index, default=None)
        found = classes.select(assignment.kind, assignment.complexity, terms.tier, cap, program.models)
        named = own if own is not None and own_class in (None, found.cls) else found.name or own
        return Model(found.cls, found.why, found.wanted, named)

    async def cancel(self) -> None:
        """Stop all of them, and begin nothing more; what was under way can be taken up when the run is."""
        self.pool.stop()

    async def close(self) -> None:
        """End every agent and everything they started."""
        await self.pool.close()

    def _assign(
        self, assignment: Assignment, earlier: SubagentRecord | None = None, *, alone: bool = False
    ) -> Subagent:
        terms = self.registry.terms()
        found = route(assignment, terms.installed, terms.module)
        model = None if assignment.model else self.select(assignment)
        name = assignment.model if model is None else model.name
        why = f"for {assignment.label}: " + (f"{model.cls}, {model.why}" if model else "the model was asked for")
        record = earlier or SubagentRecord(assignment.label, assignment.kind, found.role.name, name)
        record.input = input_of(assignment)
        chosen = model is not None and model.name in self.program(assignment.kind).models.values()
        record.model_signal = model.signal if model is not None and chosen else None
        record.agent_id = assignment.agent_id or record.agent_id
        self.registry.assigned(record, why, found.warning)
        fits: Hashable = (assignment.kind, found.role.name, name, assignment.writes)
        told = alone or assignment.prompt.lstrip().startswith(SAYS_WHO)
        return Subagent(
            self,
            assignment,
            record,
            preamble="" if told else found.preamble,
            fits=fits if found.role.reuse and not alone and record.agent_id is None else None,
            chosen=model is not None,
        )
