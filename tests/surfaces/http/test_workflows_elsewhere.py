"""What an agent on another machine has, too: workflows, news of changes, its permission prompts as questions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

import interlock
from interlock import errors
from interlock.app.home import Home
from tests.surfaces.http.harness import Server
from tests.workflow.stage import SKILL, project

TEAM = "planners"
Cli = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def local(server: Server, tmp_path: Path) -> Iterator[Home]:
    """The home, with a team that works in a project with a workflow."""
    with interlock.connect(str(server.home), environment={}) as home:
        home.create_team(TEAM, workdir=str(project(tmp_path / "plan-app"))).spawn("bob")
        yield home
        home.delete_team(TEAM, force=True)


@pytest.fixture
def cli(server: Server, local: Home, tmp_path: Path) -> Cli:
    """The command line of an operator on another machine, in a directory that has nothing of the project."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    environment |= {"INTERLOCK_URL": server.url, "INTERLOCK_TOKEN": server.tokens.create("otto", role="operator")[1]}
    away = tmp_path / "away"
    away.mkdir()

    def run(*words: str) -> tuple[int, dict[str, Any]]:
        command = [sys.executable, "-m", "interlock.surfaces.cli", "--json", *words, "--team", TEAM]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=away, check=False)
        return done.returncode, json.loads(done.stdout or done.stderr.splitlines()[-1])

    return run


def test_an_operator_starts_and_resumes_a_workflow_in_the_directory_of_the_team(cli: Cli, local: Home) -> None:
    listed = local.team(TEAM).installed_workflows()
    assert listed and cli("workflow", "list") == (0, {"workflows": listed})
    code, begun = cli("workflow", "run", SKILL, "--agent", "bob")
    assert code == 0, begun
    task = local.team(TEAM).task(begun["task_id"])
    assert (task.assignee, task.created_by) == ("bob", "otto")
    assert cli("workflow", "status")[1]["workflow_id"] == begun["workflow_id"]
    assert cli("workflow", "run", SKILL, "--new")[1]["workflow_id"] != begun["workflow_id"]
    code, said = cli("workflow", "run", SKILL, "--dir", "/")
    assert (code, said["error"]) == (1, "local_only")
    assert len(local.team(TEAM).workflow_runs()) == 2


def test_a_place_on_the_machine_of_the_home_is_named_by_an_admin_alone(server: Server, local: Home) -> None:
    with interlock.connect(server.url, server.tokens.create("olga", role="operator")[1], environment={}) as home:
        there = home.team(TEAM)
        for verb in (there.start_workflow, there.resumable_workflow):
            with pytest.raises(errors.Forbidden, match="admin"):
                verb(SKILL, directory="/")
        with pytest.raises(errors.Forbidden, match="admin"):
            there.installed_workflows("/")
        assert there.resumable_workflow(SKILL) is None
    with (
        interlock.connect(server.url, server.tokens.admin(), environment={}) as home,
        pytest.raises(errors.WorkflowNotFound),
    ):
        home.team(TEAM).start_workflow(SKILL, directory="/")


def test_who_is_elsewhere_hears_that_something_has_changed(server: Server, local: Home) -> None:
    async def heard() -> int:
        times = 0
        async with aclosing(home.team(TEAM).changes()) as changes:
            async for _ in changes:
                times += 1
                if times == 3:
                    return times
                await anyio.to_thread.run_sync(local.team(TEAM).create_task, f"number {times}")
        return times

    with interlock.connect(server.url, server.tokens.admin(), environment={}) as home:
        assert anyio.run(heard) == 3


def test_what_a_program_elsewhere_asks_for_is_asked_of_a_person_and_answered_to_its_session_alone(
    server: Server, local: Home
) -> None:
    task = local.team(TEAM).create_task("Tidy up")
    local.team(TEAM).spawn("eve")
    bob, eve = (server.tokens.create(name, role="worker", team=TEAM)[1] for name in ("bob", "eve"))
    with (
        interlock.connect(server.url, bob, environment={}) as home,
        interlock.connect(server.url, eve, environment={}) as other,
    ):
        window = home.team(TEAM).acting("bob", session="window-1")
        strangers = (other.team(TEAM).acting("eve", session="window-1"), home.team(TEAM).acting("bob", session="two"))
        assert window.relay_permission("r1", tool="Bash", title="rm -r build") is None, "it works on no task"
        window.claim(task.id)
        asked = window.relay_permission("r1", tool="Bash", title="rm -r build", preview="rm -r build")
        assert asked is not None and window.relay_permission("r1", tool="Bash", title="rm -r build") == asked
        assert window.relayed_verdict(asked.id) is None
        for one in strangers:
            one.withdraw_relayed(asked.id, "not mine")
        with pytest.raises(errors.Forbidden):
            window.reply(task.id, "allow", question=asked.id)
        local.team(TEAM).reply(task.id, "allow", question=asked.id)
        assert [one.relayed_verdict(asked.id) for one in (*strangers, window)] == [None, None, "allow"]
        again = window.relay_permission("r2", tool="Bash", title="make")
        assert again is not None
        window.withdraw_relayed(again.id, "its window is closed")
        assert local.team(TEAM).questions() == []
