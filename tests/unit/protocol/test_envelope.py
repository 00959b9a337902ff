"""What an AOF/1 envelope may hold, and in which words everything that is wrong with one is told."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.envelope import (
    CompletionEnvelope,
    HandoffEnvelope,
    RunResult,
    StatusEnvelope,
    UnknownEnvelope,
    checked,
    read,
    schema,
)

TASK = "TASK-2026-02-09-001"


def envelope(type: str = "completion.report", payload: Any = None, **fields: Any) -> dict[str, Any]:
    """A valid envelope, with these fields; `None` takes one away."""
    whole = {
        "protocol": "aof", "version": 1, "type": type, "taskId": TASK, "fromAgent": "ada", "toAgent": "lead",
        "sentAt": "2026-02-09T10:00:00.000Z", "payload": {"outcome": "done"} if payload is None else payload, **fields,
    }  # fmt: skip
    return {name: value for name, value in whole.items() if value is not None}


def faults(**fields: Any) -> dict[str, str]:
    """What is wrong with that envelope: message by path."""
    found, errors = checked(envelope(**fields))
    assert found is None
    return {error.path: error.message for error in errors}


HANDOFF = {"taskId": TASK, "parentTaskId": TASK, "fromAgent": "a", "toAgent": "b", "dueBy": "2026-02-11T12:00:00Z"}


def test_each_known_type_gives_its_own_kind_of_envelope() -> None:
    for kind, payload, model in (
        ("completion.report", {"outcome": "done"}, CompletionEnvelope),
        ("status.update", {"progress": "half"}, StatusEnvelope),
        ("handoff.request", HANDOFF, HandoffEnvelope),
        ("custom.message", {"anything": [1, {"x": None}]}, UnknownEnvelope),
    ):
        found, errors = checked(envelope(kind, payload))
        assert errors == [] and isinstance(found, model)


def test_an_unknown_type_keeps_its_raw_payload() -> None:
    found, _ = checked(envelope("custom.message", {"anything": [1, {"x": None}]}))
    assert found is not None and found.payload == {"anything": [1, {"x": None}]}


def test_unknown_fields_are_kept() -> None:
    found, _ = checked(envelope(payload={"outcome": "done", "cost": {"usd": 3}}, traceId="t-1"))
    assert found is not None and found.payload.as_json() == {
        "outcome": "done", "deliverables": [], "blockers": [], "cost": {"usd": 3}
    }  # fmt: skip
    assert found.model_extra == {"traceId": "t-1"}


def test_every_fault_is_told_at_once_by_its_path() -> None:
    assert faults(
        protocol="custom", version=2, taskId="invalid-format", sentAt="not-a-timestamp", toAgent=None,
        payload={"outcome": "in-progress", "tests": {"total": 1, "passed": -1}, "blockers": ["x" * 257, 5]},
    ) == {
        "protocol": "invalid protocol 'custom': protocol must be 'aof'",
        "version": "unsupported version 2: this is AOF/1",
        "taskId": "taskId must match TASK-YYYY-MM-DD-NNN",
        "sentAt": "sentAt must be ISO 8601 datetime",
        "toAgent": "toAgent is required",
        "payload.outcome": "outcome must be one of: done, blocked, needs_review, partial",
        "payload.tests.passed": "passed must be non-negative",
        "payload.tests.failed": "failed is required",
        "payload.blockers.0": "blockers must have at most 256 characters",
        "payload.blockers.1": "blockers must be text",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["protocol", "version", "type", "taskId", "fromAgent", "toAgent", "sentAt", "payload"])
def test_a_missing_field_is_named(name: str) -> None:
    whole = envelope()
    del whole[name]
    found, errors = checked(whole)
    assert found is None and f"{name} is required" in [error.message for error in errors]


@pytest.mark.parametrize("version", [True, "1", 2, 0, 1.5, None, [1]])
def test_only_version_one_is_supported(version: Any) -> None:
    found, errors = checked({**envelope(), "version": version})
    assert found is None and errors[0].message.startswith("unsupported version")


@pytest.mark.parametrize("task", ["TASK-2026-02-09-001", "TASK-2026-02-09-1000"])
def test_a_task_id_has_three_digits_or_more(task: str) -> None:
    assert checked(envelope(taskId=task))[1] == []


@pytest.mark.parametrize(
    "task",
    [
        "TASK-2026-02-09-01",
        "TASK-2026-2-9-001",
        "task-2026-02-09-001",
        "TASK-2026-02-09-001\n",
        "TASK-２０２６-02-09-001",
        "x" * 100,
        20260209001,
        ["TASK-2026-02-09-001"],
    ],
)
def test_anything_else_is_no_task_id(task: Any) -> None:
    assert faults(taskId=task) == {"taskId": "taskId must match TASK-YYYY-MM-DD-NNN"}


@pytest.mark.parametrize(
    "moment", ["2026-02-09T10:00:00Z", "2026-02-09T10:00:00.123456+02:00", "2026-02-09T10:00", "2026-02-09T10:00:00,5Z"]
)
def test_a_moment_is_any_iso_date_and_time(moment: str) -> None:
    assert checked(envelope(sentAt=moment))[1] == []


@pytest.mark.parametrize(
    "moment",
    ["tomorrow", "2026-02-09", "2026-13-09T10:00:00Z", "10:00:00Z", "2026-02-09 10:00:00", "", "17706", 17706],
)
def test_anything_else_is_no_moment(moment: Any) -> None:
    assert faults(sentAt=moment) == {"sentAt": "sentAt must be ISO 8601 datetime"}


@pytest.mark.parametrize(
    ("name", "limit"), [("summaryRef", 256), ("notes", 10_000)]
)  # fmt: skip
def test_texts_have_limits(name: str, limit: int) -> None:
    assert checked(envelope(payload={"outcome": "done", name: "x" * limit}))[1] == []
    assert faults(payload={"outcome": "done", name: "x" * (limit + 1)}) == {
        f"payload.{name}": f"{name} must have at most {limit} characters"
    }


@pytest.mark.parametrize(("name", "limit"), [("deliverables", 50), ("blockers", 20)])
def test_lists_have_limits(name: str, limit: int) -> None:
    assert checked(envelope(payload={"outcome": "done", name: ["x"] * limit}))[1] == []
    assert faults(payload={"outcome": "done", name: ["x"] * (limit + 1)}) == {
        f"payload.{name}": f"{name} must have at most {limit} items"
    }


@pytest.mark.parametrize("name", ["acceptanceCriteria", "expectedOutputs", "contextRefs", "constraints"])
def test_the_lists_of_a_handoff_have_limits_and_defaults(name: str) -> None:
    found, errors = checked(envelope("handoff.request", HANDOFF))
    assert errors == [] and found is not None and found.payload.as_json()[name] == []
    many = faults(type="handoff.request", payload={**HANDOFF, name: ["x"] * 51})
    assert many == {f"payload.{name}": f"{name} must have at most 50 items"}


def test_more_tests_cannot_have_ended_than_there_are() -> None:
    tests = {"total": 3, "passed": 2, "failed": 2}
    assert faults(payload={"outcome": "done", "tests": tests}) == {
        "payload.tests": "passed and failed together must not exceed total"
    }


@pytest.mark.parametrize("kind", ["handoff.accepted", "handoff.rejected"])
def test_whether_a_handoff_was_accepted_follows_the_type(kind: str) -> None:
    assert checked(envelope(kind, {"taskId": TASK}))[1] == []
    wrong = faults(type=kind, payload={"taskId": TASK, "accepted": kind == "handoff.rejected"})
    assert list(wrong) == ["payload.accepted"] and kind in wrong["payload.accepted"]


def test_a_payload_that_is_no_object_is_told() -> None:
    assert faults(payload="done") == {"payload": "payload must be an object"}
    assert faults(type="custom", payload=[1]) == {"payload": "payload must be an object"}


def test_null_stands_for_what_is_not_given() -> None:
    payload = {"outcome": "done", "deliverables": None, "blockers": None, "tests": None, "notes": None}
    found, errors = checked(envelope(payload=payload))
    assert errors == [] and found is not None
    assert found.payload.as_json() == {"outcome": "done", "deliverables": [], "blockers": []}


@pytest.mark.long
@given(st.dictionaries(st.text(), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists)))
def test_no_mapping_makes_it_raise(data: dict[str, Any]) -> None:
    found, errors = checked(data)
    assert (found is None) == bool(errors)
    found, errors = checked({**envelope(), "payload": data})
    assert (found is None) == bool(errors)


def test_a_run_result_needs_its_outcome_and_time() -> None:
    found, errors = read(RunResult, {})
    assert found is None and {error.message for error in errors} == {"outcome is required", "completedAt is required"}


def test_the_published_schema_says_the_same() -> None:
    published = schema()
    jsonschema.Draft202012Validator.check_schema(published)
    validator = jsonschema.Draft202012Validator(published)
    for kind, payload in (
        ("completion.report", {"outcome": "partial", "more": 1}),
        ("status.update", {"notes": "x"}),
        ("handoff.request", HANDOFF),
        ("handoff.accepted", {"taskId": TASK}),
        ("handoff.rejected", {"taskId": TASK, "reason": "no"}),
    ):
        assert validator.is_valid(envelope(kind, payload)), kind
    for wrong in (
        envelope(version=2), envelope(protocol="custom"), envelope(taskId="x"), envelope(sentAt=None),
        envelope(payload={"outcome": "in-progress"}), envelope("status.update", {"taskId": TASK}),
        envelope("custom.message", {}),
    ):  # fmt: skip
        assert not validator.is_valid(wrong), wrong
    assert {"RunResult", "RunHeartbeat"} <= published["$defs"].keys()
    assert json.loads(json.dumps(published)) == published
