"""One run, as those who decide change it (`Draft`), and what extends the engine.

Whoever decides takes the draft and waits for nothing; whoever waits takes values, and hands back what came of it. The
engine imports none of its extensions. Party Mode (`workflow.party`), what is known and said of a person's wishes
(`workflow.preferences`) and a project's own hooks (`workflow.hooks`) are registered by whoever opens a run
(`workflow.runs.opening`). A hook that is not `async` is part of the reducer: it decides, changes the run, and touches
nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any, Concatenate, ParamSpec, Protocol, TypeGuard, TypeVar, runtime_checkable

import anyio

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.model.workflow import GATE
from interlock.workflow.agents.watch import Ended, Heard, Limits
from interlock.workflow.engine import documents, evidence, machine, questions, steps
from interlock.workflow.engine.adaptive_settings import AdaptiveSettings
from interlock.workflow.engine.decision_log import EVENT, Decision
from interlock.workflow.engine.effects import (
    Effect,
    Ending,
    KeepCheckpoint,
    MenuAdmitted,
    Pending,
    PromptReady,
    Save,
    StepReady,
)
from interlock.workflow.engine.examination import Examined
from interlock.workflow.engine.ports import WARNING, Asking, Knowledge
from interlock.workflow.engine.runtime import Runtime
from interlock.workflow.engine.turn_interpreter import Reading
from interlock.workflow.menus.options import Option
from interlock.workflow.menus.recognition import Menu
from interlock.workflow.menus.selection import Situation
from interlock.workflow.package.packages import Package
from interlock.workflow.package.step import Step
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.state.document import WAITING_USER, Sent, StepId, StepRecord, Waiting, WorkflowState

TRANSCRIPT = 8  # turns of a step's visit that are kept
SAID = 6000  # characters of each
STALL, THRESHOLDS = "stall", "thresholds"
"""What Party Mode is called for: a validation that does not move, the builder's thresholds."""

T = TypeVar("T")
P = ParamSpec("P")


class Apply(Protocol):
    """Applies a function that decides to the run, at once. Who waits is given this, and never holds the run itself."""

    def __call__(self, change: Callable[Concatenate[Draft, P], T], /, *given: P.args, **named: P.kwargs) -> T: ...


class Note(Protocol):
    """The same, and writes down what came of it before it returns: for what must survive a kill."""

    async def __call__(self, change: Callable[Concatenate[Draft, P], T], /, *given: P.args, **named: P.kwargs) -> T:
        """What the function returns.

        Raises:
            Superseded: the run is somebody else's now.
        """
        ...


class Postponed(Exception):
    """What is under way cannot go on here and now: it is kept as it is, and this process lets go of the run."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.summary)
        self.ending = ending


class Inquiry(Protocol):
    """What others are asked in a round of an examination: a value, with all that they need to know of the run."""

    async def ask(self, runtime: Runtime, note: Note) -> Any:
        """Have them look at the work; what they say. Never raises for what agents do."""

    def judge(self, run: Draft, said: Any) -> Examined:
        """What it comes to. Called beside the event loop: it may read and write files."""


class Examination(Protocol):
    """PORT within `workflow`: a code review after a story, the parallel validation of a generated agent, the review
    before a large project is closed. Each is a step of its own, after the last one of the workflow (`reviews.py`).
    `name` is that of its gate, `title` what people see."""

    name: str
    title: str

    def called_for(self, run: Draft) -> str | None:
        """Why this run's work is to be examined, null where it is not. Cheap, and the same whenever it is asked."""

    def begin(self, run: Draft, round: int) -> Examined | Inquiry:
        """Look at the work as it is now; `round` counts from 1. What others are to be asked, where it cannot be told
        without them. Called beside the event loop: it may read files."""


class StandIn(Examination, Protocol):
    """An examination that is held instead of steps in which the maker would look at its own work.

    Its `Examined.details["stands_for"]` says what became of each of them: `{path: {status, summary, confidence}}`, with
    the status `completed` or `skipped`.
    """

    def replaces(self, run: Draft, step: Step) -> tuple[str, ...]:
        """The paths of the steps that are not done where `step` is one of them; empty where it is none. Cheap."""

    def declined(self, run: Draft) -> str | None:
        """Why they are done as they are written after all, null where it is held instead."""


def stands_in(examination: Examination) -> TypeGuard[StandIn]:
    """Whether it is one. It is asked at each step, and to look for all that the port names takes a while."""
    return hasattr(examination, "replaces")


@runtime_checkable
class Binding(Examination, Protocol):
    """An examination that must know from the start what it is going to examine."""

    def bind(self, run: Draft) -> str | None:
        """Bind the run to it; what is missing, a sentence for people, where that cannot be done."""


