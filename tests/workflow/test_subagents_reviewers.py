"""Reviewers of the same work, each by itself, and what their findings come to."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workflow.engine.examination import BLOCKING, MAJOR, MINOR, SEVERITIES, Finding
from interlock.workflow.panel import merge
from interlock.workflow.reviews import reviewers
from interlock.workflow.reviews.reviewers import EMPHASES, Emphasis, answer, fork

BASE = "# Review of story 1.2\n\nThe diff is in changes.diff, the criteria in story.md."


def test_four_reviewers_get_the_same_context_and_another_emphasis_each() -> None:
    asked = fork(BASE)
    assert [one.label for one in asked] == [f"reviewer-{name}" for name in (
        "correctness", "security", "tests", "maintainability",
    )]  # fmt: skip
    assert all(one.prompt.startswith(BASE) and one.kind == "code_review" and not one.writes for one in asked)
    for mine, theirs in ((a, b) for a in EMPHASES for b in EMPHASES):
        prompt = next(one.prompt for one in asked if one.label.endswith(mine.name))
        assert (theirs.text in prompt) == (mine == theirs)
    with pytest.raises(ValueError, match="name of its own"):
        fork(BASE, [Emphasis("same", "x"), Emphasis("same", "y")])


BLOCK = {
    "verdict": "changes_requested",
    "summary": "one thing",
    "findings": [{"severity": "major", "title": "no {limit} on uploads", "location": "a.py:3", "fix": "set one"}],
}


@pytest.mark.parametrize(
    "dress",
    [
        lambda block: block,
        lambda block: f"I read everything.\n\n```json\n{block}\n```\nThat is all.",
        lambda block: f"```\n{block}\n```",
        lambda block: f"Such as {{this}} or {{'that': 1}}: {block} and so on",
        lambda block: 'The form was {"verdict": "approve" or "blocked", "findings": [{...}]}.\n' + block,
        lambda block: '{"findings": []}\nOn second thoughts:\n' + block,
        lambda block: block.replace("}]}", "},]}"),
        lambda block: json.dumps(json.loads(block), indent=2),
    ],
)
def test_an_answer_is_read_whatever_stands_around_it(dress: Callable[[str], str]) -> None:
    read = answer(dress(json.dumps(BLOCK)), "reviewer-tests")
    assert read.readable and read.verdict == "changes_requested" and read.summary == "one thing"
    assert read.findings == (Finding(MAJOR, "no {limit} on uploads", "a.py:3", "set one", ("reviewer-tests",)),)


def test_an_answer_without_the_block_is_not_taken_for_one_without_findings() -> None:
    assert not answer("Looks good to me!").readable
    assert not answer("").readable
    assert not answer('{"step": "completed"}').readable
    assert answer('```json\n{"verdict": "APPROVE", "findings": []}\n```').verdict == "approve"
    assert answer("[]") == reviewers.Answer(True)


@given(st.text(alphabet='{}[]",:findgs \n`', max_size=2000))
def test_no_answer_breaks_the_reader(text: str) -> None:
    answer(text)


def test_what_reviewers_call_it_comes_to_three_severities() -> None:
    said = ["Critical", "HIGH", "must-fix", "medium", "Should fix", "whatever", None, "low", "Nit"]
    block = {
        "findings": [
            {"severity": word, "issue": f"thing {n}", "file": "a.py", "line": n} for n, word in enumerate(said)
        ]
    }
    read = answer(json.dumps(block)).findings
    assert [one.severity for one in read] == [BLOCKING] * 3 + [MAJOR] * 4 + [MINOR] * 2
    assert read[3].location == "a.py:3"


def test_the_same_finding_of_two_reviewers_is_one_with_the_worst_severity_and_both_names() -> None:
    found = merge(
        {
            "b": [Finding(MINOR, "The path is not checked", "src/a.py:12", "check it")],
            "a": [
                Finding(BLOCKING, "Unchecked path: not checked", "./src/a.py:13-15"),
                Finding(MAJOR, "No test", "t.py"),
            ],
            "c": [Finding(MAJOR, "The path is not checked", "src/b.py:12")],
        }
    )
    assert [(one.severity, one.location, one.found_by) for one in found] == [
        (BLOCKING, "./src/a.py:13-15", ("a", "b")),
        (MAJOR, "src/b.py:12", ("c",)),
        (MAJOR, "t.py", ("a",)),
    ]
    assert found[0].fix == "check it"


def test_two_things_that_one_reviewer_tells_apart_stay_two() -> None:
    found = [Finding(MAJOR, "input a is not checked", "a.py:3"), Finding(MAJOR, "input b is not checked", "a.py:4")]
    assert len(merge({"a": found})) == 2


findings = st.builds(
    Finding,
    st.sampled_from(SEVERITIES),
    st.lists(st.sampled_from(["path", "unchecked", "the", "test", "missing", "lock"]), min_size=1).map(" ".join),
    st.sampled_from(["", "a.py", "a.py:1", "./a.py:3", "a.py:9", "b.py#L1"]),
    st.sampled_from(["", "fix it"]),
)
reports = st.dictionaries(st.sampled_from(["r1", "r2", "r3", "r4"]), st.lists(findings, max_size=6))


@given(reports)
def test_merging_loses_nothing_and_nobody_however_often_and_in_whatever_order_it_is_told(
    found: dict[str, list[Finding]],
) -> None:
    merged = merge(found)
    again: dict[str, Sequence[Finding]] = {
        label: [*found[label], *found[label][::-1]] for label in reversed(list(found))
    }
    assert merge(again) == merged
    assert merge({"": merged}) == merged
    said = [(label, one) for label, given in found.items() for one in given]
    assert {label for label, _ in said} == {label for one in merged for label in one.found_by}
    for label, one in said:
        rank = SEVERITIES.index(one.severity)
        assert any(label in kept.found_by and SEVERITIES.index(kept.severity) <= rank for kept in merged)
    ranks = [SEVERITIES.index(one.severity) for one in merged]
    assert ranks == sorted(ranks) and len(merged) <= len(said)
