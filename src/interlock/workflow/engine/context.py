"""One run as the parts of the controller share it: definition, state, agent, desk, and what is not written yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import anyio

from interlock.workflow.agents.pool import AgentPool, Limits
from interlock.workflow.agents.registry import RunRegistry
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from interlock.workflow.engine import machine, steps
from interlock.workflow.engine.decision_log import EVENT, Decision
from interlock.workflow.engine.examination import Examined
from interlock.workflow.engine.ports import WARNING, Asking, Checkpoints, Desk, Knowledge, NoCheckpoints, Superseded
from interlock.workflow.engine.turn_interpreter import Heard, Reading
from interlock.workflow.entry.tier_suggester import AdaptiveSettings, adapt
from interlock.workflow.hooks.moments import Hooking
from interlock.workflow.package.packages import Package
from interlock.workflow.package.step import Step
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.preferences import overrides
from interlock.workflow.preferences.overrides import PROFILE, Profile
from interlock.workflow.preferences.preferences import Feedback, Forgotten, Preferences
from interlock.workflow.state.document import StepRecord, WorkflowState

TRANSCRIPT = 8  # turns of a step's visit that are kept
SAID = 6000  # characters of each


@dataclass(frozen=True)
class Ending:
    """How the controller let go of a run.

    `completed`, `failed` and `cancelled` are terminal; `parked` waits for a human, `capacity` for the agent's provider
    (until `retry_at`, seconds since the epoch, where it says), `stopped` for whoever stopped us, and `superseded` is
    somebody else's now.
    """

    kind: str
    summary: str = ""
    retry_at: float | None = None


class Postponed(Exception):
    """What is under way cannot go on here and now: it is kept as it is, and this process lets go of the run."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.summary)
        self.ending = ending


class Examination(Protocol):
    """PORT within `workflow`: a code review after a story, the parallel validation of a generated agent, the review
    before a large project is closed. Each is a step of its own, after the last one of the workflow (`reviews.py`).
    `name` is that of its gate, `title` what people see."""

    name: str
    title: str

    def called_for(self, run: RunContext) -> str | None:
        """Why this run's work is to be examined, null where it is not. Cheap, and the same whenever it is asked."""

    async def examine(self, run: RunContext, round: int) -> Examined:
        """Look at the work as it is now; `round` counts from 1. Never raises for what agents do."""


@runtime_checkable
class StandIn(Examination, Protocol):
    """An examination that is held instead of steps in which the maker would look at its own work.

    Its `Examined.details["stands_for"]` says what became of each of them: `{path: {status, summary, confidence}}`, with
    the status `completed` or `skipped`.
    """

    def replaces(self, run: RunContext, step: Step) -> tuple[str, ...]:
        """The paths of the steps that are not done where `step` is one of them; empty where it is none. Cheap."""

    def declined(self, run: RunContext) -> str | None:
        """Why they are done as they are written after all, null where it is held instead."""


@runtime_checkable
class Binding(Examination, Protocol):
    """An examination that must know from the start what it is going to examine."""

    def bind(self, run: RunContext) -> str | None:
        """Bind the run to it; what is missing, a sentence for people, where that cannot be done."""


