"""`notify.command` and `notify.webhook`: people are told what needs them, once, briefly, and nothing waits for it."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import InvalidRequest
from interlock.runner import notification_targets
from interlock.surfaces.cli.entry import run

Told = Callable[[], list[dict[str, Any]]]
SECRET = "What is the password of the database?"
PROGRAM = """
import json, os, sys
given = json.load(sys.stdin)
given["environment"] = {name: value for name, value in os.environ.items() if name.startswith("INTERLOCK_")}
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(given) + "\\n")
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    opened = interlock.connect(str(tmp_path / "home"))
    yield opened
    opened.close()


@pytest.fixture
def team(home: Home) -> Team:
    made = home.create_team("alpha")
    made.spawn("ada")
    return made


@pytest.fixture
def told(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Told:
    """What the program that is told was told; on a busy machine it may take seconds to start."""
    monkeypatch.setattr(notification_targets, "SECONDS", 60.0)
    program, heard = tmp_path / "notify.py", tmp_path / "heard"
    program.write_text(PROGRAM)
    home.configure({"notify.command": json.dumps([sys.executable, str(program), str(heard)])})
    return lambda: [json.loads(line) for line in heard.read_text().splitlines()] if heard.exists() else []


def ask(team: Team, subject: str) -> str:
    task = team.create_task(subject, body="a body")
    team.claim(task.id, by="ada")
    team.ask(task.id, SECRET, by="ada")
    return task.id


def test_a_question_is_told_with_title_team_task_and_link_and_without_its_text(
    home: Home, team: Team, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = ask(team, "Move the database")
    monkeypatch.setenv("INTERLOCK_RUN_TOKEN", "0123456789abcdef")
    assert home.notices("alpha", link="http://127.0.0.1:1").tell() == 1
    [one] = told()
    assert one["title"] == "Waits for you (clarification): Move the database"
    assert (one["team"], one["task"], one["count"]) == ("alpha", task, 1)
    assert one["link"] == f"http://127.0.0.1:1/projects/alpha/tasks/{task}"
    assert one["environment"] == {
        "INTERLOCK_NOTICE_TITLE": one["title"], "INTERLOCK_NOTICE_TEAM": "alpha", "INTERLOCK_NOTICE_TASK": task,
        "INTERLOCK_NOTICE_LINK": one["link"], "INTERLOCK_NOTICE_COUNT": "1", "INTERLOCK_NOTICE_ID": one["id"],
    }  # fmt: skip
    assert SECRET not in json.dumps(one) and "a body" not in json.dumps(one)


def test_what_comes_together_is_told_together_and_the_next_waits_its_time(home: Home, team: Team, told: Told) -> None:
    notices = home.notices()
    clock = home._clock  # type: ignore[attr-defined]
    now = clock.now()
    clock.now = lambda: now
    ask(team, "first")
    ask(team, "second")
    assert notices.tell() == 2
    ask(team, "third")
    assert notices.tell() == 0
    clock.now = lambda: now + 31
    assert notices.tell() == 1
    assert notices.tell() == 0
    assert [one["count"] for one in told()] == [2, 1]
    assert told()[0]["title"].startswith("2 things need you: ") and told()[0]["task"] is None
    assert [one["title"] for one in told()[0]["notices"]] == [
        "Waits for you (clarification): first", "Waits for you (clarification): second",
    ]  # fmt: skip


def test_what_is_answered_already_is_not_told(home: Home, team: Team, told: Told) -> None:
    task = ask(team, "first")
    team.reply(task, "done")
    assert home.notices().tell(hurry=True) == 0
    assert told() == []


def test_two_processes_tell_everything_once(home: Home, team: Team, told: Told) -> None:
    with_another = interlock.connect(home.path)
    ask(team, "first")
    assert home.notices().tell(hurry=True) + with_another.notices().tell(hurry=True) == 1
    ask(team, "second")
    assert with_another.notices().tell(hurry=True) + home.notices().tell(hurry=True) == 1
    with_another.close()
    assert len(told()) == 2


def test_what_happened_before_anybody_followed_is_no_news(home: Home, team: Team, told: Told) -> None:
    ask(team, "old")
    notices = home.notices()
    notices.start()
    notices.stop(last=True)
    assert told() == []


def test_a_run_that_ends_and_a_task_that_failed_for_good_are_told(
    home: Home, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "team: beta\nretries: 0\nmembers: {ada: {agent: shell}}\n"
        "tasks: {bad: {subject: Break it, run: 'false'}, good: {run: 'true'}}\n"
    )
    monkeypatch.setenv("INTERLOCK_HOME", home.path)
    monkeypatch.chdir(tmp_path)
    with CliRunner().isolation():
        assert run(["run", str(plan)]) == 1
    titles = [notice["title"] for one in told() for notice in one["notices"]]
    assert "The run of beta has ended: finished" in titles
    assert any("Break it" in title for title in titles)


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/no/such/program"], "could not be started"),
        ([sys.executable, "-c", "raise SystemExit(3)"], "ended with 3"),
        ([sys.executable, "-c", "import time; time.sleep(600)"], "did not end within"),
    ],
)
def test_that_telling_failed_is_an_event_and_no_error(
    home: Home, team: Team, monkeypatch: pytest.MonkeyPatch, command: list[str], said: str
) -> None:
    # Only what never ends is cut off: a busy machine may take seconds to start a program.
    monkeypatch.setattr(notification_targets, "SECONDS", 2.0 if said == "did not end within" else 60.0)
    home.configure({"notify.command": json.dumps(command)})
    ask(team, "first")
    assert home.notices().tell() == 1
    [failed] = [event for event in team.events()[0] if event.type == "notice.failed"]
    assert failed.payload["via"] == "command" and said in failed.payload["error"]
    assert failed.payload["attempt"] == 1 and failed.payload["retry_at"] > failed.at
    assert home.notices().tell(hurry=True) == 0


