"""The work of teams that work in worktrees, over HTTP: what a task changed, and how it becomes the user's."""

from __future__ import annotations

import base64
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import interlock
from tests.behaviours.repository import Repository
from tests.command import command
from tests.surfaces.http.harness import PATIENCE, Client, Server
from tests.waiting import until

PLAN = """team: crew
workdir: work
isolation: worktree
members: {ada: {agent: shell}}
tasks: {a: {subject: Write a, run: echo a > a.txt}}
"""


def planned(home: Path, place: Path) -> Repository:
    """A repository, and the work of one task of the team crew on its integration branch."""
    made = Repository(place / "work")
    (place / "plan.yaml").write_text(PLAN)
    done = command("--home", str(home), "run", str(place / "plan.yaml"))
    assert done.code == 0, done.err
    return made


@pytest.fixture(scope="module")
def repository(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return planned(server.home, tmp_path_factory.mktemp("plan"))


@pytest.fixture
def task(repository: Repository, admin: Client) -> str:
    return str(admin.get("/api/teams/crew/tasks")["tasks"][0]["id"])


@pytest.mark.long
def test_a_diff_is_a_patch_or_a_list_of_files(admin: Client, task: str, team: str) -> None:
    found = admin.get(f"/api/teams/crew/tasks/{task}/diff")
    assert found["diff"].startswith("diff --git a/a.txt b/a.txt") and found["task_id"] == task
    assert "a.txt | 1 +" in admin.get(f"/api/teams/crew/tasks/{task}/diff?stat=true")["diff"]
    rest = admin.get(f"/api/teams/crew/tasks/{task}/diff?start=5")
    assert rest["diff"] == found["diff"][5:] and (rest["size"], rest["next"]) == (found["size"], None)
    assert found["raw"] is None
    plain = admin.post(f"/api/teams/{team}/tasks", {"subject": "No worktree"})["id"]
    assert admin.refused("GET", f"/api/teams/{team}/tasks/{plain}/diff") == (409, "worktree_refused")
    assert admin.refused("GET", "/api/teams/crew/tasks/none/diff")[0] == 404


def test_a_member_gets_a_worktree_for_the_task_it_works_on(
    server: Server, admin: Client, repository: Repository, task: str, team: str
) -> None:
    made = admin.post("/api/teams/crew/tasks", {"subject": "By hand"})["id"]
    assert admin.refused("POST", f"/api/teams/crew/tasks/{made}/worktree", {}) == (409, "invalid_transition")
    admin.post(f"/api/teams/crew/tasks/{made}/claim", {})
    known = admin.post(f"/api/teams/crew/tasks/{made}/worktree", {})["worktree"]
    assert os.path.isdir(known["directory"]) and known["branch"] in repository.branches()
    Path(known["directory"], "latin.txt").write_bytes(b"caf\xe9\n")
    shown = admin.get(f"/api/teams/crew/tasks/{made}/diff")
    assert "+caf\ufffd\n" in shown["diff"] and base64.b64decode(shown["raw"]).endswith(b"+caf\xe9\n")
    with interlock.connect(server.url, server.tokens.admin(), environment={}) as home:
        assert home.team("crew").diff(made).content == base64.b64decode(shown["raw"])
    admin.post(f"/api/teams/crew/tasks/{made}/cancel", {})
    plain = admin.post(f"/api/teams/{team}/tasks", {"subject": "No worktree"})["id"]
    admin.post(f"/api/teams/{team}/tasks/{plain}/claim", {})
    assert admin.refused("POST", f"/api/teams/{team}/tasks/{plain}/worktree", {})[1] == "worktree_refused"


def test_a_merge_is_shown_and_then_done_by_people_only(
    server: Server, admin: Client, repository: Repository, task: str
) -> None:
    address = "/api/teams/crew/merge"
    for body in ({}, {"tasks": [task], "all": True}):
        assert admin.refused("POST", address, body) == (400, "invalid_request")
    for one in (server.person("vic", "viewer"), server.member("ada", "crew")):
        assert one.refused("POST", address, {"all": True}) == (403, "forbidden")
    would = admin.post(address, {"all": True, "dry_run": True})
    assert (would["into"], would["merged"], would["commits"]) == ("main", False, 2)
    assert [one["task_id"] for one in would["tasks"]] == [task] and not (repository.path / "a.txt").exists()
    (repository.path / "a.txt").write_text("mine")
    assert admin.post(address, {"all": True, "dry_run": True})["dirty"] == ["a.txt"]
    assert admin.refused("POST", address, {"all": True})[0] == 409
    (repository.path / "a.txt").unlink()
    done = server.person("otto").post(address, {"tasks": [task]})
    assert done["merged"] and (repository.path / "a.txt").read_text() == "a\n"
    assert admin.post(address, {"all": True})["merged"] in (True, False)
    assert admin.post(address, {"all": True})["merged"] is False


@pytest.mark.long
def test_git_that_takes_long_keeps_nobody_from_an_answer(start: Callable[..., Server], tmp_path: Path) -> None:
    """More requests wait for git than there are threads for answers."""
    planned(tmp_path / "home", tmp_path)
    gate, started, count = tmp_path / "gate", tmp_path / "started", 45
    started.mkdir()
    gate.touch()
    slow_git = tmp_path / "bin" / "git"
    slow_git.parent.mkdir()
    slow_git.write_text(
        f"#!/bin/sh\ntest -e {gate} || touch {started}/$$\n"
        f'until test -e {gate}; do sleep 1; done\nexec {shutil.which("git")} "$@"\n'
    )
    slow_git.chmod(0o755)
    server = start(tmp_path / "home", environment={"PATH": f"{slow_git.parent}:{os.environ['PATH']}"})
    admin = server.client()
    task = admin.get("/api/teams/crew/tasks")["tasks"][0]["id"]
    gate.unlink()
    answers: list[int] = []

    def diff() -> None:
        answers.append(admin.call("GET", f"/api/teams/crew/tasks/{task}/diff").status)

    callers = [threading.Thread(target=diff) for _ in range(count)]
    for caller in callers:
        caller.start()
    until(lambda: len(list(started.iterdir())) >= count)
    assert admin.get("/readyz") == {"status": "ready"}
    gate.touch()
    for caller in callers:
        caller.join(PATIENCE)
    assert answers == [200] * count
