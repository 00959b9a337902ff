"""A subagent: a conversation with an agent of the pool, which may change under it without harm (FR22, FR23c).

Between two prompts its seat may be given to others; during one its program may crash, or it may have to make room. It
is then taken up again in its own session where the program can resume it, and else begun again with what was said
before. What was to write, and may have half written, is not begun again by an agent that does not know of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from typing import Any, Protocol

import anyio

from interlock.agents.session import Agent, AgentSession, Opening, Permission, Turn, Update, ignore, refuse
from interlock.errors import AgentError, NoCapacity, StorageError, is_short
from interlock.lazy_dataclass import dataclass
from interlock.processes.groups import nested
from interlock.processes.output import Output
from interlock.workflow.agents.assignment import Assignment, Report
from interlock.workflow.agents.records import INTERRUPTED, WORKING, SubagentRecord, SubagentRegistry
from interlock.workflow.agents.seats import PREEMPTED, Seat, Stopped, SubagentPool, Ticket
from interlock.workflow.agents.watch import AGENT_TIMEOUT, TIME_LIMIT, WRITES, Limits, Watch, paused, prompted
from interlock.workflow.markdown import history

AGAIN = 1
"""How often work is begun again after a crash."""
REMEMBERED, SAID = 8, 6000  # prompts of a conversation that are told to a stranger, and characters of each
GO_ON = "You were interrupted. Go on with this; what is done already need not be done again.\n\n"
STRANGE = "This is another piece of work, which has nothing to do with what was said before.\n\n"
STATUSES = {"end": "completed", "cancelled": "cancelled", "capacity": "capacity", "timeout": "timeout"}


@contextmanager
def telling(opening: Opening, tell: Callable[[Update], None], label: str) -> Iterator[Callable[[Update], None]]:
    """What takes the updates of a subagent's turn: they are told under its label, to the run's log and as notices, so
    that they are not taken for the run's own agent. What the turn cost passes as it is."""
    log: Output | None = None
    with suppress(StorageError):  # The run's own agent says so; a subagent works without.
        log = Output(log=opening.log, secrets=opening.secrets, limit=0)

    def hear(update: Update) -> None:
        if update.kind == "usage":
            tell(update)
        elif update.kind == "tool":
            data: Mapping[str, object] = {**update.data, "id": f"{label}/{update.data.get('id', '')}"}
            tell(Update("tool", f"[{label}] {update.text}", data))
        else:
            for line in update.text.splitlines():
                tell(Update("thought" if update.kind == "thought" else "notice", f"[{label}] {line}"))
                if log is not None and update.kind == "text":
                    log.feed(f"[{label}] {line}\n".encode("utf-8", "replace"), _told)

    try:
        yield hear
    finally:
        if log is not None:
            log.finish(_told)


def _told(line: str) -> None:
    """The lines were told already."""


@dataclass(frozen=True, slots=True)
class Staffing:
    """A program that subagents are sessions of: what each is opened with, and what it calls the classes of models."""

    agent: Agent
    opening: Opening
    models: Mapping[str, str] = field(default_factory=dict)


class Staff(Protocol):
    """What the subagents of a run share."""

    on_update: Callable[[Update], None]
    limits: Limits
    pool: SubagentPool
    registry: SubagentRegistry

    def program(self, kind: str) -> Staffing:
        """What work of that kind is given to."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One prompt, as far as it came. `crashed`: its program went away, or hung. `lost`: what was begun before cannot be
    taken up again, and must not be begun again."""

    turn: Turn
    seconds: float = 0.0
    crashed: bool = False
    lost: bool = False


