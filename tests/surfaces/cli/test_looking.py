"""`interlock status`, `report`, `logs`, `events`, `question`, `config`, `init`, `plan`: looking, asking, setting."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from interlock.wiring import connect
from tests.surfaces.cli.conftest import Interlock

Create = Callable[..., str]


def finish(interlock: Interlock, task_id: str, member: str = "tester") -> None:
    assert interlock("task", "claim", task_id, "--as", member).code == 0
    interlock("task", "complete", task_id, "--as", member, "--summary", "as asked")


def test_the_status_says_what_needs_me_what_runs_and_what_is_next(interlock: Interlock, task: Create) -> None:
    assert "interlock task create" in interlock("status").out
    running, held = task("in hand"), task("held up")
    task("waiting", "--priority", "high")
    interlock("task", "claim", running, "--as", "tester")
    interlock("task", "block", held, "--reason", "no disk")
    found = interlock("--json", "status").json
    assert [need["task_id"] for need in found["needs_me"]] == [held]
    assert running in [one["task_id"] for one in found["running"]]
    out = interlock("status").out
    for text in ("Needs you", "no disk", f"interlock question reply {held}", "Running", "tester", "Next", "waiting"):
        assert text in out


def test_the_status_of_all_teams_survives_a_damaged_one(interlock: Interlock, team: str, tmp_path: Path) -> None:
    interlock("team", "create", "broken")
    (tmp_path / "home" / "teams" / "broken" / "ledger.db").write_bytes(b"no database" * 100)
    teams = {one["team"]: one for one in interlock("--json", "status", "--all").json["teams"]}
    assert "error" in teams["broken"] and teams[team]["needs_me"] == []
    assert "broken" in interlock("status", "--all").out


def test_a_command_that_only_reads_says_when_an_older_ledger_was_put_back(
    interlock: Interlock, task: Create, team: str, tmp_path: Path
) -> None:
    directory = tmp_path / "home" / "teams" / team
    older = {path.name: path.read_bytes() for path in directory.glob("ledger.db*")}

    def put_back() -> None:
        for path in directory.glob("ledger.db*"):
            path.unlink()
        for name, content in older.items():
            (directory / name).write_bytes(content)

    task("lost")
    put_back()
    answer = interlock("task", "list")
    assert answer.err.startswith("warning: An older state of the ledger was restored") and "lost" not in answer.out
    assert interlock("task", "list").err == "", "it is said once"
    task("lost, too")
    put_back()
    assert interlock("--json", "status").json["warnings"] == ["ledger_restored"]
    assert "warnings" not in interlock("--json", "status").json


def test_a_command_that_only_reads_says_when_files_cannot_be_written(
    interlock: Interlock, team: str, tmp_path: Path
) -> None:
    blocking = tmp_path / "home" / "teams" / team / "tasks" / "ready"
    blocking.parent.mkdir(exist_ok=True)
    blocking.write_text("in the way")
    created = interlock("--json", "task", "create", "Write it").json
    assert created["warnings"] == ["mirror_pending"]
    answer = interlock("task", "show", created["id"])
    assert answer.code == 0 and answer.err.count("warning: ") == 1 and "could not be written yet" in answer.err
    blocking.unlink()
    assert interlock("task", "show", created["id"]).err == ""


def test_the_report_in_every_form(interlock: Interlock, task: Create) -> None:
    finish(interlock, task("proven", "--verify", "true"))
    finish(interlock, task("not <proven>"))
    task("left over")
    found = interlock("--json", "report").json
    assert [one["verified"] for one in found["done"]] == [True, False]
    text = interlock("report").out
    assert "2 done (1 unverified)" in text and "verified: true" in text and "as asked" in text and "left over" in text
    markdown = interlock("report", "--format", "md").out
    assert markdown.startswith("# alpha-squad\n") and "not \\<proven\\>" in markdown
    page = interlock("report", "--format", "html").out
    assert page.startswith("<!doctype html>") and "not &lt;proven&gt;" in page and "<script" not in page


def test_the_report_since_a_time(interlock: Interlock, task: Create) -> None:
    finish(interlock, task("done"))
    ahead = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert interlock("--json", "report", "--since", ahead).json["done"] == []
    assert len(interlock("--json", "report", "--since", "2h").json["done"]) == 1
    assert interlock("--json", "report", "--since", "yesterday").error["error"] == "invalid_request"


def test_why_a_task_waits_is_said_where_it_is_shown(interlock: Interlock, task: Create) -> None:
    first = task("T1")
    second = task("T2", "--blocked-by", first)
    assert interlock("--json", "task", "show", second).json["why"] == f"blocked by {first} (ready)"
    assert f"why        blocked by {first} (ready)" in interlock("task", "show", second).out
    assert interlock("--json", "status").json["next"][0]["why"] is None, "whoever likes may claim it"
    interlock("task", "claim", first, "--as", "tester")
    assert interlock("--json", "task", "show", first).json["why"] is None
    assert f"blocked by {first} (in progress)" in interlock("task", "show", second).out
    interlock("task", "update", first, "--review", "researcher")
    interlock("task", "complete", first, "--as", "tester")
    (held,) = interlock("--json", "status").json["waiting"]
    assert held["why"] == "waits for review by researcher" and held["why"] in interlock("status").out


def test_logs_of_a_task_and_of_a_member(interlock: Interlock, task: Create, tmp_path: Path) -> None:
    here = task("noisy")
    interlock("task", "claim", here, "--as", "tester")
    assert interlock("--json", "logs", here).error["error"] == "run_not_found"
    log = tmp_path / "home" / "teams" / "alpha-squad" / "runs" / here / "output.1.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"first\n\xffsecond\n")
    assert interlock("logs", "001").out == interlock("logs", "tester").out == "first\n\ufffdsecond\n"
    assert interlock("--json", "logs", "tester").json == {
        "task_id": here, "run": 1, "path": str(log), "text": "first\n\ufffdsecond\n"
    }  # fmt: skip
    assert interlock("--json", "logs", "researcher").error["error"] == "run_not_found"
    assert interlock("--json", "logs", "ghost").error["error"] == "task_not_found"
    assert interlock("--json", "logs", here, "--run", "7").error["error"] == "run_not_found"


def test_following_a_log_ends_with_its_run(interlock: Interlock, task: Create, tmp_path: Path) -> None:
    here = task("noisy")
    interlock("task", "claim", here, "--as", "tester")
    log = tmp_path / "home" / "teams" / "alpha-squad" / "runs" / here / "output.1.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("begun\n")
    following = subprocess.Popen(
        [sys.executable, "-m", "interlock.surfaces.cli", "--json", "logs", here, "--follow"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert following.stdout is not None
    assert json.loads(following.stdout.readline())["text"] == "begun\n"
    with log.open("a") as file:
        file.write("and ended")
    interlock("task", "complete", here, "--as", "tester")
    rest, _ = following.communicate(timeout=100)
    assert [json.loads(line)["text"] for line in rest.splitlines()] == ["and ended"]
    assert following.returncode == 0


def test_attach_follows_a_task_from_run_to_run_and_says_what_it_waits_for(
    interlock: Interlock, task: Create, tmp_path: Path
) -> None:
    here = task("noisy")
    runs = tmp_path / "home" / "teams" / "alpha-squad" / "runs" / here
    attached = subprocess.Popen(
        [sys.executable, "-m", "interlock.surfaces.cli", "--json", "attach", here], stdout=subprocess.PIPE, text=True
    )
    assert attached.stdout is not None

    def heard() -> dict[str, object]:
        assert attached.stdout is not None
        found: dict[str, object] = json.loads(attached.stdout.readline())
        return found

    assert heard()["state"] == "ready"
    runs.mkdir(parents=True, exist_ok=True)
    (runs / "output.1.log").write_text(f"{'old ' * 2000}\nbegun\n")
    interlock("task", "claim", here, "--as", "tester")
    begun = heard()
    assert begun["run"] == 1 and len(str(begun["text"])) < 5000, "only the last of what was printed"
    assert heard()["text"] == "begun\n"
    interlock("task", "block", here, "--reason", "no disk", "--as", "tester")
    question = heard()["question"]
    assert isinstance(question, dict) and "no disk" in question["text"]
    (runs / "output.2.log").write_text("again\n")
    interlock("question", "reply", here, "there is one now")
    interlock("task", "claim", here, "--as", "tester")
    found = [heard()]
    while "text" not in found[-1]:
        found.append(heard())
    assert (found[-1]["run"], found[-1]["text"]) == (2, "again\n")
    interlock("task", "complete", here, "--as", "tester")
    assert json.loads(attached.communicate(timeout=100)[0].splitlines()[-1])["state"] == "done"
    assert attached.returncode == 0
    out = interlock("attach", here).out
    assert "run 2" in out and "again" in out and "-- done" in out
    gone = task("not wanted")
    interlock("task", "cancel", gone)
    assert interlock("attach", gone).code == 1
    assert interlock("--json", "attach", "ghost").error["error"] == "task_not_found"


def test_events_are_numbered_without_gaps_and_go_on_where_one_stopped(interlock: Interlock, task: Create) -> None:
    task("T1")
    found = interlock("--json", "events").json
    assert [event["seq"] for event in found["events"]] == list(range(1, found["next"] + 1))
    assert set(found["events"][0]) == {"seq", "type", "at", "actor", "task_id", "payload"}
    assert found["events"][-1]["type"] == "task.created"
    assert interlock("--json", "events", "--since", str(found["next"])).json == {"events": [], "next": found["next"]}
    assert len(interlock("--json", "events", "--limit", "2").json["events"]) == 2
    assert "task.created" in interlock("events").out
    assert interlock("events", "--since", "-1").code == 2


def test_following_events_gives_one_document_a_line(interlock: Interlock, task: Create) -> None:
    last = interlock("--json", "events").json["next"]
    following = subprocess.Popen(
        [sys.executable, "-m", "interlock.surfaces.cli", *f"--json events --follow --since {last} --limit 1".split()],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    task("news")
    out, _ = following.communicate(timeout=100)
    assert json.loads(out)["seq"] == last + 1
    assert following.returncode == 0


def test_a_question_is_listed_and_answered(interlock: Interlock, task: Create) -> None:
    assert interlock("--json", "question", "list").json == {"questions": []}
    assert interlock("question", "list").out == "Nothing waits for you.\n"
    here = task("look at it", "--review", "human")
    finish(interlock, here)
    asked = interlock("--json", "question", "list").json["questions"]
    assert set(asked[0]) == {"id", "task_id", "kind", "text", "options", "default", "context", "asked_at", "held"}
    assert here in interlock("question", "list").out
    assert interlock("--json", "question", "reply", here, "perhaps").error["error"] == "invalid_request"
    assert interlock("--json", "question", "reply", here, "-", input="approve\n").json["state"] == "done"
    again = interlock("--json", "question", "reply", here, "approve", "--question", asked[0]["id"])
    assert again.error["error"] == "not_awaiting_response"
    assert interlock("--json", "question", "ask", here, "What now?").error["error"] == "invalid_transition"


def test_a_question_may_be_asked_with_choices_and_is_answered_once(interlock: Interlock, task: Create) -> None:
    here = task("choose a port")
    asked = interlock("--json", "question", "ask", here, "Which port?", "--option", "80", "--option", "8080").json
    assert (asked["kind"], asked["text"], asked["options"]) == ("clarification", "Which port?", ["80", "8080"])
    shown = interlock("--json", "task", "show", here).json
    assert (shown["state"], shown["output"]) == ("awaiting-response", "Which port?")
    assert shown["question"]["id"] == asked["id"]
    assert interlock("--json", "question", "reply", here, "8080").json["state"] == "ready"
    again = interlock("--json", "question", "reply", here, "80", "--question", asked["id"])
    assert again.error["error"] == "not_awaiting_response"


def test_an_answer_to_a_session_that_waits_for_it_says_that_the_task_continues(
    interlock: Interlock, task: Create
) -> None:
    team, here = connect().team("alpha-squad"), task("choose a port")
    team.acting("tester", session="s").claim(here)
    team.acting("tester", session="s").ask(here, "Which port?", options=["80", "8080"], held=True)
    assert f"question reply {here} '80|8080' --question" in interlock("status").out
    assert f"{here} continues: choose a port\n" in interlock("question", "reply", here, "80").out


def test_an_answer_names_its_question_and_is_confirmed_with_it(interlock: Interlock, task: Create) -> None:
    here = task("choose a port")
    first, second = (
        interlock("--json", "question", "ask", here, text).json["id"] for text in ("Which port?", "Which host?")
    )
    for shown in (
        interlock("question", "list"),
        interlock("status"),
        interlock("report"),
        interlock("task", "show", here),
    ):
        assert f"question reply {here} TEXT --question {first} --team" in shown.out
    unnamed = interlock("--json", "question", "reply", here, "80").error
    assert (unnamed["error"], unnamed["candidates"]) == ("ambiguous_id", [first, second])
    assert f"answered {first}: Which port?" in interlock("question", "reply", here, "80", "--question", first[-6:]).out
    late = interlock("--json", "question", "reply", here, "8080", "--question", first).error
    assert (late["error"], late["current"]["id"]) == ("not_awaiting_response", second)
    assert f"answered {second}: Which host?" in interlock("question", "reply", here, "localhost").out
    assert interlock("--json", "question", "reply", here, "x").error["question"]["answer"] == "localhost"
    assert (
        interlock("--json", "question", "reply", here, "x", "--question", "Q-000").error["error"]
        == "question_not_found"
    )


def test_settings_of_the_home_and_of_a_team(interlock: Interlock, team: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*options: str) -> tuple[object, str]:
        found = interlock("--json", "config", "get", "task_limit", *options).json
        return found["value"], found["source"]

    assert look() == (1000, "default")
    assert interlock("config", "set", "task_limit", "50").code == 0
    assert interlock("config", "set", "task_limit", "7", "--team", team).code == 0
    assert look() == (50, "home")
    assert look("--team", team) == (7, "team")
    assert interlock("config", "get", "task_limit", "--team", team).out == "7\n"
    interlock("config", "set", "task_limit", "--unset", "--team", team)
    assert look("--team", team) == (50, "home")
    monkeypatch.setenv("INTERLOCK_TASK_LIMIT", "3")
    assert "INTERLOCK_TASK_LIMIT" in interlock("config", "set", "task_limit", "60").err
    names = [one["name"] for one in interlock("--json", "config", "list").json["settings"]]
    assert "message_bytes" in names and "message_bytes" in interlock("config", "list").out


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("config get task_limt", 1),
        ("config set task_limit many", 1),
        ("config set task_limit 0", 1),
        ("config set task_limit", 2),
        ("config set task_limit 5 --unset", 2),
        ("config set team_limit 5 --team alpha-squad", 1),
    ],
)
def test_wrong_settings_are_refused(interlock: Interlock, team: str, line: str, code: int) -> None:
    answer = interlock("--json", *line.split())
    assert (answer.code, answer.error["error"]) == (code, "invalid_request")


def test_init_writes_a_team_file_and_a_plan_and_never_overwrites(interlock: Interlock, here: Path) -> None:
    answer = interlock("--json", "init")
    assert answer.code == 0
    assert [Path(path).name for path in answer.json["files"]] == ["interlock.toml", "plan.yaml"]
    assert answer.json["team"] == "project"
    again = interlock("--json", "init")
    assert (again.code, again.error["error"]) == (1, "invalid_request")
    (here / "sub").mkdir()
    assert "interlock run sub/plan.yaml" in interlock("init", "sub").out


def test_the_schema_of_plans_is_json(interlock: Interlock) -> None:
    assert interlock("plan", "--schema").json["$schema"].startswith("https://json-schema.org/")
    assert interlock("plan").code == 2


def test_a_setting_of_several_lines_is_shown_with_its_lines_apart(interlock: Interlock, team: str) -> None:
    said = interlock("config", "set", "allowed_commands", "pytest\ngit status", "--team", team).out
    assert "allowed_commands = pytest ↵ git status" in said
    assert "pytest ↵ git status" in interlock("config", "list", "--team", team).out
    found = interlock("--json", "config", "get", "allowed_commands", "--team", team).json
    assert found["value"] == "pytest\ngit status"