@runtime_checkable
class Halting(Examination, Protocol):
    """An examination that also knows what is on record of a halt in the middle of the work."""

    def halted(self, run: Draft) -> Examined | None:
        """What is on record, its verdict `BLOCKED`; null where nothing is."""


class PartyMode(Protocol):
    """Discussions: of voices before the agent's next turn, or within a step whose agent plays them."""

    def under_way(self, run: Draft) -> bool:
        """Whether one is to be held before the agent's next turn."""

    def prepare(self, run: Draft) -> bool:
        """The step at hand is about to begin; whether one is to be held first."""

    def discussion(self, run: Draft) -> Any:
        """The one that is under way: a value, with what is to be known of the run to hold it."""

    async def hold(self, under_way: Any, runtime: Runtime, note: Note) -> object:
        """Hold it to its end; what it came to.

        Raises:
            Postponed: it cannot go on for now.
        """

    def held(self, run: Draft, came: object) -> None:
        """Act on what it came to."""

    def call(self, run: Draft, purpose: str, why: str, problem: str = "") -> None:
        """Party Mode is called for; `problem` is what is discussed, by default the step's."""

    def opened(self, run: Draft, asked: bool, why: str) -> str:
        """It was chosen from the step's menu: what the agent is told beside that. `asked`: it was called for."""

    def reopens(self, run: Draft) -> bool:
        """Whether the step's menu is to open one again that a kill interrupted."""

    def interrupted(self, run: Draft) -> None:
        """The step at hand was interrupted and is about to begin again."""

    def known_before(self, run: Draft) -> str:
        """What was said about the step that begins again."""

    async def during(
        self, run: str, party: Mapping[str, Any], runtime: Runtime, turn: Callable[[anyio.Event], Awaitable[Ended]]
    ) -> tuple[Ended, bool]:
        """A turn in which the agent plays one, which the run of that name keeps as `party`: what came of it, and
        whether a person's exit word ended it."""

    def ended(self, run: Draft) -> bool:
        """Whether a person's exit word ends it now; the agent's next prompt says so then."""

    def left(self, run: Draft) -> object:
        """The agent has left it by itself."""

    def timed_out(self, run: Draft, output: str) -> str:
        """A limit has ended it: what is left of it, for the agent."""

    def menu(self, run: Draft, found: Reading, shown: Menu, where: Situation) -> str | None:
        """The key that a menu of the discussion was answered with, "" where something else is done first."""

    def said(self, run: Draft, found: Reading) -> bool:
        """Whether a turn without a menu was one of the discussion's."""

    def beyond_thresholds(self, run: Draft, reading: Reading) -> bool:
        """Whether a result has more errors than it may, so that one was called for."""

    def doubted(self, run: Draft, reading: Reading, outcome: str) -> bool:
        """Whether the signals hold a result for doubtful, so that one was called for."""

    def signal(self, run: Draft) -> float | None:
        """How sure those were of it who discussed the step at hand, 0 to 100."""

    def take(self, run: Draft, text: str) -> str:
        """Act on a person's answer to it: `taken`, `stop`, or "" where it is treated as after any failure."""


class UserWishes(Protocol):
    """What is known of a person and was said by one: care, preferences, and the pace at which menus come."""

    def settings(self, run: Draft, thresholds: Mapping[str, Any]) -> AdaptiveSettings:
        """What is in force for the next decision."""

    def overridden(self, run: Draft) -> bool:
        """Whether somebody has said how careful to be."""

    def look(self, run: Draft) -> None:
        """Log what is in force where it is not what it was."""

    def words(self, run: Draft) -> Sequence[str]:
        """What the person wants remembered, in their words."""

    def known(self, run: Draft, shown: Menu, where: Situation) -> Situation:
        """The situation with what is known of the person."""

    def threshold(self, run: Draft, recommended: Option) -> int:
        """The confidence of recommending such an option among several ways on."""

    def taken_back(self, run: Draft, shown: Menu, option: Option | None) -> bool:
        """Whether a person has just rolled back that choice."""

    def shown_last(self, run: Draft, shown: Menu) -> Collection[str]:
        """The keys of the options that the person never takes, and is shown last."""

    def menu(self, run: Draft, shown: Menu, option: Option) -> Json | None:
        """The choice of an option, as feedback knows it."""

    def question(self, run: Draft, text: str) -> Json | None:
        """That a question is answered without asking, as feedback knows it."""

    def fix(self, run: Draft, strategy: str) -> Json | None:
        """That a failed step is fixed in this way, as feedback knows it."""

    def is_asked(self, run: Draft, text: str) -> bool:
        """Whether the person wants to be asked that question."""

    def unwanted_fixes(self, run: Draft) -> Collection[str]:
        """The ways of fixing this step that are not wanted."""

    def heard(self, run: Draft, text: str, by: str) -> bool:
        """Whether an answer is one. What it says about care is kept (`ChangeSession`); then the rest of it comes in,
        or, where it says nothing else, that it was `Adjusted`."""

    def adjusted(self, run: Draft, text: str, said: object) -> None:
        """What was said about care is kept: the question is asked again."""

    def chosen(self, run: Draft, text: str) -> Json | None:
        """The choice that an answer is, as feedback knows it."""

    async def remember(self, knowledge: Knowledge, learned: Sequence[Any]) -> None:
        """Have memory keep what `chosen` has learned."""

    async def admit(self, menu: Pending, run: str, step: StepId, runtime: Runtime) -> tuple[Json, MenuAdmitted]:
        """Wait until the person may be shown another menu of that run; what its session is then."""


