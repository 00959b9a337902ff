"""The state of one workflow run: everything the engine needs to continue after it was killed at any moment.

It has a version and is written before every prompt and after every step, in the transaction that asks or completes, so
a state that can be read can always be resumed (decision 36). The ledger keeps it as one row with an entry for each
decision, checkpoint, round and so on (`rows_of`), the file `<output_folder>/.workflow-state/<id>.json` mirrors it, and
`interlock workflow status` shows it.

`as_dict` gives the contract's fields, the derived counts among them; `from_dict` reads them back and ignores fields it
does not know, so an older engine can show what a newer one wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cache
from typing import Annotated, Any, TypedDict

from pydantic import Field, GetPydanticSchema, TypeAdapter, ValidationError

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.model.workflow import GATE

SCHEMA_VERSION = 2

StepId = int | str
"""An integer, a string where lettered ("8a"); steps of one workflow never share one."""

IDLE, INITIALIZING, RUNNING, VALIDATING = "IDLE", "INITIALIZING", "RUNNING", "VALIDATING"
WAITING_USER, COMPLETING, TERMINAL = "WAITING_USER", "COMPLETING", "TERMINAL"
FAILED, RECOVERING = "FAILED", "RECOVERING"
STATES = (IDLE, INITIALIZING, RUNNING, VALIDATING, WAITING_USER, COMPLETING, TERMINAL, FAILED, RECOVERING)

COMPLETED, CANCELLED = "COMPLETED", "CANCELLED"
OUTCOMES = (COMPLETED, FAILED, CANCELLED)
State = Annotated[str, Field(pattern=f"^({'|'.join(STATES)})$")]
Outcome = Annotated[str, Field(pattern=f"^({'|'.join(OUTCOMES)})$")]

DONE = frozenset({"completed", "skipped"})

CODE_REVIEW = "code_review"
"""The examination whose rounds are the iterations of the review (BMAD-5.13.5)."""


@dataclass(slots=True, frozen=True)
class Proof:
    """One thing that a step must leave, and what there was of it (`engine.evidence`): `found` is seen, held, stated or
    missing, `reason` why it counts or what is missing."""

    kind: str
    subject: str
    found: str
    reason: str = ""


@dataclass(slots=True)
class StepRecord:
    """What became of one step. Times are ISO 8601 UTC; `visit` counts how often it was begun, from 1.

    `input_hash` is that of the prompt it was begun with, `output_hash` that of what came of it: a step that is met
    again with the same input is skipped (NFR11). `files` are the paths it wrote, from the project's root. `evidence`
    are the signals that `confidence` was measured by; without any it is the calculator's default, and says nothing.
    `before` are the contents of what it must change, as they were at its first start (path: hash, empty for none),
    `proofs` what it was seen to leave, `ran` the commands that its agent ran. `interruptions` counts the kills of the
    engine within it.
    """

    id: StepId
    name: str
    path: str = ""
    line: int = 1
    status: str = "pending"
    started_at: str | None = None
    completed_at: str | None = None
    duration_ms: int | None = None
    attempts: int = 0
    visit: int = 0
    error: str | None = None
    reason: str | None = None
    verdict: str | None = None
    confidence: float | None = None
    evidence: list[str] = field(default_factory=list)
    recovery_method: str | None = None
    attempts_count: int | None = None
    input_hash: str | None = None
    output_hash: str | None = None
    summary: str = ""
    files: list[str] = field(default_factory=list)
    before: dict[str, str] = field(default_factory=dict)
    proofs: list[Proof] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    interruptions: int = 0


@dataclass(slots=True)
class Waiting:
    """What a run in WAITING_USER waits for. `key` is the question's key (decision 36). `purpose` says what the answer
    is for: menu, question, oversight, checkpoint, escalation, party_mode, permission or resume."""

    key: str
    purpose: str
    text: str
    options: list[str] = field(default_factory=list)
    question_id: str | None = None
    asked_at: str | None = None
    data: Json = field(default_factory=dict)


@dataclass(slots=True)
class Sent:
    """A prompt that is with the agent. After a crash it says what the interrupted turn was about; `ordinal` counts the
    prompts of a step's visit from 1. `text` is the prompt itself where it is not the step's own."""

    ordinal: int
    purpose: str
    text: str = ""
    at: str | None = None


class KeptSnapshot(TypedDict, total=False):
    """How a checkpoint is kept: the commit of the run's private repository, which holds the state and the files,
    whether those are all of the project's, and (the first of) what was left out. Versions before had other kinds."""

    kind: str
    commit: str
    whole: bool
    left_out: list[str]


