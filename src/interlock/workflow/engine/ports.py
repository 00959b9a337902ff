"""What the engine needs of the world, as narrow as it can be: to remember, to ask, to know the time.

The real ones stand in `workflow/runs/`; tests give it ones that live in memory and in virtual time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol, TypeVar

from interlock.lazy_dataclass import dataclass
from interlock.workflow.state.document import StepId, WorkflowState

T = TypeVar("T")
Events = Sequence[tuple[str, Mapping[str, Any]]]

WARNING = "workflow.warning"
"""The event whose `text` people get as a message."""


class Superseded(Exception):
    """Somebody else has taken this run over, or ended it: whatever we were about to do is not ours any more."""


@dataclass(frozen=True)
class Asking:
    """A question to a human. `key` makes asking again after a crash the same question (decision 36). `held`: the
    agent's session is open, and the run is going to wait for the answer (decision 30)."""

    key: str
    kind: str
    text: str
    options: tuple[str, ...] = ()
    default: str | None = None
    context: str | None = None
    reversible: bool = False
    data: Mapping[str, Any] = field(default_factory=dict)
    held: bool = False


class Desk(Protocol):
    """Where the run is written down and people are asked."""

    def now(self) -> str:
        """The time, ISO 8601 UTC."""

    async def save(self, state: WorkflowState, events: Events = (), asking: Asking | None = None) -> str | None:
        """Write the state, which has the time of it then (`updated_at`), append the events and ask the question, in one
        transaction; the question's id. The text of a `WARNING` is also sent to whoever began the run and to the human.

        Raises:
            Superseded: the state or the run is not ours any more; nothing was written.
        """

    async def reply(self, question: str) -> tuple[str, str] | None:
        """(answer, who) of a question, None while it is open."""

    async def wait(self, question: str, seconds: float) -> tuple[str, str] | None:
        """The same, after waiting for it for so many seconds at most, with the run still ours; None where it did not
        come: the run is parked then, and the answer begins a new one. At once where the question is not held.

        Raises:
            Superseded: it was withdrawn, or the run is not ours any more.
        """

    async def session(self) -> dict[str, Any]:
        """What the workflows of this session share."""

    async def apart(self, work: Callable[[], T]) -> tuple[T, dict[str, Any]]:
        """Do something that blocks beside the event loop, once; what comes of it, and what the workflows of this
        session share then."""

    async def change_session(self, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Change it in one transaction; what it is then."""

    async def change_life(self, change: Callable[[dict[str, Any]], None]) -> None:
        """The same for what those share that are worked on in one life: of a chat session, else of the runner. Unlike a
        run's session, that of a runner ends with its process."""


class Checkpoints(Protocol):
    """What a run keeps of itself before each step and each fix (decision 35). These read and write files: they are
    called beside the event loop (`Desk.apart`)."""

    def create(self, state: WorkflowState, *, step: StepId, reason: str, at: str) -> None:
        """Keep state and files as they are at that time."""

    def restore(self, state: WorkflowState) -> Sequence[str] | None:
        """Bring the files of an interrupted step back; None where nothing was kept, else what could not be restored."""

    def wrote(self, state: WorkflowState, paths: Sequence[str]) -> None:
        """Note that the run wrote these files."""

    def finished(self, state: WorkflowState) -> None:
        """The run is complete: its documents list checkpoints from now on only if they are to. Never raises."""


async def _knows_none(failure: str) -> str | None:
    return None


async def _learns_none(failure: str, fix: str) -> None:
    return None


@dataclass(frozen=True)
class Knowledge:
    """What earlier work knows: `context` for the agent, `relevance` of it (0–100, None without any), and fixes.

    `fix` gives the remembered way out of a failure, None where there is none; `learn` keeps one that helped. `servers`
    are the names of the MCP servers of memory that were reached; `choices` belongs to whoever implements
    `context.UserWishes`.
    """

    context: str = ""
    relevance: float | None = None
    fix: Callable[[str], Awaitable[str | None]] = _knows_none
    learn: Callable[[str, str], Awaitable[None]] = _learns_none
    servers: tuple[str, ...] = ()
    choices: object = None
