"""Resources and prompts: what a client's user can attach or start."""

from __future__ import annotations

import json

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference

from interlock.app.home import Home
from interlock.app.team import Team
from tests.surfaces.mcp.harness import command, connected, started

pytestmark = pytest.mark.anyio


async def test_open_tasks_and_the_report_are_resources(home: Home, team: Team) -> None:
    task = team.create_task("Write the parser", body="In parser.py")
    done = team.create_task("Look around")
    team.acting("bob").claim(done.id)
    team.acting("bob").complete(done.id, summary="Looked.")
    async with connected(home.path, "ada") as ada:
        listed = {str(one.uri): one for one in (await ada.session.list_resources()).resources}
        assert set(listed) == {"interlock://report", f"interlock://tasks/{task.id}"}
        assert listed[f"interlock://tasks/{task.id}"].title == "Write the parser"
        templates = (await ada.session.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == ["interlock://tasks/{id}"]
        (whole,) = (await ada.session.read_resource(f"interlock://tasks/{task.id}")).contents
        assert json.loads(whole.text) == await ada.ask("task_list", id=task.id)  # type: ignore[union-attr]
        (report,) = (await ada.session.read_resource("interlock://report")).contents
        assert report.mime_type == "text/markdown" and "Look around" in report.text  # type: ignore[union-attr]
        for nothing in ("interlock://tasks/TASK-2000-01-01-001", "interlock://tasks/", "file:///etc/passwd"):
            with pytest.raises(MCPError) as refused:
                await ada.session.read_resource(nothing)
            assert refused.value.code == -32602


async def test_a_prompt_carries_the_task_that_it_is_about(home: Home, team: Team) -> None:
    task = team.create_task("Write the parser", body="In parser.py")
    async with connected(home.path, "ada") as ada:
        assert [one.name for one in (await ada.session.list_prompts()).prompts] == ["work", "task", "report"]
        ref = PromptReference(type="ref/prompt", name="task")
        found = await ada.session.complete(ref=ref, argument={"name": "id", "value": task.id[:6]})
        assert found.completion.values == [task.id]
        whole, words = (await ada.session.get_prompt("task", {"id": task.id})).messages
        assert "In parser.py" in whole.content.resource.text  # type: ignore[union-attr]
        assert f"Take the task {task.id} with task_claim" in words.content.text  # type: ignore[union-attr]
        for name, arguments in (("task", {}), ("task", {"id": "999"}), ("work", {"id": "1"}), ("play", {})):
            with pytest.raises(MCPError):
                await ada.session.get_prompt(name, arguments)


async def test_an_agent_that_the_runner_drives_is_offered_neither(home: Home, team: Team) -> None:
    run = {"HOME": home.path, "TEAM": "alpha", "MEMBER": "ada", "SESSION": "run-7", "RUN_TOKEN": "0123456789abcdef"}
    variables = {f"INTERLOCK_{name}": value for name, value in run.items()}
    async with started(command(home.path, "ada"), **variables) as ada:
        for asked in (ada.session.list_resources, ada.session.list_prompts):
            with pytest.raises(MCPError):
                await asked()
