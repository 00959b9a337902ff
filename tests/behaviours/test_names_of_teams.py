"""Which team a name means, which names are free, and what a name that nobody has is answered with."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import Forbidden, MemberNotFound, TeamNotFound


def refusal(home: Home, name: str) -> str:
    with pytest.raises(TeamNotFound) as refused:
        home.team(name)
    return str(refused.value)


def test_a_wrong_name_is_answered_with_the_nearest_or_with_what_there_is(home: Home) -> None:
    assert "`interlock team create nowhere` an empty one" in refusal(home, "nowhere")
    names = [f"crew-{letter}" for letter in "abcdefghijkl"]
    for name in names[:10]:
        home.create_team(name)
    assert refusal(home, "zzz").endswith(f"Teams here: {', '.join(names[:10])}.")
    for name in names[10:]:
        home.create_team(name)
    assert refusal(home, "zzz").endswith(f"Teams here: {', '.join(names[:10])} and 2 more.")
    home.create_team("documents")
    assert refusal(home, "document").endswith("Did you mean documents?")


def test_a_team_that_was_deleted_elsewhere_and_made_anew_is_the_new_one(home: Home, team: Team) -> None:
    team.create_task("Of the old one")
    home.delete_team(team.name, force=True)
    assert home.teams() == [] and "not found" in refusal(home, team.name)
    home.create_team(team.name)
    assert home.team(team.name).tasks() == []


def test_a_project_without_a_team_gets_one_of_a_free_name(home: Home, tmp_path: Path) -> None:
    roots = [tmp_path / str(number) / "My App" for number in range(4)]
    for root in roots:
        root.mkdir(parents=True)
    assert [home.team_of_project(str(root)).name for root in roots] == ["my-app", "my-app-2", "my-app-3", "my-app-4"]
    assert [home.team_of_project(str(root)).name for root in roots] == ["my-app", "my-app-2", "my-app-3", "my-app-4"]
    assert len(home.teams()) == 4


def test_workers_with_another_command_each_have_a_name_of_their_own(team: Team) -> None:
    names = [team.worker("command", command=["true", str(number)]).name for number in (1, 2, 3, 1)]
    assert names == ["agent", "agent-2", "agent-3", "agent"]


def test_a_home_of_this_machine_seats_a_program_under_its_name_or_its_kind(home: Home) -> None:
    assert not home.elsewhere
    assert home.seat_name("ada", "claude") == "ada"
    assert home.seat_name(None, "claude") == "claude"


def test_mail_is_opened_by_a_member_and_not_as_a_person_unless_it_is_said(home: Home, team: Team) -> None:
    team.send(to="ada", content="hello")
    assert [message.content for message in home.mailing(team.name, "ada").read()] == ["hello"]
    with pytest.raises(MemberNotFound):
        home.mailing(team.name, "dora").read()
    with pytest.raises(Forbidden):
        team.acting("ada", person=True).read()
