"""`interlock up` as a process: one a home, away within two seconds, nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from interlock.wiring import connect
from tests.command import Answer, command
from tests.surfaces.http.harness import PATIENCE, Server, children
from tests.waiting import until

STUBBORN = "trap '' TERM; sleep 600 & wait; sleep 600"


def cli(home: Path, *arguments: str) -> Answer:
    """A command beside the server."""
    return command("--home", str(home), "--json", *arguments)


def busy_team(server: Server) -> None:
    """A team whose shell member runs a command that does not heed TERM."""
    admin = server.client()
    admin.post("/api/teams", {"name": "alpha"})
    admin.post("/api/teams/alpha/members", {"name": "sh", "agent": "shell"})
    admin.post("/api/teams/alpha/tasks", {"subject": "sleep", "run": STUBBORN})
    until(lambda: len(children(server.process.pid)) >= 2)


@pytest.mark.long
def test_a_member_with_a_command_and_no_agent_works(start: Callable[..., Server]) -> None:
    server = start()
    admin = server.client()
    admin.post("/api/projects", {"id": "alpha"})
    made = admin.post("/api/teams/alpha/members", {"name": "ada", "command": [sys.executable, "-c", "print('Hi.')"]})
    assert made["agent"] == "command"
    task = admin.post("/api/teams/alpha/tasks", {"subject": "Say something"})["id"]
    until(lambda: admin.get(f"/api/tasks/{task}")["status"] == "COMPLETE")
    assert admin.get(f"/api/tasks/{task}")["output"] == "Hi."


WAITS = "until test -e {}; do sleep 0.05; done"


@pytest.mark.long
def test_a_server_goes_by_the_settings_as_they_are_now(start: Callable[..., Server], tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert cli(home, "config", "set", "parallel", "1").code == 0
    server = start()
    assert server.home == home
    admin = server.client()
    admin.post("/api/teams", {"name": "alpha"})
    for name in ("ada", "bob"):
        admin.post("/api/teams/alpha/members", {"name": name, "agent": "shell"})
    gate = tmp_path / "gate"
    for subject in ("one", "two"):
        admin.post("/api/teams/alpha/tasks", {"subject": subject, "run": WAITS.format(gate)})

    def working() -> int:
        return len(connect(str(home)).team("alpha").tasks(status="in-progress"))

    until(lambda: working() == 1)
    assert cli(home, "config", "set", "parallel", "2").code == 0
    until(lambda: working() == 2)  # A turn of the crew that began with one place.
    assert cli(home, "config", "set", "task_limit", "2").code == 0
    assert admin.refused("POST", "/api/teams/alpha/tasks", {"subject": "three"}) == (429, "task_limit")
    assert cli(home, "config", "set", "task_limit", "--unset").code == 0
    admin.post("/api/teams/alpha/tasks", {"subject": "three", "assignee": "human"})
    gate.touch()
    until(lambda: len(connect(str(home)).team("alpha").tasks(status="done")) == 2)


@pytest.mark.long
def test_signs_of_life_follow_the_lease_that_is_set_now(start: Callable[..., Server], tmp_path: Path) -> None:
    server = start()
    admin = server.client()
    admin.post("/api/teams", {"name": "alpha"})
    admin.post("/api/teams/alpha/members", {"name": "sh", "agent": "shell"})
    admin.post("/api/teams/alpha/tasks", {"subject": "first", "run": "true"})
    team = connect(str(server.home)).team("alpha")
    until(lambda: len(team.tasks(status="done")) == 1)
    # By the old one, 600 s, the first sign of life would come after 200 s.
    assert cli(server.home, "config", "set", "heartbeat_ttl", "6").code == 0
    gate = tmp_path / "gate"
    task = admin.post("/api/teams/alpha/tasks", {"subject": "second", "run": WAITS.format(gate)})["id"]
    until(lambda: any(run.heartbeat_at for run in team.runs(task)))
    gate.touch()
    until(lambda: team.task(task).state == "done")


@pytest.mark.long
def test_a_slip_in_the_settings_stops_nothing_that_runs(start: Callable[..., Server], tmp_path: Path) -> None:
    server = start()
    admin = server.client()
    assert cli(server.home, "config", "set", "task_limit", "1").code == 0
    (server.home / "settings.json").write_text("{")
    admin.post("/api/teams", {"name": "alpha"})
    admin.post("/api/teams/alpha/tasks", {"subject": "one"})
    assert "config_parse_error" in cli(server.home, "status", "--team", "alpha").err
    (server.home / "settings.json").write_text('{"task_limit": 1}')
    assert admin.refused("POST", "/api/teams/alpha/tasks", {"subject": "two"}) == (429, "task_limit")


@pytest.mark.long
def test_checks_that_run_keep_nobody_from_an_answer(start: Callable[..., Server], tmp_path: Path) -> None:
    server = start()
    admin = server.client()
    admin.post("/api/teams", {"name": "alpha"})
    team, gate, count = connect(str(server.home)).team("alpha"), tmp_path / "gate", 40
    waits = f"until test -e {gate}; do sleep 1; done"
    ids = [team.create_task(f"Task {number}", verify=waits).id for number in range(count)]
    for id in ids:
        team.claim(id)
    answers: list[int] = []

    def complete(id: str) -> None:
        answers.append(admin.call("POST", f"/api/teams/alpha/tasks/{id}/complete", {}).status)

    callers = [threading.Thread(target=complete, args=(id,)) for id in ids]
    for caller in callers:
        caller.start()
    until(lambda: sum(task.verifying is not None for task in team.tasks(status="review")) == count)
    # More than there are threads for answers, all at their checks: whoever asks now is answered.
    assert admin.get("/api/teams/alpha/status")["counts"]
    gate.touch()
    for caller in callers:
        caller.join(PATIENCE)
    assert answers == [200] * count
    assert len(team.tasks(status="done")) == count


@pytest.mark.long
def test_a_task_that_has_failed_for_good_asks_whether_to_try_again(start: Callable[..., Server]) -> None:
    server = start(environment={"INTERLOCK_RETRIES": "0"})
    admin = server.client()
    admin.post("/api/projects", {"id": "alpha"})
    admin.post("/api/teams/alpha/members", {"name": "sh", "agent": "shell"})
    task = admin.post("/api/teams/alpha/tasks", {"subject": "Try", "run": "test -e there || exit 3"})["id"]

    def failed() -> bool:
        return bool(admin.get(f"/api/tasks/{task}")["status"] == "ERROR")

    def answer(said: str) -> dict[str, str]:
        done: dict[str, str] = admin.post(f"/api/tasks/{task}/reply", {"reply": said})
        return done

    until(failed)
    shown = admin.get(f"/api/tasks/{task}")
    assert shown["show_reply_ui"] is True and "exit code 3" in shown["output"]
    asked = shown["question"]
    assert (asked["kind"], asked["options"]) == ("escalation", ["retry", "cancel"]) and "exit code 3" in asked["text"]
    needs = admin.get("/api/teams/alpha/status")["needs_me"]
    assert [(need["kind"], need["verb"].split()[2]) for need in needs] == [("deadletter", "retry")]
    for page in ("/", "/projects/alpha", f"/projects/alpha/tasks/{task}"):
        html = server.browser().call("GET", page).body.decode()
        assert html.count('data-role="question"') == 1 and f'data-task-id="{task}"' in html, page
    assert admin.refused("POST", f"/api/tasks/{task}/reply", {"reply": "hm"}) == (400, "invalid_request")
    assert answer("retry") == {"task_id": task, "old_status": "ERROR", "new_status": "QUEUED"}
    until(failed)
    again = admin.get(f"/api/tasks/{task}")["question"]
    assert again["id"] != asked["id"]
    old = {"reply": "cancel", "question_id": asked["id"]}
    assert admin.refused("POST", f"/api/tasks/{task}/reply", old) == (409, "not_awaiting_response")
    assert answer("cancel") == {"task_id": task, "old_status": "ERROR", "new_status": "CANCELLED"}
    assert admin.get(f"/api/tasks/{task}")["show_reply_ui"] is False


def gone(pids: list[int]) -> bool:
    from interlock.processes import table

    return not any((row := table.row(pid)) is not None and row.running for pid in pids)


@pytest.mark.long
def test_a_second_server_on_the_same_home_is_refused_with_the_address_of_the_first(
    start: Callable[..., Server],
) -> None:
    server = start()
    second = cli(server.home, "up", "--port", "0")
    assert second.code == 1
    refusal = second.error
    assert (refusal["error"], refusal["url"]) == ("server_alive", server.url)
    assert server.url in refusal["message"]


@pytest.mark.long
def test_two_homes_have_two_servers_whose_cookies_do_not_meet(start: Callable[..., Server], tmp_path: Path) -> None:
    one, other = start(tmp_path / "one"), start(tmp_path / "other")
    assert one.url != other.url
    browser = one.browser()
    cookies = f"{browser.headers['cookie']}; {other.browser().headers['cookie']}"
    for server in (one, other):
        assert server.stranger(cookie=cookies).call("GET", "/api/teams").status == 200
    assert other.stranger(cookie=browser.headers["cookie"]).call("GET", "/api/teams").status == 401


def test_open_makes_links_to_the_running_server_only(start: Callable[..., Server], tmp_path: Path) -> None:
    none = cli(tmp_path / "home", "open")
    assert none.code == 1 and none.error["error"] == "server_not_found"
    server = start()
    link = cli(server.home, "open").json["link"]
    assert urlsplit(link).path.startswith("/open/")
    assert urlsplit(link).hostname in (server.host, server.tokens.page_host)
    assert server.stranger().call("POST", urlsplit(link).path).status == 303
    assert server.ready["link"] != link


@pytest.mark.long
def test_it_is_away_within_two_seconds_with_streams_open_and_leaves_no_child(start: Callable[..., Server]) -> None:
    server = start()
    busy_team(server)
    admin = server.client()
    streams = [admin.stream("0") for _ in range(5)]
    browser = server.browser().stream()
    left = children(server.process.pid)
    assert left
    # Its own budget is two seconds; a busy machine may keep it waiting.
    before = time.monotonic()
    server.ask_to_end()
    server.process.wait(PATIENCE)
    took = time.monotonic() - before
    said = server.close()
    assert server.process.returncode == 0, said
    assert "Traceback" not in said, said
    assert took < 40.0
    assert gone(left), left
    for stream in [*streams, browser]:
        assert stream.ended.wait(PATIENCE)
    assert not (server.home / "server.json").exists()


@pytest.mark.long
def test_a_verify_that_the_end_interrupts_is_no_failed_verify(start: Callable[..., Server]) -> None:
    server = start()
    admin = server.client()
    admin.post("/api/teams", {"name": "alpha"})
    admin.post("/api/teams/alpha/members", {"name": "bob"})
    bob = server.member("bob", "alpha")
    tasks = "/api/teams/alpha/tasks"
    task = admin.post(tasks, {"subject": "x", "verify": "sleep 600"})["id"]
    bob.post(f"{tasks}/{task}/claim")

    def complete() -> None:
        with suppress(OSError, HTTPException, AssertionError):
            bob.post(f"{tasks}/{task}/complete")

    waiting = threading.Thread(target=complete)
    waiting.start()
    home = connect(str(server.home))
    checking = home.team("alpha")
    until(lambda: checking.task(task).verifying is not None and bool(children(server.process.pid)))
    left = children(server.process.pid)
    server.close()
    waiting.join(PATIENCE)
    until(lambda: gone(left))  # A check that had just begun when its server ended is ended by its supervisor.
    found = checking.task(task)
    events = [event.type for event in checking.events()[0]]
    home.close()
    assert found.state == "review" and "verify.finished" not in events


@pytest.mark.long
def test_what_was_killed_is_taken_up_by_the_next_server_without_using_up_an_attempt(
    start: Callable[..., Server],
) -> None:
    server = start()
    busy_team(server)
    left = children(server.process.pid)
    server.kill()
    again = start(server.home)
    admin = again.client()
    tasks = "/api/teams/alpha/tasks"

    def second_run() -> bool:
        id = admin.get(tasks)["tasks"][0]["id"]
        runs = admin.get(f"{tasks}/{id}/runs")["runs"]
        return len(runs) == 2 and gone(left)

    until(second_run)
    assert admin.get(tasks)["tasks"][0]["attempt"] == 1


@pytest.mark.long
def test_tasks_of_a_team_that_comes_later_are_worked_on(start: Callable[..., Server]) -> None:
    server = start()
    admin = server.client()
    admin.post("/api/teams", {"name": "later"})
    admin.post("/api/teams/later/members", {"name": "sh", "agent": "shell"})
    task = admin.post("/api/teams/later/tasks", {"subject": "say", "run": "echo hello"})["id"]
    until(lambda: admin.get(f"/api/teams/later/tasks/{task}")["state"] == "done")
    assert admin.get(f"/api/teams/later/tasks/{task}")["output"] == "hello"


@pytest.mark.long
def test_stopping_one_team_pauses_it_and_leaves_the_server_to_the_others(start: Callable[..., Server]) -> None:
    server = start()
    busy_team(server)
    left = children(server.process.pid)
    stopped = cli(server.home, "stop", "--now", "--team", "alpha").json
    assert "server" in stopped["ended"]
    until(lambda: gone(left))
    admin = server.client()
    assert admin.get("/api/teams/alpha")["settings"]["paused"] is True
    assert server.process.poll() is None


@pytest.mark.long
def test_down_ends_server_and_agents(start: Callable[..., Server]) -> None:
    server = start()
    busy_team(server)
    left = children(server.process.pid)
    ended = cli(server.home, "down")
    assert ended.code == 0, ended.err
    assert ended.json["server"] == server.url
    server.process.wait(PATIENCE)
    assert gone(left)


@pytest.mark.long
def test_deleting_a_busy_team_over_http_does_not_end_the_server(start: Callable[..., Server]) -> None:
    server = start()
    busy_team(server)
    admin = server.client()
    assert admin.refused("DELETE", "/api/teams/alpha") == (409, "members_running")
    assert admin.call("DELETE", "/api/teams/alpha?force=true").status == 200
    assert admin.get("/api/teams") == {"teams": [], "next": None}


@pytest.mark.long
@pytest.mark.req("GUARD-INV-5", "GUARD-AC-5")
def test_chats_are_there_after_the_server_was_killed(start: Callable[..., Server]) -> None:
    server = start()
    admin = server.client()
    admin.post("/api/projects", {"id": "website"})
    made = [admin.post("/api/projects/website/chat", {"content": f"n {number}"}) for number in range(3)]
    groups = admin.get("/api/task-groups")
    server.kill()
    again = start(server.home).client()
    assert again.get("/api/task-groups") == groups and groups["total_count"] == 1
    tasks = again.get(f"/api/task-groups/{made[0]['task_group_id']}/tasks")["tasks"]
    assert [task["task_id"] for task in tasks] == [one["task_id"] for one in made]


@pytest.mark.long
def test_a_cookie_outlives_the_server(start: Callable[..., Server]) -> None:
    server = start()
    browser = server.browser()
    server.kill()
    again = start(server.home)
    assert again.stranger(cookie=browser.headers["cookie"]).call("GET", "/api/teams").status == 200


@pytest.mark.long
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_every_way_of_asking_ends_it(start: Callable[..., Server], number: str) -> None:
    import signal

    server = start()
    server.process.send_signal(getattr(signal, number))
    server.process.wait(PATIENCE)
    assert server.process.returncode == 0, server.close()


@pytest.mark.long
def test_a_port_that_is_taken_is_refused_when_asked_for_and_passed_over_when_not(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    first = start(tmp_path / "one")
    refused = cli(tmp_path / "two", "up", "--port", str(first.port))
    assert refused.code == 1 and refused.error["error"] == "invalid_request"


@pytest.mark.long
def test_it_listens_on_this_machine_only_unless_told(start: Callable[..., Server]) -> None:
    server = start()
    assert server.host == "127.0.0.1"
    rows = (
        [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        if os.path.exists("/proc/net/tcp")
        else []
    )
    ours = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{server.port:04X}")]
    assert all(address.startswith("0100007F") for address in ours)


@pytest.mark.long
def test_a_home_keeps_its_tokens(start: Callable[..., Server]) -> None:
    server = start()
    made = cli(server.home, "token", "create", "--person", "eva").json
    assert server.client(made["token"]).call("GET", "/api/teams").status == 200
    listed = cli(server.home, "token", "list").json["tokens"]
    assert [token["id"] for token in listed] == [made["id"]] and "token" not in listed[0]
    assert cli(server.home, "token", "revoke", made["id"]).json["name"] == "eva"
    assert server.client(made["token"]).call("GET", "/api/teams").status == 401
    assert cli(server.home, "token", "revoke", made["id"]).code == 1
    home = connect(str(server.home))
    home.create_team("alpha").spawn("bob")
    home.close()
    member = cli(server.home, "--team", "alpha", "token", "create", "--member", "bob").json
    assert (member["role"], member["team"]) == ("worker", "alpha")
    assert cli(server.home, "token", "create", "--member", "nobody").code == 1
    assert cli(server.home, "token", "create", "--person", "eva", "--role", "worker").code == 1


def test_a_browser_is_led_to_its_link_without_showing_it_to_others(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    server = start()
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/told\n')
    program.chmod(0o755)
    words = [sys.executable, "-m", "interlock.surfaces.cli", "--home", str(server.home), "open", "--browser"]
    environment = {**os.environ, "BROWSER": f"{program} %s"}
    run = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True, env=environment)
    told = (tmp_path / "told").read_text()
    assert told.startswith("file://") and "code" not in told
    page = Path(told.removeprefix("file://"))
    assert page.stat().st_mode & 0o077 == 0
    assert run.stdout.strip() in page.read_text()


@pytest.mark.long
def test_the_status_of_a_team_says_that_a_server_works_on_it(start: Callable[..., Server]) -> None:
    server = start()
    busy_team(server)
    words = [sys.executable, "-m", "interlock.surfaces.cli", "--home", str(server.home), "status", "--team", "alpha"]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False).stdout
    assert "a worker is running (`interlock up` or `interlock work`)" in shown and "is gone" not in shown
    assert cli(server.home, "status", "--team", "alpha").json["workers"] != []
