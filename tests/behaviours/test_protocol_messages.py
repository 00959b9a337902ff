"""The explicit door: which messages are taken, and in which words the others are refused (TASK-057, TASK-058)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.core.unit_of_work import Principal, UnitOfWork
from interlock.protocol import routing
from interlock.protocol.message import HandlerResult, IncomingMessage, ProtocolAnswer, parse
from tests.behaviours.speech import ack, claimed, completion, handoff, head, message, since, update

NOBODY = "TASK-2026-02-09-999"


def said(answer: ProtocolAnswer) -> str:
    """All faults of an answer in one text."""
    return "; ".join(f"{error.path}: {error.message}" for error in answer.errors)


@pytest.mark.req("AOF-57.01", "AOF-58.07")
def test_a_completion_report_is_taken(team: Team) -> None:
    task, before = claimed(team), head(team)
    answer = team.protocol(completion(task, "partial"), by="ada")
    assert answer.as_dict() == {
        "accepted": True, "type": "completion.report", "task_id": task, "applied": True, "state": "review"
    }  # fmt: skip
    [received] = since(team, before, "protocol.message.received")
    assert (received.actor, received.task_id, received.payload["type"]) == ("ada", task, "completion.report")
    assert [event.payload["outcome"] for event in since(team, before, "task.completed")] == ["partial"]


@pytest.mark.req("AOF-57.02", "AOF-57.16", "AOF-57.17", "AOF-58.08")
@pytest.mark.parametrize("field", [{"status": "in-progress"}, {"progress": "50% complete"}, {"notes": "fine"},
                                   {"blockers": ["API key needed", "Dependency not ready"]}])  # fmt: skip
def test_a_status_update_with_any_one_field_is_taken(team: Team, field: dict[str, Any]) -> None:
    task, before = claimed(team), head(team)
    answer = team.protocol(update(task, **field), by="ada")
    assert answer.accepted and answer.state == "in-progress"
    assert [e.payload["type"] for e in since(team, before, "protocol.message.received")] == ["status.update"]


@pytest.mark.req("AOF-57.03", "AOF-57.18", "AOF-58.09")
def test_a_handoff_request_with_all_its_fields_is_taken(team: Team) -> None:
    parent, child = claimed(team), team.create_task("Test it").id
    before = head(team)
    answer = team.protocol(
        handoff(
            parent, child, "bob", acceptanceCriteria=["All tests pass", "Documentation updated"],
            expectedOutputs=["tests/report.md"], contextRefs=[f"tasks/in-progress/{parent}.md"],
            constraints=["No new dependencies"],
        ),
        by="ada",
    )  # fmt: skip
    assert answer.accepted and answer.applied
    assert [e.payload["type"] for e in since(team, before, "protocol.message.received")] == ["handoff.request"]
    assert since(team, before, "delegation.requested")


@pytest.mark.req("AOF-57.19")
def test_a_handoff_request_needs_no_lists(team: Team) -> None:
    parent, child = claimed(team), team.create_task("Test it").id
    assert team.protocol(handoff(parent, child, "bob"), by="ada").accepted
    [path] = Path(team.directory).glob(f"tasks/*/{child}/inputs/handoff.json")
    written = json.loads(path.read_text(encoding="utf-8"))
    lists = ("acceptanceCriteria", "expectedOutputs", "contextRefs", "constraints")
    assert {name: written[name] for name in lists} == {name: [] for name in lists}


@pytest.mark.req("AOF-57.04", "AOF-58.10", "AOF-58.11")
@pytest.mark.parametrize("accepted", [True, False])
def test_an_acknowledgement_is_taken_with_and_without_a_reason(team: Team, accepted: bool) -> None:
    child, before = claimed(team, "bob"), head(team)
    for payload in ({}, {"reason": "Insufficient context"}):
        assert team.protocol(ack(child, accepted, by="bob", **payload), by="bob").accepted
    assert len(since(team, before, f"delegation.{'accepted' if accepted else 'rejected'}")) == 2
    types = [event.payload["type"] for event in since(team, before, "protocol.message.received")]
    assert types == [f"handoff.{'accepted' if accepted else 'rejected'}"] * 2


REFUSED = [
    pytest.param({"protocol": "custom"}, "protocol: invalid protocol", marks=pytest.mark.req("AOF-57.05")),
    pytest.param({"version": 2}, "version: unsupported version", marks=pytest.mark.req("AOF-57.06")),
    pytest.param({"taskId": ...}, "taskId: taskId is required", marks=pytest.mark.req("AOF-57.07")),
    pytest.param({"taskId": "invalid-format"}, "must match TASK-YYYY-MM-DD-NNN", marks=pytest.mark.req("AOF-57.08")),
    pytest.param({"sentAt": "not-a-timestamp"}, "sentAt must be ISO 8601 datetime", marks=pytest.mark.req("AOF-57.09")),
    pytest.param(
        {"payload": {"outcome": "in-progress"}}, "must be one of: done, blocked, needs_review, partial",
        marks=pytest.mark.req("AOF-57.11"),
    ),
    pytest.param(
        {"payload": {"outcome": "done", "tests": {"total": 1, "passed": 1, "failed": -1}}}, "must be non-negative",
        marks=pytest.mark.req("AOF-57.13"),
    ),
    pytest.param(
        {"type": "status.update", "payload": {"taskId": NOBODY, "agentId": "ada"}},
        "at least one update field is required", marks=pytest.mark.req("AOF-57.15"),
    ),
    pytest.param(
        {"type": "handoff.request", "payload": {"taskId": NOBODY, "parentTaskId": NOBODY, "fromAgent": "ada",
                                                "toAgent": "bob", "dueBy": "tomorrow"}},
        "dueBy must be ISO 8601 datetime", marks=pytest.mark.req("AOF-57.20"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), REFUSED)
def test_a_faulty_message_is_refused_in_words(team: Team, change: dict[str, Any], words: str) -> None:
    whole = {**completion(NOBODY, "done"), **change}
    whole = {name: value for name, value in whole.items() if value is not ...}
    for form in (whole, json.dumps(whole), f"AOF/1 {json.dumps(whole)}"):
        answer = team.protocol(form, by="ada")
        assert not answer.accepted and answer.reason == "invalid_envelope" and words in said(answer)


@pytest.mark.req("AOF-57.10")
@pytest.mark.parametrize("outcome", ["done", "blocked", "needs_review", "partial"])
def test_every_outcome_is_taken(team: Team, outcome: str) -> None:
    assert team.protocol(completion(claimed(team), outcome), by="ada").accepted


@pytest.mark.req("AOF-57.12", "AOF-57.14")
def test_tests_are_counted_and_deliverables_are_empty_unless_named(team: Team) -> None:
    task = claimed(team)
    tests = {"total": 10, "passed": 8, "failed": 2}
    assert team.protocol(completion(task, "done", tests=tests), by="ada").accepted
    result = team.run_result(task)
    assert result is not None and result["tests"] == tests and result["deliverables"] == []
    for wrong, fault in (
        ({**tests, "failed": 3}, "passed and failed together must not exceed total"),
        ({**tests, "total": -1}, "total must be non-negative"),
    ):
        answer = team.protocol(completion(task, "done", tests=wrong), by="ada")
        assert not answer.accepted and fault in [one.message for one in answer.errors]
    assert team.run_result(task) == result


@pytest.mark.req("AOF-58.01", "AOF-58.02", "AOF-58.03")
@pytest.mark.parametrize("wrap", [
    lambda whole: {"type": "agent.said", "payload": whole},
    lambda whole: {"message": f"AOF/1 {json.dumps(whole)}"},
    lambda whole: f"AOF/1 {json.dumps(whole)}",
    lambda whole: json.dumps(whole),
])  # fmt: skip
def test_a_message_is_found_however_it_comes(team: Team, wrap: Any) -> None:
    task = claimed(team)
    assert team.protocol(wrap(update(task, progress="half")), by="ada").accepted
    assert [text for _, _, text in team.work_log(task)] == ["Progress: half"]


@pytest.mark.req("AOF-58.04")
@pytest.mark.parametrize("text", ["Hello, this is a chat message", "{ hello", '{"protocol": "custom"}', '{"a": 1}'])
def test_chat_leaves_no_trace_in_the_protocol(team: Team, text: str) -> None:
    before = head(team)
    team.send("ada", to="bob", content=text)
    assert [event.type for event in since(team, before) if event.type.startswith("protocol.")] == []
    before = head(team)
    assert not team.protocol(text, by="ada").accepted
    assert since(team, before) == []


@pytest.mark.req("AOF-58.05")
def test_broken_json_that_claims_to_be_ours_is_written_down(team: Team) -> None:
    before = head(team)
    answer = team.protocol("AOF/1 {invalid json", by="ada")
    assert not answer.accepted and answer.reason == "invalid_json"
    [event] = since(team, before, "protocol.message.rejected")
    assert event.payload["reason"] == "invalid_json" and event.actor == "ada"


@pytest.mark.req("AOF-58.06")
def test_a_malformed_envelope_is_written_down_with_its_faults(team: Team) -> None:
    whole, before = completion(NOBODY, "done"), head(team)
    del whole["sentAt"], whole["payload"]
    assert not team.protocol(whole, by="ada").accepted
    [event] = since(team, before, "protocol.message.rejected")
    assert event.payload["reason"] == "invalid_envelope"
    assert [fault["message"] for fault in event.payload["errors"]] == ["sentAt is required", "payload is required"]


@pytest.mark.req("AOF-58.12")
def test_an_unknown_type_is_written_down_and_nothing_else(team: Team) -> None:
    task, before = claimed(team), head(team)
    answer = team.protocol(message("custom.message", task, {"x": 1}), by="ada")
    assert not answer.accepted and answer.reason == "unknown_type" and "custom.message" in said(answer)
    [event] = since(team, before)
    assert event.type == "protocol.message.unknown" and event.payload["type"] == "custom.message"


@pytest.mark.req("AOF-58.13")
def test_a_report_about_no_task_is_rejected(team: Team) -> None:
    before = head(team)
    assert team.protocol(completion(NOBODY, "done")).reason == "task_not_found"
    [event] = since(team, before, "protocol.message.rejected")
    assert event.payload["reason"] == "task_not_found" and event.payload["task_id"] == NOBODY
    assert since(team, before, "task.transitioned", "run.reported") == []


@pytest.mark.req("AOF-58.14")
def test_an_update_of_no_task_is_rejected(team: Team) -> None:
    before = head(team)
    assert team.protocol(update(NOBODY, status="blocked")).reason == "task_not_found"
    assert [event.payload["reason"] for event in since(team, before, "protocol.message.rejected")] == ["task_not_found"]
    assert since(team, before, "task.transitioned") == []


@pytest.mark.req("AOF-58.15")
def test_a_handoff_of_no_task_is_rejected(team: Team) -> None:
    parent, before = claimed(team), head(team)
    assert team.protocol(handoff(parent, NOBODY, "bob"), by="ada").reason == "task_not_found"
    for type in ("protocol.message.rejected", "delegation.rejected"):
        assert [event.payload["reason"] for event in since(team, before, type)] == ["task_not_found"]
    assert since(team, before, "delegation.requested") == []
    assert not list(Path(team.directory).rglob("handoff.*"))


@pytest.mark.req("AOF-X.03")
def test_a_handler_that_breaks_stops_nobody(team: Team) -> None:
    def breaks(act: UnitOfWork, incoming: IncomingMessage) -> HandlerResult:
        act.event("task.warning", incoming.envelope.task_id, reason="half done")
        raise OSError("no space left on device")

    task, before = claimed(team), head(team)
    workspace = team._workspace  # type: ignore[attr-defined]
    handlers = {**routing.HANDLERS, "completion.report": breaks}
    answer = routing.route(workspace, Principal("ada"), parse(completion(task, "done")), handlers=handlers)
    assert not answer.accepted and answer.reason == "handler_failed"
    [event] = since(team, before)
    assert event.type == "protocol.message.failed" and "no space left" in event.payload["error"]
    assert team.protocol(completion(task, "done"), by="ada").accepted


def test_a_message_by_mail_is_acted_on_and_delivered(team: Team) -> None:
    task = claimed(team)
    sent = team.send("ada", to="lead", content=f"AOF/1 {json.dumps(completion(task, 'partial'))}", client_id="once")
    again = team.send("ada", to="lead", content=sent.content, client_id="once")
    assert again.id == sent.id and team.task(task).state == "review"
    assert [event.payload["outcome"] for event in since(team, 0, "task.completed")] == ["partial"]
    assert [message.content for message in team.read("lead")] == [sent.content]


def test_a_broadcast_message_is_acted_on_once(team: Team) -> None:
    task = claimed(team)
    team.broadcast("ada", content=json.dumps(update(task, progress="half")))
    assert [text for _, _, text in team.work_log(task)] == ["Progress: half"]


def test_mail_that_is_ours_and_refused_is_still_delivered(team: Team) -> None:
    before = head(team)
    team.send("ada", to="bob", content="AOF/1 {broken")
    assert [event.payload["reason"] for event in since(team, before, "protocol.message.rejected")] == ["invalid_json"]
    assert [message.content for message in team.read("bob")] == ["AOF/1 {broken"]


@pytest.mark.parametrize("by", ["bob", "ada"])
def test_a_member_speaks_for_itself_only(team: Team, by: str) -> None:
    task, before = claimed(team), head(team)
    answer = team.protocol(completion(task, "done", by="ada" if by == "bob" else "bob"), by=by)
    assert answer.reason == "unauthorized_agent"
    assert [e.payload["reason"] for e in since(team, before, "protocol.message.rejected")] == ["unauthorized_agent"]
    assert team.task(task).state == "in-progress"


def test_only_the_owner_reports(team: Team) -> None:
    task = claimed(team)
    assert team.protocol(completion(task, "done", by="bob"), by="bob").reason == "unauthorized_agent"
    assert team.protocol(update(task, by="bob", notes="x"), by="bob").reason == "unauthorized_agent"


@pytest.mark.parametrize("by", ["human", "lead"])
def test_the_lead_and_people_pass_on_anybody_s_words(team: Team, by: str) -> None:
    task, before = claimed(team), head(team)
    assert team.protocol(completion(task, "blocked", blockers=["key"]), by=by).accepted
    [event] = since(team, before, "protocol.message.received")
    assert (event.actor, event.payload["from_agent"]) == (by, "ada")


def test_a_session_key_stands_for_its_member(team: Team) -> None:
    key = next(member.session_key for member in team.members() if member.name == "ada")
    assert team.protocol(update(claimed(team), by=key, notes="x"), by="ada").accepted


def test_a_setting_lets_everybody_speak(team: Team) -> None:
    task = claimed(team)
    team.configure({"protocol_senders": "any"})
    assert team.protocol(completion(task, "partial", by="bob"), by="bob").state == "review"


def test_an_older_run_is_not_heard(team: Team) -> None:
    task = claimed(team)
    team.release(task, by="ada")
    assert team.protocol(completion(task, "done"), by="ada").reason == "stale_run"
    team.claim(task, by="bob")
    assert team.protocol(completion(task, "done", by="bob", run=f"{task}.1"), by="bob").reason == "stale_run"
    assert team.run_result(task) is None
    assert team.protocol(completion(task, "partial", by="bob", run=f"{task}.2"), by="bob").accepted


def test_another_session_of_the_owner_is_not_heard(team: Team) -> None:
    first, second = team.acting("ada", session="one"), team.acting("ada", session="two")
    task = team.create_task("Write the parser").id
    first.claim(task)
    assert second.protocol(update(task, notes="x")).reason == "task_already_claimed"
    second.claim(task, take_over=True)
    assert first.protocol(completion(task, "done")).reason == "stale_run"
    assert second.protocol(completion(task, "partial")).accepted


def test_a_successor_s_result_is_not_overwritten_after_the_end(team: Team) -> None:
    first, second = team.acting("ada", session="one"), team.acting("ada", session="two")
    task = team.create_task("Write the parser", review="none").id
    first.claim(task)
    second.claim(task, take_over=True)
    second.protocol(completion(task, "done", notes="mine"))
    assert first.protocol(completion(task, "done", notes="late")).reason == "stale_run"
    result = team.run_result(task)
    assert result is not None and result["notes"] == "mine"


@pytest.mark.req("AOF-principles")
def test_the_same_messages_leave_the_same_ledger(home: Home) -> None:
    def story(name: str) -> list[tuple[str, str]]:
        team = home.create_team(name)
        team.spawn("ada")
        task = claimed(team)
        for one in (update(task, progress="half"), completion(task, "partial"), completion(task, "partial")):
            team.protocol(one, by="ada")
        return [(event.type, event.actor) for event in since(team, 0)]

    assert story("one") == story("two")