def test_no_shell_reads_the_command(home: Home, team: Team, tmp_path: Path) -> None:
    program = tmp_path / "words.py"
    program.write_text("import json, sys; open(sys.argv[1], 'w').write(json.dumps(sys.argv[2:]))")
    home.configure({"notify.command": f"{sys.executable} {program} {tmp_path}/words 'a b' $(id) ; ~ *.py > x"})
    ask(team, "$(touch evil)")
    home.notices().tell()
    assert json.loads((tmp_path / "words").read_text()) == ["a b", "$(id)", ";", "~", "*.py", ">", "x"]


class Address(BaseHTTPRequestHandler):
    """Takes what is sent, and answers what it is told to."""

    heard: list[Any]
    answer = 200

    def do_POST(self) -> None:
        self.heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.answer)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def address() -> Iterator[tuple[str, type[Address]]]:
    kind = type("Kind", (Address,), {"heard": []})
    server = HTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook/s3cr3t", kind
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_gets_the_same(home: Home, team: Team, address: tuple[str, type[Address]]) -> None:
    url, kind = address
    home.configure({"notify.webhook": url})
    task = ask(team, "Move the database")
    assert home.notices().tell() == 1
    [one] = kind.heard
    assert one["task"] == task and one["link"] is None and SECRET not in json.dumps(one)


@pytest.mark.parametrize("answer", [500, 302, None])
def test_what_a_webhook_refuses_is_an_event_without_its_address(
    home: Home, team: Team, address: tuple[str, type[Address]], answer: int | None
) -> None:
    url, kind = address
    if answer is not None:
        kind.answer = answer
    home.configure({"notify.webhook": url if answer is not None else "http://127.0.0.1:9/s3cr3t"})
    ask(team, "first")
    home.notices().tell()
    [failed] = [event for event in team.events()[0] if event.type == "notice.failed"]
    assert failed.payload["via"] == "webhook" and "s3cr3t" not in json.dumps(failed.payload)
    assert len(kind.heard) == (answer is not None), "a redirection is not followed"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("notify.command", "say 'oops"),
        ("notify.command", "[]"),
        ("notify.command", '["a", 1]'),
        ("notify.command", "[oops"),
        ("notify.webhook", "file:///etc/passwd"),
        ("notify.webhook", "example.org"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_set(home: Home, name: str, value: str) -> None:
    with pytest.raises(InvalidRequest):
        home.configure({name: value})


def test_it_is_the_homes_and_no_team_can_set_it(home: Home, team: Team) -> None:
    with pytest.raises(InvalidRequest):
        team.configure({"notify.command": "true"})
