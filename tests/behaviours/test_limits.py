"""Exactly the limit is accepted, one more is refused whole, and the refusal names the setting (contract, Limits)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import InboxFull, InvalidRequest, LimitReached, MemberLimit, MessageTooLarge, TaskLimit, TeamLimit
from interlock.settings import BY_NAME


def test_the_defaults_are_those_of_the_contract() -> None:
    assert {name: BY_NAME[name].default for name in (
        "team_limit", "member_limit", "task_limit", "message_bytes", "subject_chars", "body_chars", "inbox_limit")
    } == {
        "team_limit": 100, "member_limit": 10, "task_limit": 1000, "message_bytes": 102_400, "subject_chars": 200,
        "body_chars": 10_000, "inbox_limit": 1000,
    }  # fmt: skip


@pytest.mark.req("TEAM-5.3")
@pytest.mark.parametrize(("character", "width"), [("a", 1), ("é", 2), ("€", 3), ("🎉", 4)])
def test_a_message_may_have_exactly_102400_bytes_of_utf8(team: Team, character: str, width: int) -> None:
    fits = character * (102_400 // width)
    fits += "a" * (102_400 - len(fits.encode()))
    assert team.send("ada", to="bob", content=fits).content == fits
    with pytest.raises(MessageTooLarge, match="size limit") as refused:
        team.send("ada", to="bob", content=fits + "a")
    assert refused.value.code == "message_too_large"
    assert refused.value.details == {"size": 102_401, "limit": 102_400, "setting": "message_bytes"}
    with pytest.raises(MessageTooLarge):
        team.broadcast("ada", content=fits + "a")
    assert [message.content for message in team.read("bob")] == [fits]


@pytest.mark.req("TEAM-5.4")
def test_a_team_has_at_most_ten_members_and_people_do_not_count(home: Home) -> None:
    team = home.create_team("alpha-squad")
    team.create_task("so that the human is known")
    for number in range(9):
        team.spawn(f"m{number}")
    with pytest.raises(MemberLimit) as refused:
        team.spawn("one-too-many")
    assert refused.value.code == "member_limit" and refused.value.details == {"limit": 10, "setting": "member_limit"}
    assert len(team.members()) == 10
    team.remove("m0")
    assert team.spawn("another").name == "another"
    team.configure({"member_limit": 11})
    assert team.spawn("and-another").name == "and-another"


@pytest.mark.req("TEAM-5.4")
def test_of_many_that_join_at_once_no_more_than_the_limit_get_in(team: Team) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def join(number: int) -> bool:
        try:
            return bool(team.spawn(f"m{number}"))
        except MemberLimit:
            return False

    with ThreadPoolExecutor(8) as pool:
        joined = list(pool.map(join, range(16)))
    assert joined.count(True) == 7 and len(team.members()) == 10


def test_a_home_has_at_most_so_many_teams(connect: Callable[..., Home]) -> None:
    home = connect(settings={"team_limit": 2})
    for name in ("a", "b"):
        home.create_team(name)
    with pytest.raises(TeamLimit) as refused:
        home.create_team("c")
    assert refused.value.details == {"limit": 2, "setting": "team_limit"}
    home.close()
    home = connect(settings={"team_limit": 1})
    with pytest.raises(TeamLimit, match="has 2 teams, and may have 1"):
        home.create_team("c")
    home.close()
    home = connect(settings={"team_limit": 2})
    home.delete_team("a")
    assert home.create_team("c").name == "c"


def test_a_team_has_at_most_so_many_open_tasks(team: Team) -> None:
    team.configure({"task_limit": 3})
    ids = [team.create_task(f"task {n}").id for n in range(3)]
    head = team.events()[1]
    with pytest.raises(TaskLimit) as refused:
        team.create_task("one too many")
    assert refused.value.details == {"limit": 3, "setting": "task_limit"}
    assert team.events()[1] == head
    team.claim(ids[0], by="ada")
    team.complete(ids[0], by="ada")
    team.delete(ids[1])
    team.cancel(ids[2])
    assert [team.create_task("again").id[-3:] for _ in range(3)] == ["004", "005", "006"]


def test_subject_and_body_count_in_characters(team: Team) -> None:
    task = team.create_task("é" * 200, body="€" * 10_000)
    for fields, setting in (({"subject": "é" * 201}, "subject_chars"), ({"body": "€" * 10_001}, "body_chars")):
        with pytest.raises(InvalidRequest) as refused:
            team.update(task.id, **fields)
        assert refused.value.details["setting"] == setting
        with pytest.raises(InvalidRequest):
            team.create_task(**{"subject": "x", **fields})  # type: ignore[arg-type]
    team.update(task.id, log="the Work Log does not count")
    assert len(team.task(task.id).body) == 10_000


@pytest.mark.req("CORE-EC.2")
def test_a_full_inbox_refuses_the_next_message_and_drops_none(team: Team) -> None:
    team.configure({"inbox_limit": 3})
    for number in range(3):
        team.send("ada", to="bob", content=str(number))
    with pytest.raises(InboxFull) as refused:
        team.send("ada", to="bob", content="one too many")
    assert refused.value.code == "inbox_full"
    assert refused.value.details == {"member": "bob", "limit": 3, "setting": "inbox_limit"}
    assert [message.content for message in team.read("bob")] == ["0", "1", "2"]
    assert team.send("ada", to="bob", content="now").content == "now"


@pytest.mark.req("CORE-EC.2", "TEAM-3.2")
def test_a_broadcast_reaches_those_with_room_and_lists_the_others(team: Team) -> None:
    team.configure({"inbox_limit": 1})
    team.send("ada", to="bob", content="full")
    answer = team.broadcast("lead", content="all", client_id="b-1")
    assert answer.delivered == ["ada"]
    assert [(one["member"], one["error"]) for one in answer.not_delivered] == [("bob", "inbox_full")]
    team.read("bob")
    assert team.broadcast("lead", content="all", client_id="b-1").delivered == ["ada", "bob"], "the rest catches up"
    assert len(team.read("ada")) == 1


def test_notices_reach_a_full_inbox_and_never_make_a_verb_fail(team: Team) -> None:
    team.configure({"inbox_limit": 1, "message_bytes": 1, "subject_chars": 2000})
    team.send("ada", to="bob", content="x")
    task = team.create_task("s" * 2000, assignee="bob")
    assert task.assignee == "bob"
    assert [message.type for message in team.read("bob")] == ["message", "task_assignment"]


def test_every_limit_says_which_setting_raises_it(team: Team) -> None:
    team.configure({"member_limit": 3, "task_limit": 1, "inbox_limit": 1})
    team.create_task("one")
    team.send("ada", to="bob", content="one")
    for verb, setting in (
        (lambda: team.spawn("eve"), "member_limit"),
        (lambda: team.create_task("two"), "task_limit"),
        (lambda: team.send("ada", to="bob", content="two"), "inbox_limit"),
    ):
        with pytest.raises(LimitReached, match=setting):
            verb()
