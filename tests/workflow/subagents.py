"""A context of subagents in virtual time: players, a dispatcher, and how many agents lived at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import anyio

from interlock.agents.session import Opening, Turn, Update
from interlock.workflow import panel
from interlock.workflow.agents.assignment import Assignment, Report
from interlock.workflow.agents.records import RoutingTerms, SubagentRecord, SubagentRegistry
from interlock.workflow.agents.subagent import Staffing
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from interlock.workflow.agents.watch import Limits
from tests.workflow import virtual
from tests.workflow.stage import Play, Player, PlayerSession

Value = TypeVar("Value")

LIMITS = Limits(grace=1.0)


class Staff(Player):
    """Counts its sessions that are open. `dies`: a session that ended with this stop takes no more prompts."""

    def __init__(self, play: Play, *, lasting: bool = True, resumes: bool = False) -> None:
        super().__init__(play, lasting=lasting, resumes=resumes)
        self.most = 0
        self.openings: list[Opening] = []

    async def open(self, opening: Opening) -> PlayerSession:
        self.openings.append(opening)
        session = await super().open(opening)
        self.most = max(self.most, self.alive)
        return session

    @property
    def alive(self) -> int:
        return sum(not one.closed for one in self.sessions)


class Books(SubagentRegistry):
    """An registry that keeps everything in memory."""

    def __init__(self, **terms: Any) -> None:
        self.given = RoutingTerms(**terms)
        self.entries: dict[int, dict[str, Any]] = {}
        self.reasons: list[str] = []
        self.warnings: list[str] = []
        self.open: list[SubagentRecord] = []

    def terms(self) -> RoutingTerms:
        return self.given

    def left_open(self, input: str, label: str) -> SubagentRecord | None:
        found = next((one for one in self.open if (one.input, one.label) == (input, label)), None)
        if found is not None:
            self.open.remove(found)
        return found

    def assigned(self, record: SubagentRecord, why: str, warning: str | None) -> None:
        self.reasons.append(why)
        self.warnings += [warning] if warning else []
        self.note(record)

    def note(self, record: SubagentRecord) -> None:
        record.n = record.n or len(self.entries) + 1
        self.entries[record.n] = record.as_dict()

    async def keep(self, record: SubagentRecord) -> None:
        self.note(record)
        await anyio.lowlevel.checkpoint()


class Office:
    """A dispatcher with its staff and books; what it told stands in `told`."""

    def __init__(self, staff: Staff, size: int = 10, *, log: str = "", model: str | None = None, **more: Any) -> None:
        self.staff = staff
        self.books = Books(**more.pop("terms", {}))
        self.told: list[Update] = []
        opening = Opening(
            session_id="s", member="ada", workdir=str(Path.cwd()), environment={}, log=log, time_limit=86_400.0,
            stop_grace=1.0, output_bytes=1_000_000, model=model, **more.pop("opening", {}),
        )  # fmt: skip
        own = Staffing(staff, opening, more.pop("models", {}))
        self.dispatcher = SubagentDispatcher(own, self.told.append, size, limits=LIMITS, **more)
        self.dispatcher.registry = self.books

    def __call__(self, main: Callable[[SubagentDispatcher], Awaitable[Value]]) -> Value:
        """Run `main` in virtual time; afterwards nobody is left."""

        async def whole() -> Value:
            try:
                return await main(self.dispatcher)
            finally:
                await self.dispatcher.close()

        found = virtual.run(whole)
        assert self.staff.alive == 0 and self.dispatcher.agents == 0
        return found


async def run_all(dispatcher: SubagentDispatcher, work: Sequence[Assignment]) -> list[Report]:
    """Carry them all out at once; the reports in their order."""
    asked = await panel.ask(dispatcher, work, panel.VOICES)
    return [report for _, report in sorted(asked.reports.items())]


def takes(seconds: float, text: str = "done") -> Play:
    """An agent that needs so long for everything."""

    async def part(part: Any) -> str | Turn:
        await virtual.passes(seconds)
        return text

    return part
