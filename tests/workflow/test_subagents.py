"""Subagents at work: seats, priorities, crashes, what they may do and what is told of them."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from interlock.agents.session import Opening, Permission, PermissionChoice, Turn, Update
from interlock.errors import AgentError
from interlock.workflow.agents.assignment import HIGH, LOW, Assignment, Report
from interlock.workflow.agents.subagent import Staffing
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from tests.workflow import virtual
from tests.workflow.stage import Part
from tests.workflow.subagents import Office, Staff, run_all, takes


def work(label: str, kind: str = "validation", **more: object) -> Assignment:
    return Assignment(label, f"{label}, please", kind, **more)  # type: ignore[arg-type]


def statuses(reports: list[Report]) -> list[str]:
    return [one.status for one in reports]


@pytest.mark.req("BMAD-FR22", "BMAD-5.5.1", "BMAD-E5.4")
def test_ten_work_at_once_and_the_others_wait_for_their_turn() -> None:
    office = Office(Staff(takes(10)))

    async def main(dispatcher: SubagentDispatcher) -> tuple[list[Report], float]:
        reports = await run_all(dispatcher, [work(f"w{n}") for n in range(25)])
        return reports, anyio.current_time()

    reports, seconds = office(main)
    assert statuses(reports) == ["completed"] * 25 and [one.label for one in reports] == [f"w{n}" for n in range(25)]
    assert office.staff.most == 10 and seconds == 30
    first = [prompt.rpartition("\n")[2] for prompt in office.staff.prompts]
    assert first == [f"w{n}, please" for n in range(25)]


@pytest.mark.req("BMAD-5.5.2")
def test_who_judges_starts_afresh_and_who_works_goes_back_to_the_pool() -> None:
    office = Office(Staff(takes(1)), size=2)

    async def main(dispatcher: SubagentDispatcher) -> list[int]:
        opened = []
        for kind in ("code_review", "code_review", "analysis", "analysis", "implementation", "analysis"):
            assert (await dispatcher.run(work("same", kind))).status == "completed"
            opened.append(len(office.staff.sessions))
        return opened

    assert office(main) == [1, 2, 3, 3, 4, 4]
    analyses = [prompt for prompt in office.staff.prompts if "You analyse" in prompt or "another piece" in prompt]
    assert ["another piece of work" in one for one in analyses] == [False, True, True]


def test_an_agent_is_not_put_to_work_with_other_rights_or_another_model() -> None:
    office = Office(Staff(takes(1)), models={"sonnet": "s-1", "opus": "o-1"})

    async def main(dispatcher: SubagentDispatcher) -> int:
        await dispatcher.run(work("a", "implementation"))
        await dispatcher.run(work("b", "implementation", writes=True))
        await dispatcher.run(work("c", "implementation", complexity="complex"))
        return len(office.staff.sessions)

    assert office(main) == 3
    assert [one.model for one in office.staff.openings] == ["s-1", "s-1", "o-1"]


@pytest.mark.req("BMAD-5.5.3")
def test_the_agent_that_was_idle_longest_is_ended_to_make_room() -> None:
    office = Office(Staff(takes(1)), size=2)

    async def main(dispatcher: SubagentDispatcher) -> list[bool]:
        await dispatcher.run(work("first", "analysis"))
        await dispatcher.run(work("second", "implementation"))
        assert dispatcher.agents == 2
        await dispatcher.run(work("third", "validation"))
        return [one.closed for one in office.staff.sessions]

    assert office(main) == [True, False, True]
    assert office.staff.most == 2


@pytest.mark.req("BMAD-5.5.5")
def test_work_of_high_priority_makes_the_lowest_at_work_wait() -> None:
    order: list[str] = []

    async def part(part: Part) -> str:
        label = part.prompt.rpartition("\n")[2].partition(",")[0]
        await virtual.passes(10)
        order.append(f"{label}@{anyio.current_time():g}")
        return "done"

    office = Office(Staff(part), size=2)

    async def main(dispatcher: SubagentDispatcher) -> list[Report]:
        reports: list[Report] = []

        async def later(assignment: Assignment, after: float) -> None:
            await virtual.passes(after)
            reports.append(await dispatcher.run(assignment))

        async with anyio.create_task_group() as group:
            group.start_soon(later, work("low", priority=LOW), 0.0)
            group.start_soon(later, work("normal"), 0.1)
            group.start_soon(later, work("waits"), 0.2)
            group.start_soon(later, work("urgent", priority=HIGH), 5.0)
        return reports

    reports = office(main)
    assert {one.label: one.status for one in reports} == dict.fromkeys(
        ("low", "normal", "waits", "urgent"), "completed"
    )
    assert order == ["normal@10.1", "urgent@15", "waits@20.1", "low@25"]
    assert office.staff.most == 2
    low = next(one for one in office.books.entries.values() if one["label"] == "low")
    assert low["attempts"] == 2


def test_one_that_made_room_goes_on_in_its_own_session_where_its_program_can() -> None:
    office = Office(Staff(takes(10), resumes=True), size=1)

    async def main(dispatcher: SubagentDispatcher) -> list[Report]:
        reports: list[Report] = []

        async def later(assignment: Assignment, after: float) -> None:
            await virtual.passes(after)
            reports.append(await dispatcher.run(assignment))

        async with anyio.create_task_group() as group:
            group.start_soon(later, work("low", "implementation", writes=True), 0.0)
            group.start_soon(later, work("urgent", priority=HIGH), 5.0)
        return reports

    low = office(main)[1]
    assert (low.label, low.status, low.agent_id) == ("low", "completed", "s1")
    assert [one.resume for one in office.staff.openings] == [None, None, "s1"]
    assert office.staff.prompts[-1].startswith("You were interrupted.")


def test_what_may_be_half_written_is_not_begun_anew_by_somebody_who_does_not_know_of_it() -> None:
    office = Office(Staff(takes(10)), size=1)

    async def main(dispatcher: SubagentDispatcher) -> list[Report]:
        reports: list[Report] = []

        async def later(assignment: Assignment, after: float) -> None:
            await virtual.passes(after)
            reports.append(await dispatcher.run(assignment))

        async with anyio.create_task_group() as group:
            group.start_soon(later, work("low", "implementation", writes=True), 0.0)
            group.start_soon(later, work("urgent", priority=HIGH), 5.0)
        return reports

    urgent, low = office(main)
    assert (urgent.status, low.status) == ("completed", "preempted")
    assert low.detail == "it was interrupted, and cannot be taken up where it was left"
    assert len(office.staff.prompts) == 2


@pytest.mark.req("BMAD-5.5.4")
@pytest.mark.parametrize("how", ["killed", "hung"])
def test_one_that_crashes_or_hangs_is_replaced_once(how: str) -> None:
    async def part(part: Part) -> str | Turn:
        if part.turn == 1 and how == "hung":
            await anyio.sleep_forever()
        return "done" if part.turn > 1 else Turn("killed", detail="its program ended")

    office = Office(Staff(part))
    report = office(lambda dispatcher: dispatcher.run(work("w")))
    assert report.status == "completed" and len(office.staff.sessions) == 2
    assert office.staff.prompts[0] == office.staff.prompts[1]
    assert report.seconds == (60 if how == "hung" else 0)


def test_one_that_crashes_again_and_again_is_reported() -> None:
    office = Office(Staff(lambda part: _killed()))
    report = office(lambda dispatcher: dispatcher.run(work("w")))
    assert (report.status, report.detail, len(office.staff.prompts)) == ("failed", "its program ended", 2)


async def _killed() -> Turn:
    return Turn("killed", detail="its program ended")


def test_work_ends_at_its_time_limit_but_the_time_of_people_is_not_its_own() -> None:
    asked: list[Permission] = []

    async def permit(permission: Permission) -> str | None:
        asked.append(permission)
        await virtual.passes(1000)
        return "yes"

    async def part(part: Part) -> str:
        if "ask" in part.prompt:
            yes = PermissionChoice("yes", "Yes", "allow_once")
            assert await part.opening.permit(Permission("1", "Run the tests", "execute", (yes,))) == "yes"
        part.tool("in_progress")
        await virtual.passes(50 if "ask" in part.prompt else 10_000)
        return "done"

    office = Office(Staff(part), opening={"permit": permit})

    async def main(dispatcher: SubagentDispatcher) -> list[Report]:
        return await run_all(dispatcher, [work("slow", time_limit=100.0), work("ask", time_limit=100.0)])

    slow, asking = office(main)
    assert (slow.status, slow.detail, slow.seconds) == ("timeout", "no answer within 100 s", 100)
    assert (asking.status, asking.seconds) == ("completed", 50)
    assert [one.title for one in asked] == ["[ask] Run the tests"]


@pytest.mark.parametrize(("writes", "answers"), [(False, ["no", "yes"]), (True, ["yes", "yes"])])
def test_who_is_not_to_write_is_refused_that_and_nothing_else(writes: bool, answers: list[str]) -> None:
    given: list[str | None] = []

    async def permit(permission: Permission) -> str | None:
        return "yes"

    async def part(part: Part) -> str:
        choices = (PermissionChoice("yes", "Yes", "allow_once"), PermissionChoice("no", "No", "reject_once"))
        for kind in ("edit", "execute"):
            given.append(await part.opening.permit(Permission("1", "May I?", kind, choices)))
        return "done"

    office = Office(Staff(part), opening={"permit": permit})
    office(lambda dispatcher: dispatcher.run(work("w", writes=writes)))
    assert given == answers


def test_what_subagents_say_stands_under_their_names_and_what_they_cost_counts(tmp_path: Path) -> None:
    async def part(part: Part) -> str:
        part.say('AOF/1 {"type": "completion.report"}\nsecond line')
        part.on_update(Update("usage", "", {"input_tokens": 7}))
        part.tool("completed", "a.py", kind="read")
        return "done"

    log = tmp_path / "run.log"
    office = Office(Staff(part), log=str(log))
    office(lambda dispatcher: dispatcher.run(work("w")))
    assert [(one.kind, one.text) for one in office.told] == [
        ("notice", '[w] AOF/1 {"type": "completion.report"}'),
        ("notice", "[w] second line"),
        ("usage", ""),
        ("tool", "[w] a tool"),
    ]
    assert office.told[2].data == {"input_tokens": 7} and office.told[3].data["id"] == "w/t1"
    assert log.read_text() == '[w] AOF/1 {"type": "completion.report"}\n[w] second line\n'


def test_a_subagent_takes_no_part_in_the_team() -> None:
    office = Office(Staff(takes(1)), opening={"on_start": lambda identity: pytest.fail("it is not the run's process")})
    office(lambda dispatcher: dispatcher.run(work("w")))
    assert office.staff.openings[0].mcp == ()


def test_several_prompts_have_one_context_also_where_the_agent_changes_under_it() -> None:
    async def part(part: Part) -> str:
        return f"answer {part.turn}"

    async def main(dispatcher: SubagentDispatcher) -> None:
        talks = [await dispatcher.open(work(f"member-{n}", "creative")) for n in range(3)]
        for talk in talks:
            assert (await talk.say("Hello")).status == "completed"
        assert (await talks[0].say("And now?")).text == "answer 4"
        for talk in talks:
            await talk.close()
        assert dispatcher.agents == 0

    roomy = Office(Staff(part))
    roomy(main)
    assert roomy.staff.prompts[-1] == "And now?" and len(roomy.staff.sessions) == 3
    narrow = Office(Staff(part), size=1)
    narrow(main)
    assert narrow.staff.most == 1
    assert narrow.staff.prompts[-1].endswith("And now?") and "> answer 1" in narrow.staff.prompts[-1]
    resuming = Office(Staff(part, resumes=True), size=1)
    resuming(main)
    assert resuming.staff.prompts[-1] == "And now?" and resuming.staff.openings[-1].resume == "s1"
    commands = Office(Staff(part, lasting=False))
    commands(main)
    assert "> answer 1" in commands.staff.prompts[-1]


def test_one_that_is_opened_can_be_resumed_by_its_id() -> None:
    async def main(dispatcher: SubagentDispatcher) -> tuple[bool, bool]:
        first = await dispatcher.open(work("winston", "creative"))
        again = await dispatcher.open(work("winston", "creative", agent_id=first.agent_id))
        return first.resumed, again.resumed

    assert Office(Staff(takes(1), resumes=True))(main) == (False, True)
    assert Office(Staff(takes(1)))(main) == (False, False)


class Picky(Staff):
    """Has only one model, and does not always start."""

    async def open(self, opening: object) -> object:  # type: ignore[override]
        if opening.model not in (None, "fine"):  # type: ignore[attr-defined]
            raise AgentError(f"there is no model {opening.model!r}")  # type: ignore[attr-defined]
        return await super().open(opening)  # type: ignore[arg-type]


def test_a_model_of_our_choice_that_cannot_be_had_gives_way_to_the_programs_own() -> None:
    office = Office(Picky(takes(1)), models={"haiku": "gone", "sonnet": "gone", "opus": "gone"})
    report = office(lambda dispatcher: dispatcher.run(work("w")))
    assert (report.status, report.model) == ("completed", None)
    office = Office(Picky(takes(1)))
    report = office(lambda dispatcher: dispatcher.run(work("w", model="gone")))
    assert (report.status, report.detail) == ("failed", "there is no model 'gone'")
    with pytest.raises(AgentError, match="no model"):
        Office(Picky(takes(1)))(lambda dispatcher: dispatcher.open(work("w", model="gone")))


@pytest.mark.parametrize(
    ("own", "chosen"), [(None, "o-1"), ("o-1", "o-1"), ("s-1", "s-1"), ("gpt-9", "gpt-9"), ("a-haiku-4", "a-haiku-4")]
)
def test_the_members_own_model_is_the_largest_and_an_unknown_one_is_used_for_everything(
    own: str | None, chosen: str
) -> None:
    models = {"haiku": "h-1", "sonnet": "s-1", "opus": "o-1"}
    office = Office(Staff(takes(1)), model=own, models=models, terms={"tier": 4})
    report = office(lambda dispatcher: dispatcher.run(work("w", "analysis", complexity="complex")))
    assert report.model == chosen


def test_another_program_reviews_code_and_does_nothing_else() -> None:
    reviewers = Staff(takes(1, "reviewed"))
    opening = Opening("s", "ada", str(Path.cwd()), {}, "", 60.0, 1.0, 1_000_000, model="large")
    office = Office(Staff(takes(1)), models={"opus": "o-1"}, reviewer=Staffing(reviewers, opening))

    async def main(dispatcher: SubagentDispatcher) -> list[Report]:
        return [await dispatcher.run(work(kind, kind)) for kind in ("code_review", "validation", "implementation")]

    reports = office(main)
    assert [(one.text, one.model) for one in reports] == [("reviewed", "large"), ("done", None), ("done", None)]
    assert len(reviewers.prompts) == 1 and len(office.staff.prompts) == 2


def test_when_it_is_told_to_stop_everything_ends_and_nothing_begins() -> None:
    office = Office(Staff(takes(100)), size=2)

    async def main(dispatcher: SubagentDispatcher) -> tuple[list[Report], Report, float]:
        reports: list[Report] = []

        async def all_of_them() -> None:
            reports.extend(await run_all(dispatcher, [work(f"w{n}") for n in range(5)]))

        async with anyio.create_task_group() as group:
            group.start_soon(all_of_them)
            await virtual.passes(10)
            await dispatcher.cancel()
        late = await dispatcher.run(work("late"))
        return reports, late, anyio.current_time()

    reports, late, seconds = office(main)
    assert statuses([*reports, late]) == ["cancelled"] * 6 and seconds == 10
    assert len(office.staff.sessions) == 2 and office.dispatcher.stopped
    assert {one["status"] for one in office.books.entries.values()} == {"interrupted"}
