"""Whatever is asked of subagents and whatever becomes of them: their number, their reports, and nobody left over."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.agents.session import Opening, Turn
from interlock.errors import AgentError
from interlock.workflow.agents.assignment import HIGH, KINDS, PRIORITIES, Assignment, Report
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from tests.workflow import virtual
from tests.workflow.stage import Part, PlayerSession
from tests.workflow.subagents import Office, Staff, run_all

FATES = ("works", "works", "works", "crashes once", "crashes", "hangs", "refuses", "no capacity", "does not start")


@dataclass(frozen=True)
class Wish:
    """A piece of work: when it is asked for, what becomes of its agent, and when whoever asked gives up."""

    after: float
    fate: str
    seconds: float
    kind: str
    priority: str
    writes: bool
    prompts: int
    patience: float | None
    time_limit: float


wishes = st.builds(
    Wish,
    after=st.floats(0, 50),
    fate=st.sampled_from(FATES),
    seconds=st.floats(0, 40),
    kind=st.sampled_from([*KINDS, "other"]),
    priority=st.sampled_from(PRIORITIES),
    writes=st.booleans(),
    prompts=st.integers(0, 3),  # 0: one assignment, else a conversation
    patience=st.one_of(st.none(), st.none(), st.floats(0, 60)),
    time_limit=st.sampled_from([0.0, 0.0, 30.0]),
)


class Fates(Staff):
    """Agents whose lives go as was wished."""

    def __init__(self, wishes: list[Wish], resumes: bool, lasting: bool) -> None:
        super().__init__(self._part, resumes=resumes, lasting=lasting)
        self.wishes = wishes
        self.tries: Counter[int] = Counter()

    async def open(self, opening: Opening) -> PlayerSession:
        await virtual.passes(0.5)
        if opening.model == "none":
            raise AgentError("it does not start")
        return await super().open(opening)

    async def _part(self, part: Part) -> str | Turn:
        number = int(part.prompt.rpartition("#")[2])
        wish = self.wishes[number]
        self.tries[number] += 1
        await virtual.passes(wish.seconds / 2)
        if wish.fate == "crashes" or (wish.fate == "crashes once" and self.tries[number] == 1):
            return Turn("killed")
        if wish.fate == "refuses":
            return Turn("failed")
        if wish.fate == "no capacity":
            return Turn("capacity", detail="none left")
        if wish.fate == "hangs":
            await anyio.sleep_forever()
        await virtual.passes(wish.seconds / 2)
        return "done"


@settings(max_examples=80, deadline=None)
@given(
    st.lists(wishes, max_size=12),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
    st.one_of(st.none(), st.none(), st.floats(0, 100)),
    st.booleans(),
)
def test_every_piece_of_work_comes_to_one_report_and_the_pool_is_never_exceeded(
    asked: list[Wish], size: int, resumes: bool, lasting: bool, stop_after: float | None, hard: bool
) -> None:
    staff = Fates(asked, resumes, lasting)
    office = Office(staff, size)
    reports: dict[int, list[Report]] = {number: [] for number in range(len(asked))}
    given_up: set[int] = set()

    async def one(dispatcher: SubagentDispatcher, number: int, wish: Wish) -> None:
        await virtual.passes(wish.after)
        model = "none" if wish.fate == "does not start" else None
        assignment = Assignment(
            f"w{number}", f"do #{number}", wish.kind, priority=wish.priority, writes=wish.writes, model=model,
            time_limit=wish.time_limit,
        )  # fmt: skip
        with anyio.move_on_after(wish.patience) as patience:
            if not wish.prompts:
                reports[number].append(await dispatcher.run(assignment))
            else:
                try:
                    talk = await dispatcher.open(assignment)
                except AgentError:
                    reports[number].append(Report(assignment.label, "failed"))
                    return
                try:
                    for _ in range(wish.prompts):
                        reports[number].append(await talk.say(f"again #{number}", wish.time_limit))
                finally:
                    await talk.close()
        if patience.cancelled_caught:
            given_up.add(number)

    async def main(dispatcher: SubagentDispatcher) -> None:
        async with anyio.create_task_group() as group:
            for number, wish in enumerate(asked):
                group.start_soon(one, dispatcher, number, wish)
            if stop_after is not None:
                await virtual.passes(stop_after)
                await (dispatcher.close() if hard else dispatcher.cancel())

    office(main)
    assert staff.most <= size
    assert all(one["status"] != "working" for one in office.books.entries.values())
    for number, wish in enumerate(asked):
        found, stopped = reports[number], stop_after is not None
        said = {one.status for one in found}
        if number in given_up:
            continue
        assert len(found) == (wish.prompts or 1) or wish.fate == "does not start" or stopped
        if stopped:
            continue
        if wish.fate == "does not start" and (lasting or not wish.prompts):
            assert said == {"failed"}
        elif wish.fate in ("crashes", "refuses"):
            assert said <= {"failed", "timeout", "preempted"}
        elif wish.fate == "hangs":
            assert said <= {"timeout", "failed", "preempted"}
        elif wish.fate == "no capacity":
            assert said <= {"capacity", "timeout", "preempted"}
        elif wish.fate == "works" and not wish.time_limit and (wish.priority == HIGH or not wish.writes):
            assert said == {"completed"}


@given(st.integers(1, 4), st.lists(st.floats(0.1, 20), min_size=1, max_size=12))
def test_within_one_priority_who_comes_first_begins_first(size: int, seconds: list[float]) -> None:
    begun: list[int] = []

    async def part(part: Part) -> str:
        number = int(part.prompt.rpartition("#")[2])
        begun.append(number)
        await virtual.passes(seconds[number])
        return "done"

    office = Office(Staff(part), size)
    work = [Assignment(f"w{number}", f"do #{number}", "validation") for number in range(len(seconds))]
    reports = office(lambda dispatcher: run_all(dispatcher, work))
    assert begun == list(range(len(seconds))) and {one.status for one in reports} == {"completed"}