class CheckpointRow(TypedDict, total=False):
    """State and files before a step or a fix. `state_snapshot` is what people see of the state; the whole is in the
    commit of `files`, except where schema 1 kept it here. `why_not` says why it cannot be rolled back to."""

    id: str
    step_id: StepId
    step_name: str
    timestamp: str
    reason: str
    can_rollback: bool
    why_not: str | None
    state_snapshot: Json | None
    files: KeptSnapshot


class RollbackNote(TypedDict, total=False):
    """A rollback, or the undoing of one (`kind`). `archive` is the directory that holds what it replaced; `files` are
    pending until they are in place."""

    at: str
    archive: str
    step: StepId
    kind: str
    checkpoint: str
    files: str
    undone: bool


AS_KEPT = GetPydanticSchema(lambda _, handler: handler(list[Json]))
"""Read and written as it is, also what versions before have kept of it."""


@dataclass(slots=True)
class RunPlan:
    """What the run was asked to do, as it was asked; nothing here changes by running, only by a human. `session` is
    the session it was begun in, whose workflows share what a person said to one of them: a chat session, or the run's
    own id. `said` is what was said about care and progress at its beginning (`preferences.overrides`), `own_tier` the
    tier that the project looks like, where another one was asked for; `tier_by_default`: nobody chose the tier."""

    project: str = ""
    output_folder: str = ""
    agent: str = ""
    member: str = ""
    brief: str = ""
    values: dict[str, str] = field(default_factory=dict)
    tier: int | None = None
    domain: str | None = None
    project_type: str | None = None
    yolo: bool = False
    arguments: str = ""
    thresholds: Json = field(default_factory=dict)
    session: str = ""
    said: Json = field(default_factory=dict)
    own_tier: int | None = None
    tier_by_default: bool = False


