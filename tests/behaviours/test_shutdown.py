"""The shutdown handshake: asked, answered, told, and never taken for granted (TEAM-3.6, 3.7, decision 6)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import ManualClock
from interlock.errors import Forbidden, InvalidRequest, MemberNotFound, RequestNotFound
from interlock.model.message import Message


def shutdown_events(team: Team) -> list[str]:
    return [event.type for event in team.events()[0] if event.type.startswith("shutdown.")]


@pytest.mark.req("TEAM-3.6")
def test_the_lead_asks_a_member_to_shut_down(team: Team) -> None:
    request = team.request_shutdown("bob", reason="done for today", by="lead")
    assert (request.subject, request.asked_by, request.asked, request.state) == (
        "bob", "lead", ["bob"], "open"
    )  # fmt: skip
    path = Path(team.directory) / "inbox" / "bob" / "messages.jsonl"
    assert '"shutdown_request"' in path.read_text()
    (message,) = team.read("bob")
    assert (message.type, message.sender, message.request_id, message.reason) == (
        "shutdown_request", "lead", request.id, "done for today"
    )  # fmt: skip
    assert [found.id for found in team.shutdown_requests()] == [request.id]
    assert team.request_shutdown("bob", by="lead").id == request.id, "the same open request is not made twice"
    assert team.read("bob") == []


@pytest.mark.req("TEAM-3.7", "CORE-P2.2")
@pytest.mark.parametrize("approve", [True, False])
def test_the_member_answers_and_the_asker_is_told(team: Team, approve: bool) -> None:
    request = team.request_shutdown("bob", by="lead")
    answered = team.answer_shutdown(approve=approve, reason=None if approve else "in the middle of it", by="bob")
    assert answered.state == ("granted" if approve else "rejected")
    (message,) = team.read("lead")
    assert (message.type, message.sender, message.request_id, message.approve) == (
        "shutdown_response", "bob", request.id, approve
    )  # fmt: skip
    assert message.reason == (None if approve else "in the middle of it")
    assert team.shutdown_requests() == []
    assert shutdown_events(team) == [
        "shutdown.requested", "shutdown.answered", "shutdown.granted" if approve else "shutdown.rejected"
    ]  # fmt: skip
    again = team.answer_shutdown(request.id, approve=approve, reason="again", by="bob")
    assert again.state == answered.state and team.read("lead") == [], "again it changes nothing"


@pytest.mark.req("CORE-P2.1")
def test_announcing_ones_own_shutdown_reaches_the_lead_and_all_who_wait_for_ones_tasks(team: Team) -> None:
    team.spawn("carl")
    mine = team.create_task("mine")
    theirs = team.create_task("theirs", blocked_by=[mine.id])
    team.claim(mine.id, by="ada")
    team.claim(theirs.id, by="bob", force=True)
    request = team.request_shutdown(by="ada", reason="my machine goes down")
    assert request.asked == ["lead", "bob"] and request.subject == "ada"
    for name in ("lead", "bob"):
        (message,) = team.read(name)
        assert (message.type, message.request_id) == ("shutdown_request", request.id)
        assert "my machine goes down" in message.content
    assert team.read("carl") == [] and team.read("ada") == []


@pytest.mark.req("CORE-P2.1")
def test_an_announcement_reaches_whoever_was_not_asked_yet(team: Team) -> None:
    team.send("ada", to="bob", content="I have to go", type="shutdown_request")
    request = team.request_shutdown(by="ada")
    assert request.asked == ["bob", "lead"] and len(team.shutdown_requests()) == 1
    assert [message.request_id for message in team.read("lead")] == [request.id]
    assert len(team.read("bob")) == 1, "who was asked is not asked again"
    assert team.request_shutdown(by="ada") == request and team.read("lead") == []
    assert team.answer_shutdown(approve=True, by="lead").state == "granted"


@pytest.mark.req("CORE-P2.2")
def test_the_leads_approval_grants_alone(team: Team) -> None:
    request = announced(team)
    assert team.answer_shutdown(request, approve=True, by="lead").state == "granted"
    (message,) = team.read("ada")
    assert (message.type, message.approve, message.sender) == ("shutdown_response", True, "lead")
    with pytest.raises(RequestNotFound, match="granted"):
        team.answer_shutdown(request, approve=True, by="bob")


def test_of_the_others_all_have_to_approve_and_one_rejection_ends_it(team: Team) -> None:
    request = announced(team)
    assert team.answer_shutdown(request, approve=True, by="bob").state == "open"
    assert team.answer_shutdown(request, approve=False, reason="not now", by="lead").state == "rejected"
    assert [message.approve for message in team.read("ada")] == [True, False]


def announced(team: Team) -> str:
    mine = team.create_task("mine")
    theirs = team.create_task("theirs", blocked_by=[mine.id])
    team.claim(mine.id, by="ada")
    team.claim(theirs.id, by="bob", force=True)
    return str(team.request_shutdown(by="ada").id)


@pytest.mark.req("CORE-SC.2")
def test_a_request_is_delivered_and_acknowledged_between_processes_within_five_seconds(
    team: Team, start: Callable[..., object]
) -> None:
    seconds = []
    for _ in range(3):  # The least is what Interlock takes, the rest what this machine is doing besides.
        answering = start("answer", Path(team.directory).parents[1], team.name, "bob")
        assert answering.line() == "ready"  # type: ignore[attr-defined]
        answering.go()  # type: ignore[attr-defined]
        began = time.monotonic()
        request = team.request_shutdown("bob", by="lead")
        with team.acting("lead").mail(wait=60) as mail:
            (answer,) = mail.messages
        seconds.append(time.monotonic() - began)
        assert (answer.type, answer.request_id, answer.approve) == ("shutdown_response", request.id, True)
        answering.result()  # type: ignore[attr-defined]
    assert min(seconds) < 5


@pytest.mark.req("TEAM-3.types", "CORE-FR-005")
@pytest.mark.parametrize(("type", "state"), [("shutdown_approved", "granted"), ("shutdown_rejected", "rejected")])
@pytest.mark.parametrize("named", [True, False])
def test_an_answer_sent_as_a_message_closes_the_request_alike(team: Team, type: str, state: str, named: bool) -> None:
    request = team.request_shutdown("bob", by="lead")
    for _ in range(2):
        sent = team.send(
            "bob", to="lead", content="as you asked", type=type, request_id=request.id if named else None,
            client_id="one answer",
        )  # fmt: skip
        assert sent.request_id == request.id
    assert shutdown_events(team)[-1] == f"shutdown.{state}"
    assert [message.type for message in team.read("lead")] == [type], "the message itself is the answer"
    assert team.shutdown_requests() == []


def test_an_answer_sent_to_somebody_else_still_reaches_who_asked(team: Team) -> None:
    team.request_shutdown("bob", by="human")
    team.send("bob", to="lead", content="fine", type="shutdown_approved")
    assert [message.type for message in team.read("human")] == ["shutdown_response"]


def test_a_request_sent_as_a_message_can_be_answered(team: Team) -> None:
    asked = team.send("lead", to="bob", content="Please stop", type="shutdown_request")
    assert asked.request_id is not None
    (read,) = team.read("bob")
    assert read.content == "Please stop"
    assert team.answer_shutdown(approve=True, by="bob").subject == "bob"
    own = team.send("ada", to="lead", content="I have to go", type="shutdown_request")
    answer = team.answer_shutdown(own.request_id, approve=True, by="lead")
    assert (answer.subject, answer.state) == ("ada", "granted")


def test_who_may_ask_whom(team: Team) -> None:
    with pytest.raises(Forbidden, match="lead"):
        team.request_shutdown("bob", by="ada")
    with pytest.raises(MemberNotFound):
        team.request_shutdown("eve", by="lead")
    assert team.request_shutdown("bob").asked_by == "human"


@pytest.mark.parametrize("now", [False, True])
def test_stopping_a_member_that_nobody_is_says_so(home: Home, team: Team, now: bool) -> None:
    with pytest.raises(MemberNotFound) as refused:
        home.stop(team.name, member="bobb", now=now)
    assert refused.value.details["suggestion"] == "bob" and not team.shutdown_requests()


def test_only_who_was_asked_answers_and_says_which_if_there_are_several(team: Team) -> None:
    with pytest.raises(RequestNotFound):
        team.answer_shutdown(approve=True, by="bob")
    first, second = team.request_shutdown("bob", by="lead").id, team.request_shutdown("bob", by="human").id
    for request, by in ((first, "ada"), ("shutdown-unknown", "bob"), (None, "bob")):
        with pytest.raises(RequestNotFound):
            team.answer_shutdown(request, approve=True, by=by)
    with pytest.raises(InvalidRequest, match="reason"):
        team.answer_shutdown(first, approve=False, by="bob")
    team.answer_shutdown(first, approve=True, by="bob")
    assert team.answer_shutdown(approve=True, by="bob").id == second


def test_silence_ends_a_wait_for_what_is_injected_too(timed: Team, clock: ManualClock) -> None:
    timed.request_shutdown("bob", by="lead")
    clock.advance(300)
    assert not any(message.sender == "interlock" for message in _injected(timed, wait=None)), "a hook must be quick"
    (notice,) = _injected(timed, wait=60.0)
    assert "bob did not answer" in notice.content


def _injected(team: Team, wait: float | None) -> list[Message]:
    with team.acting("lead").mail(wait=wait, inject=True) as mail:
        return mail.messages


def test_silence_is_reported_to_who_asked_and_never_taken_for_a_yes(timed: Team, clock: ManualClock) -> None:
    request = timed.request_shutdown("bob", by="lead")
    clock.advance(299)
    assert timed.read("lead") == []
    clock.advance(1)
    assert timed.shutdown_requests() == []
    with timed.acting("lead").mail(wait=0.0) as mail:
        (notice,) = mail.messages
    assert (notice.sender, notice.request_id) == ("interlock", request.id)
    assert "bob did not answer" in notice.content and "stop --now --member bob" in notice.content
    assert shutdown_events(timed) == ["shutdown.requested", "shutdown.expired"]
    with pytest.raises(RequestNotFound, match="expired"):
        timed.answer_shutdown(request.id, approve=True, by="bob")
    assert timed.read("lead") == [], "it is reported once"


def test_shutdown_messages_reach_a_full_inbox(team: Team) -> None:
    team.configure({"inbox_limit": 1})
    team.send("ada", to="bob", content="full")
    team.send("ada", to="lead", content="full")
    team.request_shutdown("bob", by="lead")
    team.answer_shutdown(approve=True, by="bob")
    assert [message.type for message in team.read("lead")] == ["shutdown_response", "message"]


def test_a_lead_of_a_team_without_work_may_go_at_once(team: Team) -> None:
    assert team.request_shutdown(by="lead").state == "granted"


def test_an_answer_to_somebody_who_left_is_still_an_answer(team: Team) -> None:
    request = announced(team)
    team.remove("ada")
    assert team.answer_shutdown(request, approve=True, by="lead").state == "granted"


@pytest.mark.req("TEAM-1.6", "GUARD-closed")
@pytest.mark.parametrize("way", ["approved", "announced", "ended"])
def test_what_a_stopped_member_held_by_hand_goes_back_and_it_gets_nothing_more(
    team: Team, home: Home, way: str
) -> None:
    held, next_one = team.create_task("held").id, team.create_task("next").id
    asked, answered = team.create_task("asked").id, team.create_task("answered").id
    for task in (held, asked, answered):
        team.claim(task, by="bob")
    for task in (asked, answered):
        team.ask(task, "Blue or red?", by="bob")
    team.reply(answered, "red")
    assert team.task(answered).reserved == "bob"
    if way == "approved":
        team.request_shutdown("bob", by="lead")
        team.answer_shutdown(approve=True, by="bob")
    elif way == "announced":
        team.request_shutdown(by="bob")
        team.answer_shutdown(approve=True, by="lead")
    else:
        home.stop(team.name, member="bob", now=True)
    assert (team.task(held).state, team.task(held).owner) == ("ready", None)
    told = [event for event in team.events()[0] if event.type == "task.reclaimed" and event.task_id == held]
    assert [event.payload["reason"] for event in told] == ["bob has stopped"]
    # What the lead does itself, it is not told.
    assert way == "announced" or any(held in message.content for message in team.read("lead"))
    assert team.task(asked).state == "awaiting-response", "it waits for its answer, whoever goes on then"
    for refused in (
        lambda: team.claim(held, by="bob"),
        lambda: team.claim(held, force=True, by="bob"),
        lambda: team.next_task(by="bob"),
        lambda: team.assign(next_one, to="bob", by="lead"),
        lambda: team.create_task("for bob", assignee="bob"),
    ):
        with pytest.raises(Forbidden, match=r"bob has stopped and gets no work\. `interlock resume --member bob`"):
            refused()
    assert "for bob" not in [task.subject for task in team.tasks()]
    team.reply(asked, "blue")
    for task in (asked, answered):
        assert (team.task(task).state, team.claim(task, by="ada").owner) == ("ready", "ada")
    team.resume("bob")
    assert team.claim(held, by="bob").owner == "bob"
    assert team.assign(next_one, to="bob", by="lead").assignee == "bob"
