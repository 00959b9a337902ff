"""Teams come into being whole, take members in within the rules, and go without a trace (TEAM-1)."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import (
    Forbidden,
    InvalidMemberName,
    InvalidRequest,
    InvalidTeamName,
    InvalidTransition,
    MemberExists,
    MemberNotFound,
    TaskAlreadyClaimed,
    TeamExists,
    TeamNotFound,
)

LONGEST = "team-with-long-name-up-to-50-chars".ljust(50, "x")


def everything_in(path: Path) -> set[str]:
    return {str(one.relative_to(path)) for one in path.rglob("*")}


@pytest.mark.req("TEAM-1.1", "CORE-KE.1")
def test_a_new_team_has_its_directory_config_ledger_and_lead(home: Home) -> None:
    team = home.create_team("alpha-squad", lead="agent:main:main")
    directory = Path(home.path) / "teams" / "alpha-squad"
    assert Path(team.directory) == directory and directory.is_dir()
    config = json.loads((directory / "config.json").read_text())
    assert set(config) >= {
        "name", "id", "lead_session_key", "members", "settings", "status", "created_at", "updated_at"
    }  # fmt: skip
    assert config["name"] == "alpha-squad"
    assert config["lead_session_key"] == "agent:main:main"
    assert config["status"] == "active"
    assert [(m["name"], m["role"], m["session_key"]) for m in config["members"]] == [
        ("lead", "lead", "agent:main:main")
    ]
    assert (directory / "config.json").stat().st_mode & 0o777 == 0o600
    assert [(m.name, m.role) for m in team.members()] == [("lead", "lead")]
    home.close()  # A second handle on a ledger in use would drop its locks.
    ledger = sqlite3.connect(f"file:{directory / 'ledger.db'}?mode=ro", uri=True)
    tables = {name for (name,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables >= {"members", "tasks", "messages", "events"}
    assert ledger.execute("SELECT name, role FROM members").fetchall() == [("lead", "lead")]
    ledger.close()


@pytest.mark.req("TEAM-1.names")
@pytest.mark.parametrize(
    "name", ["alpha-squad", "team_123", "a", "team-with-long-name-up-to-50-chars", LONGEST,
             "team-name-that-is-way-too-long-for-the-limit", "7"],
)  # fmt: skip
def test_a_team_name_within_the_rule_is_accepted(home: Home, name: str) -> None:
    assert home.create_team(name).name == name
    assert home.teams() == [name]


@pytest.mark.req("TEAM-1.2", "TEAM-1.names")
@pytest.mark.parametrize(
    "name", ["invalid name!", "Alpha Squad", "team!", "", LONGEST + "x", "-alpha", "_alpha", "Alpha", "älpha", "a\n"]
)
def test_a_team_name_outside_the_rule_is_refused_and_nothing_is_made(home: Home, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidTeamName, match="alphanumeric") as refused:
        home.create_team(name)
    assert refused.value.code == "invalid_team_name"
    assert everything_in(tmp_path) == set()


@pytest.mark.req("TEAM-1.3")
def test_a_team_that_exists_is_not_made_again(home: Home) -> None:
    team = home.create_team("alpha-squad")
    task = team.create_task("Keep me")
    before = everything_in(Path(home.path))
    with pytest.raises(TeamExists) as refused:
        home.create_team("alpha-squad", lead="agent:other:main")
    assert refused.value.code == "team_exists" and refused.value.details["team"] == "alpha-squad"
    assert everything_in(Path(home.path)) == before
    assert home.team("alpha-squad").task(task.id).subject == "Keep me"
    assert home.team("alpha-squad").describe().team.lead_session_key == "agent:main:main"


@pytest.mark.req("TEAM-1.4")
def test_a_spawned_member_gets_a_key_a_row_and_the_ledger(home: Home) -> None:
    team = home.create_team("alpha-squad")
    member = team.spawn("researcher", agent="claude", model="sonnet", type="reviewer")
    assert re.fullmatch(
        r"agent:researcher:teammate:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
        member.session_key,
    )
    shown = next(m for m in team.members() if m.name == "researcher")
    assert (shown.role, shown.agent, shown.model, shown.type, shown.status) == (
        "member", "claude", "sonnet", "reviewer", "idle"
    )  # fmt: skip
    config = json.loads((Path(team.directory) / "config.json").read_text())
    assert [m["name"] for m in config["members"]] == ["lead", "researcher"]
    own = team.acting("researcher")
    task = own.create_task("Look around")
    assert own.claim(task.id).owner == "researcher"


def test_a_member_may_be_keyed_by_another_agent_id(home: Home) -> None:
    member = home.create_team("alpha-squad").spawn("researcher", agent_id="main")
    assert member.session_key.startswith("agent:main:teammate:")


@pytest.mark.req("TEAM-1.5")
def test_nobody_is_spawned_into_a_team_that_does_not_exist(home: Home, tmp_path: Path) -> None:
    home.create_team("alpha-squad")
    before = everything_in(tmp_path)
    with pytest.raises(TeamNotFound, match="alpha-squad") as refused:
        home.team("alpha-sqad").spawn("researcher")
    assert refused.value.code == "team_not_found"
    assert everything_in(tmp_path) == before


@pytest.mark.parametrize("name", ["lead", "human", "interlock", "Ada", "a b", "", "../ada", "x" * 51])
def test_a_member_name_outside_the_rule_is_refused(team: Team, name: str) -> None:
    before = everything_in(Path(team.directory))
    with pytest.raises(InvalidMemberName) as refused:
        team.spawn(name)
    assert refused.value.code == "invalid_member_name"
    assert everything_in(Path(team.directory)) == before


def test_a_member_that_exists_is_not_spawned_again(team: Team) -> None:
    with pytest.raises(MemberExists) as refused:
        team.spawn("ada")
    assert refused.value.code == "member_exists"


@pytest.mark.parametrize("name", ["agent_main_main"])
def test_a_member_may_not_share_the_inbox_of_the_lead(home: Home, name: str) -> None:
    team = home.create_team("alpha-squad", lead="Agent:Main:main")
    with pytest.raises(InvalidMemberName, match="collides with the inbox of lead"):
        team.spawn(name)
    assert [m.name for m in team.members()] == ["lead"]


@pytest.mark.parametrize("key", ["human", "Human", "person:ann", "interlock", "two words", "", "x" * 201])
def test_a_lead_may_not_be_keyed_like_somebody_else(home: Home, tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidRequest):
        home.create_team("alpha-squad", lead=key)
    assert everything_in(tmp_path) == set()


def test_the_roles_of_human_and_interlock_cannot_be_played_by_name(team: Team) -> None:
    for act in (lambda: team.spawn("eve", by="interlock"), lambda: team.acting("interlock").spawn("eve")):
        with pytest.raises(MemberNotFound):
            act()


def test_only_the_lead_and_people_change_who_takes_part(team: Team) -> None:
    for forbidden in (
        lambda: team.spawn("eve", by="ada"),
        lambda: team.remove("bob", by="ada"),
        lambda: team.configure({"claim_policy": "soft"}, by="ada"),
    ):
        with pytest.raises(Forbidden, match="lead"):
            forbidden()
    team.spawn("eve", by="lead")
    team.remove("eve", by="eve")
    assert [m.name for m in team.members()] == ["lead", "ada", "bob"]


def test_what_a_removed_member_held_or_was_to_do_goes_to_others(team: Team) -> None:
    held, reserved, reviewed, dead = (team.create_task(name) for name in ("held", "reserved", "reviewed", "dead"))
    team.claim(held.id, by="bob")
    team.assign(reserved.id, to="bob")
    team.update(reviewed.id, review="bob")
    team.claim(reviewed.id, by="ada")
    assert team.complete(reviewed.id, by="ada").state == "review"
    assert team.questions() == []
    assert team.remove("bob") == [held.id]
    assert team.task(held.id).state == "ready"
    assert team.claim(held.id, by="ada").owner == "ada"
    assert team.claim(reserved.id, by="ada").owner == "ada"
    assert [q.task_id for q in team.questions()] == [reviewed.id], "somebody has to review it"
    with pytest.raises(MemberNotFound):
        team.send("bob", to="lead", content="I am still here")
    assert team.task(dead.id).state == "ready"


def test_a_task_in_review_whose_author_left_goes_to_anybody_when_it_is_rejected(team: Team) -> None:
    task = team.create_task("Write it", review="ada")
    team.claim(task.id, by="bob")
    team.complete(task.id, by="bob")
    team.remove("bob")
    again = team.reject(task.id, reason="too short", by="ada")
    assert (again.state, again.owner) == ("ready", None)
    assert team.claim(task.id, by="ada").owner == "ada"


def test_mail_to_a_name_waits_for_its_next_member(team: Team) -> None:
    team.send("ada", to="bob", content="first")
    team.remove("bob")
    assert not (Path(team.directory) / "inbox" / "bob").exists()
    team.spawn("bob", model="opus")
    assert next(m for m in team.members() if m.name == "bob").unread == 1
    team.send("ada", to="bob", content="second")
    assert [m.content for m in team.read("bob")] == ["first", "second"]
    assert next(m for m in team.members() if m.name == "bob").unread == 0


@pytest.mark.req("TEAM-1.7")
def test_a_deleted_team_leaves_no_directory(home: Home) -> None:
    team = home.create_team("alpha-squad")
    team.spawn("ada")
    team.create_task("Something")
    team.send(to="ada", content="hello")
    home.create_team("beta")
    home.delete_team("alpha-squad")
    assert home.teams() == ["beta"]
    assert everything_in(Path(home.path) / "teams") == {
        str(Path("beta") / name) for name in everything_in(Path(home.path) / "teams" / "beta")
    } | {"beta"}
    for verb in (lambda: home.team("alpha-squad"), lambda: team.tasks(), lambda: team.create_task("Late")):
        with pytest.raises(TeamNotFound):
            verb()
    with pytest.raises(TeamNotFound):
        home.delete_team("alpha-squad")


def test_a_team_made_anew_knows_nothing_of_the_old_one(home: Home, connect: Callable[..., Home]) -> None:
    old = home.create_team("alpha-squad")
    elsewhere = connect().team("alpha-squad")
    elsewhere.create_task("Old")
    home.delete_team("alpha-squad")
    new = home.create_team("alpha-squad")
    assert new.tasks() == [] and new.describe().team.id != ""
    for stale in (old, elsewhere):
        with pytest.raises(TeamNotFound):
            stale.create_task("To whom?")
    assert new.tasks() == []


@pytest.mark.req("TEAM-1.6")
def test_a_member_that_agrees_to_shut_down_finishes_its_work_and_leaves(team: Team) -> None:
    bob = team.acting("bob", session="s1")
    first, second = team.create_task("Nearly done"), team.create_task("Hardly begun")
    bob.claim(first.id)
    bob.claim(second.id)
    asked = team.request_shutdown("bob", by="lead", reason="the day is over")
    (request,) = bob.read()
    assert (request.type, request.sender, request.request_id) == ("shutdown_request", "lead", asked.id)
    bob.complete(first.id)
    bob.release(second.id)
    assert bob.answer_shutdown(request.request_id, approve=True).state == "granted"
    (answer,) = team.read("lead")
    assert (answer.type, answer.sender, answer.approve, answer.request_id) == (
        "shutdown_response", "bob", True, asked.id
    )  # fmt: skip
    assert team.remove("bob") == [], "it had nothing left to give back"
    assert [m.name for m in team.members()] == ["lead", "ada"]
    assert (team.task(first.id).state, team.task(second.id).state) == ("done", "ready")
    with pytest.raises(MemberNotFound):
        bob.claim(second.id)


def test_verbs_name_what_would_work(team: Team) -> None:
    task = team.create_task("One")
    team.claim(task.id, by="ada")
    with pytest.raises(TaskAlreadyClaimed, match="task next"):
        team.claim(task.id, by="bob")
    with pytest.raises(InvalidTransition, match="task complete"):
        team.approve(task.id)
    with pytest.raises(MemberNotFound, match="ada"):
        team.claim(task.id, by="adda")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="only Linux lists what a process holds open")
def test_teams_that_another_process_deleted_hold_nothing_open(home: Home, connect: Callable[..., Home]) -> None:
    other = connect()
    for name in ("alpha", "beta", "gamma"):
        other.create_team(name)
        assert home.team(name).status() and list(home.team(name).events()[0])
    other.delete_team("alpha")
    other.delete_team("beta")
    assert home.teams() == ["gamma"]
    assert not [path for path in _open_files() if "(deleted)" in path and str(home.path) in path]
    assert home.team("gamma").status()
    other.create_team("alpha")
    assert home.team("alpha").status()


def _open_files() -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return found
