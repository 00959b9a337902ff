"""Who acts: a member, a session, a run, and a person whom nobody has to register."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import Forbidden, InvalidRequest, MemberNotFound


def sessions(team: Team) -> list[tuple[str, str]]:
    return [(e.payload["member"], e.payload["session"]) for e in team.events()[0] if e.type == "session.began"]


def test_a_session_begins_with_its_first_act_and_only_once(team: Team) -> None:
    ada = team.acting("ada", session="s1")
    assert ("ada", "s1") not in sessions(team)
    ada.create_task("one")
    ada.create_task("two")
    assert sessions(team).count(("ada", "s1")) == 1


def test_without_an_id_a_member_has_one_lasting_session_in_every_process(
    team: Team, connect: Callable[..., Home]
) -> None:
    task = team.create_task("T", by="ada")
    elsewhere = connect().team(team.name)
    elsewhere.claim(task.id, by="ada")
    assert team.complete(task.id, by="ada").state == "done"
    assert sessions(team).count(("ada", "cli:ada")) == 1


def test_a_person_needs_no_registration_and_may_do_what_the_lead_may(team: Team) -> None:
    held = team.create_task("held", by="ada")
    team.claim(held.id, by="ada")
    assert team.release(held.id).state == "ready"
    assert team.claim(held.id).owner == "human"
    assert team.complete(held.id).state == "done"
    assert [member.name for member in team.members()] == ["lead", "ada", "bob"], "people are no members"


def test_a_member_may_be_called_by_its_key(team: Team) -> None:
    key = next(member.session_key for member in team.members() if member.name == "ada")
    assert team.create_task("T", by=key).id == team.create_task("U", by="ada").id[:-1] + "1"
    assert team.claim("001", by=key).owner == "ada"
    assert team.complete("001", by="ada").owner == "ada"


@pytest.mark.parametrize("name", ["eve", "", "ADA", "cli:ada"])
def test_who_is_not_there_does_nothing(team: Team, name: str) -> None:
    head = team.events()[1]
    with pytest.raises(MemberNotFound) as refused:
        team.create_task("T", by=name)
    assert refused.value.code == "member_not_found"
    assert team.events()[1] == head


def test_a_name_that_is_no_text_is_refused(team: Team) -> None:
    for name in (7, ["ada"]):
        with pytest.raises((InvalidRequest, MemberNotFound)):
            team.create_task("T", by=name)  # type: ignore[arg-type]
        with pytest.raises((InvalidRequest, MemberNotFound)):
            team.acting(name)  # type: ignore[arg-type]


def test_every_event_names_its_actor(team: Team) -> None:
    task = team.create_task("T", by="lead")
    team.claim(task.id, by="ada")
    team.complete(task.id)
    actors = {event.type: event.actor for event in team.events()[0] if event.task_id == task.id}
    assert (actors["task.created"], actors["task.claimed"], actors["task.completed"]) == ("lead", "ada", "human")


def test_with_a_session_nobody_acts_as_somebody_else(team: Team) -> None:
    with pytest.raises(Forbidden, match="INTERLOCK_SESSION"):
        team.acting("ada", session="s1").create_task("T", by="bob")
    assert team.acting("ada").create_task("T", by="bob").id, "without one it is the caller's own word"


def test_ending_a_session_is_told_and_only_where_there_is_one(team: Team) -> None:
    ada = team.acting("ada", session="s1")
    ada.read()
    ada.end_session()
    team.acting("bob").end_session()
    ended = [event.payload for event in team.events()[0] if event.type == "session.ended"]
    assert ended == [{"member": "ada", "session": "s1"}]


def test_a_removed_member_speaks_no_more(team: Team) -> None:
    ada = team.acting("ada", session="s1")
    ada.read()
    team.remove("ada")
    for verb in (ada.read, lambda: ada.create_task("T"), lambda: ada.send(to="lead", content="x"), ada.next_task):
        with pytest.raises(MemberNotFound):
            verb()


def test_following_events_goes_on_where_it_was_and_wakes(team: Team) -> None:
    head = team.events()[1]
    following = team.follow(head)
    first = team.create_task("one")
    seen = next(event for event in following if event.type == "task.created")
    assert (seen.task_id, seen.seq) == (first.id, team.events()[1])
    second = team.create_task("two")
    assert next(event for event in following if event.type == "task.created").task_id == second.id
    following.close()  # type: ignore[attr-defined]
