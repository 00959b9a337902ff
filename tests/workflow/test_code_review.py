"""After a story is implemented it is reviewed by others, and their verdict decides what follows (5.12, 5.13)."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from interlock.agents.session import Turn
from interlock.settings import SETTINGS
from tests.workflow.reviewed import (
    ITEMS,
    REVIEW,
    SMALL,
    SPRINT,
    STORY,
    Developer,
    develop,
    issue,
    said,
    story_project,
)
from tests.workflow.stage import DONE, MemoryDesk, Part, Player, script


def rounds(outcome: object) -> list[dict[str, object]]:
    return list(outcome.state.examinations["code_review"]["rounds"])  # type: ignore[attr-defined]


@pytest.mark.req("BMAD-5.12.1", "BMAD-E5.12", "BMAD-FR42")
def test_a_review_is_invoked_by_itself_when_the_story_is_implemented(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    reviewers = Player(script(said(*SMALL)))
    outcome = develop(root, reviewers)
    assert outcome.ending.kind == "completed" and not outcome.desk.asked
    assert outcome.state.completed_steps == [1, 2, "gate-code_review"]
    assert outcome.state.step_names["gate-code_review"] == "Code review"
    assert len(reviewers.sessions) == 1
    (examined,) = outcome.desk.of("workflow.examined")
    assert (examined["of"], examined["verdict"], examined["findings"]) == ("code_review", "approve", 3)


@pytest.mark.req("BMAD-5.12.2")
def test_reviewers_get_story_changes_criteria_standards_and_the_installed_instructions(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    reviewers = Player(script(said(*SMALL)))
    develop(root, reviewers)
    (prompt,) = reviewers.prompts
    for wanted in (
        "As a gardener, I want to sign in.", "Five wrong ones lock the account", "- src/login.py",
        "Never log a password.", "project_name: Garden", "Look it, code-review.", "17. Item 17 is looked at",
        "3 to 10 specific issues",
    ):  # fmt: skip
        assert wanted in prompt, wanted


@pytest.mark.req("BMAD-5.12.3")
@pytest.mark.parametrize("where", ["set", "overlay", "config"])
def test_a_review_that_is_switched_off_is_left_out_with_a_warning(tmp_path: Path, where: str) -> None:
    root = story_project(tmp_path, config="skip_review: true\n" if where == "config" else "")
    if where == "overlay":
        (root / "interlock.workflows.yaml").write_text("workflows:\n  bmm/dev-story:\n    skip_review: true\n")
    reviewers = Player(script(said(*SMALL)))
    outcome = develop(root, reviewers, values={"skip_review": "true"} if where == "set" else {})
    assert outcome.ending.kind == "completed" and not reviewers.prompts
    (warning,) = outcome.desk.of("workflow.warning")
    assert warning["what"] == "code_review_skipped" and "skip_review: true" in warning["text"]
    assert "nobody has reviewed this work" in outcome.ending.summary
    assert outcome.state.steps["step_gate-code_review"].status == "skipped"
    assert "Status: review" in (root / STORY).read_text(), "what nobody reviewed is not done"


def test_a_run_may_ask_for_a_review_that_the_project_leaves_out(tmp_path: Path) -> None:
    root = story_project(tmp_path, config="skip_review: true\n")
    outcome = develop(root, Player(script(said(*SMALL))), values={"skip_review": "false"})
    assert len(rounds(outcome)) == 1


@pytest.mark.req("BMAD-5.13.1", "BMAD-FR44a", "BMAD-E5.5")
def test_issues_are_kept_with_severity_place_and_fix(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    issues = [issue("Any password is accepted", "high", "src/login.py:1", "compare it"), *SMALL]
    outcome = develop(root, Player(script(said(*issues), said(*SMALL))))
    first = rounds(outcome)[0]["findings"]
    assert 3 <= len(first) <= 10  # type: ignore[arg-type]
    worst = first[0]  # type: ignore[index]
    assert (worst["level"], worst["title"], worst["location"], worst["fix"]) == (
        "High", "Any password is accepted", "src/login.py:1", "compare it",
    )  # fmt: skip


@pytest.mark.req("BMAD-5.13.1", "BMAD-FR44a")
def test_of_more_than_ten_the_gravest_are_handed_over(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    many = [issue(f"Thing number {chr(97 + n)}", "low" if n < 6 else "high", f"src/f{n}.py:1") for n in range(14)]
    outcome = develop(root, Player(script(said(*many), said(*SMALL))))
    first = rounds(outcome)[0]
    assert len(first["findings"]) == 10 and len(first["further"]) == 4  # type: ignore[arg-type]
    assert [one["level"] for one in first["findings"]].count("High") == 8  # type: ignore[attr-defined]


@pytest.mark.req("BMAD-E5.5", "BMAD-FR44a")
def test_too_few_issues_are_asked_for_once_more_and_then_taken_as_they_are(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    reviewers = Player(script(said(SMALL[0])))
    outcome = develop(root, reviewers)
    assert len(reviewers.prompts) == 2 and "Look harder" in reviewers.prompts[1]
    assert len(rounds(outcome)[0]["findings"]) == 1  # type: ignore[arg-type]
    (examined,) = outcome.desk.of("workflow.examined")
    assert examined["fewer_than_three"] is True and "found no more" in str(rounds(outcome)[0]["summary"])
    found = develop(story_project(tmp_path / "other"), Player(script(said(SMALL[0]), said(*SMALL))))
    assert len(rounds(found)[0]["findings"]) == 3  # type: ignore[arg-type]


@pytest.mark.req("BMAD-5.13.6", "BMAD-FR44a")
def test_every_item_of_the_checklist_is_evaluated_and_reported(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    outcome = develop(root, Player(script(said(*SMALL, fail=4))))
    (first,) = rounds(outcome)
    listed = first["checklist"]
    assert len(listed) == ITEMS  # type: ignore[arg-type]
    assert [one["result"] for one in listed].count("fail") == 1 and listed[3]["result"] == "fail"  # type: ignore[attr-defined,index]
    assert not [one for one in listed if one["result"] == "not evaluated"]  # type: ignore[attr-defined]
    assert listed[17]["by"] == ["Interlock"] and listed[18]["note"].startswith("appended to")  # type: ignore[index]
    assert outcome.desk.of("workflow.examined")[0]["checklist"] == f"{ITEMS}/{ITEMS}"


@pytest.mark.req("BMAD-5.13.6")
def test_items_that_nobody_looked_at_are_asked_for_and_reported_where_they_stay_open(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    reviewers = Player(script(said(*SMALL, items=10)))
    outcome = develop(root, reviewers)
    assert len(reviewers.prompts) == 2 and "items 11, 12" in reviewers.prompts[1]
    listed = rounds(outcome)[0]["checklist"]
    assert [one["number"] for one in listed if one["result"] == "not evaluated"] == list(range(11, 18))  # type: ignore[attr-defined]
    assert outcome.desk.of("workflow.examined")[0]["verdict"] == "blocked", "what nobody has looked at is not approved"
    assert "nobody has looked at items 11, 12" in next(iter(outcome.desk.asked.values())).text


@pytest.mark.req("BMAD-5.13.6", "BMAD-FR44a")
def test_a_package_without_a_checklist_is_reviewed_by_ours_of_nineteen_items(tmp_path: Path) -> None:
    for name, kinds in (("list", {"checklist": False}), ("review", {"review": False})):
        outcome = develop(story_project(tmp_path / name, **kinds), Player(script(said(*SMALL))))
        assert len(rounds(outcome)[0]["checklist"]) == 19  # type: ignore[arg-type]


@pytest.mark.req("BMAD-5.13.2", "BMAD-FR44b", "BMAD-E5.14")
def test_an_approval_ends_the_story_and_names_the_next(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    outcome = develop(root, Player(script(said(*SMALL, verdict="approve"))))
    assert outcome.state.outcome == "COMPLETED"
    assert "The next story that is ready is 1-3-sign-out." in outcome.ending.summary
    assert outcome.desk.of("workflow.examined")[0]["next_story"] == "1-3-sign-out"
    story = (root / STORY).read_text()
    assert "Status: done" in story and "## Senior Developer Review (AI)" in story and "**Outcome:** Approve" in story
    assert story.count("code review, round 1: Approve") == 1
    sprint = (root / SPRINT).read_text()
    assert "1-2-sign-in: done  # at work" in sprint and sprint.startswith("# kept")


@pytest.mark.req("BMAD-5.13.3", "BMAD-FR44b", "BMAD-E5.14", "BMAD-FR43", "BMAD-UO.5")
def test_changes_are_made_by_the_developer_and_reviewed_again(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    developer = Developer(root, answer="The lock is there now.")
    wrong = said(
        issue("Five wrong passwords do not lock", "high", fix="count them"), *SMALL, verdict="changes_requested"
    )
    reviewers = Player(script(wrong, said(*SMALL)))
    outcome = develop(root, reviewers, developer=developer)
    assert outcome.ending.kind == "completed" and not outcome.desk.asked
    assert len(developer.mended) == 1 and "Fix it so: count them" in developer.mended[0]
    again = reviewers.prompts[1]
    assert "This is round 2" in again and "Five wrong passwords" in again and "The lock is there now." in again
    assert [one["verdict"] for one in rounds(outcome)] == ["changes_requested", "approve"]
    assert "looked at 2 times" in outcome.ending.summary


@pytest.mark.req("BMAD-5.13.5", "BMAD-FR44", "BMAD-E5.13")
def test_reviews_are_counted_apart_from_implementation(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    wrong = said(issue("Nothing locks", "high"), *SMALL)
    other = said(issue("The lock never opens", "high"), *SMALL)
    outcome = develop(root, Player(script(wrong, other, said(*SMALL))))
    shown = outcome.state.as_dict()
    assert (shown["review_iterations"], shown["implementation_iterations"]) == (3, 0)
    assert shown["loops"]["step_gate-code_review"]["current_iteration"] == 2
    assert [one["round"] for one in outcome.desk.of("workflow.examined")] == [1, 2, 3]


@pytest.mark.req("BMAD-5.13.4", "BMAD-FR44b", "BMAD-E5.14")
def test_a_block_is_put_to_a_human_with_its_issues(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    block = said(issue("Criteria 1 and 2 contradict one another", "high", STORY), *SMALL, verdict="blocked")
    developer = Developer(root)
    outcome = develop(root, Player(script(block)), developer=developer)
    assert outcome.ending.kind == "parked" and not developer.mended
    (asked,) = outcome.desk.asked.values()
    assert asked.kind == "escalation" and "Criteria 1 and 2 contradict" in asked.text and "is blocked" in asked.text
    assert "Status: in-progress" in (root / STORY).read_text()


@pytest.mark.req("BMAD-5.13.4")
@pytest.mark.parametrize(
    ("reply", "outcome", "mended", "status"),
    [
        ("retry", "COMPLETED", 0, "completed"),
        ("Criterion 2 is the one that counts", "COMPLETED", 1, "completed"),
        ("skip", "COMPLETED", 0, "skipped"),
        ("stop", "FAILED", 0, "in_progress"),
    ],
)
def test_what_a_human_says_about_a_block_is_done(
    tmp_path: Path, reply: str, outcome: str, mended: int, status: str
) -> None:
    root = story_project(tmp_path)
    developer = Developer(root)
    block = said(issue("They contradict", "high", STORY), *SMALL, verdict="blocked")
    desk = MemoryDesk(answers=lambda asking: reply)
    found = develop(root, Player(script(block, said(*SMALL))), developer=developer, desk=desk)
    assert (found.state.outcome, len(developer.mended)) == (outcome, mended)
    assert found.state.steps["step_gate-code_review"].status == status
    assert not mended or reply in developer.mended[0]


def test_a_verdict_is_derived_where_none_is_printed_and_an_approval_beside_grave_issues_is_none(tmp_path: Path) -> None:
    grave = issue("Any password is accepted", "high")
    for number, verdict in enumerate(("", "approve", "whatever")):
        reviewers = Player(script(said(grave, *SMALL, verdict=verdict), said(*SMALL)))
        outcome = develop(story_project(tmp_path / str(number)), reviewers)
        assert [one["verdict"] for one in rounds(outcome)] == ["changes_requested", "approve"], verdict


@pytest.mark.req("BMAD-5.13.1")
def test_from_tier_two_several_review_without_knowing_of_one_another(tmp_path: Path) -> None:
    root = story_project(tmp_path)

    async def part(part: Part) -> str:
        mine = issue("No test of the lock", "medium", "tests/test_login.py:4")
        security = [issue("The password is logged", "high", "src/login.py:7")] if "Security." in part.prompt else []
        return said(*SMALL) if "This is round 2" in part.prompt else said(mine, *security, *SMALL)

    reviewers = Player(part)
    outcome = develop(root, reviewers, tier=2)
    assert len(reviewers.prompts) == 8 and outcome.state.outcome == "COMPLETED"
    assert not any("The password is logged" in prompt for prompt in reviewers.prompts[:4])
    first = rounds(outcome)[0]["findings"]
    found_by = {one["title"]: one["found_by"] for one in first}  # type: ignore[attr-defined]
    assert found_by["The password is logged"] == ["reviewer-security"] and len(found_by["No test of the lock"]) == 4
    assert len(first) == 5  # type: ignore[arg-type]


def test_a_reviewer_that_dies_is_asked_again_and_one_that_stays_away_is_named(tmp_path: Path) -> None:
    root = story_project(tmp_path / "dies")
    outcome = develop(root, Player(script(Turn("killed", detail="out of memory"), said(*SMALL))))
    assert outcome.ending.kind == "completed" and not outcome.desk.asked

    async def part(part: Part) -> str | Turn:
        return Turn("failed", detail="no network") if "Security." in part.prompt else said(*SMALL)

    outcome = develop(story_project(tmp_path / "away"), Player(part), tier=2)
    assert outcome.ending.kind == "completed"
    assert "without reviewer-security" in str(rounds(outcome)[0]["summary"])


@pytest.mark.parametrize("answer", [Turn("failed", detail="no network"), "It is fine, I think.", ""])
def test_a_review_that_nobody_did_is_never_an_approval(tmp_path: Path, answer: str | Turn) -> None:
    root = story_project(tmp_path)
    outcome = develop(root, Player(script(answer)))
    assert outcome.ending.kind == "parked"
    (asked,) = outcome.desk.asked.values()
    assert "Nobody has examined the work" in asked.text and asked.kind == "escalation"
    assert "Status: review" in (root / STORY).read_text()


def test_no_capacity_waits_for_it_and_keeps_what_was_reported(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    full = {"yes": True}

    async def part(part: Part) -> str | Turn:
        if "Security." in part.prompt and full["yes"]:
            return Turn("capacity", retry_at=1_800_000_000.0)
        return said(*SMALL)

    reviewers, desk = Player(part), MemoryDesk()
    outcome = develop(root, reviewers, tier=2, desk=desk)
    assert (outcome.ending.kind, outcome.ending.retry_at) == ("capacity", 1_800_000_000.0)
    full["yes"] = False
    before = len(reviewers.prompts)
    outcome = develop(root, reviewers, tier=2, desk=desk, state=desk.saved)
    assert outcome.ending.kind == "completed" and len(reviewers.prompts) == before + 1


def test_what_never_gets_mended_is_put_to_a_human(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    outcome = develop(root, Player(script(said(issue("Nothing locks", "high"), *SMALL))))
    (asked,) = outcome.desk.asked.values()
    assert "persistent_error" in asked.text and "Nothing locks" in asked.text
    assert outcome.state.error == "persistent_error" and len(rounds(outcome)) == 3
    assert outcome.desk.of("workflow.escalated")[0]["error"] == "persistent_error"


def test_issues_that_take_turns_are_an_oscillation(tmp_path: Path) -> None:
    a, b = (said(issue(title, "high"), *SMALL) for title in ("It locks too early", "It locks too late"))
    outcome = develop(story_project(tmp_path), Player(script(a, b, a, b, a)))
    (asked,) = outcome.desk.asked.values()
    assert "oscillation_detected (A, B, A, B, A)" in asked.text and outcome.state.error == "oscillation_detected"


@pytest.mark.req("BMAD-E5.6")
def test_ten_rounds_of_mending_end_the_run_and_the_ninth_is_warned_of(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    turns = [said(issue(f"Wrong in its own way {chr(97 + n)}", "high"), *SMALL) for n in range(12)]
    outcome = develop(root, Player(script(*turns)))
    assert (outcome.state.outcome, outcome.state.error) == ("FAILED", "max_iterations_exceeded")
    assert "iteration 10" in outcome.state.error_details["attempts"] and len(rounds(outcome)) == 11
    (warning,) = outcome.desk.of("workflow.warning")
    assert "iteration 9 of 10 begins" in warning["text"]


@pytest.mark.parametrize("where", range(1, 14))
def test_killed_at_any_moment_a_review_is_neither_lost_nor_paid_for_twice(tmp_path: Path, where: int) -> None:
    """The process dies at each save in turn; then the run goes on."""
    root = story_project(tmp_path)
    desk = MemoryDesk(die_at=where)
    developer = Developer(root)
    wrong = [said(issue("Nothing locks", "high"), *SMALL)]

    async def part(part: Part) -> str:
        return said(*SMALL) if "This is round 2" in part.prompt else wrong[0]

    reviewers = Player(part)
    outcome = develop(root, reviewers, developer=developer, desk=desk)
    if outcome.ending.kind in ("superseded", "stopped"):
        desk.die_at = None
        outcome = develop(root, reviewers, developer=developer, desk=desk, state=desk.saved)
    assert outcome.ending.kind == "completed", outcome.ending
    assert [one["verdict"] for one in rounds(outcome)] == ["changes_requested", "approve"]
    # A report is lost only where the process dies before it could be written down.
    assert len(reviewers.prompts) <= 3
    assert (root / STORY).read_text().count("**Outcome:** Approve") == 1


def test_a_developer_that_dies_while_mending_gets_the_findings_again(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    developer = Developer(root)
    died = []

    async def part(part: Part) -> str | Turn:
        if "asks for changes" in part.prompt and not died:
            died.append(part.prompt)
            return Turn("killed", detail="out of memory")
        return await developer(part)

    wrong = said(issue("Nothing locks", "high"), *SMALL)
    outcome = develop(root, Player(script(wrong, said(*SMALL))), developer=Player(part))
    assert outcome.ending.kind == "completed" and len(died) == 1
    assert len(developer.mended) == 1 and "Nothing locks" in developer.mended[0]


@pytest.mark.req("BMAD-5.13.5", "BMAD-FR43")
@pytest.mark.parametrize(
    ("text", "verdict", "asked"),
    [
        ("**Story Status:** done\n**Issues Fixed:** 3", "approve", 0),
        ("**Review Outcome:** Approve", "approve", 0),
        ("**Outcome:** Blocked", "blocked", 1),
        ("**Issues Found:** 1 High, 2 Medium, 1 Low\n**Action Items Created:** 3", "changes_requested", 0),
    ],
)
def test_a_review_that_a_person_runs_is_judged_by_the_same_rules(
    tmp_path: Path, text: str, verdict: str, asked: int
) -> None:
    root = story_project(tmp_path)
    outcome = develop(
        root, Player(script(said(*SMALL))), developer=Player(script(DONE, f"{text}\n{DONE}")), skill=REVIEW
    )
    assert [one["verdict"] for one in rounds(outcome)] == [verdict]
    assert len(outcome.desk.asked) == asked and outcome.state.review_iterations == 1


def test_what_a_persons_review_leaves_open_is_mended_and_reviewed_by_others(tmp_path: Path) -> None:
    root = story_project(tmp_path)
    reviewers = Player(script(said(*SMALL)))
    turns = (DONE, f"**Issues Found:** 1 High, 2 Medium, 1 Low\n{DONE}", f"Mended.\n{DONE}")
    maker = Player(script(*turns))
    outcome = develop(root, reviewers, developer=maker, skill=REVIEW)
    assert [one["verdict"] for one in rounds(outcome)] == ["changes_requested", "approve"]
    assert "High and Medium findings" in maker.prompts[-1] and len(reviewers.prompts) == 1


@pytest.mark.parametrize("where", range(5, 12))
def test_killed_between_a_block_and_its_question_the_question_is_asked_once(tmp_path: Path, where: int) -> None:
    root = story_project(tmp_path)
    desk = MemoryDesk(die_at=where)
    reviewers = Player(script(said(issue("They contradict", "high", STORY), *SMALL, verdict="blocked")))
    outcome = develop(root, reviewers, desk=desk)
    if outcome.ending.kind != "parked":
        desk.die_at = None
        outcome = develop(root, reviewers, desk=desk, state=desk.saved)
    assert outcome.ending.kind == "parked" and len(desk.asked) == 1
    assert len(reviewers.prompts) <= 2
    desk.answers = lambda asking: "stop"
    desk.replies = dict.fromkeys(desk.asked, "stop")
    assert develop(root, reviewers, desk=desk, state=desk.saved).state.outcome == "FAILED"


@pytest.mark.req("BMAD-E5.7")
def test_a_reviewer_that_falls_silent_is_ended_like_any_agent_and_nobody_waits_for_ever(tmp_path: Path) -> None:
    defaults = {one.name: one.default for one in SETTINGS}
    names = ("workflow_timeout", "workflow_nested", "workflow_silence", "workflow_party_round")
    assert [defaults[name] for name in names] == [1800, 300, 60, 120]

    async def part(part: Part) -> str:
        await anyio.sleep_forever()
        return ""

    outcome = develop(story_project(tmp_path), Player(part))
    (asked,) = outcome.desk.asked.values()
    assert "Nobody has examined the work" in asked.text and outcome.ending.kind == "parked"
    assert outcome.seconds < 20 * 60
