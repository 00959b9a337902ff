"""PORT: how one run of a task is carried out.

The worker claims a task, hands a `Job` to the executor that fits it, and turns the `Result` into ledger verbs. An
executor leaves the task to the worker; only that of workflows writes its run's own state, and asks. Implementations
live in `executors/`: `shell` (the task's own `run` command), `agent` (a session of an agent program with the task's
text as prompt), `workflow` (every step of a workflow).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from interlock.agents.session import McpServer, Permission, Update, ignore, refuse
from interlock.core.waiting import HumanWait
from interlock.processes.ref import ProcessRef

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class Job:
    """One run of one task, with everything an executor may know of it.

    `prompt` is the text an agent gets (subject, body, findings of an earlier round, how to report); `command` is the
    task's `run`, for `shell`. `environment` is complete; with an `INTERLOCK_RUN_TOKEN` of this run's own in it, what
    the run starts can be ended by another process, after a crash of this one. `model`, `mcp`, `permit` and `resume`
    are for agents, as in `agent.Opening`. `kind` is the task's type. `patience` is for executors
    that ask people themselves; without it nobody is waited for. `runner` is the process that drives the team. Times
    are seconds, sizes bytes.
    """

    team: str
    task_id: str
    run_id: str
    member: str
    session_id: str
    prompt: str
    command: str | None
    workdir: str
    environment: Mapping[str, str]
    log: str
    time_limit: float
    stop_grace: float
    output_bytes: int
    secrets: tuple[str, ...] = ()
    model: str | None = None
    mcp: tuple[McpServer, ...] = ()
    permit: Callable[[Permission], Awaitable[str | None]] = refuse
    resume: str | None = None
    kind: str | None = None
    patience: HumanWait | None = None
    runner: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """How the run ended, as seen from outside.

    `ended`: the program ended by itself, successfully. `failed`: it ended with an error. `killed`: a signal that was
    not ours ended it. `cancelled`: we stopped it. `timeout`: its time was up. `capacity`: its provider had none left;
    `retry_at` is then when it says there will be some again, in seconds since the epoch, null where it does not say;
    with `login` a person has to log in first. `permanent`: it could not start, and tried again it would not either.
    """

    status: Literal["ended", "failed", "killed", "cancelled", "timeout", "capacity"]
    output: str
    exit_code: int | None
    detail: str | None
    seconds: float
    retry_at: float | None = None
    login: bool = False
    permanent: bool = False


def begun() -> None:
    """Nobody wants to know when a prompt begins."""


class Execution(Protocol):
    """One run under way."""

    @property
    def agent_session(self) -> str | None:
        """The agent's own id of the session, to resume it by in another run; null where there is none (yet)."""

    @property
    def lasting(self) -> bool:
        """Whether it takes another prompt now."""

    async def run(
        self,
        on_update: Callable[[Update], None],
        on_start: Callable[[ProcessRef], None] = ignore,
        on_prompt: Callable[[], None] = begun,
    ) -> Result:
        """Carry the job out and wait for its end. Never raises for what the program does.

        A program that cannot be started is a `failed` result whose `detail` says what to check. `on_start` is called
        as soon as the program's process exists; never for an agent in process. `on_prompt` is called when a session is
        open and is about to get its prompt; never without one.
        """

    async def again(
        self,
        text: str,
        on_update: Callable[[Update], None],
        on_prompt: Callable[[], None] = begun,
        log: str | None = None,
    ) -> Result | None:
        """Put `text` to the same session (findings, mail, an answer, the next task); null where it takes none. `log`:
        where this turn is logged, if not where the job says."""

    async def interrupt(self) -> None:
        """Ask the running turn to end, which then is `cancelled`; the session takes further prompts."""

    async def cancel(self) -> None:
        """Stop it; `run` then returns `cancelled`."""

    async def close(self) -> None:
        """Leave nothing of it running."""


class Executor(Protocol):
    """One way to carry jobs out."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of variables of the user's environment that its programs need, to log in above all."""

    def lasts(self, kind: str | None = None) -> bool:
        """Whether what it starts for a task of that type takes more than one prompt, as a session of an agent does."""

    def start(self, job: Job) -> Execution:
        """An execution of `job`, not yet running."""
