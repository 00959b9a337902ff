"""Handing mail over: stored, offered, delivered, acknowledged, and again what may not have been seen (decision 5)."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.clock import ManualClock
from interlock.core import mailbox
from interlock.core.unit_of_work import Principal
from interlock.errors import InvalidRequest
from interlock.wakeup.notifier import INTERVAL
from tests.waiting import until


class Crash(Exception):
    """Stands for a reader that goes away."""


def stages(team: Team, to: str = "bob") -> list[str]:
    return [message.stage for message in team.history() if message.recipient == to]


def unread(team: Team, name: str = "bob") -> int:
    return next(member.unread for member in team.members() if member.name == name)


def file(team: Team) -> Path:
    return Path(team.directory) / "inbox" / "bob" / "messages.jsonl"


def home_of(team: Team) -> Path:
    return Path(team.directory).parents[1]


@pytest.mark.req("TEAM-3.4", "TEAM-3.xml")
def test_two_pending_messages_are_injected_as_xml(team: Team) -> None:
    team.send("ada", to="bob", content="One & <two>", summary="Found critical bug in auth module")
    team.send("lead", to="bob", content="Stop?", type="shutdown_request", request_id="r-1", reason="late")
    with team.acting("bob", session="s1").mail(inject=True) as mail:
        text = mail.as_xml()
    shutdown, message = ElementTree.fromstring(f"<context>{text}</context>")
    assert shutdown.attrib == {
        "teammate_id": "lead", "type": "shutdown_request", "request_id": "r-1", "reason": "late"
    }  # fmt: skip
    assert message.attrib == {
        "teammate_id": "ada", "type": "message", "summary": "Found critical bug in auth module"
    }  # fmt: skip
    assert message.text == "\nOne & <two>\n"
    assert text.startswith("<teammate-message\n  teammate_id=")


def test_nothing_to_inject_is_no_text_at_all(team: Team) -> None:
    with team.acting("bob", session="s1").mail(inject=True) as mail:
        assert mail.as_xml() == ""


@pytest.mark.req("TEAM-3.5", "CORE-FR-006", "CORE-SC.6")
def test_the_inbox_file_is_gone_after_injection_and_the_ledger_keeps_the_message(team: Team) -> None:
    team.send("ada", to="bob", content="one")
    team.send("ada", to="bob", content="two")
    assert (stages(team), unread(team), len(file(team).read_text().splitlines())) == (["stored"] * 2, 2, 2)
    with team.acting("bob", session="s1").mail(inject=True) as mail:
        assert stages(team) == ["offered"] * 2, "offered before a byte is printed"
        assert not any(message.read for message in team.history()) and unread(team) == 2
        assert file(team).exists()
    assert stages(team) == ["delivered"] * 2 and all(message.read for message in mail.messages)
    assert (file(team).exists(), unread(team)) == (False, 0)
    assert [message.content for message in team.history()] == ["one", "two"]


@pytest.mark.req("TEAM-3.5")
def test_a_message_that_arrives_during_injection_stays_in_the_file(team: Team) -> None:
    team.send("ada", to="bob", content="one")
    with team.acting("bob", session="s1").mail(inject=True) as mail:
        team.send("ada", to="bob", content="two")
    assert [message.content for message in mail.messages] == ["one"]
    assert [json.loads(line)["content"] for line in file(team).read_text().splitlines()] == ["two"]


@pytest.mark.req("CORE-EC.5")
def test_what_could_not_be_handed_over_is_offered_again_and_marked(team: Team) -> None:
    bob = team.acting("bob", session="s1")
    team.send("ada", to="bob", content="one")
    with pytest.raises(Crash), bob.mail():
        raise Crash
    assert (stages(team), unread(team)) == (["stored"], 1) and file(team).exists()
    (again,) = bob.read()
    assert (again.content, again.redelivered, again.attempt) == ("one", True, 2)
    with bob.mail() as mail:
        assert mail.messages == []


@pytest.mark.req("CORE-EC.5")
def test_what_a_killed_reader_had_in_its_hands_is_handed_over_again(team: Team, start: Callable[..., object]) -> None:
    team.send("ada", to="bob", content="one")
    reader = start("read", home_of(team), team.name, "bob", "s1", 1, "hold")
    assert reader.line() == "ready"  # type: ignore[attr-defined]
    reader.go()  # type: ignore[attr-defined]
    assert reader.line() == "holding"  # type: ignore[attr-defined]
    assert stages(team) == ["offered"] and team.acting("bob", session="s1").read() == [], "it is in living hands"
    reader.kill()  # type: ignore[attr-defined]
    (again,) = team.acting("bob", session="s1").read()
    assert again.content == "one" and again.redelivered
    assert 'redelivered="true"' in as_xml(again)


def as_xml(message: object) -> str:
    from interlock.model.message import as_xml

    return as_xml(message)  # type: ignore[arg-type]


def test_what_a_living_process_never_finishes_is_given_up_after_a_minute(timed: Team, clock: ManualClock) -> None:
    bob = timed.acting("bob", session="s1")
    timed.send("ada", to="bob", content="one")
    with bob.mail() as slow:
        assert bob.read() == []
        clock.advance(61)
        assert [message.redelivered for message in bob.read()] == [True]
    assert [message.stage for message in slow.messages] == ["offered"], (
        "what came late is not counted as delivered twice"
    )
    assert stages(timed) == ["delivered"] and unread(timed) == 0


def test_giving_back_leaves_alone_what_another_has_taken_up(timed: Team, clock: ManualClock) -> None:
    timed.send("ada", to="bob", content="one")

    def taken_up_by_another() -> None:
        clock.advance(61)
        assert len(timed.acting("bob", session="s2").read()) == 1
        raise Crash

    with pytest.raises(Crash), timed.acting("bob", session="s1").mail():
        taken_up_by_another()
    assert stages(timed) == ["delivered"] and unread(timed) == 0


def test_mail_does_not_wait_for_a_clock_that_was_set_back(timed: Team, clock: ManualClock) -> None:
    bob = timed.acting("bob", session="s1")
    timed.send("ada", to="bob", content="one")
    with bob.mail():
        clock.advance(-86_400)
        assert len(bob.read()) == 1


@pytest.mark.parametrize("boundary", ["read", "wait", "inject", "ids"])
def test_a_turn_boundary_of_the_same_session_acknowledges(team: Team, boundary: str) -> None:
    bob = team.acting("bob", session="s1")
    sent = team.send("ada", to="bob", content="one")
    bob.read()
    if boundary == "read":
        bob.read()
    elif boundary == "ids":
        assert bob.acknowledge([sent.id, "unknown"]) == [sent.id]
        assert bob.acknowledge([sent.id]) == [sent.id], "said twice, it stays true"
    else:
        with bob.mail(wait=0.0 if boundary == "wait" else None, inject=boundary == "inject"):
            pass
    assert stages(team) == ["acknowledged"]


def test_other_acts_acknowledge_nothing(team: Team) -> None:
    bob = team.acting("bob", session="s1")
    task = team.create_task("T")
    bob.claim(task.id)
    team.send("ada", to="bob", content="one")
    bob.read()
    bob.heartbeat(task.id)
    bob.send(to="ada", content="two")
    bob.complete(task.id)
    team.read("ada")
    team.history()
    team.acting("ada").acknowledge([team.history()[0].id])
    assert stages(team) == ["delivered"]


def test_without_a_session_id_the_next_read_or_task_verb_acknowledges(team: Team) -> None:
    task = team.claim(team.create_task("held").id, by="bob").id
    for verb in (lambda: team.read("bob"), lambda: team.create_task("T", by="bob"), lambda: team.next_task(by="bob")):
        team.send("ada", to="bob", content="one")
        team.read("bob")
        team.send("bob", to="ada", content="not a read or task verb")
        team.heartbeat(task, by="bob")
        assert stages(team)[-1] == "delivered"
        verb()
        assert stages(team)[-1] == "acknowledged"


def test_explicit_ids_are_ids_of_ones_own_messages(team: Team) -> None:
    sent = team.send("ada", to="bob", content="one")
    assert team.acknowledge([sent.id], by="bob") == [], "it was not handed over yet"
    team.read("bob")
    assert team.acknowledge([sent.id], by="ada") == []
    for ids in ("abc", [1], ["\ud800"]):
        with pytest.raises(InvalidRequest):
            team.acknowledge(ids, by="bob")  # type: ignore[arg-type]


@pytest.mark.req("CORE-EC.5")
def test_a_new_session_gets_again_what_the_last_one_never_acknowledged(team: Team) -> None:
    first, second = team.acting("bob", session="s1"), team.acting("bob", session="s2")
    for content in ("seen", "not seen"):
        team.send("ada", to="bob", content=content)
        first.read()
    assert stages(team) == ["acknowledged", "delivered"]
    again = second.read()
    assert [(message.content, message.redelivered) for message in again] == [("not seen", True)]
    assert stages(team) == ["acknowledged", "delivered"] and unread(team) == 0
    assert first.read() == [], "only a session that begins has it offered again"
    began = [event.payload for event in team.events()[0] if event.type == "session.began"]
    assert {"member": "bob", "session": "s2", "redelivered": 1} in began


def test_a_session_that_ended_and_acts_again_begins_anew(team: Team) -> None:
    first, second = team.acting("bob", session="s1"), team.acting("bob", session="s2")
    first.read()
    second.read()
    team.send("ada", to="bob", content="one")
    second.read()
    first.end_session()
    assert [message.redelivered for message in first.read()] == [True]


def test_the_session_without_an_id_never_begins_anew(team: Team) -> None:
    team.read("bob")
    session = team.acting("bob", session="s1")
    session.read()
    team.send("ada", to="bob", content="one")
    session.read()
    assert team.read("bob") == [] and stages(team) == ["delivered"]


@pytest.mark.parametrize("session", ["", " ", "x" * 201, "\ud800"])
def test_a_session_id_is_text_of_some_length(team: Team, session: str) -> None:
    if session == "":
        assert team.acting("bob", session=session).read() == [], "none at all is the lasting one"
        return
    with pytest.raises(InvalidRequest):
        team.acting("bob", session=session).read()


def test_a_wait_that_was_given_up_takes_no_mail_that_comes_then(team: Team) -> None:
    looks = []

    def given_up() -> bool:
        looks.append(len(looks))
        if len(looks) == 2:
            team.send("ada", to="bob", content="late")
        return len(looks) > 1

    with team.acting("bob").mail(wait=60.0, given_up=given_up) as mail:
        assert mail.messages == []
    with team.acting("bob").mail() as mail:
        assert [(message.content, message.redelivered) for message in mail.messages] == [("late", False)]


@pytest.mark.req("CORE-FR-008")
def test_waiting_without_mail_says_that_the_time_is_up(team: Team) -> None:
    for seconds in (0.0, 0.05, -1.0):
        with team.acting("bob").mail(wait=seconds) as mail:
            assert (mail.messages, mail.timed_out) == ([], True)
    with team.acting("bob").mail() as mail:
        assert (mail.messages, mail.timed_out) == ([], False), "who does not wait is not timed out"
    team.send("ada", to="bob", content="one")
    with team.acting("bob").mail(wait=5.0) as mail:
        assert (len(mail.messages), mail.timed_out) == (1, False)


def test_a_first_wait_of_a_session_begins_it_and_finds_what_is_there(team: Team) -> None:
    team.send("ada", to="bob", content="one")
    team.acting("bob", session="s1").read()
    with team.acting("bob", session="s2").mail(wait=5.0) as mail:
        assert [message.redelivered for message in mail.messages] == [True]


@pytest.mark.req("CORE-FR-007")
def test_a_waiter_in_another_process_hears_within_a_second(team: Team, start: Callable[..., object]) -> None:
    assert INTERVAL < 1.0
    hears_within_a_second(team, team, start)


@pytest.mark.req("CORE-FR-007")
def test_a_waiter_that_nobody_can_wake_looks_more_than_once_a_second(
    team: Team, start: Callable[..., object], connect: Callable[..., Home]
) -> None:
    from interlock.wakeup.waiters import PollingNotifier

    silent = connect(notifier=PollingNotifier()).team(team.name)
    hears_within_a_second(team, silent, start)


def hears_within_a_second(team: Team, sender: Team, start: Callable[..., object]) -> None:
    """Another process hears of every message, and of one of them within a second: that is what Interlock takes, and
    the rest what this machine is doing besides."""
    reader = start("read", home_of(team), team.name, "bob", "s1", 1_000_000)
    assert reader.line() == "ready"  # type: ignore[attr-defined]
    reader.go()  # type: ignore[attr-defined]
    numbers = itertools.count()

    def heard_at_once() -> bool:
        number, began = next(numbers), time.monotonic()
        sender.send("ada", to="bob", content=str(number))
        assert json.loads(reader.line())["content"] == str(number)  # type: ignore[attr-defined]
        return time.monotonic() - began < 1.0

    until(heard_at_once)


@pytest.mark.req("CORE-FR-008")
def test_of_several_waiters_of_a_member_one_gets_a_message_and_the_others_wait_on(team: Team) -> None:
    heard: list[list[str]] = []

    def wait(number: int) -> None:
        with team.acting("bob", session=f"s{number}").mail(wait=100.0) as mail:
            heard.append([message.content for message in mail.messages])

    for number in range(6):  # who waits for the first time begins its session
        with team.acting("bob", session=f"s{number}").mail():
            pass
    threads = [threading.Thread(target=wait, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for number in range(6):
        team.send("ada", to="bob", content=str(number))
        until(lambda number=number: len(heard) > number)  # type: ignore[misc]
    for thread in threads:
        thread.join(60)
    assert heard == [[str(number)] for number in range(6)], "nobody came back without one, and none came twice"


def test_a_waiter_in_another_thread_is_woken(team: Team) -> None:
    got: list[str] = []

    def wait() -> None:
        with team.acting("bob", session="s1").mail(wait=60) as mail:
            got.extend(message.content for message in mail.messages)

    thread = threading.Thread(target=wait)
    thread.start()
    team.send("ada", to="bob", content="one")
    thread.join(60)
    assert got == ["one"]


def test_what_stands_before_new_mail_in_other_hands_does_not_hide_it(team: Team) -> None:
    team.configure({"inbox_limit": 2000})
    with team._workspace.act(Principal("ada")) as act:  # type: ignore[attr-defined]
        for number in range(1200):
            mailbox.send(act, "bob", str(number))
    with team.acting("bob", session="s1").mail() as first:
        assert len(first.messages) == 1000
        with team.acting("bob", session="s1").mail(wait=0.0) as second:
            assert [message.content for message in second.messages] == [str(n) for n in range(1000, 1200)]


def test_the_lead_sees_the_state_of_its_team_before_its_mail(team: Team) -> None:
    team.send("ada", to="lead", content="hello")
    with team.acting("lead", session="s1").mail(inject=True) as mail:
        shown = mail.as_xml()
    assert shown.startswith("=== TEAM STATE ===") and shown.index("TEAM STATE") < shown.index("<teammate-message")
    with team.acting("bob", session="s1").mail(inject=True) as mail:
        assert "TEAM STATE" not in mail.as_xml()
    with team.acting("lead", session="s1").mail() as mail:
        assert mail.as_xml() == "", "only a hook asks for it"
