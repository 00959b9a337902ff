"""Messages reach exactly whom they name, whole, in order, once (TEAM-3.1–3.3, decision 7)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.app.team import Team
from interlock.errors import InvalidRequest, MemberNotFound, RecipientNotFound
from interlock.model.message import TYPES


def inbox_file(team: Team, directory: str) -> Path:
    return Path(team.directory) / "inbox" / directory / "messages.jsonl"


def lines(team: Team, directory: str) -> list[dict[str, object]]:
    path = inbox_file(team, directory)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.req("TEAM-3.1", "CORE-FR-004", "CORE-KE.3", "CORE-KE.4")
def test_a_direct_message_is_written_to_the_inbox_of_its_recipient(team: Team) -> None:
    sent = team.send("ada", to="bob", content="Found it\nin auth", summary="A bug", metadata={"severity": 1})
    (line,) = lines(team, "bob")
    assert line == {
        "id": sent.id, "sender": "ada", "to": "bob", "type": "message", "content": "Found it\nin auth",
        "summary": "A bug", "timestamp": sent.timestamp, "read": False, "stage": "stored", "request_id": None,
        "approve": None, "reason": None, "metadata": {"severity": 1}, "redelivered": False,
    }  # fmt: skip
    assert sent.as_dict() == line
    assert not inbox_file(team, "ada").exists() and not inbox_file(team, "agent_main_main").exists()
    assert inbox_file(team, "bob").stat().st_mode & 0o777 == 0o600
    assert next(m for m in team.members() if m.name == "bob").unread == 1


def test_a_recipient_may_be_named_by_its_name_its_key_or_its_role(team: Team) -> None:
    key = next(m for m in team.members() if m.name == "bob").session_key
    for to, name in (("bob", "bob"), (key, "bob"), ("lead", "lead"), ("agent:main:main", "lead"), ("human", "human")):
        assert team.send("ada", to=to, content="hello").recipient == name
    assert len(lines(team, "agent_main_main")) == 2
    assert [message.content for message in team.read()] == ["hello"], "a human has an inbox, too"


@pytest.mark.req("TEAM-3.2")
def test_a_broadcast_reaches_every_member_but_its_sender(team: Team) -> None:
    answer = team.broadcast("lead", content="Stand-up!", summary="now")
    assert (answer.delivered, answer.not_delivered) == (["ada", "bob"], [])
    for member in ("ada", "bob"):
        (line,) = lines(team, member)
        assert (line["type"], line["sender"], line["content"]) == ("broadcast", "lead", "Stand-up!")
    assert lines(team, "agent_main_main") == [] and lines(team, "human") == []
    assert team.broadcast("ada", content="Back").delivered == ["lead", "bob"]


def test_a_broadcast_is_for_people_only_when_they_are_named(team: Team) -> None:
    team.send("ada", to="human", content="so that the human has an inbox")
    assert team.broadcast(content="from a person").delivered == ["lead", "ada", "bob"]
    assert "human" not in team.broadcast("ada", content="from a member").delivered


@pytest.mark.req("TEAM-3.3")
@pytest.mark.parametrize("to", ["bobb", "nobody-at-all", "../bob", "", "Bob"])
def test_a_message_to_nobody_is_refused_and_makes_no_inbox(team: Team, to: str) -> None:
    before = set(Path(team.directory).rglob("*"))
    with pytest.raises(RecipientNotFound) as refused:
        team.send("ada", to=to, content="hello?")
    assert refused.value.code == "recipient_not_found"
    assert set(Path(team.directory).rglob("*")) == before
    assert team.history() == []


@pytest.mark.req("TEAM-3.3")
@pytest.mark.parametrize("to", ["bobb", "BOB"])
def test_an_unknown_recipient_is_told_the_nearest_name(team: Team, to: str) -> None:
    with pytest.raises(RecipientNotFound, match="Did you mean bob") as refused:
        team.send("ada", to=to, content="hello?")
    assert refused.value.details["suggestion"] == "bob"


def test_nobody_sends_as_somebody_who_is_not_there(team: Team) -> None:
    with pytest.raises(MemberNotFound):
        team.send("eve", to="bob", content="hello")


@pytest.mark.req("TEAM-3.types", "CORE-FR-005")
@pytest.mark.parametrize("type", TYPES)
def test_every_type_is_kept_as_it_was_sent(team: Team, type: str) -> None:
    assert {"message", "broadcast", "shutdown_request", "shutdown_response", "idle"} <= set(TYPES)
    assert {"plain", "idle", "task_assignment", "shutdown_request", "shutdown_approved"} <= set(TYPES)
    team.send("ada", to="bob", content="text", type=type)
    (line,) = lines(team, "bob")
    (read,) = team.read("bob")
    assert line["type"] == read.type == type


def test_another_type_is_refused(team: Team) -> None:
    for type in ("shout", "", "MESSAGE"):
        with pytest.raises(InvalidRequest, match="shutdown_request"):
            team.send("ada", to="bob", content="text", type=type)
    assert team.history() == []


@pytest.mark.parametrize(
    "fields", [{"content": ""}, {"content": " \n"}, {"content": "a\x00b"}, {"content": "\ud800"}, {"content": None},
               {"summary": "x" * 501}, {"summary": 7}, {"reason": "x" * 10_001}, {"metadata": {"a": "\ud800"}},
               {"metadata": ["a"]}, {"client_id": ""}, {"client_id": "x" * 201}, {"client_id": 5}],
)  # fmt: skip
def test_what_no_inbox_could_show_is_refused(team: Team, fields: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        team.send("ada", to="bob", **{"content": "fine", **fields})  # type: ignore[arg-type]
    assert team.history() == [] and lines(team, "bob") == []


def test_a_repeated_send_with_the_same_client_id_is_one_message(team: Team) -> None:
    first = team.send("ada", to="bob", content="once", client_id="a-1")
    assert team.send("ada", to="bob", content="once", client_id="a-1").id == first.id
    assert team.send("bob", to="ada", content="mine", client_id="a-1").id != first.id, "ids are each sender's own"
    assert len(team.history()) == 2


def test_a_repeated_broadcast_with_the_same_client_id_reaches_each_once(team: Team) -> None:
    for _ in range(2):
        assert team.broadcast("lead", content="once", client_id="b-1").delivered == ["ada", "bob"]
    assert [message.recipient for message in team.history()] == ["ada", "bob"]


@pytest.mark.req("CORE-FR-006", "CORE-SC.6")
def test_the_history_keeps_every_message_and_reading_it_marks_nothing(team: Team) -> None:
    team.send("ada", to="bob", content="one")
    team.send("bob", to="ada", content="two")
    team.send("lead", to="bob", content="three")
    team.read("ada")
    for _ in range(2):
        assert [(m.content, m.read) for m in team.history()] == [("one", False), ("two", True), ("three", False)]
    assert [m.content for m in team.history(member="ada")] == ["one", "two"]
    assert [m.content for m in team.history(limit=2)] == ["two", "three"]
    assert [m.content for m in team.history(before=team.history()[-1].n)] == ["one", "two"]
    assert team.history(member="human") == []
    with pytest.raises(MemberNotFound):
        team.history(member="eve")


def test_urgent_mail_overtakes_and_the_rest_keeps_its_order(team: Team) -> None:
    for number in range(4):
        team.send("ada", to="bob", content=str(number), urgent=number % 2 == 1)
    with team.acting("bob").mail(urgent_only=True) as mail:
        assert [message.content for message in mail.messages] == ["1", "3"]
    team.send("lead", to="bob", content="4", urgent=True)
    assert [message.content for message in team.read("bob")] == ["4", "0", "2"]


@pytest.mark.req("TEAM-4.3")
def test_rapid_writing_by_many_loses_nothing_doubles_nothing_and_keeps_each_order(
    team: Team, together: Callable[..., list[list[str]]]
) -> None:
    team.configure({"inbox_limit": 10_000})
    home, count = Path(team.directory).parents[1], 60
    team.spawn("carl")
    together("write", *[(home, team.name, sender, "bob", count) for sender in ("ada", "carl", "lead", "human")])
    expected = {sender: [f"{sender} {n}" for n in range(count)] for sender in ("ada", "carl", "lead", "human")}
    shown = lines(team, "bob")
    read = team.read("bob")
    assert [line["id"] for line in shown] == [message.id for message in read]
    assert len({message.id for message in read}) == 4 * count
    for sender, contents in expected.items():
        assert [message.content for message in read if message.sender == sender] == contents
    assert [message.n for message in read] == sorted(message.n for message in read)
    assert not inbox_file(team, "bob").exists()


@pytest.mark.req("TEAM-4.3")
def test_what_is_read_while_others_write_comes_once_and_in_order(
    team: Team, start: Callable[..., object], together: Callable[..., list[list[str]]]
) -> None:
    home, count = Path(team.directory).parents[1], 50
    reader = start("read", home, team.name, "bob", "s1", 3 * count)
    assert reader.line() == "ready"  # type: ignore[attr-defined]
    reader.go()  # type: ignore[attr-defined]
    together("write", *[(home, team.name, sender, "bob", count) for sender in ("ada", "lead", "human")])
    read = [json.loads(line) for line in reader.result()]  # type: ignore[attr-defined]
    assert len({message["id"] for message in read}) == len(read) == 3 * count
    assert not any(message["redelivered"] for message in read)
    for sender, group in itertools.groupby(sorted(read, key=lambda m: m["sender"]), key=lambda m: m["sender"]):
        assert [message["content"] for message in group] == [f"{sender} {n}" for n in range(count)]
