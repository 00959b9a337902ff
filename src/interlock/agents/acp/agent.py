"""Agent programs that speak the Agent Client Protocol, over the official package `agent-client-protocol`.

The agent is a child of ours; we are its client. We offer it neither files nor terminals: it has tools of its own for
both, with its own rules and its own sandbox. Offered ours, it would work through them instead, and we would have to be
the sandbox. So what it does to files is told us as tool calls, and what needs a permission is asked.

    agent.py       starting a program and opening a session with it
    session.py     prompts, questions, stopping, the end
    updates.py     what it says, as updates
    transport.py   the pipes
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from functools import partial
from typing import Any, cast

import anyio
from acp import PROTOCOL_VERSION, Client
from acp.client.connection import ClientSideConnection
from acp.exceptions import RequestError
from acp.schema import (
    ClientCapabilities,
    EnvVariable,
    FileSystemCapabilities,
    HttpHeader,
    HttpMcpServer,
    Implementation,
    InitializeResponse,
    McpServerStdio,
)
from pydantic import ValidationError

from interlock.agents.acp.session import AcpSession, reason_of
from interlock.agents.capacity import Limit
from interlock.agents.session import McpServer, Opening
from interlock.agents.usage import Accounting, Usage
from interlock.errors import AgentError, CannotStart, InvalidRequest, NoCapacity, StorageError
from interlock.lazy_dataclass import dataclass
from interlock.processes.output import Output
from interlock.processes.program import Child, refusal
from interlock.version import __version__

START_SECONDS = 90.0
"""How long a program may take until its session is open; `npx` may have to fetch it first."""

_META: dict[str, Any] = {
    "claudeCode": {"emitRawSDKMessages": [{"type": "system", "subtype": "api_retry"}]},
    "mcpStartupAwaitTimeoutMs": 60_000,
}
"""Asks Claude Code to tell when it waits for its provider, and Codex to open a session only when its MCP servers have
started, without whose tools it would begin its first turn. Others take no notice."""

ERRORS_KEPT = 4096  # bytes of what a program prints beside the protocol, for messages


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """How a program is started and spoken to.

    `argv` is the program and its arguments, `{model}` in them is filled in; an argument list of `model_arguments` is
    added only where a model is asked for. `model_variable` is set to it. Without either, the model is chosen through
    the session's own option. `variables` are set unless the environment sets them. Of the session modes `modes`, the
    first that is offered is chosen. `usage` is how it keeps account (`usage.KINDS`), if that is known. `path` is a
    directory, beside PATH, its own programs are in; `install` and `login` say what a person has to do.
    """

    argv: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    model_arguments: tuple[str, ...] = ()
    model_variable: str | None = None
    modes: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    usage: str = ""
    path: str | None = None
    install: str = "Install it, or check its spelling and PATH."
    login: str = "Log in with the program itself, then try again."


class AcpAgent:
    """A program that speaks ACP; each session is a process of its own.

    Raises:
        InvalidRequest: `manner` names no program.
    """

    lasting = True

    def __init__(self, name: str, manner: LaunchSpec) -> None:
        if not manner.argv or not manner.argv[0]:
            raise InvalidRequest(f"The agent {name!r} needs a program: `acp: [PROGRAM, ARGUMENT, …]`.", field="acp")
        self.name = name
        self._manner = manner

    async def open(self, opening: Opening) -> AcpSession:
        """Start the program and open a session, or go on with `opening.resume` where the agent can.

        Whether it could is told by `agent_session`: another id is a new session.

        Raises:
            NoCapacity: it is not logged in, or has hit a limit.
            CannotStart: it is missing, or offers nothing of what its profile or the member asks for.
            AgentError: it did not get as far as a session; nothing is left running.
        """
        session, wanted = await self._start(opening)
        try:
            opening.on_start(session.identity)
            with anyio.fail_after(START_SECONDS):
                await self._begin(session, opening, wanted)
        except (RequestError, ValidationError, ConnectionError, TimeoutError) as error:
            await session.close()
            raise self._why_not(session, error) from error
        except BaseException:
            await session.close()
            raise
        return session

    async def _start(self, opening: Opening) -> tuple[AcpSession, str | None]:
        manner = self._manner
        environment = {**manner.variables, **opening.environment}
        argv, model = [*manner.argv], opening.model
        if model is not None and manner.model_arguments:
            argv += [word.replace("{model}", model) for word in manner.model_arguments]
            model = None
        elif model is not None and manner.model_variable:
            environment[manner.model_variable] = model
            model = None
        if manner.path is not None:
            environment["PATH"] = os.pathsep.join([environment.get("PATH", os.defpath), manner.path])
        why = refusal(argv[0], opening.workdir, environment.get("PATH", os.defpath))
        if why is not None:
            raise CannotStart(f"{why} {manner.install}".rstrip(), agent=self.name, program=argv[0])
        return await self._spawn(argv, environment, opening), model

    async def _spawn(self, argv: list[str], environment: dict[str, str], opening: Opening) -> AcpSession:
        try:
            printed = Output(log=opening.log, secrets=opening.secrets, limit=ERRORS_KEPT)
        except StorageError as error:
            raise AgentError(error.message, agent=self.name) from error
        try:
            (its_in, to_it), (from_it, its_out), (errors, its_errors) = _pipes(3)
        except OSError:
            printed.close()
            raise
        try:
            child = Child(
                argv,
                workdir=opening.workdir,
                environment=environment,
                stop_grace=opening.stop_grace,
                stdin=its_in,
                stdout=its_out,
                stderr=its_errors,
            )
            await child.begun()
        except BaseException:
            printed.close()
            for end in (to_it, from_it, errors):
                os.close(end)
            raise
        finally:
            for end in (its_in, its_out, its_errors):
                os.close(end)
        session = AcpSession(opening, child, (to_it, from_it, errors), printed, self._manner.limits)
        if self._manner.usage:
            session.usage = Usage(partial(Accounting, self._manner.usage, environment))
        session.connection = ClientSideConnection(cast(Client, session), session.wire)
        return session

    async def _begin(self, session: AcpSession, opening: Opening, model: str | None) -> None:
        connection = session.connection
        about = await connection.initialize(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(
                fs=FileSystemCapabilities(read_text_file=False, write_text_file=False), terminal=False
            ),
            client_info=Implementation(name="interlock", title="Interlock", version=__version__),
        )
        if about.protocol_version != PROTOCOL_VERSION:
            raise CannotStart(
                f"{self.name} speaks version {about.protocol_version} of ACP, Interlock version {PROTOCOL_VERSION}: "
                "update whichever is older.",
                agent=self.name,
            )
        can = _Abilities(about)
        session.can_close = can.close
        servers: list[Any] = [self._server(server, can) for server in opening.mcp]
        opened = None
        if opening.resume is not None:
            opened = await self._resumed(session, opening, servers, can)
        if opened is None:
            opened = await connection.new_session(cwd=os.path.abspath(opening.workdir), mcp_servers=servers, **_META)
            session.agent_session = opened.session_id
        await session.usage.begin(str(session.agent_session), resumed=opening.resume == session.agent_session)
        await self._choose_mode(session, opened)
        if model is not None:
            await self._choose_model(session, opened, model)

    async def _resumed(self, session: AcpSession, opening: Opening, servers: list[Any], can: _Abilities) -> Any:
        """The earlier session, or None where the agent cannot, or does not know it any more."""
        connection, id = session.connection, str(opening.resume)
        ways: list[Callable[..., Awaitable[Any]]] = [connection.resume_session] if can.resume else []
        if can.load:
            ways.append(connection.load_session)
        for way in ways:
            try:
                opened = await way(session_id=id, cwd=os.path.abspath(opening.workdir), mcp_servers=servers, **_META)
            except (RequestError, ValidationError) as error:
                if session.shortage(error) is not None:
                    raise
                continue
            session.agent_session = id
            return opened
        return None

    async def _choose_mode(self, session: AcpSession, opened: Any) -> None:
        wanted, modes = self._manner.modes, opened.modes
        if not wanted or modes is None:
            return
        offered = [one.id for one in modes.available_modes]
        mode = next((one for one in wanted if one in offered), None)
        if mode is None:
            raise CannotStart(
                f"{self.name} offers no mode {' or '.join(map(repr, wanted))}, only {', '.join(offered)}: correct "
                "`modes` in its profile.",
                agent=self.name,
            )
        if mode != modes.current_mode_id:
            await session.connection.set_session_mode(session_id=str(session.agent_session), mode_id=mode)

    async def _choose_model(self, session: AcpSession, opened: Any, model: str) -> None:
        option = next((one for one in opened.config_options or [] if one.category == "model"), None)
        if option is None or option.type != "select":
            raise CannotStart(
                f"{self.name} lets nobody choose its model here: leave out `model`, or choose it in its own settings.",
                agent=self.name,
            )
        groups = [getattr(one, "options", None) or [one] for one in option.options]
        choices = {one.value: one.name for group in groups for one in group}
        wanted = model.casefold()
        value = next((value for value, name in choices.items() if wanted in (value.casefold(), name.casefold())), None)
        if value is None:
            offered = ", ".join(choices)
            raise CannotStart(f"{self.name} has no model {model!r}. It offers: {offered}.", agent=self.name)
        if value != option.current_value:
            id = str(session.agent_session)
            await session.connection.set_config_option(config_id=option.id, session_id=id, value=value)

    def _server(self, server: McpServer, can: _Abilities) -> HttpMcpServer | McpServerStdio:
        if server.url is None:
            variables = [EnvVariable(name=name, value=value) for name, value in server.environment.items()]
            program, *arguments = server.command
            return McpServerStdio(name=server.name, command=program, args=arguments, env=variables)
        if not can.http:
            raise CannotStart(
                f"{self.name} cannot reach MCP servers over HTTP: give it {server.name} as a program on stdio.",
                agent=self.name,
            )
        headers = [HttpHeader(name=name, value=value) for name, value in server.headers.items()]
        return HttpMcpServer(type="http", name=server.name, url=server.url, headers=headers)

    def _why_not(self, session: AcpSession, error: Exception) -> AgentError:
        if isinstance(error, (RequestError, ValidationError)):
            short = session.shortage(error)
            if short is not None:
                advice = f" {self._manner.login}" if short.login else ""
                return NoCapacity(
                    f"{self.name} cannot work now: {short.reason}.{advice}", agent=self.name, retry_at=short.retry_at,
                    login=short.login,
                )  # fmt: skip
            what = f"opened no session: {' '.join(reason_of(error).split())}"
        elif isinstance(error, TimeoutError):
            what = f"opened no session within {START_SECONDS:g} seconds"
        else:
            what = "ended before its session was open"
        last = session.last_words()
        said = f" It said: {last}" if last else ""
        return AgentError(
            f"{self.name} {what[:500]}.{said} Try it by hand, or `interlock agents check {self.name}`.", agent=self.name
        )


def _pipes(count: int) -> list[tuple[int, int]]:
    """So many pipes, or none: what was left open of too many would keep them too many."""
    made: list[tuple[int, int]] = []
    try:
        for _ in range(count):
            made.append(os.pipe())
    except OSError:
        for ends in made:
            for end in ends:
                os.close(end)
        raise
    return made


class _Abilities:
    """What an agent says it can do."""

    def __init__(self, about: InitializeResponse) -> None:
        told = about.agent_capabilities
        sessions = told.session_capabilities if told else None
        mcp = told.mcp_capabilities if told else None
        self.load = bool(told and told.load_session)
        self.resume = bool(sessions and sessions.resume is not None)
        self.close = bool(sessions and sessions.close is not None)
        self.http = bool(mcp and mcp.http)
