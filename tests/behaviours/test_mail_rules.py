"""Mail at its bounds, and as readers that say themselves what they have seen are given it."""

from __future__ import annotations

import pytest

from interlock.app.team import Team
from interlock.clock import ManualClock
from interlock.core import mailbox
from interlock.core.unit_of_work import Principal
from interlock.errors import InvalidRequest, MemberNotFound, RecipientNotFound
from interlock.processes import ref

WHOLE = 10**9


def offered(team: Team, earlier: str, process: str = "gone") -> list[tuple[str, bool]]:
    """What bob is given, whose earlier mail was `earlier`."""
    with team._workspace.act(Principal("bob", "b")) as act:
        found = mailbox.offer(act, process, ref.alive, count=9, size=WHOLE, earlier=earlier)
        mailbox.deliver(act, [message.n for message in found])
    return [(message.content, message.redelivered) for message in found]


def test_a_reader_that_says_what_it_has_seen_is_given_the_rest_again(team: Team) -> None:
    team.send(to="bob", content="one")
    assert offered(team, "again") == [("one", False)]
    team.send(to="bob", content="two")
    assert offered(team, "unknown") == [("two", False)]
    assert sorted(offered(team, "again")) == [("one", True), ("two", True)]
    assert offered(team, "seen") == []
    assert offered(team, "again") == [], "a turn has ended since: they were seen"


def test_a_broadcast_is_new_to_each_who_gets_it(team: Team) -> None:
    team.broadcast(content="all")
    (message,) = team.acting("bob", session="b").read()
    assert (message.type, message.redelivered, message.sender) == ("broadcast", False, "human")


@pytest.mark.parametrize(
    ("field", "most", "more"),
    [
        ("summary", 500, {}),
        ("client_id", 200, {}),
        ("reason", 10_000, {"type": "shutdown_request"}),
    ],
)
def test_a_field_of_a_message_may_be_so_long(team: Team, field: str, most: int, more: dict[str, str]) -> None:
    team.send(to="bob", content="hello", **more, **{field: "x" * most})  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest) as refused:
        team.send(to="bob", content="hello", **more, **{field: "x" * (most + 1)})  # type: ignore[arg-type]
    assert refused.value.details["field"] == field
    assert len(team.inbox("bob")) == 1


def test_a_notice_is_cut_where_it_is_too_long_and_keeps_its_summary(team: Team) -> None:
    with team._workspace.act(Principal("human")) as act:
        mailbox.notify(act, "bob", "x" * 20_001, summary="y" * 501)
        mailbox.notify(act, "bob", "short")
        mailbox.notify(act, "human", "of its own doing")
        mailbox.notify(act, None, "nobody's")
        mailbox.notify(act, "eve", "who is not there")
    long, short = team.inbox("bob")
    assert (long.content, long.summary) == ("x" * 20_000, "y" * 500)
    assert (short.content, short.summary) == ("short", None)
    assert long.metadata == short.metadata == {"notice": True}, "it is worth no prompt of its own"
    assert [message.recipient for message in team.history()] == ["bob", "bob"]


def test_what_another_process_has_in_hand_is_its_own_for_a_minute(timed: Team, clock: ManualClock) -> None:
    timed.send(to="bob", content="one")
    with timed._workspace.act(Principal("bob", "b")) as act:
        mailbox.offer(act, ref.current().as_text(), ref.alive, count=9, size=WHOLE)
    for seconds in (0, 59.9):
        clock.advance(seconds)
        assert offered(timed, "unknown") == []
    clock.advance(0.1)
    assert offered(timed, "unknown") == [("one", True)]


@pytest.mark.parametrize("said", [{"content": " "}, {"content": "a\x00b"}, {"content": "all", "summary": "x" * 501}])
def test_a_broadcast_says_what_an_inbox_can_show(team: Team, said: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        team.broadcast(**said)
    assert team.history() == []


def test_an_id_that_a_broadcast_was_sent_under_answers_its_first_message(team: Team) -> None:
    team.broadcast("lead", content="once", client_id="b-1")
    again = team.send("lead", to="bob", content="once", client_id="b-1")
    first, _ = team.history()
    assert (again.id, again.recipient) == (first.id, "ada")


def test_of_two_names_like_it_the_nearest_is_suggested(team: Team) -> None:
    team.spawn("bobby")
    with pytest.raises(RecipientNotFound, match="Did you mean bobby") as refused:
        team.send(to="boby", content="hello")
    assert refused.value.details["suggestion"] == "bobby"
    with pytest.raises(MemberNotFound, match="Did you mean bobby") as unknown:
        team.claim(team.create_task("One").id, by="boby")
    assert unknown.value.details["suggestion"] == "bobby"


def test_whoever_sends_is_answered_the_message_as_it_is_kept(team: Team) -> None:
    sent = team.send("ada", to="bob", content="hello", summary="a word", metadata={"severity": 1}, urgent=True)
    assert [sent] == team.history()


def test_an_unknown_name_is_told_back_as_far_as_anybody_reads_it(team: Team) -> None:
    with pytest.raises(RecipientNotFound) as refused:
        team.send(to="x" * 300, content="hello")
    assert refused.value.details["recipient"] == "x" * 200


@pytest.mark.parametrize("ids", [["\ud800"], "one", [1], ["x"] * 1001])
def test_what_is_no_list_of_ids_acknowledges_nothing(team: Team, ids: list[str]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        team.acting("bob", session="b").acknowledge(ids)
    assert refused.value.details["field"] == "ids"


def test_a_thousand_messages_are_acknowledged_at_once(team: Team) -> None:
    bob = team.acting("bob", session="b")
    sent = team.send(to="bob", content="hello").id
    bob.read()
    assert bob.acknowledge([sent, *["x"] * 999]) == [sent]
