"""`report` and `handoff` over MCP: AOF/1 without the envelope."""

from __future__ import annotations

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from tests.surfaces.mcp.harness import connected

pytestmark = pytest.mark.anyio


async def test_an_agent_reports_how_it_goes_and_how_it_ended(home: Home, team: Team) -> None:
    async with connected(home.path, "ada") as ada:
        task = (await ada.ask("task_create", subject="Write the parser"))["id"]
        await ada.ask("task_claim", task_id=task)
        told = await ada.ask("report", task_id=task[-3:], progress="half", blockers=["the grammar is unclear"])
        assert (told["accepted"], told["state"]) == (True, "in-progress")
        tests = {"total": 3, "passed": 2, "failed": 1}
        ended = await ada.ask("report", task_id=task, outcome="partial", notes="no comments yet", tests=tests)
        assert (ended["type"], ended["taskId"], ended["state"]) == ("completion.report", task, "review")
        result = team.run_result(task)
        assert result is not None and (result["agentId"], result["tests"]) == ("ada", tests)
        assert team.work_log(task)[0][2] == "Progress: half | Blockers: the grammar is unclear"


async def test_a_report_is_either_an_end_or_a_step(home: Home, team: Team) -> None:
    async with connected(home.path, "ada") as ada:
        task = (await ada.ask("task_create", subject="Write the parser"))["id"]
        await ada.ask("task_claim", task_id=task)
        assert (await ada.refused("report", task_id=task, outcome="done", status="review"))["field"] == "status"
        assert (await ada.refused("report", task_id=task, deliverables=["a"]))["field"] == "outcome"
        nothing = await ada.refused("report", task_id=task)
        assert nothing["error"] == "invalid_envelope" and "at least one update field" in nothing["message"]


async def test_a_refusal_is_an_error_with_its_reason_as_code(home: Home, team: Team) -> None:
    async with connected(home.path, "ada") as ada, connected(home.path, "bob") as bob:
        task = (await ada.ask("task_create", subject="Write the parser"))["id"]
        await ada.ask("task_claim", task_id=task)
        refusal = await bob.refused("report", task_id=task, outcome="done")
        assert refusal["error"] == "unauthorized_agent" and refusal["errors"][0]["path"] == "fromAgent"
        assert (await bob.refused("report", task_id="404", outcome="done"))["error"] == "task_not_found"


async def test_a_part_of_a_task_is_handed_over_and_answered(home: Home, team: Team) -> None:
    async with connected(home.path, "ada") as ada, connected(home.path, "bob") as bob:
        parent = (await ada.ask("task_create", subject="Write the parser"))["id"]
        child = (await ada.ask("task_create", subject="Test the parser"))["id"]
        await ada.ask("task_claim", task_id=parent)
        assert (await ada.refused("handoff", task_id=child))["field"] == "parent_task_id"
        await ada.ask(
            "handoff", task_id=child, parent_task_id=parent[-3:], to_agent="bob", acceptance_criteria=["it passes"]
        )
        assert team.task(child).assignee == "bob" and team.task(child).metadata["delegationDepth"] == 1
        assert (await bob.ask("handoff", task_id=child, accept=True))["state"] == "ready"
        refused = await bob.ask("handoff", task_id=child, accept=False, reason="no grammar")
        assert refused["state"] == "blocked" and team.task(child).assignee is None
        nested = await ada.refused("handoff", task_id=parent, parent_task_id=child, to_agent="bob")
        assert nested["error"] == "nested_delegation"
