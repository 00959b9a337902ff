"""PORT: how one run of a task is carried out.

The worker claims a task, hands a `Job` to the executor that fits it, and turns the `Result` into ledger verbs. An
executor leaves the task to the worker; only that of workflows writes its run's own state, and asks people. The
implementations are `executors.ShellExecutor` (the task's own `run` command), `executors.AgentExecutor` (a session of an
agent program with the task's text as its prompt) and `workflow.executor` (every step of a workflow).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, Literal, Protocol

from interlock.agents.session import McpServer, Permission, Update, ignore, refuse
from interlock.core.waiting import HumanWait
from interlock.errors import (
    CannotStart,
    CommitUnknown,
    InterlockError,
    InvalidRequest,
    LedgerBusy,
    NoCapacity,
    is_short,
    passes,
)
from interlock.lazy_dataclass import dataclass
from interlock.model.worker import RefusedPermission
from interlock.processes.ref import ProcessRef


@dataclass(frozen=True, slots=True)
class Job:
    """One run of one task, with everything an executor may know of it. Times are seconds, sizes bytes.

    `prompt` is the text for an agent; `command` is the task's `run`, for a shell. `environment` is complete; its
    `INTERLOCK_RUN_TOKEN`, this run's own, lets another process end what the run started after a crash of this one.
    `model`, `mcp`, `permit` and `resume` are as in `agent.Opening`. `kind` is the task's type. `patience` is for
    executors that ask people themselves; without it nobody is waited for. `runner` is the process that drives the team.
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
    """How a run ended, as seen from outside.

    `ended`: the program ended by itself, successfully. `failed`: with an error. `killed`: by a signal that was not
    ours. `cancelled`: we stopped it. `timeout`: its time was up. `capacity`: its provider had none left; `retry_at` is
    then when it expects to have some again (seconds since the epoch, None where it does not say), and with `login` a
    person has to log in first. `short`: its machine was short of space, memory, open files or processes, or the ledger
    could not be used. `permanent`: it could not start, and would not on another try. `spent`: of a run elsewhere, what
    it used (see `usage.UsageMeter.told`), None where it does not say; `refused`: what its agent was not allowed to do;
    `stuck`: when it only repeated itself, each as `run.stuck` tells it.
    """

    status: Literal["ended", "failed", "killed", "cancelled", "timeout", "capacity", "short"]
    output: str
    exit_code: int | None
    detail: str | None
    seconds: float
    retry_at: float | None = None
    login: bool = False
    permanent: bool = False
    spent: dict[str, float] | None = None
    refused: list[RefusedPermission] = field(default_factory=list)
    stuck: list[dict[str, Any]] = field(default_factory=list)


def failed(error: Exception, seconds: float = 0.0) -> Result:
    """How a run ended that `error` has ended after so many seconds."""
    if isinstance(error, InterlockError):
        detail = error.message
    else:
        detail = str(error) if is_short(error) else f"an error in Interlock itself: {type(error).__name__}: {error}"
    if passes(error) or isinstance(error, (CommitUnknown, LedgerBusy)):
        return Result("short", "", None, detail, seconds)
    if isinstance(error, NoCapacity):
        retry_at, login = error.details.get("retry_at"), bool(error.details.get("login"))
        return Result("capacity", "", None, detail, seconds, retry_at, login)
    return Result("failed", "", None, detail, seconds, permanent=isinstance(error, (CannotStart, InvalidRequest)))


def begun() -> None:
    """Ignore that a prompt begins."""


class Execution(Protocol):
    """One run under way."""

    @property
    def agent_session(self) -> str | None:
        """The agent's own id of the session, to resume it by in another run; None where there is none (yet)."""
        return None

    @property
    def lasting(self) -> bool:
        """Whether it takes another prompt now."""
        return False

    async def run(
        self,
        on_update: Callable[[Update], None],
        on_start: Callable[[ProcessRef], None] = ignore,
        on_prompt: Callable[[], None] = begun,
    ) -> Result:
        """Carry the job out and wait for its end. Never raises for what the program does.

        Args:
            on_update: called with everything the program says.
            on_start: called as soon as the program's process exists; never for an agent in process.
            on_prompt: called when a session is open and about to get its prompt; never without one.

        Returns:
            For a program that cannot be started: `failed`, with a `detail` that says what to check.
        """

    async def again(
        self,
        text: str,
        on_update: Callable[[Update], None],
        on_prompt: Callable[[], None] = begun,
        log: str | None = None,
    ) -> Result | None:
        """Put `text` to the same session (findings, mail, an answer, the next task); None where it takes no more.

        `log` is where this turn is logged, if not where the job says.
        """
        return None

    async def interrupt(self) -> None:
        """Ask the running turn to end, which then is `cancelled`; the session takes further prompts."""
        await self.cancel()

    async def cancel(self) -> None:
        """Stop it; `run` then returns `cancelled`."""

    async def close(self) -> None:
        """Leave nothing of it running."""


class Executor(Protocol):
    """One way to carry jobs out."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of variables of the user's environment that its programs need, mostly to log in."""

    def lasts(self, kind: str | None = None) -> bool:
        """Whether what it starts for a task of that type takes more than one prompt."""

    def start(self, job: Job) -> Execution:
        """Make an execution of `job`, not yet running."""