class Subagent:
    """Several prompts, one context. `fits` says what other work its agent may be put to afterwards, None for none;
    `preamble` comes before the first prompt of each session; `chosen`: its model is our choice, so that the program's
    own is taken where that one cannot be had."""

    def __init__(
        self,
        staff: Staff,
        assignment: Assignment,
        record: SubagentRecord,
        *,
        preamble: str = "",
        fits: Hashable = None,
        chosen: bool = False,
    ) -> None:
        self.assignment = assignment
        self.record = record
        self.resumed = False
        """Whether its session is the one that was to be resumed."""
        self._staff = staff
        self._program = staff.program(assignment.kind)
        self._preamble = preamble
        self._chosen = chosen
        self._fits = fits
        self._ticket = Ticket(assignment.priority, self, fits)
        self._transcript: list[dict[str, str]] = []
        self._watch: Watch | None = None
        self._closed = False

    @property
    def agent_id(self) -> str | None:
        """What it can be resumed by, None where its program cannot."""
        return self.record.agent_id

    async def ready(self) -> None:
        """Open its session, where its program has one before it is prompted.

        Raises:
            AgentError: its program did not start, or the run is ending.
        """
        if not self._program.agent.lasting:
            return
        try:
            seat = await self._staff.pool.take(self._ticket)
        except Stopped:
            raise AgentError(f"{self.assignment.label} was not started: the run is ending.") from None
        try:
            await self._seated(seat)
        except BaseException:
            self.record.status = "failed"
            self._staff.registry.note(self.record)
            raise
        finally:
            await self._leave(seat, keep=seat.session is not None)
        await self._staff.registry.keep(self.record)

    async def say(self, text: str, time_limit: float = 0.0, *, interrupted: bool = False) -> Report:
        """One prompt and what comes back, within so many seconds of its own work (0: the session's own limits).
        `interrupted`: the same was asked before, and never answered."""
        report = None
        try:
            report = await self._said(text, time_limit, interrupted)
            return report
        finally:
            status = report.status if report is not None else "cancelled"
            ending = self._staff.pool.stopped and status in ("cancelled", "preempted")
            self.record.status = INTERRUPTED if ending else status
            self._staff.registry.note(self.record)

    async def close(self) -> None:
        """End it; its agent goes back to the pool where it may be put to other work."""
        self._closed = True
        if self.record.status == WORKING:
            self.record.status = "cancelled"
            self._staff.registry.note(self.record)
        with anyio.CancelScope(shield=True):
            await self._staff.pool.give_up(self, reuse=self.record.status == "completed")

    async def permit(self, permission: Permission) -> str | None:
        """Its agent asks. Who is not to write is refused that; everything else is for whoever the run asks."""
        if permission.kind in WRITES and not self.assignment.writes:
            return await refuse(permission)
        titled = replace(permission, title=f"[{self.assignment.label}] {permission.title}")
        with paused(self._watch):
            return await self._program.opening.permit(titled)

    async def _said(self, text: str, time_limit: float, interrupted: bool) -> Report:
        ticket = self._ticket = Ticket(self.assignment.priority, self, None if interrupted else self._fits)
        worked, crashes = 0.0, 0
        while True:
            try:
                seat = await self._staff.pool.take(ticket)
            except Stopped:
                status = "preempted" if ticket.preempted else "cancelled"
                return self._report(status, Turn("cancelled", detail="the run is ending"), worked)
            left = max(0.001, time_limit - worked) if time_limit else 0.0
            attempt = await self._attempt(seat, text, left, interrupted)
            worked += attempt.seconds
            turn = attempt.turn
            if attempt.lost:
                return self._report("preempted" if ticket.preempted and not crashes else "failed", turn, worked)
            interrupted, ticket.fits = True, None
            if ticket.why == PREEMPTED and turn.stop == "cancelled":
                continue
            if attempt.crashed and crashes < AGAIN and not self._closed and (not time_limit or worked < time_limit):
                crashes += 1
                continue
            if turn.stop == "end":
                self._remember(text, turn.output)
            return self._report(STATUSES.get(turn.stop, "failed"), turn, worked)

    async def _attempt(self, seat: Seat, text: str, limit: float, interrupted: bool) -> Attempt:
        """Ask once. The seat is left afterwards, kept for the next prompt where that is possible."""
        self.record.status = WORKING
        self.record.attempts += 1
        staff, keep = self._staff, False
        try:
            knows = await self._seated(seat)
            session = seat.session
            if session is None:
                return Attempt(Turn("cancelled", detail="it was stopped before it began"))
            if interrupted and not knows and self.assignment.writes:
                turn = Turn("failed", detail="it was interrupted, and cannot be taken up where it was left")
                return Attempt(turn, lost=True)
            await staff.registry.keep(self.record)
            if self._ticket.stop.is_set():
                keep = True
                return Attempt(Turn("cancelled", detail="it was stopped before it began"))
            asked = self._asked(seat, text, knows, interrupted)
            seat.strange = False
            self._watch = watch = Watch(staff.limits, False, anyio.current_time(), whole=limit)
            with telling(self._program.opening, staff.on_update, self.assignment.label) as hear:
                where = self._program.opening.workdir
                turn = await prompted(session, asked, watch, hear, workdir=where, stop=self._ticket.stop, log="")
            seconds = watch.worked(anyio.current_time())
            if watch.timeout is not None:
                detail = f"no answer within {limit:g} s" if watch.timeout == TIME_LIMIT else watch.timeout
                hung = watch.timeout == AGENT_TIMEOUT
                return Attempt(Turn("timeout", turn.output, detail=detail), seconds, crashed=hung)
            keep = turn.stop in ("end", "cancelled") and not self._closed
            gone = turn.stop == "failed" and self._program.agent.lasting and not session.lasting
            return Attempt(turn, seconds, gone or turn.stop == "killed")
        except NoCapacity as error:
            return Attempt(Turn("capacity", detail=error.message, retry_at=error.details.get("retry_at")))
        except (AgentError, StorageError, OSError) as error:
            if is_short(error):
                return Attempt(Turn("capacity", detail=str(error)))
            if not isinstance(error, AgentError):
                raise
            return Attempt(Turn("failed", detail=error.message))
        finally:
            self._watch = None
            await self._leave(seat, keep=keep)

    async def _leave(self, seat: Seat, *, keep: bool) -> None:
        with anyio.CancelScope(shield=True):
            await self._staff.pool.leave(seat, keep=keep)

    async def _seated(self, seat: Seat) -> bool:
        """See to it that there is an agent in the seat, none only where that was stopped; whether it knows what was
        said before."""
        pool = self._staff.pool
        if seat.session is not None and not seat.session.lasting:  # It died while nobody looked.
            await pool.clear(seat)
            seat.session, seat.retiring = None, seat.session
        await pool.clear(seat)
        if seat.session is not None:
            self.record.agent_id = seat.session.agent_session
            return not seat.strange
        wanted, model = self.record.agent_id, self.record.model
        ways: list[tuple[str | None, str | None]] = [(model, wanted)] if wanted is not None else []
        ways.append((model, None))
        if self._chosen and model != self._program.opening.model:
            ways.append((self._program.opening.model, None))
        for number, (name, resume) in enumerate(ways, 1):
            try:
                seat.session = await self._opened(seat, name, resume)
            except NoCapacity:
                raise
            except AgentError:
                if number == len(ways):
                    raise
                continue
            break
        if seat.session is None:
            return False
        self.record.model, self.record.agent_id = name, seat.session.agent_session
        if name != model:  # The program does not know the model that was chosen for it.
            self.record.model_signal = None
        self.resumed = resume is not None and seat.session.agent_session == resume
        return self.resumed

    async def _opened(self, seat: Seat, model: str | None, resume: str | None) -> AgentSession | None:
        """A session of the program; None where it had to stop meanwhile."""

        async def permit(permission: Permission) -> str | None:
            keeper = seat.keeper
            return await keeper.permit(permission) if isinstance(keeper, Subagent) else await refuse(permission)

        # It takes no part in the team and may end before the run: the run's process and tools are not its own.
        own = self._program.opening
        opening = replace(
            own, environment=nested(own.environment), model=model, resume=resume, permit=permit, on_start=ignore, mcp=()
        )
        found: list[AgentSession] = []
        failed: list[AgentError] = []

        async def halt() -> None:
            await self._ticket.stop.wait()
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(halt)
            try:
                found.append(await self._program.agent.open(opening))
            except AgentError as error:
                failed.append(error)
            group.cancel_scope.cancel()
        if failed:
            raise failed[0]
        return found[0] if found else None

    def _asked(self, seat: Seat, text: str, knows: bool, interrupted: bool) -> str:
        if knows:
            return f"{GO_ON}{text}" if interrupted else text
        if seat.strange:
            return f"{STRANGE}{text}"
        parts = [self._preamble, history(self._transcript, "What was said before")]
        return "\n\n".join([part for part in parts if part] + [text])

    def _remember(self, text: str, output: str) -> None:
        said = {"sent": text[:SAID], "said": output[-SAID:]}
        self._transcript = [*self._transcript, said][-REMEMBERED:]

    def _report(self, status: Any, turn: Turn, seconds: float) -> Report:
        known = self.record
        return Report(
            known.label, status, turn.output, known.agent_id, known.model, turn.detail, round(seconds, 3), turn.retry_at
        )
