"""Verdicts of code reviews: read where printed, derived where not; checklists read as reviewers write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workflow.entry import verdicts
from interlock.workflow.reviews import checklist
from interlock.workflow.reviews import story as stories


@pytest.mark.req("BMAD-FR43", "BMAD-E5.13", "BMAD-E5.14")
@pytest.mark.parametrize(
    ("text", "verdict", "printed"),
    [
        ("**Review Outcome:** Approve", "approve", True),
        ("Verdict: APPROVED WITH COMMENTS", "approve", True),
        ("Outcome: Changes Requested", "changes_requested", True),
        ("Recommendation: **Request Changes**", "changes_requested", True),
        ("Outcome: Blocked\nbecause two requirements contradict", "blocked", True),
        ("Decision: Block", "blocked", True),
        ("**Issues Found:** 1 High, 2 Medium, 3 Low", "changes_requested", False),
        ("**Issues Found:** 0 High, 0 Medium, 3 Low", "approve", False),
        ("**Issues Found:** 1 High, 2 Medium, 3 Low\n**Issues Fixed:** 3", "approve", False),
        ("**Issues Found:** 2 High, 2 Medium\n**Issues Fixed:** 3", "changes_requested", False),
        ("**Issues Found:** 1 High\n**Story Status:** done\n**Issues Fixed:** 1", "approve", False),
        ("**Story Status:** in-progress", "changes_requested", False),
        ("✅ Clean review — all layers passed.", "approve", False),
        (
            "**Code review complete.** 1 `decision-needed`, 2 `patch`, 0 `defer`, 4 rejected.",
            "changes_requested",
            False,
        ),
        ("**Code review complete.** 0 `decision-needed`, 0 `patch`, 3 `defer`, 4 rejected.", "approve", False),
        ("**Code review complete.** 0 `decision-needed`, 2 `patch`.\n- Patches handled: 2", "approve", False),
    ],
)
def test_a_verdict_is_read_or_derived(text: str, verdict: str, printed: bool) -> None:
    found = verdicts.review(text)
    assert found is not None and (found.verdict, found.printed) == (verdict, printed), found


@pytest.mark.parametrize(
    "text", ["", "I have looked at it.", "Outcome: Approve/Changes Requested/Blocked", "Status: review"]
)
def test_where_nothing_tells_there_is_none(text: str) -> None:
    assert verdicts.review(text) is None


def test_what_was_left_for_later_is_noticed() -> None:
    found = verdicts.review("**Issues Found:** 1 High\n**Action Items Created:** 1")
    assert found is not None and found.left and found.verdict == "changes_requested"


@given(st.text(max_size=400))
def test_any_text_gives_one_of_three_or_none(text: str) -> None:
    found = verdicts.review(text)
    assert found is None or found.verdict in ("approve", "changes_requested", "blocked")
    assert verdicts.of_word(text) in (None, "approve", "changes_requested", "blocked")


@pytest.mark.req("BMAD-5.13.6")
@pytest.mark.parametrize(
    "line",
    [
        "3. PASS: src/a.py:1", "3. ✅ PASS - seen", "| 3 | PASS | seen |", "- **3.** **PASS** seen", "- [x] 3. PASS",
        "3) pass", "Item 3: PASS", "3. Architecture and standards loaded: PASS, seen", "#3 - PASSED",
    ],
)  # fmt: skip
def test_an_item_is_evaluated_however_it_is_written(line: str) -> None:
    found = checklist.evaluated(["a", "b", "c"], {"one": f"First.\n{line}\nMore."})
    assert [one.result for one in found] == ["not evaluated", "not evaluated", "pass"]


def test_one_reviewer_that_fails_an_item_outweighs_the_others() -> None:
    found = checklist.evaluated(["a"], {"one": "1. PASS: fine", "two": "1. FAIL: src/a.py:9 is not", "three": "1. N/A"})
    assert (found[0].result, found[0].by, found[0].note) == ("fail", ("two",), "src/a.py:9 is not")


@given(st.lists(st.text(max_size=80), max_size=20))
def test_every_item_is_reported_once_whatever_is_said(said: list[str]) -> None:
    found = checklist.evaluated(checklist.ITEMS, {str(number): text for number, text in enumerate(said)})
    assert [one.number for one in found] == list(range(1, 20))
    assert all(one.result in ("pass", "fail", "n/a", "not evaluated") for one in found)


@given(st.text(alphabet="# \n-ab", max_size=200), st.text(alphabet="abc .", min_size=1, max_size=30))
def test_notes_are_added_to_any_story_once_and_nothing_of_it_is_lost(text: str, note: str) -> None:
    once = stories.with_notes(text, "Round 1", [note], "reviewed", None)
    assert stories.with_notes(once, "Round 1", [note], "reviewed", None) == once
    before = [line.rstrip() for line in text.splitlines() if line.strip()]
    kept = iter(line.rstrip() for line in once.splitlines())
    assert all(line in kept for line in before), "in their order"
    assert "### Round 1" in once