@dataclass(kw_only=True)
class Draft:
    """A run as the reducer sees and changes it: nothing of it waits, writes or asks anybody.

    `state` is what is written down. The fields after `examinations` live as long as the process: `session` is what the
    workflows of its session share, as it was when the event came in, `replay` the keys of the questions that were
    answered in a visit that begins again after an interruption, `told` the preferences that the agent's session knows,
    `at` the time of the event. `left`: a human's exit word has ended the turn; `staffed`: subagents can be had.
    `thresholds` and `profiles` are the project's own, read again at every decision, so that a change counts at the next
    (BMAD-2a.7). The reducer looks at the project through `observe` alone, and asks for what is to be done with
    `effect`. `seen` is what follows from the state, the session and the project, for one event: it is found once, and
    nothing in it changes while the event is reduced. `outputs` and `wanted` follow from the step and what was given to
    the run, which stay as they are, and are found once for each.
    """

    workflow: Workflow
    package: Package
    state: WorkflowState
    limits: Limits
    party: PartyMode
    wishes: UserWishes
    knowledge: Knowledge = field(default_factory=Knowledge)
    thresholds: Callable[[], Mapping[str, Any]] = dict
    profiles: Callable[[], Mapping[str, Any]] = dict
    examinations: tuple[Examination, ...] = ()
    staffed: bool = False
    session: Json = field(default_factory=dict)
    interrupted: bool = False
    reading: Reading | None = None
    heard: Heard | None = None
    left: bool = False
    tried: dict[str, int] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    learned: object = None
    replay: list[str] = field(default_factory=list)
    at: str | None = None
    observing: Callable[[str, Callable[[], Any]], Any] | None = None
    seen: dict[Hashable, Any] | None = None
    effects: list[Effect] = field(default_factory=list)
    _events: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    _outputs: dict[Hashable, list[str]] = field(default_factory=dict)
    _required: dict[Hashable, tuple[evidence.Required, ...]] = field(default_factory=dict)

    @property
    def root(self) -> str:
        """The project's directory."""
        return self.package.root

    @property
    def now(self) -> str:
        """The time: that of the event, or of whatever changes the run beside one."""
        assert self.at is not None
        return self.at

    @property
    def unsaved(self) -> bool:
        """Whether something was decided since the last save."""
        return bool(self._events)

    @property
    def settings(self) -> AdaptiveSettings:
        """What is in force for the next decision."""
        plan = self.state.plan
        key = "settings", self.state.current_step, plan.tier, plan.domain
        return self.found(key, lambda: self.wishes.settings(self, self.given_thresholds))

    @property
    def given_thresholds(self) -> Mapping[str, Any]:
        """The thresholds that workflow, run and overlay set."""
        return self.found("thresholds", self._thresholds)

    def _thresholds(self) -> Mapping[str, Any]:
        own = self.workflow.settings.get("thresholds")
        given = own if isinstance(own, Mapping) else {}
        return {**given, **self.state.plan.thresholds, **self.observe("thresholds", self.thresholds)}

    @property
    def gates(self) -> tuple[str, ...]:
        """The names of the validations beside the workflow's own, in their order."""
        demanded = self.settings.gates
        return (*demanded, *[one.name for one in self.examinations if self.called_for(one) is not None])

    @property
    def titles(self) -> dict[str, str]:
        """What people see of each examination, by its name."""
        return {one.name: one.title for one in self.examinations}

    @property
    def examination(self) -> Examination | None:
        """The examination that the step at hand is, null at every other step."""
        id = str(self.state.current_step)
        if not id.startswith(GATE):
            return None
        return next((one for one in self.examinations if id == f"{GATE}{one.name}"), None)

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
        found = self.state.steps.get(f"step_{self.state.current_step}")
        if found is None:
            raise machine.IllegalMove(f"{self.state.workflow_id} is at no step")
        return found

    @property
    def wanted(self) -> tuple[evidence.Required, ...]:
        """What the step at hand must leave."""
        values = self.state.plan.values
        key = self.state.current_step, *values.items()
        if key not in self._required:
            self._required[key] = evidence.wanted(self.workflow, self.step, values)
        return self._required[key]

    @property
    def outputs(self) -> list[str]:
        """The documents of the step at hand."""
        values = self.state.plan.values
        key = self.state.current_step, *values.items()
        if key not in self._outputs:
            self._outputs[key] = documents.outputs(self.workflow, self.step, values)
        return list(self._outputs[key])

    def found(self, key: Hashable, find: Callable[[], T]) -> T:
        """What `find` finds; while an event is reduced, it is asked once for each `key`."""
        if self.seen is None:
            return find()
        if key not in self.seen:
            self.seen[key] = find()
        value: T = self.seen[key]
        return value

    def observe(self, what: str, look: Callable[[], T]) -> T:
        """What `look` sees of the project; kept with the event that is reduced, so that a replay sees the same."""
        if self.observing is None:
            return look()
        seen: T = self.observing(what, look)
        return seen

    def called_for(self, examination: Examination) -> str | None:
        """Why that examination is to be held, null where it is not."""
        return self.observe(f"called for {examination.name}", lambda: examination.called_for(self))

    def effect(self, *effects: Effect) -> None:
        """Have these carried out, after those that were asked for before."""
        self.effects += effects

    def keep(self, reason: str, then: StepReady | PromptReady) -> None:
        """Make a checkpoint of the step at hand, and go on with `then`."""
        self.effect(KeepCheckpoint(reason, then))

    def send(self, purpose: str, text: str) -> None:
        """The next prompt of the step."""
        before = self.state.sent.ordinal if self.state.sent else 0
        self.state.sent = Sent(before + 1, purpose, text)

    def ask(
        self,
        purpose: str,
        kind: str,
        text: str,
        options: Sequence[str] = (),
        *,
        about: StepRecord | None = None,
        known_by: str | None = None,
        shown: str | None = None,
        default: str | None = None,
        context: str | None = None,
        data: Mapping[str, Any] | None = None,
        told: Mapping[str, Any] | None = None,
    ) -> Json:
        """Put a question to a human, written down with the state; the run waits for the answer.

        Args:
            purpose: What the answer is for (`Waiting.purpose`).
            kind: The kind of the question.
            text: What is asked.
            options: The answers that are offered.
            about: The step that it is about; none before the first one.
            known_by: What the question is recognised by when it is asked again; `text` by default.
            shown: What of it the state keeps; `text` by default.
            default: The recommended option.
            context: What people may read beside it.
            data: What the answer is read with.
            told: What those see who show it.

        Returns:
            Its entry in `state.asked`.
        """
        entry = questions.new_entry(self.state, about, purpose, known_by if known_by is not None else text, self.now)
        kept = text if shown is None else shown
        self.state.waiting = Waiting(entry["key"], purpose, kept, list(options), data=dict(data or {}))
        self.move(WAITING_USER)
        self.effect(Save(Asking(entry["key"], kind, text, tuple(options), default, context, data=dict(told or {}))))
        return entry

    def taken(self) -> list[tuple[str, Mapping[str, Any]]]:
        """What was decided since this was asked last, as events that are to be written."""
        events, self._events = self._events, []
        return events

    def decide(self, decision: Decision) -> None:
        """Log a decision; it is written with the next save."""
        self._events.append((EVENT, decision.event(self.state, self.now)))

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

    def end(self, outcome: str, error: str | None = None, **details: Any) -> None:
        """The run has come to that outcome; `details` are told with its event."""
        machine.end(self.state, outcome, error)
        self.event("workflow.ended", outcome=outcome, error=self.state.error, step=self.state.current_step, **details)

    def said(self, sent: str, heard: str) -> None:
        """One more turn of the step's transcript."""
        self.state.transcript = [*self.state.transcript, {"sent": sent[:SAID], "said": heard[-SAID:]}][-TRANSCRIPT:]

    def once(self, what: str, times: int = 1) -> bool:
        """Whether this was done fewer than `times` in this visit of the step; counts it."""
        key = f"{self.record.id}/{self.record.visit}/{what}"
        self.tried[key] = self.tried.get(key, 0) + 1
        return self.tried[key] <= times
