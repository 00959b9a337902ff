"""`interlock team` and `interlock member`."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.wiring import connect
from tests.surfaces.cli.conftest import Interlock


@pytest.mark.req("TEAM-1.1", "CORE-KE.1")
def test_a_new_team_has_its_directory_config_ledger_and_lead(interlock: Interlock, tmp_path: Path) -> None:
    answer = interlock("--json", "team", "create", "alpha-squad", "--lead", "agent:main:main")
    assert answer.code == 0
    directory = tmp_path / "home" / "teams" / "alpha-squad"
    assert json.loads((directory / "config.json").read_text())["lead_session_key"] == "agent:main:main"
    with sqlite3.connect(directory / "ledger.db") as ledger:
        assert ledger.execute("SELECT name, role FROM members").fetchall() == [("lead", "lead")]
    assert answer.json["name"] == "alpha-squad"
    assert [member["role"] for member in answer.json["members"]] == ["lead"]


@pytest.mark.req("TEAM-1.2", "TEAM-1.names", "TEAM-5.1")
@pytest.mark.parametrize(
    "name", ["invalid name!", "Alpha Squad", "team!", "", "a" * 51, "../../../etc/passwd", "-x", "é", ".."]
)
def test_a_name_outside_the_rule_makes_no_file_anywhere(interlock: Interlock, tmp_path: Path, name: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    answer = interlock("--json", "team", "create", "--", name)
    assert answer.code == 1
    assert answer.error["error"] == "invalid_team_name"
    assert "alphanumeric" in answer.error["message"]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.req("TEAM-1.names")
@pytest.mark.parametrize("name", ["alpha-squad", "team_123", "a", "team-with-long-name-up-to-50-chars", "a" * 50])
def test_names_within_the_rule_are_accepted(interlock: Interlock, name: str) -> None:
    assert interlock("team", "create", name).code == 0


@pytest.mark.req("TEAM-1.3")
def test_a_second_team_of_that_name_is_refused(interlock: Interlock, team: str) -> None:
    assert interlock("--json", "team", "create", team).error["error"] == "team_exists"


@pytest.mark.req("TEAM-1.4")
def test_a_spawned_member_gets_a_session_key_and_may_use_the_ledger(interlock: Interlock, team: str) -> None:
    answer = interlock(
        "--json", "member", "spawn", "writer", "--agent", "claude", "--model", "sonnet", "--type", "author"
    )
    kind, agent, role, unique = answer.json["session_key"].split(":")
    assert (kind, agent, role, len(unique)) == ("agent", "writer", "teammate", 36)
    assert set(answer.json) == {
        *("name", "session_key", "role", "status", "agent", "type", "model", "current_task", "joined_at"),
        "last_active_at",
    }
    assert interlock("--json", "task", "list", "--as", "writer").json == {"tasks": []}
    assert "writer" in [member["name"] for member in interlock("--json", "member", "list").json["members"]]


@pytest.mark.req("TEAM-1.5")
def test_spawning_into_a_team_that_does_not_exist_is_refused(interlock: Interlock) -> None:
    assert interlock("--json", "--team", "ghost", "member", "spawn", "writer").error["error"] == "team_not_found"


@pytest.mark.req("TEAM-5.4")
def test_the_member_limit_counts_the_lead(interlock: Interlock, team: str) -> None:
    interlock("config", "set", "member_limit", "3", "--team", team)
    answer = interlock("--json", "member", "spawn", "one-too-many")
    assert answer.error["error"] == "member_limit"
    assert answer.error["setting"] == "member_limit"
    interlock("config", "set", "member_limit", "2", "--team", team)
    assert "The team has 3 members, the lead included, and may have 2." in interlock("member", "spawn", "more").err


def test_a_person_is_no_member_to_be_removed(interlock: Interlock, team: str) -> None:
    error = interlock("--json", "member", "remove", "human").error
    assert error["error"] == "member_not_found"
    assert error["message"].startswith("human is a person, and no member that can be removed")


def test_a_ledger_is_not_copied_over_a_file(interlock: Interlock, team: str, tmp_path: Path) -> None:
    file = tmp_path / "there.gz"
    file.write_text("mine")
    for verb in ("backup", "export"):
        error = interlock("--json", "ledger", verb, str(file)).error
        assert error["message"] == f"{file} already exists; name another file, or remove it."
    assert file.read_text() == "mine" and [one.name for one in tmp_path.glob("there*")] == ["there.gz"]


def test_a_team_does_not_work_where_there_is_no_directory(interlock: Interlock, tmp_path: Path) -> None:
    error = interlock("--json", "team", "create", "t", "--workdir", str(tmp_path / "none")).error
    assert error["error"] == "directory_not_found"


def test_removing_a_member_puts_its_tasks_back_into_the_queue(interlock: Interlock, team: str) -> None:
    interlock("task", "create", "left over")
    interlock("task", "claim", "001", "--as", "tester")
    answer = interlock("--json", "member", "remove", "tester")
    assert answer.json["name"] == "tester"
    assert answer.json["released"] == [interlock("--json", "task", "show", "001").json["id"]]
    assert interlock("--json", "task", "show", "001").json["state"] == "ready"


@pytest.mark.req("TEAM-1.7")
def test_a_deleted_team_leaves_no_directory(interlock: Interlock, team: str, tmp_path: Path) -> None:
    refused = interlock("--json", "team", "delete", team)
    assert (refused.code, refused.error["error"]) == (1, "invalid_request") and "--yes" in refused.error["message"]
    assert interlock("team", "delete", team).code == 1 and team in interlock("team", "list").out
    assert interlock("--json", "team", "delete", team, "--yes").json["status"] == "deleted"
    assert list((tmp_path / "home" / "teams").iterdir()) == []
    assert interlock("--json", "team", "list").json == {"teams": []}


def test_a_plain_member_may_not_delete_its_team(interlock: Interlock, team: str) -> None:
    assert interlock("--json", "--as", "tester", "team", "delete", team).error["error"] == "forbidden"
    assert interlock("--as", "lead", "team", "delete", team, "--yes").code == 0


def test_a_person_is_asked_before_a_team_is_deleted(
    interlock: Interlock, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import _NamedTextIOWrapper

    monkeypatch.setattr(_NamedTextIOWrapper, "isatty", lambda self: True)
    refused = interlock("team", "delete", team, input="n\n")
    assert refused.code == 1
    assert "0 tasks" in refused.err and "Nothing was deleted" in refused.err
    assert interlock("team", "delete", team, "--yes").code == 0


def test_one_damaged_team_does_not_hide_the_others(interlock: Interlock, team: str, tmp_path: Path) -> None:
    interlock("team", "create", "broken")
    (tmp_path / "home" / "teams" / "broken" / "ledger.db").write_bytes(b"this is no database" * 100)
    shown = {one["name"]: one for one in interlock("--json", "team", "list").json["teams"]}
    assert shown[team]["status"] == "active"
    assert shown["broken"]["error"] == "ledger_unusable"
    assert "broken" in interlock("team", "list").out


def test_teams_and_members_as_tables(interlock: Interlock, team: str) -> None:
    listed = interlock("team", "list").out.splitlines()
    assert listed[0].split() == ["TEAM", "STATUS", "MEMBERS", "OPEN", "DONE", "DIRECTORY"]
    assert listed[1].split()[:5] == ["alpha-squad", "active", "3", "0", "0"]
    shown = interlock("team", "show").out
    assert "agent:main:main" in shown and "researcher" in shown


def test_a_home_without_teams_says_what_to_do(interlock: Interlock) -> None:
    assert "interlock team create" in interlock("team", "list").out
    assert "interlock team create" in interlock("task", "list").err


@pytest.mark.parametrize(
    ("said", "agent", "command"),
    [
        ("claude", "claude", None),
        ("python3 agent.py --fast", "command", ["python3", "agent.py", "--fast"]),
        ("./agent", "command", ["./agent"]),
        ("acp my-agent --acp", "acp", ["my-agent", "--acp"]),
        ('["python3", "my agent.py"]', "command", ["python3", "my agent.py"]),
        ('{"acp": ["my-agent"]}', "acp", ["my-agent"]),
    ],
)
def test_a_member_is_any_program(
    interlock: Interlock, tmp_path: Path, said: str, agent: str, command: list[str] | None
) -> None:
    interlock("--json", "team", "create", "alpha")
    made = interlock("--json", "member", "spawn", "writer", "--agent", said)
    assert made.json["agent"] == agent
    with sqlite3.connect(tmp_path / "home" / "teams" / "alpha" / "ledger.db") as ledger:
        (kept,) = ledger.execute("SELECT command FROM members WHERE name = 'writer'").fetchone()
    assert (json.loads(kept) if kept else None) == command


@pytest.mark.parametrize("said", ["python3 'x", "acp", " ", "[]", '{"agent": ["x"]}'])
def test_an_agent_that_cannot_be_read_is_refused(interlock: Interlock, said: str) -> None:
    interlock("--json", "team", "create", "alpha")
    refused = interlock("--json", "member", "spawn", "writer", "--agent", said)
    assert (refused.code, refused.error["error"]) == (1, "invalid_request")


def test_who_deletes_a_team_at_work_is_told_how_to_stop_it(interlock: Interlock, team: str) -> None:
    program = "import interlock, sys; t = interlock.connect().team('alpha-squad').acting('tester', session='s')\n"
    program += "t.claim(t.create_task('Test').id); print('claimed', flush=True); sys.stdin.read()"
    at_work = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert at_work.stdout is not None and at_work.stdout.readline() == b"claimed\n"
        refused = interlock("team", "delete", team, "--yes")
        assert refused.code == 1 and "interlock stop --team alpha-squad" in refused.err
    finally:
        at_work.communicate()
    assert interlock("team", "delete", team, "--yes").code == 0


def test_a_home_is_closed_by_its_block(interlock: Interlock, team: str, tmp_path: Path) -> None:
    with connect(str(tmp_path / "home")) as home:
        assert home.teams() == [team]
