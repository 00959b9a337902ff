"""AOF/1 messages that an agent prints on its standard output while it runs: picked out and acted on, as from that run.

A line that claims to be ours (decision 15) goes through the same router as every other door, in the order in which it
was printed, in a transaction of its own. Everything else passes. The agent is never kept waiting: messages are queued,
and the run is settled only when the queue is empty.
"""

from __future__ import annotations

from collections import deque
from functools import partial

import anyio

from interlock.core.unit_of_work import Principal
from interlock.core.waiting import in_thread
from interlock.errors import InterlockError
from interlock.model.text import plain
from interlock.protocol.message import ParsedMessage, ProtocolAnswer, may_be_ours, parse
from interlock.protocol.routing import route
from interlock.runner.context import ActiveRun

WAITING_MOST = 1000
"""Messages that wait to be acted on; beyond that they are refused aloud rather than kept in memory."""


class StdoutMessages:
    """Of one run. `mark` names this process, should a report lead to a verify that has to be run here."""

    def __init__(self, run: ActiveRun, mark: str) -> None:
        self._run = run
        self._mark = mark
        self._waiting: deque[ParsedMessage] = deque()
        self._rouse = anyio.Event()
        self._lock = anyio.Lock()
        self._lost = False

    def hear(self, text: str) -> None:
        """Queue the messages in something the agent said; never waits, never raises for what it says."""
        for line in text.splitlines():
            parsed = parse(line) if may_be_ours(line) else None
            if parsed is None or not parsed.ours:
                continue
            if len(self._waiting) < WAITING_MOST:
                self._waiting.append(parsed)
                self._rouse.set()
            elif not self._lost:
                self._lost = True
                self._run.say(f"it sends AOF/1 messages faster than they can be acted on; over {WAITING_MOST} are lost")

    async def listen(self) -> None:
        """Act on messages as they come, until cancelled."""
        while True:
            await self._rouse.wait()
            self._rouse = anyio.Event()
            await self.all_heard()

    async def all_heard(self) -> None:
        """Return once everything that was said has been acted on."""
        async with self._lock:
            while self._waiting:
                try:
                    answer = await in_thread(partial(self._route, self._waiting.popleft()))
                except InterlockError as error:
                    self._run.say(f"an AOF/1 message could not be acted on: {error.message}")
                    continue
                if not answer.accepted:
                    why = "; ".join(fault.message for fault in answer.errors[:3])
                    self._run.say(f"an AOF/1 message was refused: {answer.reason}{f' ({why})' if why else ''}")

    def _route(self, parsed: ParsedMessage) -> ProtocolAnswer:
        known, about = self._run.caller, parsed.envelope.task_id if parsed.envelope is not None else None
        # Its number says something about this task only; of another one the session may hold any run.
        run = known.run if about == self._run.task.id else None
        caller = Principal(known.name, known.session, run, face=known.face, process=known.process)
        return route(self._run.workspace, caller, parsed, verifier=self._mark)


def without_messages(text: str) -> str:
    """What an agent said beside its messages to us."""
    if not any(may_be_ours(line) for line in text.splitlines()):
        return text
    return "\n".join(line for line in text.splitlines() if not (may_be_ours(line) and parse(plain(line)).ours))
