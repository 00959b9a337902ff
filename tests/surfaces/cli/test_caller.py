"""Which team is meant, who acts, in which session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.surfaces.cli.conftest import Interlock


@pytest.fixture
def teams(interlock: Interlock, here: Path) -> Path:
    """Two teams, `near` at work in a directory, `far` elsewhere; that directory."""
    place = here / "work"
    place.mkdir()
    assert interlock("team", "create", "near", "--workdir", str(place)).code == 0
    (here.parent / "elsewhere").mkdir()
    assert interlock("team", "create", "far", "--workdir", str(here.parent / "elsewhere")).code == 0
    return place


def meant(interlock: Interlock, *options: str) -> str:
    answer = interlock(*options, "--json", "team", "show")
    assert answer.code == 0, answer.err
    return str(answer.json["name"])


def test_the_only_team_is_meant_by_what_reads_and_never_by_what_changes_something(
    interlock: Interlock, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert interlock("team", "create", "solo").code == 0
    assert interlock("task", "create", "Write it").code == 0
    assert interlock("--json", "team", "show").json["workdir"] == str(here)
    elsewhere = here.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(here.parent / "home" / "teams" / "solo")
    assert interlock("message", "read").code == 0, "its own directory, where worktrees lie, is around it, too"
    monkeypatch.chdir(elsewhere)
    assert meant(interlock) == "solo"
    reading = ("status", "task list", "task show 001", "task graph", "member list", "message history", "question list")
    for line in (*reading, "report", "events", "workflow queue list"):
        assert interlock(*line.split()).code == 0, line
    before = interlock("--json", "events").out
    changing = ("pause", "resume", "stop", "work", "merge --all", "task create More", "task claim 001", "task next")
    changing += ("task complete 001", "task delete 001", "message read", "message broadcast Hi", "scheduler poll")
    changing += ("member spawn eve", "shutdown request eve", "question ask 001 Why", "mcp", "session-end")
    for line in changing:
        refused = interlock("--json", *line.split())
        assert (refused.code, refused.error["error"]) == (1, "team_not_found"), line
        assert "--team solo or INTERLOCK_TEAM=solo" in refused.error["message"], line
    assert interlock("--json", "events").out == before
    assert interlock("pause", "--team", "solo").code == 0
    monkeypatch.setenv("INTERLOCK_TEAM", "solo")
    assert interlock("resume").code == 0


def test_among_several_teams_none_is_guessed_and_all_are_listed(interlock: Interlock, teams: Path) -> None:
    answer = interlock("--json", "task", "list")
    assert answer.code == 1
    assert answer.error["error"] == "team_not_found"
    assert answer.error["teams"] == ["far", "near"]
    assert answer.out == ""


def test_the_team_that_works_around_the_current_directory_is_meant(
    interlock: Interlock, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = teams / "deep" / "inside"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert meant(interlock) == "near"


def test_a_directory_that_only_begins_like_the_teams_own_is_not_inside_it(
    interlock: Interlock, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = teams.parent / "work-too"
    beside.mkdir()
    monkeypatch.chdir(beside)
    assert interlock("team", "show").code == 1


def test_two_teams_around_one_directory_decide_nothing(
    interlock: Interlock, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interlock("team", "create", "near-too", "--workdir", str(teams))
    monkeypatch.chdir(teams)
    assert interlock("team", "show").code == 1


def test_a_team_file_upward_is_stronger_than_working_directories(
    interlock: Interlock, teams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interlock("team", "create", "near-too", "--workdir", str(teams))
    (teams / "interlock.toml").write_text('team = "near-too"\n')
    inner = teams / "deep"
    inner.mkdir()
    monkeypatch.chdir(inner)
    assert meant(interlock) == "near-too"


def test_the_nearest_team_file_counts(interlock: Interlock, teams: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (teams / "interlock.toml").write_text('team = "far"\n')
    inner = teams / "deep"
    inner.mkdir()
    (inner / "interlock.toml").write_text('team = "near"\n')
    monkeypatch.chdir(inner)
    assert meant(interlock) == "near"


@pytest.mark.parametrize("text", ["team = ", "team = 3", 'team = ""', "\xff"])
def test_a_broken_team_file_is_an_error(interlock: Interlock, teams: Path, here: Path, text: str) -> None:
    (here / "interlock.toml").write_bytes(text.encode("latin-1"))
    answer = interlock("--json", "task", "list")
    assert answer.code == 1
    assert answer.error["error"] == "config_parse_error"
    assert "interlock.toml" in answer.error["message"]


def test_the_environment_is_stronger_than_the_team_file_and_the_option_than_both(
    interlock: Interlock, teams: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "interlock.toml").write_text('team = "near"\n')
    monkeypatch.setenv("INTERLOCK_TEAM", "far")
    assert meant(interlock) == "far"
    assert meant(interlock, "--team", "near") == "near"


def test_a_team_that_does_not_exist_is_an_error_that_names_the_nearest(interlock: Interlock, teams: Path) -> None:
    answer = interlock("--json", "--team", "nera", "task", "list")
    assert answer.code == 1
    assert answer.error["error"] == "team_not_found"
    assert "near" in answer.error["message"]


@pytest.mark.parametrize(
    "line",
    [
        "--team near --json task list",
        "task --team near --json list",
        "task list --team near --json",
        "task list --team=near --json",
        "--team far --json task list --team near",
    ],
)
def test_shared_options_may_stand_anywhere_and_the_last_one_wins(interlock: Interlock, teams: Path, line: str) -> None:
    interlock("--team", "near", "task", "create", "of near")
    answer = interlock(*line.split())
    assert [task["subject"] for task in answer.json["tasks"]] == ["of near"]


def test_the_home_may_be_given_before_and_after_the_verb(interlock: Interlock, here: Path) -> None:
    interlock("--home", str(here / "other"), "team", "create", "elsewhere")
    assert interlock("team", "list", "--home", str(here / "other"), "--json").json["teams"][0]["name"] == "elsewhere"
    assert interlock("team", "list", "--json").json == {"teams": []}


def test_without_anything_said_a_human_acts(interlock: Interlock, team: str) -> None:
    assert interlock("--json", "message", "send", "--to", "researcher", "hi").json["sender"] == "human"


def test_the_actor_is_the_option_or_the_environments_member(
    interlock: Interlock, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_MEMBER", "tester")
    assert interlock("--json", "message", "send", "--to", "lead", "hi").json["sender"] == "tester"
    assert (
        interlock("--json", "message", "send", "--to", "lead", "hi", "--as", "researcher").json["sender"]
        == "researcher"
    )


def test_an_actor_that_nobody_is_is_an_error(interlock: Interlock, team: str) -> None:
    answer = interlock("--json", "--as", "reseacher", "task", "next")
    assert answer.code == 1
    assert answer.error["error"] == "member_not_found"
    assert "researcher" in answer.error["message"]


def test_within_a_session_nobody_acts_as_another(
    interlock: Interlock, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_MEMBER", "tester")
    monkeypatch.setenv("INTERLOCK_SESSION", "s-1")
    answer = interlock("--json", "--as", "researcher", "task", "list")
    assert answer.code == 1
    assert answer.error["error"] == "forbidden"
    assert interlock("--as", "tester", "task", "list").code == 0


def test_two_sessions_of_one_member_do_not_both_win(
    interlock: Interlock, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interlock("task", "create", "once")
    monkeypatch.setenv("INTERLOCK_MEMBER", "tester")
    monkeypatch.setenv("INTERLOCK_SESSION", "s-1")
    assert interlock("task", "claim", "001").code == 0
    monkeypatch.setenv("INTERLOCK_SESSION", "s-2")
    answer = interlock("--json", "task", "claim", "001")
    assert answer.error["error"] == "task_already_claimed"
    assert interlock("task", "claim", "001", "--take-over").code == 0
    monkeypatch.setenv("INTERLOCK_SESSION", "s-1")
    assert interlock("--json", "task", "complete", "001").error["error"] == "stale_run"


def test_a_run_that_is_no_number_is_refused(interlock: Interlock, team: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_RUN", "two")
    assert interlock("--json", "task", "list").error["error"] == "invalid_request"


def test_a_current_directory_that_is_gone_is_no_reason_to_fail(
    interlock: Interlock, team: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = here / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    os.rmdir(gone)
    try:
        assert interlock("--team", team, "task", "list").code == 0
        assert interlock("task", "list").code == 0
    finally:
        monkeypatch.chdir(here)
