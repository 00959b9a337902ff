"""What a run's agents do with tools, each call announced, asked for and finished once.

An `Agent` is wrapped; what its sessions say and ask passes through here. An update comes in a plain call that cannot
wait, so it puts what is due into a queue, which `serve` works off in its order; a permission request can wait, and does
so until everything before it in the queue is done. So a hook may refuse a tool that asks for permission; one that is
only announced has begun by then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field, replace
from typing import Any, Protocol

import anyio
from anyio.abc import TaskStatus
from anyio.streams.memory import MemoryObjectSendStream

from interlock.agents.session import Agent, AgentSession, Opening, Permission, Turn, Update, refuse
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, fields_of
from interlock.processes.ref import ProcessRef
from interlock.workflow.hooks.definitions import POST_TOOL, PRE_TOOL, Hook

QUEUE = 100
"""Tools whose hooks may be waiting; of an agent that is faster for longer, the next ones are lost, and told so."""
CALLS = 5000  # whose state is remembered

OVER = frozenset({"completed", "failed"})


@dataclass(frozen=True, slots=True)
class Tool:
    """One call of a tool, as it is known now. `paths` are absolute; `input` are its arguments, where they are known."""

    id: str
    title: str
    kind: str
    status: str
    paths: tuple[str, ...] = ()
    input: Any = None

    def as_dict(self) -> Json:
        """As a hook reads it."""
        found = fields_of(self, ("id", "title", "kind", "status")) | {"paths": list(self.paths)}
        return found if self.input is None else {**found, "input": self.input}


class ToolListener(Protocol):
    """Who knows what is due at a tool, and does it."""

    def due(self, event: str, tool: Tool) -> tuple[Hook, ...]:
        """The hooks that are to run at that event of a tool."""

    async def perform(self, event: str, tool: Tool, due: tuple[Hook, ...]) -> str | None:
        """Run them; why the tool is refused, None where it is not."""

    def lost(self, event: str, tool: Tool, due: tuple[Hook, ...]) -> None:
        """They could not be run."""

    def overruled(self, tool: Tool, why: str) -> None:
        """A tool was refused and ran all the same: nobody had asked."""


@dataclass(slots=True)
class _Call:
    """What has become of one call. `ran` are the keys of its hooks, `refusal` why one refuses it."""

    ran: set[tuple[str, str]] = field(default_factory=set)
    refusal: str | None = None
    denied: bool = False
    over: bool = False


class ToolCalls:
    """The calls of one run."""

    def __init__(self, listener: ToolListener) -> None:
        self._listener = listener
        self._calls: dict[str, _Call] = {}
        self._sessions = 0
        self._send: MemoryObjectSendStream[Callable[[], Awaitable[None]]] | None = None

    def watched(self, agent: Agent) -> Agent:
        """`agent`, whose sessions are heard."""
        return _Watched(agent, self)

    def guarded(
        self, permit: Callable[[Permission], Awaitable[str | None]]
    ) -> Callable[[Permission], Awaitable[str | None]]:
        """`permit`, asked only for what no hook refuses."""

        async def decide(permission: Permission) -> str | None:
            return await self._permit(permission, permit)

        return decide

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Work off what is due, for as long as the run is worked on."""
        self._send, receive = anyio.create_memory_object_stream[Callable[[], Awaitable[None]]](QUEUE)
        with self._send, receive:
            task_status.started()
            async for job in receive:
                await job()

    async def settle(self) -> None:
        """Wait until everything that is due now is done. `serve` must be at work."""
        done = anyio.Event()

        async def mark() -> None:
            done.set()

        await self._queue.send(mark)
        await done.wait()

    def opened(self) -> str:
        """The name of a new session: ids of calls are unique in one only."""
        self._sessions += 1
        return str(self._sessions)

    def heard(self, session: str, update: Update) -> None:
        """An update of a session. Never waits."""
        if update.kind != "tool":
            return
        data: Mapping[str, Any] = update.data
        listed = data.get("paths")
        paths = tuple(str(one) for one in listed) if isinstance(listed, (list, tuple)) else ()
        title = str(data.get("title") or update.text)
        kind, status = str(data.get("kind") or "other"), str(data.get("status") or "pending")
        tool = Tool(str(data.get("id") or update.text), title, kind, status, paths)
        call = self._call(f"{session}:{tool.id}")
        if call.over:
            return
        self._announce(PRE_TOOL, tool, call)
        if tool.status in OVER:
            call.over = True
            if call.denied:
                return
            if tool.status == "completed":
                self._put(lambda: self._overruled(tool, call))
            self._announce(POST_TOOL, tool, call)

    async def _overruled(self, tool: Tool, call: _Call) -> None:
        if call.refusal is not None:
            self._listener.overruled(tool, call.refusal)

    async def _permit(self, permission: Permission, ask: Callable[[Permission], Awaitable[str | None]]) -> str | None:
        session, _, id = permission.tool.partition(":")
        raw = permission.data.get("rawInput", permission.data.get("raw_input"))
        tool = Tool(id or permission.id, permission.title, permission.kind, "pending", permission.paths, raw)
        call = self._call(f"{session}:{tool.id}")
        hooks = self._take(PRE_TOOL, tool, call)
        if hooks:
            await self._queue.send(lambda: self._perform(PRE_TOOL, tool, hooks, call))
        if call.ran:
            await self.settle()
        answer = await (ask(permission) if call.refusal is None else refuse(permission))
        chosen = next((one.kind for one in permission.choices if one.id == answer), "reject_once")
        call.denied = chosen.startswith("reject")
        return answer

    def _announce(self, event: str, tool: Tool, call: _Call) -> None:
        hooks = self._take(event, tool, call)
        if hooks and not self._put(lambda: self._perform(event, tool, hooks, call)):
            self._listener.lost(event, tool, hooks)

    def _take(self, event: str, tool: Tool, call: _Call) -> tuple[Hook, ...]:
        """Those that are due and were not run for this call: more may be known of it than when it was announced."""
        hooks = tuple(one for one in self._listener.due(event, tool) if (event, one.key) not in call.ran)
        call.ran.update((event, one.key) for one in hooks)
        return hooks

    async def _perform(self, event: str, tool: Tool, hooks: tuple[Hook, ...], call: _Call) -> None:
        refusal = await self._listener.perform(event, tool, hooks)
        call.refusal = call.refusal or refusal

    def _put(self, job: Callable[[], Awaitable[None]]) -> bool:
        try:
            self._queue.send_nowait(job)
        except (anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return False
        return True

    @property
    def _queue(self) -> MemoryObjectSendStream[Callable[[], Awaitable[None]]]:
        if self._send is None:
            raise RuntimeError("nobody serves the hooks of tools; this is a defect of the engine")
        return self._send

    def _call(self, id: str) -> _Call:
        if id not in self._calls and len(self._calls) >= CALLS:
            del self._calls[next(iter(self._calls))]
        return self._calls.setdefault(id, _Call())


class _Watched:
    """An agent whose sessions are heard."""

    def __init__(self, agent: Agent, calls: ToolCalls) -> None:
        self.name = agent.name
        self.lasting = agent.lasting
        self._agent = agent
        self._calls = calls

    async def open(self, opening: Opening) -> AgentSession:
        """See the port."""
        name, asked = self._calls.opened(), opening.permit

        async def permit(permission: Permission) -> str | None:
            return await asked(replace(permission, tool=f"{name}:{permission.tool}"))

        return _WatchedSession(await self._agent.open(replace(opening, permit=permit)), name, self._calls)


class _WatchedSession:
    """A session that is heard."""

    def __init__(self, session: AgentSession, name: str, calls: ToolCalls) -> None:
        self._session = session
        self._name = name
        self._calls = calls

    @property
    def identity(self) -> ProcessRef | None:
        """See the port."""
        return self._session.identity

    @property
    def lasting(self) -> bool:
        """See the port."""
        return self._session.lasting

    @property
    def agent_session(self) -> str | None:
        """See the port."""
        return self._session.agent_session

    async def prompt(self, text: str, on_update: Callable[[Update], None], log: str | None = None) -> Turn:
        """See the port."""

        def hear(update: Update) -> None:
            self._calls.heard(self._name, update)
            on_update(update)

        return await self._session.prompt(text, hear, log)

    async def cancel(self) -> None:
        """See the port."""
        await self._session.cancel()

    async def close(self) -> None:
        """See the port."""
        await self._session.close()
