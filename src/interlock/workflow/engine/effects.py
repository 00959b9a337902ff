"""What comes in to a run, and what is carried out for it: the values that the reducer takes and gives.

An event is what happened: a turn ended, a person answered, an examination came to its verdict. An effect is what the
runner has to do about it. An effect with a `then` is followed by that event once it has been carried out; it is the
last one of its step, so nothing is decided before its result is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow.agents.watch import Ended
from interlock.workflow.engine.examination import Examined
from interlock.workflow.engine.ports import Asking
from interlock.workflow.engine.turn_interpreter import Reading

STEP, ANSWER, FIX, NUDGE, NESTED = "step", "answer", "fix", "nudge", "nested"
"""The purposes of a prompt."""


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


@dataclass(frozen=True)
class Pending:
    """A menu on its way to a human. `known_by` is what it is recognised by after a crash, `shown` the menu itself,
    `text` what is asked, `data` what its answer is read with."""

    known_by: str
    shown: str
    text: str
    options: tuple[str, ...]
    recommended: str | None = None
    context: str | None = None
    confidence: float = 0.0
    data: Mapping[str, Any] = field(default_factory=dict)


class Signal(Enum):
    """An event that is nothing but itself."""

    TAKEN_UP = "A process begins to work on the run, for the first time or after another one was killed"
    DUE = "Nothing else has come in: the state says what is to be done next"
    UNANSWERED = "Nobody answers now"


@dataclass(frozen=True, slots=True)
class Bound:
    """The examinations know what they are going to examine; `missing` is what one of them lacks, for people."""

    missing: str | None = None


@dataclass(frozen=True, slots=True)
class Reattached:
    """What became of a turn that a kill interrupted: the agent's session lives on, or the step's files were restored.

    `unrestored` are those that could not be; it is None where nothing was kept."""

    lives: bool
    unrestored: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SessionReady:
    """The agent can be spoken to. `knows`: it was there when the run was spoken of before."""

    knows: bool
    agent_session: str | None


@dataclass(frozen=True, slots=True)
class AgentRefused:
    """The agent's program is missing or broken."""

    reason: str


@dataclass(frozen=True, slots=True)
class TurnEnded(Ended):
    """The agent's turn is over; `left`: a person's word ended it."""

    left: bool = False
    agent_session: str | None = None


@dataclass(frozen=True, slots=True)
class StepReady:
    """The step's checkpoint is made, and `text` is its first prompt."""

    text: str


@dataclass(frozen=True, slots=True)
class PromptReady:
    """What must come before a prompt is done: that prompt is next. `tried` is the remedy that it is, if it is one."""

    purpose: str
    text: str
    tried: str | None = None


@dataclass(frozen=True, slots=True)
class StepLeft:
    """The hooks of the step's end have run, and the agent went on by itself, in this turn over `hops` steps."""

    found: Reading
    hops: int


@dataclass(frozen=True, slots=True)
class StepOver:
    """The hooks of the step's end have run, and the step is done with that outcome."""

    reading: Reading
    outcome: str


@dataclass(frozen=True, slots=True)
class FixKnown:
    """What memory knows of the failure at hand."""

    fix: str | None


@dataclass(frozen=True, slots=True)
class MenuAdmitted:
    """A menu may be put to a human, unless `pause` has to be acknowledged first; `limited` says how it was held up."""

    menu: Pending
    pause: str | None = None
    limited: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Replied:
    """A human's answer to the question that the run waits for."""

    text: str
    by: str


@dataclass(frozen=True, slots=True)
class Adjusted:
    """The answer was about care and nothing else, and is kept as `said`, which the user's wishes understand."""

    text: str
    said: object


@dataclass(frozen=True, slots=True)
class ExaminationEnded:
    """A round of the examination that the step at hand is came to this; `stopped`: it was ended before its time."""

    number: int
    found: Examined
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class DiscussionEnded:
    """The voices have spoken, and the discussion is over; `came` is what it came to, as Party Mode knows it."""

    came: object


@dataclass(frozen=True, slots=True)
class StateChanged:
    """An effect has changed these fields of the state by itself, as a checkpoint does. In logs only."""

    fields: Mapping[str, Any]


Event = (
    Signal | Bound | Reattached | SessionReady | AgentRefused | TurnEnded | StepReady | PromptReady | StepLeft
    | StepOver | FixKnown | MenuAdmitted | Replied | Adjusted | ExaminationEnded | DiscussionEnded | StateChanged
)  # fmt: skip


class Act(Enum):
    """An effect that is nothing but itself."""

    BIND = "Have the examinations find what they are going to examine"
    REATTACH = "Take up the turn that was interrupted"
    OPEN_SESSION = "Make sure that the agent can be spoken to"
    AWAIT_REPLY = "Wait for the answer to the question that the state holds, as long as a session is kept open for it"
    DISCUSS = "Hold the discussion that is under way, to its end"
    NOTE_PROGRESS = "Start the clock of the workflow's limit again"
    LIST_CHECKPOINTS = "The run is complete: its documents list checkpoints from now on only if they are to"


@dataclass(frozen=True, slots=True)
class Save:
    """Write the state down with everything that was decided, and ask the question in the same transaction."""

    asking: Asking | None = None


@dataclass(frozen=True, slots=True)
class KeepCheckpoint:
    """Keep state and files of the step at hand as they are."""

    reason: str
    then: StepReady | PromptReady


@dataclass(frozen=True, slots=True)
class SendPrompt:
    """Send a prompt and wait for the end of the turn. `nested`: a nested mode is open, `party`: it is Party Mode,
    `answered`: the prompt is an answer to a menu or a question."""

    text: str
    nested: bool = False
    party: bool = False
    answered: bool = False


@dataclass(frozen=True, slots=True)
class AdmitMenu:
    """Wait until a human may be shown another menu."""

    menu: Pending


@dataclass(frozen=True, slots=True)
class EndStep:
    """Run the hooks of the end of the step at hand."""

    status: str
    then: StepLeft | StepOver


@dataclass(frozen=True, slots=True)
class FindFix:
    """Ask memory for the way out of a failure."""

    failure: str


@dataclass(frozen=True, slots=True)
class LearnFix:
    """Have memory keep what helped."""

    failure: str
    fix: str


@dataclass(frozen=True, slots=True)
class ChangeSession:
    """Change what the workflows of the session share, in one transaction, and go on with `then`."""

    change: Callable[[Json], None]
    then: Replied | Adjusted | None = None


@dataclass(frozen=True, slots=True)
class Remember:
    """Have memory keep what was learned of a person."""

    learned: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """Do nothing for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Examine:
    """Hold that round of the examination that the step at hand is."""

    number: int


@dataclass(frozen=True, slots=True)
class LetGo:
    """Leave this process."""

    ending: Ending


Effect = (
    Act | Save | KeepCheckpoint | SendPrompt | AdmitMenu | EndStep | FindFix | LearnFix | ChangeSession | Remember
    | Pause | Examine | LetGo
)  # fmt: skip
