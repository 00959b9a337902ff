"""Tasks through MCP, each agent with a server of its own."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from tests.behaviours.repository import Repository
from tests.surfaces.mcp.harness import Agent, command, connected, started

pytestmark = pytest.mark.anyio


@pytest.mark.req("TEAM-2.1", "TEAM-2.2", "TEAM-2.3", "TEAM-2.4", "TEAM-2.5", "TEAM-2.6", "TEAM-2.7", "TEAM-2.8")
@pytest.mark.req("CORE-P3.1", "CORE-FR-009", "CORE-FR-010")
async def test_two_agents_take_a_task_and_what_waits_for_it_to_the_end(home: Home, team: Team) -> None:
    async with connected(home.path, "ada") as ada, connected(home.path, "bob") as bob:
        first = await ada.ask("task_create", subject="Write the parser", body="In parser.py", priority="high")
        assert (first["status"], first["state"], first["owner"], first["claimedAt"]) == ("pending", "ready", None, None)
        second = await ada.ask("task_create", subject="Test it", blocked_by=[first["id"]])
        assert second["blockedBy"] == [first["id"]]
        listed = (await bob.ask("task_list", status="pending"))["tasks"]
        assert [(task["id"], task["blocks"]) for task in listed] == [(first["id"], [second["id"]]), (second["id"], [])]
        assert "body" not in listed[0]

        refusal = await bob.refused("task_claim", task_id=second["id"])
        assert refusal["error"] == "unmet_dependencies"
        assert "Task has unmet dependencies" in refusal["message"] and refusal["blockedBy"] == [first["id"]]

        mine = await ada.ask("task_claim", task_id=first["id"][-3:])
        assert (mine["status"], mine["owner"]) == ("in_progress", "ada") and mine["claimedAt"]
        refusal = await bob.refused("task_claim", task_id=first["id"])
        assert refusal["error"] == "task_already_claimed"
        assert "Task already claimed by another agent" in refusal["message"]

        done = await ada.ask("task_complete", task_id=first["id"], summary="See parser.py")
        assert (done["status"], done["output"]) == ("completed", "See parser.py") and done["completedAt"]
        free = await bob.ask("task_list", id=second["id"])
        assert (free["blockedBy"], free["state"]) == ([], "ready")
        assert (await bob.ask("task_claim"))["id"] == second["id"]
        assert (await bob.ask("task_claim")) == {
            "task": None,
            "message": "No task is ready for you. poll_inbox waits for news.",
        }
        whole = await bob.ask("task_list", id=first["id"])
        assert whole["body"] == "In parser.py"
        assert [line["text"] for line in whole["workLog"]] == ["See parser.py"]
        assert [(run["member"], run["outcome"]) for run in whole["runs"]] == [("ada", "done")]


@pytest.mark.req("TEAM-2.9", "TEAM-2.10", "CORE-FR-011", "CORE-FR-012")
async def test_calls_as_openclaw_s_tools_take_them_do_the_same(home: Home, team: Team) -> None:
    async with connected(home.path, "ada") as ada:
        first = await ada.ask(
            "task_create", team_name="alpha", subject="Write", description="All of it", activeForm="Writing",
            metadata={"area": "parser"},
        )  # fmt: skip
        assert (first["body"], first["metadata"]) == ("All of it", {"area": "parser", "activeForm": "Writing"})
        second = await ada.ask("task_create", team_name="alpha", subject="Test", dependsOn=[first["id"]])
        assert second["blockedBy"] == [first["id"]]
        free = await ada.ask("task_find_available", team_name="alpha")
        assert [task["id"] for task in free["tasks"]] == [first["id"]]
        assert (await ada.ask("task_auto_claim", teamName="alpha"))["id"] == first["id"]
        await ada.ask("task_complete", team_name="alpha", taskId=first["id"], summary="Done", announce=True)
        open_ones, everything = [
            (await ada.ask("task_list", team_name="alpha", includeCompleted=all_of_them))["tasks"]
            for all_of_them in (False, True)
        ]
        assert [task["id"] for task in open_ones] == [second["id"]]
        assert [task["id"] for task in everything] == [first["id"], second["id"]]
        await ada.ask("send_message", team_name="alpha", type="message", to="bob", content="Yours", requestId="r1")
        async with connected(home.path, "bob") as bob:
            [message] = (await bob.ask("inbox", team_name="alpha"))["messages"]
            assert (message["content"], message["requestId"]) == ("Yours", "r1")


async def test_a_call_for_another_team_or_with_an_argument_twice_is_refused(home: Home, team: Team) -> None:
    async with connected(home.path, "ada") as ada:
        refusal = await ada.refused("task_create", team_name="beta", subject="Write")
        assert (refusal["error"], refusal["field"]) == ("invalid_request", "team_name")
        assert "'alpha'" in refusal["message"]
        refusal = await ada.refused("task_create", subject="Write", blocked_by=[], dependsOn=[])
        assert (refusal["error"], refusal["field"]) == ("invalid_request", "blocked_by")
        refusal = await ada.refused("task_create", subject="Write", metadata={"verify": "true"})
        assert refusal["field"] == "metadata.verify"
        assert (await ada.ask("task_list"))["tasks"] == []


async def test_an_update_makes_one_change_and_makes_it_whole(home: Home, team: Team) -> None:
    async with connected(home.path, "ada") as ada:
        one, two, three = [(await ada.ask("task_create", subject=name))["id"] for name in ("one", "two", "three")]
        edited = await ada.ask(
            "task_update", task_id=one, subject="One", body="More", log="Looked at it", status="in_progress"
        )
        assert (edited["subject"], edited["body"], edited["owner"]) == ("One", "More", "ada")
        assert (await ada.refused("task_update", task_id=one, status="pending"))["error"] == "invalid_transition"

        await ada.ask("task_update", task_id=two, add_blocked_by=[one])
        chained = await ada.ask("task_update", task_id=three, add_blocked_by=[one, two])
        assert chained["blockedBy"] == [one, two]
        circle = await ada.refused("task_update", task_id=one, add_blocked_by=[three])
        assert circle["error"] == "dependency_cycle" and circle["cycle"]
        assert (await ada.ask("task_update", task_id=three, remove_blocked_by=[two]))["blockedBy"] == [one]

        assert (await ada.ask("task_update", task_id=one, block="No disk"))["state"] == "blocked"
        assert (await ada.ask("task_update", task_id=one, unblock=True))["state"] == "in-progress"
        assert (await ada.ask("task_update", task_id=one, release=True, reason="Bob knows more"))["owner"] is None
        assert (await ada.ask("task_update", task_id=one, assign="bob"))["assignee"] == "bob"
        assert (await ada.ask("task_update", task_id=one, assign=""))["assignee"] is None
        assert (await ada.ask("task_update", task_id=two, cancel=True))["status"] == "cancelled"
        assert (await ada.ask("task_update", task_id=three, delete=True))["status"] == "deleted"
        assert [task["id"] for task in (await ada.ask("task_list"))["tasks"]] == [one, two]

        for arguments, words in [
            ({"log": "x", "release": True}, "one change a call. Call it once for each of: release, log."),
            ({"release": True, "cancel": True}, "once for each of: release, cancel"),
            ({}, "Name the change you want."),
            ({"release": False}, "release=false asks for nothing"),
            ({"log": "x", "reason": "y"}, "reason belongs to release or cancel"),
        ]:
            refusal = await ada.refused("task_update", task_id=one, **arguments)
            assert refusal["error"] == "invalid_request" and words in refusal["message"]
        assert (await ada.ask("task_list", id=one))["state"] == "ready"


async def test_a_reviewer_rejects_and_approves(home: Home, team: Team) -> None:
    async with connected(home.path, "ada") as ada, connected(home.path, "bob") as bob:
        id = (await ada.ask("task_create", subject="Careful work", review="bob"))["id"]
        await ada.ask("task_claim", task_id=id)
        assert (await ada.ask("task_complete", task_id=id))["state"] == "review"
        refusal = await ada.refused("task_update", task_id=id, reject="It is mine")
        assert refusal["error"] == "forbidden"
        assert (await bob.ask("task_update", task_id=id, reject="Add tests"))["state"] in ("in-progress", "ready")
        answer = await ada.call("task_claim", task_id=id)
        assert answer.news is not None
        await ada.ask("task_complete", task_id=id, summary="Tests added")
        assert (await bob.ask("task_complete", task_id=id))["status"] == "completed"


@pytest.mark.req("CORE-FR-013", "CORE-P4.1")
async def test_a_forced_claim_succeeds_with_a_warning(home: Home, team: Team) -> None:
    first = team.create_task("first")
    second = team.create_task("second", blocked_by=[first.id])
    async with connected(home.path, "ada") as ada:
        taken = await ada.ask("task_claim", task_id=second.id, force=True)
        assert taken["status"] == "in_progress" and first.id in taken["warnings"][0]
        assert (await ada.refused("task_claim", force=True))["error"] == "invalid_request"


@pytest.mark.req("TEAM-4.1", "CORE-EC.3")
async def test_of_many_simultaneous_claims_from_two_servers_one_wins(home: Home, team: Team) -> None:
    task = team.create_task("wanted")
    async with connected(home.path, "ada") as ada, connected(home.path, "bob") as bob:
        outcomes: list[tuple[str, bool, str]] = []

        async def claim(name: str, agent: Agent) -> None:
            answer = await agent.call("task_claim", task_id=task.id)
            outcomes.append((name, answer.failed, answer.value.get("error", "")))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(claim, "ada", ada)
                group.start_soon(claim, "bob", bob)
    winner = team.task(task.id).owner
    assert {name for name, failed, _ in outcomes if not failed} == {winner}
    assert {error for name, _, error in outcomes if name != winner} == {"task_already_claimed"}
    assert len(outcomes) == 10 and len(team.runs(task.id)) == 1


async def test_two_windows_of_one_member_do_not_both_work_on_a_task(home: Home, team: Team) -> None:
    task = team.create_task("mine")
    async with connected(home.path, "ada") as old, connected(home.path, "ada") as new:
        await old.ask("task_claim", task_id=task.id)
        assert (await new.refused("task_claim", task_id=task.id))["error"] == "task_already_claimed"
        assert (await new.ask("task_claim", task_id=task.id, take_over=True))["owner"] == "ada"
        assert (await old.refused("task_complete", task_id=task.id))["error"] in ("stale_run", "task_already_claimed")


async def test_a_long_list_says_that_there_is_more(home: Home, team: Team) -> None:
    for number in range(4):
        team.create_task(f"task {number}")
    async with connected(home.path, "ada") as ada:
        answer = await ada.ask("task_list", limit=3)
        assert len(answer["tasks"]) == 3 and "first 3" in answer["more"]
        assert "more" not in await ada.ask("task_list", limit=4)
        assert (await ada.refused("task_list", id="TASK-2000-01-01-001"))["error"] == "task_not_found"


@pytest.mark.long
async def test_a_program_that_joined_works_apart_from_the_others(home: Home, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "repository")
    crew = home.create_team("crew", workdir=str(repository.path))
    crew.configure({"isolation": "worktree"})
    for name in ("ada", "bob"):
        crew.spawn(name)
        crew.create_task(f"for {name}", assignee=name)
    async with (
        connected(home.path, "ada", team="crew") as ada,
        connected(home.path, "bob", team="crew") as bob,
    ):
        tasks = [await ada.ask("task_claim", worktree=True), await bob.ask("task_claim", worktree=True)]
        places = [Path(task["worktree"]["directory"]) for task in tasks]
        assert len(set(places)) == 2
        for name, place in zip(("ada", "bob"), places, strict=True):
            (place / f"{name}.txt").write_text(name)
        assert (await ada.ask("task_complete", task_id=tasks[0]["id"]))["status"] == "completed"
        assert (await bob.ask("task_complete", task_id=tasks[1]["id"]))["status"] == "completed"
        assert {"ada.txt", "bob.txt"} <= set(repository.files("interlock/crew"))
        crew.configure({"isolation": "none"})
        crew.create_task("one more")
        refusal = await ada.refused("task_claim", worktree=True)
        assert refusal["error"] == "worktree_refused" and crew.task(refusal["claimed"]).owner == "ada"


async def test_a_worker_has_no_command_executed_and_the_lead_has(home: Home, team: Team) -> None:
    async with connected(home.path, "ada") as ada, connected(home.path, "lead") as lead:
        refusal = await ada.refused("task_create", subject="Mine", verify="touch owned")
        assert refusal["error"] == "forbidden" and "ask the lead" in refusal["message"]
        assert (await ada.ask("task_list"))["tasks"] == []
        assert (await lead.ask("task_create", subject="Theirs", verify="true"))["verify"] == "true"


async def test_an_agent_that_the_runner_drives_ends_its_task_without_naming_it_and_is_told_nothing_twice(
    home: Home, team: Team
) -> None:
    task = team.create_task("Write the parser", body="In parser.py")
    team.acting("ada", session="run-7").claim(task.id)
    run = {"HOME": home.path, "TEAM": "alpha", "MEMBER": "ada", "SESSION": "run-7", "RUN_TOKEN": "0123456789abcdef"}
    variables = {f"INTERLOCK_{name}": value for name, value in run.items()}
    async with started(command(home.path, "ada"), **variables) as ada:
        listed = {tool.name: tool for tool in (await ada.session.list_tools()).tools}
        assert "task_claim" not in listed and listed["task_complete"].description == "Report your task as finished"
        sent = await ada.ask("send_message", recipient="bob", content="A long text")
        assert set(sent) == {"id", "recipient"}
        assert (await ada.ask("task_list", id=task.id))["body"] == "In parser.py"
        done = await ada.ask("task_complete", summary="See parser.py")
        assert done == {"id": task.id, "state": "done", "status": "completed"}
    assert team.task(task.id).output == "See parser.py"
