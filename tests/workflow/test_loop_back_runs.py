"""Loops in runs: what a step validates again and again is counted, shown, warned of and stopped (5.9, 5.10, NFR6)."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from interlock.agents.session import Turn
from interlock.workflow.engine.ports import Knowledge
from interlock.workflow.runs import commands
from tests.workflow.reviewed import SMALL, develop, issue, said, story_project
from tests.workflow.stage import DONE, MemoryDesk, Outcome, Part, Player, play, project, script

PASSED = '{"step": "completed", "verdict": "PASSED"}'


def failed(*issues: str) -> str:
    listed = ", ".join(f'"{one}"' for one in issues)
    return f'{{"step": "completed", "verdict": "FAILED", "issues": [{listed}]}}'


def editing(root: Path, steps: int = 3, name: str = "edit-module") -> Path:
    """A project whose workflow edits what is there."""
    project(root, steps, module="bmb")
    manifest = root / "_bmad/_config/workflow-manifest.csv"
    manifest.write_text(manifest.read_text().replace('"make-plan","x"', f'"{name}","x"'))
    return root


async def as_before(failure: str) -> str | None:
    return "As last time."


def edit(root: Path, player: Player, desk: MemoryDesk | None = None, name: str = "edit-module") -> Outcome:
    return play(root, player, skill=f"/bmad:bmb:workflows:{name}", desk=desk, knowledge=Knowledge(fix=as_before))


@pytest.mark.req("BMAD-5.9.1", "BMAD-FR24")
@pytest.mark.parametrize("name", ["edit-module", "edit-workflow", "edit-agent"])
def test_a_workflow_that_edits_begins_at_iteration_zero(tmp_path: Path, name: str) -> None:
    seen = []
    desk = MemoryDesk()

    async def part(part: Part) -> str:
        assert desk.saved is not None
        seen.append(commands.documented(desk.saved)["loops"])
        return DONE

    edit(editing(tmp_path, name=name), Player(part), desk, name)
    assert seen[0] == {
        "edit": {"current_iteration": 0, "max_iterations": 10, "errors_by_iteration": {}, "same_error_count": 0}
    }  # fmt: skip


@pytest.mark.req("BMAD-5.9.2", "BMAD-5.9.3", "BMAD-5.9.4", "BMAD-FR24")
def test_each_cycle_is_counted_logged_and_shown(tmp_path: Path) -> None:
    turns = [failed("no scope", "no goals"), failed("no scope"), PASSED, DONE]
    outcome = edit(editing(tmp_path), Player(script(*turns)))
    assert outcome.state.outcome == "COMPLETED"
    logged = outcome.desk.of("workflow.iterated")
    assert [(one["iteration"], one["errors"], one["same_error_count"]) for one in logged] == [
        (1, ["no scope"], 2), (2, [], 0),
    ]  # fmt: skip
    shown = commands.documented(outcome.state)["loops"]["edit"]
    assert shown["current_iteration"] == 2 and shown["max_iterations"] == 10
    assert shown["errors_by_iteration"] == {"0": ["no scope", "no goals"], "1": ["no scope"], "2": []}
    assert outcome.state.as_dict()["implementation_iterations"] == 2


def test_the_steps_of_an_edit_share_one_loop_and_others_have_their_own(tmp_path: Path) -> None:
    turns = [failed("a"), PASSED, failed("b"), PASSED, DONE]
    edited = edit(editing(tmp_path / "edit"), Player(script(*turns)))
    assert edited.state.loops["edit"]["current_iteration"] == 2
    planned = play(project(tmp_path / "plan"), Player(script(*turns)))
    assert {key: one["current_iteration"] for key, one in planned.state.loops.items()} == {"step_1": 1, "step_2": 1}


@pytest.mark.req("BMAD-5.10.2", "BMAD-FR25", "BMAD-E5.6")
def test_an_error_that_stays_is_put_to_a_human_with_its_details(tmp_path: Path) -> None:
    turns = [failed("no scope", "no goals"), failed("no scope", "no users"), failed("no scope", "no end")]
    outcome = edit(editing(tmp_path), Player(script(*turns)))
    assert outcome.ending.kind == "parked"
    (asked,) = outcome.desk.asked.values()
    assert asked.kind == "escalation" and "persistent_error" in asked.text and "no scope" in asked.text
    assert outcome.state.error == "persistent_error"
    assert outcome.state.error_details["errors"] == ["no scope"]
    assert outcome.desk.of("workflow.escalated")[0]["error"] == "persistent_error"


@pytest.mark.req("BMAD-5.10.2")
def test_an_error_that_stays_is_put_to_a_human_also_where_others_become_fewer(tmp_path: Path) -> None:
    turns = [failed("no scope", "no goals", "no end"), failed("no scope", "no goals"), failed("no scope"), PASSED]
    outcome = edit(editing(tmp_path), Player(script(*turns)))
    assert outcome.ending.kind == "parked" and outcome.state.error == "persistent_error"
    assert outcome.state.error_details["same_error_count"] == 3


@pytest.mark.req("BMAD-5.10.3", "BMAD-FR25")
def test_edits_that_undo_one_another_are_put_to_a_human_with_the_pattern(tmp_path: Path) -> None:
    """Fewer findings each time keep it going; then the same ones take turns."""
    root = editing(tmp_path)
    turns = [failed("a"), PASSED, failed("a"), PASSED, failed("a"), PASSED]
    outcome = edit(root, Player(script(*turns)))
    (asked,) = outcome.desk.asked.values()
    assert "oscillation_detected (A, -, A, -, A)" in asked.text
    assert outcome.state.error_details["pattern"] == "A, -, A, -, A"


@pytest.mark.req("BMAD-5.10.1", "BMAD-5.10.4", "BMAD-FR25", "BMAD-E5.6", "BMAD-NFR8")
def test_ten_iterations_end_the_run_with_a_summary_after_a_warning(tmp_path: Path) -> None:
    """An error that is another one each time, in a list that never gets shorter, until advice runs out."""
    root = editing(tmp_path)
    turns = [failed(f"{chr(97 + number)} is wrong") for number in range(20)]
    outcome = edit(root, Player(script(*turns)), MemoryDesk(answers=lambda asking: "retry"))
    assert (outcome.state.outcome, outcome.state.error) == ("FAILED", "max_iterations_exceeded")
    assert outcome.ending.summary == "max_iterations_exceeded"
    details = outcome.state.error_details
    assert details["current_iteration"] == 10 and "- iteration 10: k is wrong" in details["attempts"]
    (warning,) = outcome.desk.of("workflow.warning")
    assert warning["what"] == "iteration_limit" and "iteration 9 of 10 begins" in warning["text"]
    assert outcome.desk.of("workflow.ended")[0]["error"] == "max_iterations_exceeded"


@pytest.mark.req("BMAD-5.10.2")
@pytest.mark.parametrize(
    ("reply", "outcome", "step"),
    [("retry", "COMPLETED", "completed"), ("Say what it is for", "COMPLETED", "completed"),
     ("skip", "COMPLETED", "skipped"), ("stop", "FAILED", "failed")],
)  # fmt: skip
def test_what_a_human_says_about_a_limit_is_done(tmp_path: Path, reply: str, outcome: str, step: str) -> None:
    turns = [failed("no scope", "x1"), failed("no scope", "x2"), failed("no scope", "x3"), PASSED]
    player = Player(script(*turns))
    found = edit(editing(tmp_path), player, MemoryDesk(answers=lambda asking: reply))
    assert found.state.outcome == outcome and found.state.steps["step_1"].status == step
    assert found.state.error == ("persistent_error" if reply == "stop" else None)
    if reply.startswith("Say"):
        assert reply in player.prompts[3]


def test_going_back_and_forth_between_steps_is_a_loop_too(tmp_path: Path) -> None:
    """The last step leads back to the first, again and again, and nobody has asked for it."""
    root = editing(tmp_path, 2)

    async def part(part: Part) -> str:
        return '{"step": "completed", "next": "step-01-part.md"}' if part.step == "2" else PASSED

    outcome = edit(root, Player(part))
    (asked,) = outcome.desk.asked.values()
    assert "oscillation_detected" in asked.text and "step 2 leads back to step 1" in asked.text
    assert outcome.state.outcome is None


def test_a_human_who_wants_another_round_gets_it(tmp_path: Path) -> None:
    root = editing(tmp_path, 2)
    times = Counter[str]()

    async def part(part: Part) -> str:
        if part.step == "2":
            return 'Another round?\n{"step": "waiting"}'
        if part.answer == "yes":
            times["rounds"] += 1
            return DONE if times["rounds"] > 8 else '{"step": "completed", "next": "step-01-part.md"}'
        return DONE

    outcome = edit(root, Player(part), MemoryDesk(answers=lambda asking: "yes"))
    assert outcome.state.outcome == "COMPLETED" and times["rounds"] == 9


@pytest.mark.long
@pytest.mark.req("BMAD-NFR6", "BMAD-E5.8")
def test_of_a_hundred_and_twenty_recoverable_failures_nearly_all_are_overcome_without_a_human(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seeded: each of the faults that can be recovered from, at any turn of a run, up to as often as it is retried."""
    luck = random.Random(20261121)
    faults = [
        "killed",
        "failed",
        "timeout",
        "unclear",
        "empty",
        "invalid",
        "shrinking",
        "review",
        "reviewer",
        "unreadable",
    ]
    overcome, tried = Counter[str](), Counter[str]()
    for number in range(120):
        fault = faults[number % len(faults)]
        outcome = _with_fault(tmp_path / str(number), fault, luck)
        tried[fault] += 1
        overcome[fault] += outcome.state.outcome == "COMPLETED" and not outcome.desk.asked
    whole = sum(overcome.values())
    with capsys.disabled():
        told = ", ".join(f"{fault} {overcome[fault]}/{tried[fault]}" for fault in faults)
        print(f"\nrecoverable failures overcome without a human: {whole} of {sum(tried.values())} ({told})")
    assert whole / sum(tried.values()) >= 0.95, overcome


def _with_fault(root: Path, fault: str, luck: random.Random) -> Outcome:
    times, step = luck.randint(1, 3), luck.randint(1, 3)
    if fault in ("review", "reviewer", "unreadable"):
        bad: list[str | Turn] = {
            "review": [said(issue(f"Wrong {n}", "high"), *SMALL) for n in range(times)],
            "reviewer": [Turn("killed")] * min(times, 2),
            "unreadable": ["I have read it, and it is fine."],
        }[fault]
        return develop(story_project(root), Player(script(*bad, said(*SMALL))), tier=1)
    root.mkdir()
    given: list[str | Turn] = {
        "unclear": ["No idea how it stands."] * min(times, 2),
        "empty": [""] * min(times, 2),
        "invalid": [failed(f"{luck.choice('abcd')} is missing")],
        "shrinking": [failed(*(f"{one} is missing" for one in "abc"[:left])) for left in range(times, 0, -1)],
    }.get(fault, [Turn(fault)] * times)  # type: ignore[arg-type]
    return play(project(root), Player(script(*[DONE] * (step - 1), *given, *[PASSED] * 9)))
