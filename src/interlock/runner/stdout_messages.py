"""What an agent says in AOF/1 on its standard output while it runs: picked out and acted on, as from that run.

A line that claims to be ours (decision 15) goes through the same router as every other door, in the order in which it
was printed, in a transaction of its own. Everything else passes. The agent is never kept waiting: lines are put into a
queue, and whoever settles the run waits until the queue is empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import InterlockError
from interlock.model.task import Task
from interlock.processes.output import plain
from interlock.protocol.message import ParsedMessage, ProtocolAnswer, may_be_ours, parse
from interlock.protocol.routing import route

WAITING_MOST = 1000
"""Messages that wait to be acted on; what an agent prints beyond that is refused aloud rather than kept in memory."""


class StdoutMessages:
    """Listens to one run. `mark` names this process, should a report lead to a verify that has to be run here."""

    def __init__(
        self,
        workspace: Workspace,
        task: Task,
        caller: Principal,
        mark: str,
        in_thread: Callable[[Callable[[], ProtocolAnswer]], Awaitable[ProtocolAnswer]],
        note: Callable[[str], None],
    ) -> None:
        self.mark = mark
        self._workspace = workspace
        self._task = task
        self._caller = caller
        self._in_thread = in_thread
        self._note = note
        self._waiting: deque[ParsedMessage] = deque()
        self._rouse = anyio.Event()
        self._lock = anyio.Lock()
        self._overheard = 0

    def hear(self, text: str) -> None:
        """Something the agent said; never waits, never raises for what it says."""
        for line in text.splitlines():
            if not may_be_ours(line):
                continue
            parsed = parse(line)
            if not parsed.ours:
                continue
            if len(self._waiting) >= WAITING_MOST:
                self._overheard += 1
                if self._overheard == 1:
                    self._note(
                        f"it sends AOF/1 messages faster than they can be acted on; over {WAITING_MOST} are lost"
                    )
                continue
            self._waiting.append(parsed)
            self._rouse.set()

    async def listen(self) -> None:
        """Act on messages as they come, for ever."""
        while True:
            await self._rouse.wait()
            self._rouse = anyio.Event()
            await self.all_heard()

    async def all_heard(self) -> None:
        """Return once everything that was said has been acted on."""
        async with self._lock:
            while self._waiting:
                parsed = self._waiting.popleft()
                try:
                    answer = await self._in_thread(partial(self._route, parsed))
                except InterlockError as error:
                    self._note(f"an AOF/1 message could not be acted on: {error.message}")
                    continue
                if not answer.accepted:
                    why = "; ".join(fault.message for fault in answer.errors[:3])
                    self._note(f"an AOF/1 message was refused: {answer.reason}{f' ({why})' if why else ''}")

    def _route(self, parsed: ParsedMessage) -> ProtocolAnswer:
        known, about = self._caller, parsed.envelope.task_id if parsed.envelope is not None else None
        # Its number says something about this task only; of another one the session may hold any run.
        run = known.run if about == self._task.id else None
        caller = Principal(known.name, known.session, run, face=known.face, process=known.process)
        return route(self._workspace, caller, parsed, verifier=self.mark)


def without_messages(text: str) -> str:
    """What an agent said beside its messages to us."""
    if not any(may_be_ours(line) for line in text.splitlines()):
        return text
    return "\n".join(line for line in text.splitlines() if not (may_be_ours(line) and parse(plain(line)).ours))
