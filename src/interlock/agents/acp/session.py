"""A session with an agent program that speaks ACP: prompts, its updates and questions, stopping, and its end.

* The program is a `Child`; `close`, a stop that is not obeyed and its own death all end the whole of it.
* A prompt ends: by the agent's answer, by the program's end (however it dies, and also where something it started holds
  its pipe open), or, asked to stop, after the grace at the latest.
* A permission request that nobody can answer any more is answered with "cancelled", as the protocol wants it.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import anyio
import anyio.lowlevel
from acp import text_block
from acp.client.connection import ClientSideConnection
from acp.exceptions import RequestError
from acp.schema import PermissionOption, RequestPermissionResponse, ToolCallUpdate
from pydantic import ValidationError

from interlock.agents.acp.transport import Wire
from interlock.agents.acp.updates import TITLE_CHARS, Speech, permission_answer, read_permission
from interlock.agents.capacity import Limit, Shortage, recognise, waiting
from interlock.agents.session import Opening, Turn, Update
from interlock.agents.usage import Usage
from interlock.errors import InvalidRequest, StorageError
from interlock.processes.output import Output, blanked
from interlock.processes.program import LINGER, Child
from interlock.processes.ref import ProcessRef

FAREWELL = 1.0
"""Seconds an agent gets to close a session before its program is ended."""
AUTH_REQUIRED = -32000

_RATE_LIMIT = "_claude/rateLimit"
_STOPS = {
    "max_tokens": "it stopped at its model's limit of tokens",
    "max_turn_requests": "it stopped at its limit of requests for one turn",
    "refusal": "the agent refused to continue",
    "cancelled": "it ended its turn by itself, as some agents do when a permission is refused",
}


class AcpSession:
    """One session of one program. Made by `AcpAgent.open`, which fills in `connection`, `agent_session` and
    `usage`."""

    connection: ClientSideConnection

    def __init__(
        self, opening: Opening, child: Child, pipes: tuple[int, int, int], errors: Output, limits: tuple[Limit, ...]
    ) -> None:
        self.agent_session: str | None = None
        self.can_close = False
        self._opening = opening
        self._child = child
        self._limits = limits
        self._errors = errors
        self._wire = Wire(pipes[1], pipes[0], on_update=self._on_update, on_noise=self._on_noise)
        self._error_pipe = pipes[2]
        os.set_blocking(self._error_pipe, False)
        self._exited = anyio.Event()
        self._speech: Speech | None = None
        self._idle: anyio.Event | None = None
        self._stop: anyio.Event | None = None
        self._patience: anyio.CancelScope | None = None
        self._waiting = 0
        self._time_left = 0.0
        self._stopped_as: Literal["cancelled", "timeout"] = "cancelled"
        self._failure: Exception | None = None
        self._cost = 0.0
        self.usage = Usage(None)
        self._usage_told = anyio.Event()
        self._resets_at: float | None = None
        self._waits_told = -math.inf
        self._closed = False
        self._asked = 0
        self._withdrawn = False
        self._tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._listen_to_errors())]

    @property
    def wire(self) -> Wire:
        """What the connection speaks over."""
        return self._wire

    @property
    def identity(self) -> ProcessRef:
        """The program's process."""
        return self._child.identity

    @property
    def lasting(self) -> bool:
        """As long as its program lives."""
        return not self._closed and not self._wire.over.is_set()

    async def prompt(self, text: str, on_update: Callable[[Update], None], log: str | None = None) -> Turn:
        """Run one turn.

        Raises:
            InvalidRequest: the session is closed, or still busy with an earlier prompt.
            Exception: what `on_update` or `permit` raised; the turn was ended.
        """
        if self._closed or self._speech is not None:
            state = "is closed" if self._closed else "has not ended its turn yet"
            raise InvalidRequest(f"The session {state}: prompt it after the turn, or open a new one.")
        try:
            self._speech = speech = Speech(self._opening, on_update, self._cost, log)
        except StorageError as error:
            return Turn("failed", detail=error.message)
        self._idle, self._stop, self._failure, self._withdrawn = anyio.Event(), anyio.Event(), None, False
        self.usage.turn_begins()
        try:
            turn = await self._turn(text, speech)
            with anyio.CancelScope(shield=True):
                speech.spent({"turns": 1, **await self.usage.of_turn()})
            speech.finish()
        finally:
            self._cost = speech.cost
            speech.close()
            self._speech = self._stop = None
            self._idle.set()
        failure = speech.failure or self._failure
        if failure is not None:
            raise failure
        detail = turn.detail or speech.warning
        return Turn(turn.stop, speech.output, turn.exit_code, detail, turn.retry_at, turn.login)

    async def cancel(self) -> None:
        """Ask the agent to stop; what does not obey within the grace is ended."""
        if self._stop is not None:
            self._stopped_as = "cancelled"
            self._stop.set()

    async def close(self) -> None:
        """End the session, its program and everything that one started."""
        with anyio.CancelScope(shield=True):
            first, self._closed = not self._closed, True
            await self.cancel()
            if first and self._speech is None and self.can_close and not self._wire.over.is_set():
                with anyio.move_on_after(FAREWELL):
                    await self._quietly(self.connection.close_session(session_id=str(self.agent_session)))
            await self._end()
            if self._idle is not None:
                await self._idle.wait()
            if first:
                await self._put_away()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **meta: Any
    ) -> RequestPermissionResponse:
        """The agent asks; called by the package. `meta` is the request's own `_meta`."""
        answer: list[str | None] = [None]
        stop, speech = self._stop, self._speech
        if stop is None or stop.is_set() or speech is None:
            return permission_answer(None)
        self._asked += 1
        permission = read_permission(self._asked, tool_call, options, self._opening, speech.about(tool_call, meta))

        async def ask(group: anyio.abc.TaskGroup) -> None:
            try:
                answer[0] = await self._opening.permit(permission)
            except Exception as error:  # boundary: of the runner; `prompt` raises it
                self._failure = error
                await self.cancel()
            group.cancel_scope.cancel()

        with self._clock_stopped():
            async with anyio.create_task_group() as group:
                group.start_soon(ask, group)
                group.start_soon(_then_cancel, stop, group)
                group.start_soon(_then_cancel, self._wire.over, group)
        known = {choice.id for choice in permission.choices}
        chosen = answer[0] if answer[0] in known and not stop.is_set() else None
        self._withdrawn = self._withdrawn or chosen is None
        return permission_answer(chosen)

    @contextmanager
    def _clock_stopped(self) -> Iterator[None]:
        """The time that an agent waits for an answer is not its own."""
        patience = self._patience
        self._waiting += 1
        if patience is not None and self._waiting == 1:
            self._time_left = patience.deadline - anyio.current_time()
            patience.deadline = math.inf
        try:
            yield
        finally:
            self._waiting -= 1
            if patience is not None and not self._waiting:
                patience.deadline = anyio.current_time() + self._time_left

    async def _turn(self, text: str, speech: Speech) -> Turn:
        """The turn without its output."""
        response: Any = None
        error: RequestError | ValidationError | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._enforce)
            group.start_soon(self._meter, speech)
            try:
                response = await self.connection.prompt(session_id=str(self.agent_session), prompt=[text_block(text)])
            except (RequestError, ValidationError) as raised:
                error = raised
            except ConnectionError:
                pass
            group.cancel_scope.cancel()
        assert self._stop is not None
        if response is None and error is None:
            return await self._death()
        if self._stop.is_set():
            return Turn(self._stopped_as, detail=_TIME_IS_UP if self._stopped_as == "timeout" else None)
        speech.finish()  # so that its last line is known
        if response is not None:
            self.usage.told(response.usage, response.field_meta)
        reason = "" if error is None else reason_of(error)
        short = self._shortage(reason, speech.last_line, getattr(error, "code", None))
        if short is not None:
            return Turn("capacity", detail=short.reason, retry_at=short.retry_at, login=short.login)
        if error is not None:
            return Turn("failed", detail=blanked(reason, self._opening.secrets).partition("\n")[0][:1000])
        stop = response.stop_reason
        if stop == "cancelled" and self._withdrawn:
            return Turn("cancelled")
        return Turn("failed" if stop == "refusal" else "end", detail=_STOPS.get(stop))

    async def _meter(self, speech: Speech) -> None:
        """Tell what is used while the turn runs, so that a limit can end it."""
        while self.usage.kept:
            self._usage_told = anyio.Event()
            with anyio.move_on_after(_METERED):
                await self._usage_told.wait()
            used = await self.usage.so_far()
            if any(used.values()):
                speech.spent(used)

    async def _enforce(self) -> None:
        """Wait for the time limit or a wish to stop; ask politely, then see to it."""
        assert self._stop is not None
        with anyio.move_on_after(self._opening.time_limit) as self._patience:
            await self._stop.wait()
        self._patience = None
        if not self._stop.is_set():
            self._stopped_as = "timeout"
            self._stop.set()
        with anyio.move_on_after(self._opening.stop_grace):
            await self._quietly(self.connection.cancel(session_id=str(self.agent_session)))
            await anyio.sleep_forever()
        await self._end()

    async def _death(self) -> Turn:
        """The turn of a program that went away, or had to be ended."""
        assert self._stop is not None
        with anyio.move_on_after(LINGER):
            await self._exited.wait()
        by_itself = self._exited.is_set()
        await self._end()
        if self._stop.is_set():
            return Turn(self._stopped_as, detail=_TIME_IS_UP if self._stopped_as == "timeout" else None)
        last = self.last_words()
        short = self._shortage(last, "", None)
        if short is not None:
            return Turn("capacity", detail=short.reason, retry_at=short.retry_at, login=short.login)
        code = self._child.exit_code if by_itself else None
        # An adapter whose program was killed ends well, so that its 0 says nothing.
        told = f" with exit code {code}" if code else ""
        what = self._wire.broken or f"its program ended{told} in the middle of the turn"
        detail = f"{what}; the last it printed: {last}" if last else what
        return Turn("killed" if code is not None and code < 0 else "failed", exit_code=code, detail=detail)

    def _shortage(self, reason: str, last_line: str, code: int | None) -> Shortage | None:
        secrets = self._opening.secrets
        found = recognise(self._limits, blanked(reason, secrets), last_line, time.time())
        if found is None and code == AUTH_REQUIRED:
            found = Shortage(blanked(reason, secrets), None, True)
        if found is not None and found.retry_at is None and not found.login and self._resets_at is not None:
            found = Shortage(found.reason, self._resets_at, False)
        return found

    def last_words(self) -> str:
        """The end of what it printed beside the protocol, in one line."""
        lines = [line.strip() for line in self._errors.text.splitlines() if line.strip()]
        return " / ".join(lines[-3:])[-500:]

    def shortage(self, error: RequestError | ValidationError) -> Shortage | None:
        """Whether a refusal is one for want of capacity."""
        return self._shortage(reason_of(error), "", getattr(error, "code", None))

    def _on_update(self, params: Mapping[str, Any]) -> None:
        update = params.get("update")
        if params.get("sessionId") != self.agent_session:
            return
        retry = params.get("message")
        if isinstance(retry, dict) and retry.get("subtype") == "api_retry":
            delay, why = retry.get("retry_delay_ms"), retry.get("error_status") or retry.get("error")
            until = time.time() + delay / 1000 if isinstance(delay, (int, float)) and 0 <= delay < 1e10 else None
            self._waits(f"{why}, attempt {retry.get('attempt')} of {retry.get('max_retries')}", until)
        if not isinstance(update, dict):
            return
        meta = update.get("_meta")
        limit = meta.get(_RATE_LIMIT) if isinstance(meta, dict) else None
        if isinstance(limit, dict) and isinstance(limit.get("resetsAt"), (int, float)):
            self._resets_at = float(limit["resetsAt"]) if limit.get("status") == "rejected" else None
        if update.get("sessionUpdate") == "usage_update":
            self.usage.requests += 1
            self._usage_told.set()
        if self._speech is not None:  # Else it tells an old session again, or of its commands and modes.
            self._speech.hear(update)
            if self._speech.failure is not None and self._stop is not None:
                self._stop.set()

    def _on_error(self, line: str) -> None:
        found = waiting(self._limits, line[:2000], time.time())
        if found is not None:
            self._waits(found.reason, found.retry_at)
        if self._speech is not None:
            self._speech.complains(line[:TITLE_CHARS])

    def _waits(self, reason: str, until: float | None) -> None:
        if self._speech is not None and time.monotonic() >= self._waits_told + _WAIT_TOLD:
            self._waits_told = time.monotonic()
            self._speech.waits(reason, until)

    def _on_noise(self, line: bytes) -> None:
        self._errors.feed(line[:10_000] + b"\n", lambda said: None)

    async def _watch(self) -> None:
        await self._child.exited()
        self._exited.set()
        with anyio.move_on_after(LINGER):
            await self._wire.over.wait()
        self._wire.end()

    async def _listen_to_errors(self) -> None:
        try:
            while True:
                try:
                    chunk = os.read(self._error_pipe, 65_536)
                except BlockingIOError:
                    await anyio.wait_readable(self._error_pipe)
                    continue
                if not chunk:
                    return
                self._errors.feed(chunk, self._on_error)
                await anyio.lowlevel.checkpoint()
        except (OSError, anyio.ClosedResourceError):
            return

    async def _quietly(self, request: Coroutine[Any, Any, object]) -> None:
        try:
            await request
        except (RequestError, ValidationError, ConnectionError):
            pass

    async def _end(self) -> None:
        await self._child.end()
        self._wire.end()

    async def _put_away(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        anyio.notify_closing(self._error_pipe)
        os.close(self._error_pipe)
        self._errors.close()
        await self.connection.close()
        await self._wire.close()


_WAIT_TOLD = 1.0  # seconds between two tellings that a program waits
_METERED = 5.0  # seconds between two looks at what a turn uses, where its agent tells of none
_TIME_IS_UP = "its time was up"
_INTERNAL = "Internal error"


async def _then_cancel(event: anyio.Event, group: anyio.abc.TaskGroup) -> None:
    await event.wait()
    group.cancel_scope.cancel()


def reason_of(error: RequestError | ValidationError) -> str:
    """What went wrong in the agent's words; in lines of their own what it says for programs."""
    if isinstance(error, ValidationError):
        return f"its answer was not understood: {str(error)[:300]}"
    data = error.data
    more = data.get("details") or data.get("message") or data.get("errorKind") if isinstance(data, dict) else data
    said = str(error).removeprefix(_INTERNAL).lstrip(": ")
    return "\n".join(str(one) for one in (said, more) if one) or _INTERNAL
