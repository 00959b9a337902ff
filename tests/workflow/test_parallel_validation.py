"""What the builder makes is looked at by up to six validators at once, each by itself (epic 6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.workflow.reviews.parallel_bmb_validation import ParallelBmbValidation
from interlock.workflow.state.document import RunPlan, WorkflowState
from tests.workflow.builder import (
    AGENT,
    DIES,
    LABELS,
    MADE,
    PASSED,
    SKILL,
    Maker,
    Validators,
    Watching,
    build,
    builder,
    finds,
    rounds,
    write_agent,
)
from tests.workflow.stage import APC, DONE, MemoryDesk, Part, Player, play


@pytest.mark.req("BMAD-6.1.1", "BMAD-6.1.2", "BMAD-FR45", "BMAD-E6.1", "BMAD-UO.6")
def test_six_validators_look_at_a_new_agent_at_once_and_the_run_goes_on_after_their_steps(tmp_path: Path) -> None:
    root = builder(tmp_path)
    maker, validators = Maker(root), Validators()
    outcome = build(root, maker, validators)
    assert outcome.state.outcome == "COMPLETED", outcome.state.error
    assert maker.steps == ["1", "7a", "9"], "the maker validates nothing itself"
    assert validators.most == 6 and [label for label, _ in validators.began] == list(LABELS)
    assert outcome.seconds < 2 * validators.seconds
    done = [str(one) for one in outcome.state.completed_steps]
    assert done == ["1", "7a", "gate-parallel_validation", "8a", "8b", "8c", "8d", "8e", "8f", "9"]
    assert outcome.state.steps["step_8b"].summary == "passed: all well"
    assert not outcome.desk.asked and outcome.state.progress_percent == 100
    assert "step 8b" in maker.told["9"] and "passed: all well" in maker.told["9"], "it is told what came of them"


@pytest.mark.req("BMAD-6.1.2")
def test_each_validator_has_a_context_of_its_own_and_its_own_step_as_instructions(tmp_path: Path) -> None:
    root = builder(tmp_path)
    players = Player(Validators({"08a": [finds("minor", field="secret")]}))
    outcome = play(
        root, Player(Maker(root)), skill=SKILL, subagents=players, examinations=(ParallelBmbValidation(),),
    )  # fmt: skip
    assert outcome.ending.kind == "completed"
    assert len(players.sessions) == 6 and all(one.closed for one in players.sessions)
    for prompt, slug in zip(players.prompts, ("08a-plan", "08b-metadata", "08c-persona"), strict=False):
        assert f"step-{slug}" in prompt and str(root / MADE) in prompt
        assert "You change no file" in prompt and "secret" not in prompt


@pytest.mark.req("BMAD-6.1.3")
def test_an_agent_without_a_sidecar_has_five_validators(tmp_path: Path) -> None:
    root = builder(tmp_path)
    validators = Validators()
    outcome = build(root, Maker(root, sidecar=False), validators)
    assert outcome.state.outcome == "COMPLETED"
    assert sorted(validators.attempts) == list(LABELS[:5]) and validators.most == 5
    record = outcome.state.steps["step_8f"]
    assert (record.status, record.reason) == ("skipped", "the agent has no sidecar")


@pytest.mark.req("BMAD-6.1.4")
def test_while_they_work_the_run_says_which_are_complete_in_progress_and_pending(tmp_path: Path) -> None:
    root = builder(tmp_path)
    validators = Validators({"08b": [1.0], "08d": [2.0], "08e": [50.0]})
    desk = Watching()
    outcome = build(root, Maker(root), validators, desk=desk)
    assert outcome.state.outcome == "COMPLETED"
    stood = [one for one in desk.stood if one]
    assert any(set(one.values()) == {"pending"} for one in stood)
    for others in (["completed", "in_progress", "in_progress"], ["completed", "completed", "in_progress"]):
        assert others in [[one["08b"], one["08d"], one["08e"]] for one in stood]
    assert set(stood[-1].values()) == {"completed"}


@pytest.mark.req("BMAD-6.1.4")
def test_one_after_the_other_those_whose_turn_has_not_come_are_pending(tmp_path: Path) -> None:
    root = builder(tmp_path)
    desk = Watching()
    build(root, Maker(root), Validators({label: [DIES, PASSED] for label in LABELS}), desk=desk)
    expected = dict(zip(LABELS, [*["completed"] * 2, "in_progress", *["pending"] * 3], strict=True))
    assert expected in desk.stood


@pytest.mark.req("BMAD-FR47", "BMAD-E6.4")
def test_all_findings_go_to_the_maker_at_once_and_the_work_is_validated_again(tmp_path: Path) -> None:
    root = builder(tmp_path)
    maker = Maker(root, text=AGENT.format(sidecar="true").replace("    icon: P\n", ""), mends=True)
    second = [finds("major"), '{"status": "passed", "findings": []}']
    validators = Validators({"08c": second, "08e": [finds("blocking", field="menu"), '{"status": "passed"}']})
    outcome = build(root, maker, validators)
    assert outcome.state.outcome == "COMPLETED", outcome.state.error
    assert len(maker.fixes) == 1
    told = maker.fixes[0]
    assert "blocking: menu.0: expected x, it is y" in told and "Fix it so: write x" in told
    assert "agent.persona.role.0" in told and "agent.metadata.icon" in told, "the standard's own finding is among them"
    first, again = rounds(outcome)
    assert (first["verdict"], again["verdict"]) == ("changes_requested", "approve")
    assert (first["blocking_errors"], first["major_issues"], first["compliance_score"]) == (1, 2, 60)
    assert validators.attempts == dict.fromkeys(LABELS, 2)


@pytest.mark.req("BMAD-6.4.3")
def test_every_finding_says_where_what_should_be_what_is_and_what_to_do(tmp_path: Path) -> None:
    root = builder(tmp_path)
    text = AGENT.format(sidecar="true").replace("    icon: P\n", "")
    vague, report = '{"status": "issues", "findings": ["the role is vague"]}', "FAILURES\n- no trigger"
    answers = {"08b": [finds("minor")], "08c": [vague, PASSED], "08d": [report, PASSED]}
    outcome = build(root, Maker(root, text=text, mends=True), Validators(answers))
    assert outcome.state.outcome == "COMPLETED"
    assert {"standard", "08b", "08c", "08d"} <= {one["found_by"][0] for one in rounds(outcome)[0]["findings"]}
    for one in rounds(outcome)[0]["findings"]:
        assert all(one[name] for name in ("field", "expected", "actual", "remediation", "found_by")), one


@pytest.mark.req("BMAD-6.4.5")
def test_what_nobody_finds_anything_in_is_compliant_with_100(tmp_path: Path) -> None:
    root = builder(tmp_path)
    outcome = build(root, Maker(root), Validators())
    found = rounds(outcome)[-1]
    assert (found["compliance_score"], found["status"]) == (100, "COMPLIANT")
    assert found["artifact"] == MADE and found["standard"]["compliance_score"] == 100


@pytest.mark.req("BMAD-6.4.4", "BMAD-E6.5", "BMAD-FR46")
@pytest.mark.parametrize(
    ("overlay", "verdict"),
    [
        ("", "changes_requested"),  # eleven minor ones are a score of 67, below the builder's 70
        ("    thresholds: {compliance_score: 60}\n", "approve"),
        ("    thresholds: {high: 10, medium: 5, automatic: 10}\n", "changes_requested"),  # those of other workflows
    ],
)
def test_the_score_is_judged_by_the_builders_thresholds(tmp_path: Path, overlay: str, verdict: str) -> None:
    root = builder(tmp_path, overlay=overlay)
    minors = finds(*["minor"] * 11)
    outcome = build(root, Maker(root), Validators({"08d": [minors, '{"status": "passed"}']}))
    assert outcome.state.outcome == "COMPLETED"
    assert rounds(outcome)[0]["compliance_score"] == 67 and rounds(outcome)[0]["verdict"] == verdict


@pytest.mark.req("BMAD-6.4.4")
@pytest.mark.parametrize(
    ("severity", "number", "called"),
    [("blocking", 3, False), ("blocking", 4, True), ("major", 5, False), ("major", 6, True)],
)
def test_more_than_three_blocking_errors_or_five_major_issues_call_party_mode(
    tmp_path: Path, severity: str, number: int, called: bool
) -> None:
    root = builder(tmp_path)
    answers = [finds(*[severity] * number), '{"status": "passed"}']
    maker = Maker(root)
    outcome = build(root, maker, Validators({"08c": answers}), desk=MemoryDesk(answers=lambda asking: "retry"))
    triggers = [one for one in outcome.state.triggers if one["what"] == "party_mode"]
    assert bool(triggers) == called
    assert outcome.state.outcome == "COMPLETED" and len(maker.fixes) == 1
    assert f"{severity}: agent.persona.role.0" in maker.fixes[0], "the findings go to the maker all the same"


def test_thresholds_of_the_project_decide_when_party_mode_is_called(tmp_path: Path) -> None:
    root = builder(tmp_path, overlay="    thresholds: {blocking_errors: 10}\n")
    answers = [finds(*["blocking"] * 4), '{"status": "passed"}']
    outcome = build(root, Maker(root), Validators({"08c": answers}))
    assert not [one for one in outcome.state.triggers if one["what"] == "party_mode"]
    assert outcome.state.outcome == "COMPLETED"


def test_it_can_be_switched_off_and_the_steps_are_then_done_as_they_are_written(tmp_path: Path) -> None:
    root = builder(tmp_path, overlay="    parallel_validation: false\n")
    maker, validators = Maker(root), Validators()
    outcome = build(root, maker, validators)
    assert outcome.state.outcome == "COMPLETED" and not validators.began
    assert maker.steps == ["1", "7a", "8a", "8b", "8c", "8d", "8e", "8f", "9"]
    assert any("switched off" in one["why"] for one in outcome.state.decisions)


def test_where_nothing_was_made_the_steps_are_done_as_they_are_written(tmp_path: Path) -> None:
    root = builder(tmp_path)

    async def idle(part: Part) -> str:
        return f"{part.step}\n{DONE}"

    validators = Validators()
    outcome = play(
        root, Player(idle), skill=SKILL, subagents=Player(validators), examinations=(ParallelBmbValidation(),)
    )
    assert "8a" in outcome.state.completed_steps and not validators.began
    assert any("was not found" in one["why"] for one in outcome.state.decisions)


def test_a_maker_that_goes_on_to_the_first_validation_by_itself_does_not_pass_itself(tmp_path: Path) -> None:
    root = builder(tmp_path)
    step = root / "_bmad" / "bmb" / "workflows" / "agent" / "steps-c" / "step-08a-plan-traceability.md"
    maker = Maker(root)

    async def hasty(part: Part) -> str:
        said = await maker(part)
        if part.step == "7a":
            part.tool("completed", str(step), kind="read")
            return f"Built. Plan traceability: PASS.\n\n{APC}\n" + '{"step": "waiting"}'
        return said

    validators = Validators()
    outcome = play(
        root, Player(hasty), skill=SKILL, subagents=Player(validators), examinations=(ParallelBmbValidation(),)
    )
    assert outcome.state.outcome == "COMPLETED", outcome.state.error
    assert maker.steps == ["1", "7a", "9"] and len(validators.began) == 6


def test_a_human_may_do_without_it_and_the_run_goes_on_after_the_steps(tmp_path: Path) -> None:
    root = builder(tmp_path)
    desk = MemoryDesk(answers=lambda asking: "skip")
    maker = Maker(root)
    outcome = build(root, maker, Validators({"08c": ["?"], "08d": ["?"], "08e": ["?"]}), desk=desk)
    assert outcome.state.outcome == "COMPLETED" and maker.steps == ["1", "7a", "9"]
    assert outcome.state.steps["step_8a"].status == "skipped"


def test_a_run_that_is_killed_while_they_work_asks_only_those_again_that_were_not_heard(tmp_path: Path) -> None:
    root = builder(tmp_path)
    first = Validators({"08b": [1.0], "08c": [2.0], "08e": [50.0]})
    whole = Watching()
    build(builder(tmp_path / "whole"), Maker(tmp_path / "whole"), Validators(dict(first.acts)), desk=whole)
    killed_at = next(n for n, one in enumerate(whole.stood, 1) if list(one.values()).count("completed") == 5)
    desk = Watching(die_at=killed_at + 1)
    outcome = build(root, Maker(root), first, desk=desk)
    assert outcome.ending.kind == "superseded" and desk.saved is not None
    desk.die_at = None
    second = Validators()
    maker = Maker(root)
    outcome = build(root, maker, second, desk=desk, state=WorkflowState.from_dict(desk.saved.as_dict()))
    assert outcome.state.outcome == "COMPLETED" and maker.steps == ["9"]
    assert list(second.attempts) == ["08e"], "five were heard before"
    assert [one["label"] for one in rounds(outcome)[-1]["validators"]] == list(LABELS)


def test_what_was_heard_of_another_state_of_the_work_counts_no_more(tmp_path: Path) -> None:
    root = builder(tmp_path)
    validators = Validators({"08e": [50.0]})
    desk = Watching(die_at=10)
    build(root, Maker(root), validators, desk=desk)
    assert desk.saved is not None
    desk.die_at = None
    write_agent(root, text=AGENT.format(sidecar="true").replace("Poet", "Bard"))
    again = Validators()
    outcome = build(root, Maker(root), again, desk=desk, state=WorkflowState.from_dict(desk.saved.as_dict()))
    assert outcome.state.outcome == "COMPLETED" and len(again.attempts) == 6


def test_an_agent_that_only_validates_does_it_as_its_steps_are_written(tmp_path: Path) -> None:
    root = builder(tmp_path)
    folder = root / "_bmad" / "bmb" / "workflows" / "agent"
    (folder / "steps-c").rename(folder / "steps-v")
    text = (folder / "workflow.md").read_text()
    (folder / "workflow.md").write_text(text.replace("steps-c", "steps-v"))
    validators = Validators()
    outcome = build(root, Maker(root), validators, plan=RunPlan(project=str(root), tier=1))
    assert outcome.state.outcome == "COMPLETED" and not validators.began
