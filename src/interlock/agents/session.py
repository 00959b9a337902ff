"""PORT: a session with an agent program.

An `Agent` knows how to start one kind of program; a `Session` is one continuous life of it. The runner prompts a
session, hears `Update`s while the turn runs, and gets a `Turn` when it ends. Implementations live in `agents/`:
`command` (any program, one prompt per session), `scripted` (in process, for tests and simulations), `acp` (programs
that speak the Agent Client Protocol: many prompts, permission requests, our MCP server, resuming).

Promises every implementation keeps:

* `open` either returns a live session or raises `AgentError`; nothing is left running then.
* Every process of a session is in a process group of its own, and `identity` names its leader.
* `prompt` never raises for what the agent does: a crash, a refusal and a time-out are a `Turn` with that `stop`.
* `cancel` asks politely and returns; `close` leaves nothing of the session running, and may be called twice.
* A permission request is put to `Opening.permit` and waits as long as that takes; nothing is allowed otherwise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import field
from typing import Literal, Protocol

from interlock.lazy_dataclass import dataclass
from interlock.model.driving import Update as Update
from interlock.processes.ref import ProcessRef


@dataclass(frozen=True, slots=True)
class Turn:
    """How a prompt ended.

    `end` is the agent's own end of turn (for a program: exit 0), `failed` a non-zero exit, `killed` an end by a
    signal, `cancelled` our own request, `timeout` the time limit, `capacity` a usage limit or overload of the
    agent's provider; `retry_at` is then when it says there will be some again, in seconds since the epoch, None where
    it does not say; with `login` a person has to log in first. `output` is what it said, cut to the output limit;
    `exit_code` is None for agents without one.
    """

    stop: Literal["end", "failed", "killed", "cancelled", "timeout", "capacity"]
    output: str = ""
    exit_code: int | None = None
    detail: str | None = None
    retry_at: float | None = None
    login: bool = False


@dataclass(frozen=True, slots=True)
class PermissionChoice:
    """One way to answer a permission request."""

    id: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]


@dataclass(frozen=True, slots=True)
class Permission:
    """An agent asks whether it may do something. `kind` is the tool's: read, edit, delete, move, search, execute,
    fetch, think or other; `paths` are the files it names, absolute. `server` is the MCP server where it is about a tool
    of one, None otherwise. `tool` is the `id` that the updates of the same tool call have, empty where none has."""

    id: str
    title: str
    kind: str
    choices: tuple[PermissionChoice, ...]
    paths: tuple[str, ...] = ()
    data: Mapping[str, object] = field(default_factory=dict)
    server: str | None = None
    tool: str = ""


@dataclass(frozen=True, slots=True)
class McpServer:
    """An MCP server that a session is given: a program on stdio (`command`), or an address (`url`) with headers."""

    name: str
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


async def refuse(permission: Permission) -> str | None:
    """Nobody is there to allow anything: the first choice that rejects, None (the turn is cancelled) without one."""
    return next((choice.id for choice in permission.choices if choice.kind.startswith("reject")), None)


def allowing(
    servers: Collection[str], permit: Callable[[Permission], Awaitable[str | None]]
) -> Callable[[Permission], Awaitable[str | None]]:
    """A `permit` that lets the tools of `servers` be called, each time once, and puts everything else to `permit`.

    For the servers that we ourselves give to a session: what a member may do there is decided there.
    """

    async def decide(permission: Permission) -> str | None:
        if permission.server is not None and permission.server in servers:
            once = next((choice.id for choice in permission.choices if choice.kind == "allow_once"), None)
            if once is not None:
                return once
        return await permit(permission)

    return decide


def ignore(identity: ProcessRef) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a session is opened with.

    `environment` is the whole environment of the program (already reduced to what it may see); an
    `INTERLOCK_RUN_TOKEN` in it lets what the program starts be found again, also by another process (see
    `processes`). `log` is a file that everything the program prints is appended to, empty for none. `time_limit` is
    for one turn. `secrets` are blanked in updates, output and log. `on_start` is called as soon as the process exists
    that leads the session's group: within `open`, or within `prompt` where that starts it. `permit` answers permission
    requests with the id of a choice, None to cancel the turn. `model` is None for the agent's own default; `resume` is
    the agent's own id of an earlier session to go on with, where it can. Times are seconds, sizes bytes.
    """

    session_id: str
    member: str
    workdir: str
    environment: Mapping[str, str]
    log: str
    time_limit: float
    stop_grace: float
    output_bytes: int
    secrets: tuple[str, ...] = ()
    on_start: Callable[[ProcessRef], None] = ignore
    permit: Callable[[Permission], Awaitable[str | None]] = refuse
    model: str | None = None
    mcp: tuple[McpServer, ...] = ()
    resume: str | None = None


class AgentSession(Protocol):
    """One continuous life of an agent program."""

    @property
    def identity(self) -> ProcessRef | None:
        """The process that leads the session's process group; None in process or before the first prompt."""

    @property
    def lasting(self) -> bool:
        """Whether it takes more than one prompt; a `command` session does not."""

    @property
    def agent_session(self) -> str | None:
        """The agent's own id of this session, to resume it by; None where it has none."""

    async def prompt(self, text: str, on_update: Callable[[Update], None], log: str | None = None) -> Turn:
        """Run one turn and wait for its end. A `command` session accepts one prompt only. `log` is this turn's own log
        file, where it is not that of the opening."""

    async def cancel(self) -> None:
        """Ask the running turn to end; the pending `prompt` then returns `cancelled`."""

    async def close(self) -> None:
        """End the session and everything it started (TERM, the grace, KILL), and check that it is gone."""


class Agent(Protocol):
    """One kind of agent program."""

    name: str
    lasting: bool
    """Whether its sessions take more than one prompt."""

    async def open(self, opening: Opening) -> AgentSession:
        """Start a session.

        Raises:
            AgentError: the program is missing or did not start; the message says what to install or check.
        """