@dataclass
class RunContext:
    """See the module. `thresholds` is read again at every decision, so that a change counts at the next (BMAD-2a.7).
    `profiles` are the project's own, read in the same way. `session` is what the workflows of its session share, as it
    was when the controller last looked: at the beginning of a turn, and when the agent's was over. `replay` are the
    keys of the questions that were answered in a visit that begins again after an interruption, `told` the preferences
    that the agent's session knows. `left`: a human's exit word has ended the turn. `hooks` is null where there are
    none; `lost`: a subagent found the run to be somebody else's."""

    workflow: Workflow
    package: Package
    state: WorkflowState
    pool: AgentPool
    desk: Desk
    limits: Limits
    checkpoints: Checkpoints = field(default_factory=NoCheckpoints)
    knowledge: Knowledge = field(default_factory=Knowledge)
    thresholds: Callable[[], Mapping[str, Any]] = dict
    dispatcher: SubagentDispatcher | None = None
    examinations: tuple[Examination, ...] = ()
    hooks: Hooking | None = None
    session: dict[str, Any] = field(default_factory=dict)
    profiles: Callable[[], Mapping[str, Profile]] = dict
    interrupted: bool = False
    lost: Superseded | None = None
    reading: Reading | None = None
    heard: Heard | None = None
    left: bool = False
    before: str = ""
    tried: dict[str, int] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    replay: list[str] = field(default_factory=list)
    _events: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    _saving: anyio.Lock = field(default_factory=anyio.Lock)
    _wanted: int = 0
    _written: int = 0

    def __post_init__(self) -> None:
        if self.dispatcher is not None:
            self.dispatcher.registry = RunRegistry(self)

    @property
    def preferences(self) -> Preferences:
        """What is known of people's wishes, with what was said in this session."""
        said = (Feedback.of(one) for one in (self.session.get("feedback") or {}).get("said", ()))
        gone = (self.session.get("feedback") or {}).get("forgotten", ())
        learned = self.knowledge.choices.learned
        forgotten = (*learned.forgotten, *(Forgotten(str(one["id"]), str(one["at"])) for one in gone))
        return Preferences(replace(learned, forgotten=forgotten), [one for one in said if one is not None])

    @property
    def root(self) -> str:
        """The project's directory."""
        return self.package.root

    @property
    def unsaved(self) -> bool:
        """Whether something was decided since the last save."""
        return bool(self._events)

    @property
    def care(self) -> overrides.Care:
        """How careful to be, as was said in the session and at the beginning of the run (BMAD-7.1, 7.2)."""
        shared = self.session.get(overrides.KEY) or {}
        named = any(PROFILE in one for one in (shared, self.state.plan.said))
        return overrides.in_force(self.state, shared, self.profiles() if named else {})

    @property
    def settings(self) -> AdaptiveSettings:
        """What is in force for the next decision."""
        plan = self.state.plan
        own = self.workflow.settings.get("thresholds")
        given = {**(own if isinstance(own, Mapping) else {}), **plan.thresholds, **self.thresholds()}
        return adapt(plan.tier, module=self.workflow.module, domain=plan.domain, thresholds=given, care=self.care)

    @property
    def gates(self) -> tuple[str, ...]:
        """The names of the validations beside the workflow's own, in their order."""
        called = tuple(one.name for one in self.examinations if one.called_for(self) is not None)
        return (*self.settings.gates, *called)

    @property
    def titles(self) -> dict[str, str]:
        """What people see of each examination, by its name."""
        return {one.name: one.title for one in self.examinations}

    @property
    def examination(self) -> Examination | None:
        """The examination that the step at hand is, null at every other step."""
        id = str(self.record.id)
        return next((one for one in self.examinations if id == f"{steps.GATE}{one.name}"), None)

    @property
    def step(self) -> Step:
        """The step at hand."""
        found = steps.find(self.workflow, self.record)
        if found is None:
            raise machine.IllegalMove(f"{self.state.workflow_id} has no step {self.state.current_step!r} any more")
        return found

    @property
    def record(self) -> StepRecord:
        """Its record."""
        found = self.state.step(self.state.current_step) if self.state.current_step is not None else None
        if found is None:
            raise machine.IllegalMove(f"{self.state.workflow_id} is at no step")
        return found

    def decide(self, decision: Decision) -> None:
        """Log a decision; it is written with the next save."""
        self._events.append((EVENT, decision.event(self.state, self.desk.now())))

    def event(self, type: str, **payload: Any) -> None:
        """An event, written with the next save."""
        self._events.append((type, {"workflow_id": self.state.workflow_id, **payload}))

    def warn(self, what: str, text: str) -> None:
        """An event that whoever began the run, and the human, get as a message too (`Desk.save` sees to it)."""
        self.event(WARNING, what=what, text=text, step=self.state.current_step)

    def move(self, to: str) -> None:
        """Take the run to another state, with its event."""
        before = self.state.state
        machine.move(self.state, to)
        if before != to:
            self.event("workflow.state", **{"from": before, "to": to, "step": self.state.current_step})

    async def save(self, asking: Asking | None = None) -> str | None:
        """Write down the state with everything decided since the last save; the id of the question, which is held
        where a session lives that can go on with the answer."""
        async with self._saving:  # Subagents at work at once save too.
            return await self._save(asking)

    async def save_soon(self) -> None:
        """The same, for several at once: what one of them writes, none writes again."""
        self._wanted += 1
        mine = self._wanted
        async with self._saving:
            if self._written < mine:
                await self._save()

    async def _save(self, asking: Asking | None = None) -> str | None:
        wanted = self._wanted
        self.state.updated_at = self.desk.now()
        events, self._events = self._events, []
        if asking is not None:
            # It is held where a session lives that can go on with the answer.
            asking = replace(asking, held=self.pool.live and self.limits.selection > 0)
        question = await self.desk.save(self.state, events, asking)
        self._written = wanted
        return question

    def said(self, sent: str, heard: str) -> None:
        """One more turn of the step's transcript."""
        self.state.transcript = [*self.state.transcript, {"sent": sent[:SAID], "said": heard[-SAID:]}][-TRANSCRIPT:]

    def once(self, what: str, times: int = 1) -> bool:
        """Whether this was done fewer than `times` in this visit of the step; counts it."""
        key = f"{self.record.id}/{self.record.visit}/{what}"
        self.tried[key] = self.tried.get(key, 0) + 1
        return self.tried[key] <= times
