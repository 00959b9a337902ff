"""What validators say is read, however they say it; what says nothing is no answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.workflow.package.compliance import Issue
from interlock.workflow.reviews import validator_answer
from interlock.workflow.reviews.validator_answer import ValidatorResult, counted, read

FINDING = {
    "severity": "major",
    "field": "name",
    "expected": "kebab-case",
    "actual": "My Agent",
    "remediation": "rename it",
}


def found(text: str) -> ValidatorResult:
    return read("08b", "metadata", text)


@pytest.mark.req("BMAD-6.4.3")
def test_the_form_it_is_asked_for() -> None:
    answer = {"status": "issues", "findings": [FINDING], "blocking_errors": 0, "major_issues": 1, "summary": "one"}
    result = found(f"I looked at it.\n\n{json.dumps(answer)}")
    assert (result.status, result.major_issues, result.summary) == ("issues", 1, "one")
    assert result.issues == (Issue("name", "kebab-case", "My Agent", "rename it", "major"),)


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"status": "passed"}\n```\nThat is all.',
        '{"result": {"status": "PASSED", "findings": []}}',
        'First {"status": "issues", "findings": ["x"]}, and after another look:\n{"status": "passed", "findings": []}',
        "PASSING CHECKS\n✓ all fields\n\nWARNINGS\n- none\n\nFAILURES\n- None found",
        "**OVERALL STATUS:** PASS",
        '{"findings": [], "blocking_errors": 0}',
        'The pattern {name} holds, as does {"a": 1}. {"status": "passed"}',
    ],
)
def test_forms_of_nothing_found(text: str) -> None:
    result = found(text)
    assert (result.status, result.issues, result.blocking_errors) == ("passed", (), 0), result


@pytest.mark.parametrize(
    ("text", "blocking", "major", "listed"),
    [
        ('{"status": "failed"}', 0, 1, 1),
        ('{"status": "fail", "blocking_errors": 2}', 2, 0, 0),
        ('{"critical_issues": ["no name", "no id"], "status": "issues"}', 2, 0, 0),
        ('{"failures": ["no name"], "warnings": ["short"]}', 1, 0, 2),
        (
            '{"issues": [{"level": "critical", "location": "a", "message": "b"}, {"priority": "low", "title": "c"}]}',
            1,
            0,
            2,
        ),
        ("**FAILURES**\n✗ Missing required field: version\n✗ Bad tag\n\n**WARNINGS**\n⚠ brief", 2, 0, 3),
        ("Critical Issues: 2\nMajor Issues: 1\nCompliance Score: 50%", 2, 1, 0),
        ("**Overall Status:** FAILED", 0, 1, 1),
    ],
)
def test_forms_of_something_found(text: str, blocking: int, major: int, listed: int) -> None:
    result = found(text)
    assert result.status == "issues"
    assert (result.blocking_errors, result.major_issues, len(result.issues)) == (blocking, major, listed), result
    for issue in counted(result):
        assert issue.field and issue.expected and issue.actual and issue.remediation
    assert sum(one.severity == "blocking" for one in counted(result)) == blocking


@pytest.mark.parametrize(
    "text", ["", "  \n", "I could not find the file.", '{"step": "completed"}', "{", '{"a": [1, 2']
)
def test_what_says_nothing_is_no_answer(text: str) -> None:
    result = found(text)
    assert not result.heard and result.detail and "cannot be read" in result.detail


@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        _nested := lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["status", "findings", "issues", "severity", "field", "blocking_errors"]), inner
            )
        ),
    ).map(json.dumps)
)
def test_whatever_is_said_comes_to_a_result_that_can_be_kept(text: str) -> None:
    result = found(text)
    kept = json.loads(json.dumps(result.as_dict()))
    assert ValidatorResult.model_validate(kept) == result
    assert result.heard or result.detail


def test_an_endless_nest_is_no_answer_and_takes_no_time() -> None:
    assert not found('{"a":' * 200_000).heard
    assert validator_answer.read("08a", "plan", "{" * 500_000).status == "failed"