@dataclass(slots=True)
class WorkflowState:
    """The document. `version` is the row's: it counts the saves, and a save of an older one is refused.

    `plan_of_steps` are the ids the run expects to go through, branches along their likeliest way, `step_names` their
    titles; `decisions` the latest ones, short (each whole one is an event). `asked` are the questions to humans with
    their answers, `transcript` what was said in the step's visit so far: a session that cannot be resumed gets it
    again. `visits` counts states for loops (decision 31). `seconds` is the controller's own time (decision 30): waiting
    for a human and being down are not in it. `written` are the files as the run last left them (path: hash, empty for
    deleted ones): what differs from it was changed by somebody else. `rollbacks` are those done so far, the last one
    may be undone. `loops` are those of validate, edit and validate again (`engine.loop_back_handler`), by what is
    validated. `examinations` are the rounds of each examination of finished work, `subagents` the agents that
    were given a part of it, `party` the discussion under way or the last one, `learned` what the agents say was
    decided and learned, `curated` when that was taken over into memory, `misaligned` what the project's documents
    disagreed about when it began. `hooks` is what `hooks.records` keeps: what became of each step's, and what the
    agent is yet to be told of their output. `care` is what was said about care and in force at the last decision.
    """

    workflow_id: str
    skill: str
    workflow_hash: str = ""
    schema_version: int = SCHEMA_VERSION
    version: int = 0
    task_id: str | None = None
    module: str = ""
    state: State = IDLE
    outcome: Outcome | None = None
    error: str | None = None
    timeout_error: str | None = None
    error_details: Json = field(default_factory=dict)
    current_step: StepId | None = None
    completed_steps: list[StepId] = field(default_factory=list)
    plan_of_steps: list[StepId] = field(default_factory=list)
    step_names: dict[str, str] = field(default_factory=dict)
    steps: dict[str, StepRecord] = field(default_factory=dict)
    menu_history: list[Json] = field(default_factory=list)
    checkpoints: Annotated[list[CheckpointRow], AS_KEPT] = field(default_factory=list)
    decisions: list[Json] = field(default_factory=list)
    decisions_made: int = 0
    plan: RunPlan = field(default_factory=RunPlan)
    waiting: Waiting | None = None
    sent: Sent | None = None
    menu_stack: list[Json] = field(default_factory=list)
    batch: list[str] = field(default_factory=list)
    visits: dict[str, int] = field(default_factory=dict)
    recovery: Json = field(default_factory=dict)
    loops: dict[str, Json] = field(default_factory=dict)
    asked: list[Json] = field(default_factory=list)
    transcript: list[dict[str, str]] = field(default_factory=list)
    triggers: list[Json] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    rollbacks: Annotated[list[RollbackNote], AS_KEPT] = field(default_factory=list)
    care: Json = field(default_factory=dict)
    examinations: dict[str, Json] = field(default_factory=dict)
    subagents: list[Json] = field(default_factory=list)
    party: Json = field(default_factory=dict)
    learned: list[Json] = field(default_factory=list)
    misaligned: list[str] = field(default_factory=list)
    curated: str | None = None
    hooks: Json = field(default_factory=dict)
    agent_session: str | None = None
    resumed: str | None = None
    seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)
    created_at: str | None = None
    updated_at: str | None = None

    @property
    def current_step_name(self) -> str | None:
        """The title of the step it is at."""
        record = self.steps.get(step_key(self.current_step)) if self.current_step is not None else None
        return record.name if record else None

    @property
    def remaining_count(self) -> int:
        """How many of the expected steps are not done."""
        return len(self.remaining_steps)

    @property
    def progress_percent(self) -> int:
        """Done steps of all expected ones, 0 to 100."""
        return self._percent(self.remaining_count)

    def _percent(self, left: int) -> int:
        if self.outcome == COMPLETED:
            return 100
        done = len(self.completed_steps)
        return min(99, done * 100 // (done + left)) if done + left else 0

    @property
    def review_iterations(self) -> int:
        """How often the work was reviewed."""
        return len(self.rounds_of(CODE_REVIEW))

    @property
    def implementation_iterations(self) -> int:
        """How often a step was fixed and validated again, reviews and other examinations aside."""
        examined = {step_key(f"{GATE}{name}") for name in self.examinations}
        return sum(int(one.get("current_iteration", 0)) for key, one in self.loops.items() if key not in examined)

    def rounds_of(self, examination: str) -> list[Json]:
        """The rounds of that examination so far, as they were kept."""
        return list(self.examinations.get(examination, {}).get("rounds", ()))

    def name_of(self, id: StepId) -> str:
        """The title of a step, also of one that was not met yet; "" where it is not known."""
        record = self.steps.get(step_key(id))
        return record.name if record is not None and record.name else self.step_names.get(str(id), "")

    @property
    def remaining_steps(self) -> list[StepId]:
        """The expected steps that are not done, in their order; the one at hand is among them."""
        if self.outcome == COMPLETED:
            return []
        done = {str(one) for one in self.completed_steps}
        return [one for one in self.plan_of_steps if str(one) not in done]

    def step(self, id: StepId) -> StepRecord | None:
        """The record of a step, if it was met."""
        return self.steps.get(f"step_{id}")

    def as_dict(self) -> Json:
        """Return the whole document as JSON knows it, the derived counts among it; of steps only what has a value."""
        shown: Json = _codec().dump_python(self)
        for record in shown["steps"].values():
            for name, value in list(record.items()):
                if value in (None, "", [], {}):
                    del record[name]
        left = self.remaining_count
        return shown | {
            "current_step_name": self.current_step_name,
            "completed_count": len(self.completed_steps),
            "remaining_count": left,
            "progress_percent": self._percent(left),
            "review_iterations": self.review_iterations,
            "implementation_iterations": self.implementation_iterations,
        }

    def as_json(self, names: frozenset[str]) -> bytes:
        """Return these fields as a JSON object, for `from_dict`."""
        return _codec().dump_json(self, include=set(names))

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> WorkflowState:
        """Return the document that `as_dict` gave.

        Raises:
            ValueError: it is not one: a field is missing or of another type, or the state is none of the nine.
        """
        try:
            found: WorkflowState = _codec().validate_python(given)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(f"not a workflow's state: {where}: {first['msg']}") from error
        if (found.state == TERMINAL) != (found.outcome is not None):
            raise ValueError("not a workflow's state: an outcome belongs to TERMINAL, and TERMINAL to an outcome")
        return found


@cache
def _codec() -> TypeAdapter[WorkflowState]:
    return TypeAdapter(WorkflowState)


def step_key(id: StepId | None) -> str:
    """The key of a step in `steps`: `step_3`, `step_8a`."""
    return f"step_{id}"
