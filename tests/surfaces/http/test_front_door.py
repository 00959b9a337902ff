"""Projects, chat, task groups and replies."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

import interlock
from interlock.wiring import connect
from tests.surfaces.http.harness import Client, Server

_numbers = count(1)


@pytest.fixture
def project(admin: Client, tmp_path: Path) -> str:
    name = f"project-{next(_numbers)}"
    made = admin.post("/api/projects", {"id": name, "workdir": str(tmp_path)})
    assert made["id"] == name and made["workdir"] == str(tmp_path)
    return name


@pytest.mark.req("GUARD-INV-3", "GUARD-AC-3")
def test_after_a_chat_there_is_a_task_group(admin: Client, project: str) -> None:
    made = admin.post(f"/api/projects/{project}/chat", {"content": "Hello"})
    groups = admin.get("/api/task-groups")["task_groups"]
    mine = [group for group in groups if group["task_group_id"] == made["task_group_id"]]
    assert [group["task_count"] for group in mine] == [1]


@pytest.mark.req("GUARD-INV-4", "GUARD-AC-4")
def test_three_messages_of_a_session_are_one_group(admin: Client, project: str) -> None:
    session = f"{project}-test-session"
    for content in ("one", "two", "three"):
        made = admin.post(f"/api/projects/{project}/chat", {"content": content, "sessionId": session})
        assert made["task_group_id"] == session
    groups = [g for g in admin.get("/api/task-groups?limit=1000")["task_groups"] if g["task_group_id"] == session]
    assert [group["task_count"] for group in groups] == [3]


def test_a_message_is_one_task_of_its_sessions_group(admin: Client, project: str) -> None:
    first = admin.post(f"/api/projects/{project}/chat", {"content": "What does main do?", "session_id": f"{project}-s"})
    assert first["task_group_id"] == first["session_id"] == f"{project}-s" and first["status"] == "QUEUED"
    second = admin.post(f"/api/projects/{project}/chat", {"content": "And tests?", "sessionId": f"{project}-s"})
    assert second["task_group_id"] == first["task_group_id"] and second["task_id"] != first["task_id"]
    groups = admin.get(f"/api/task-groups?project={project}")
    assert groups["total_count"] == 1
    group = groups["task_groups"][0]
    assert (group["task_count"], group["first_prompt"], group["project_id"]) == (2, "What does main do?", project)
    assert group["status_counts"] == {"QUEUED": 2}
    assert admin.get(f"/api/projects/{project}/task-groups") == groups
    tasks = admin.get(f"/api/projects/{project}/task-groups/{project}-s/tasks")["tasks"]
    assert [task["task_id"] for task in tasks] == [first["task_id"], second["task_id"]]
    assert admin.get(f"/api/task-groups/{project}-s/tasks")["tasks"] == tasks
    assert admin.get(f"/api/tasks/{tasks[0]['id']}?project={project}") == tasks[0], "of two with that id, this one"
    shown = admin.get(f"/api/projects/{project}/tasks/{first['task_id']}")
    assert (shown["status"], shown["state"], shown["show_reply_ui"]) == ("QUEUED", "ready", False)
    assert shown["session_id"] == shown["task_group_id"] == f"{project}-s"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"content": ""}, (400, "invalid_request")),
        ({"content": "   "}, (400, "invalid_request")),
        ({}, (400, "invalid_request")),
        ({"content": "x", "colour": "red"}, (400, "invalid_request")),
        ({"content": "x", "task_type": "SURPRISE"}, (400, "invalid_request")),
        ({"content": "x", "session_id": "not a session"}, (400, "invalid_request")),
        ({"content": 5}, (400, "invalid_request")),
    ],
)
def test_a_chat_that_cannot_be_recorded_is_an_error(
    admin: Client, project: str, body: object, expected: tuple[int, str]
) -> None:
    assert admin.refused("POST", f"/api/projects/{project}/chat", body) == expected
    assert admin.get(f"/api/task-groups?project={project}")["total_count"] == 0


@pytest.mark.parametrize("content", ["", "a\x00b", "\ud800", "x" * 10_001])
def test_what_is_wrong_with_a_message_is_said_of_its_content(admin: Client, project: str, content: str) -> None:
    answer = admin.call("POST", f"/api/projects/{project}/chat", {"content": content}).json
    assert (answer["error"], answer["field"]) == ("invalid_request", "content") and "content" in answer["message"]


def test_a_session_belongs_to_one_project(admin: Client, project: str) -> None:
    admin.post("/api/projects", {"id": f"{project}-b"})
    admin.post(f"/api/projects/{project}/chat", {"content": "x", "session_id": f"{project}-mine"})
    refused = admin.refused(
        "POST", f"/api/projects/{project}-b/chat", {"content": "x", "session_id": f"{project}-mine"}
    )
    assert refused == (409, "session_in_other_project")
    assert admin.refused("POST", "/api/projects/nowhere/chat", {"content": "x"}) == (404, "project_not_found")
    assert admin.refused("POST", "/api/projects", {"id": project}) == (409, "team_exists")


def test_a_short_address_that_fits_two_projects_lists_both(admin: Client, project: str) -> None:
    admin.post("/api/projects", {"id": f"{project}-b"})
    tasks = [admin.post(f"/api/projects/{p}/chat", {"content": "x"})["task_id"] for p in (project, f"{project}-b")]
    assert tasks[0] == tasks[1]
    answer = admin.call("GET", f"/api/tasks/{tasks[0]}")
    assert (answer.status, answer.json["error"]) == (409, "ambiguous_id")
    assert f"{project}/{tasks[0]}" in answer.json["candidates"]
    assert admin.get(f"/api/projects/{project}/tasks/{tasks[0]}")["task_id"] == tasks[0]


def test_the_end_of_an_id_is_enough_where_one_team_has_it(start: Callable[..., Server]) -> None:
    admin = start().client()
    for name, several in (("one", 2), ("two", 1)):
        admin.post("/api/projects", {"id": name})
        tasks = [admin.post(f"/api/projects/{name}/chat", {"content": "x"})["task_id"] for _ in range(several)][:1]
        assert admin.get(f"/api/projects/{name}/tasks/001")["task_id"] == tasks[0]
    assert admin.get("/api/tasks/002")["project_id"] == admin.get("/api/tasks/001?project=one")["project_id"] == "one"
    answer = admin.call("GET", "/api/tasks/001")
    assert (answer.status, answer.json["error"]) == (409, "ambiguous_id")
    assert answer.json["candidates"] == [f"one/{tasks[0]}", f"two/{tasks[0]}"]
    assert admin.refused("GET", "/api/tasks/003") == (404, "task_not_found")


def test_a_damaged_ledger_is_told_of_to_who_may_see_it_and_hides_no_other(start: Callable[..., Server]) -> None:
    server = start()
    admin = server.client()
    for name in ("sound", "hurt"):
        admin.post("/api/projects", {"id": name})
    task = admin.post("/api/projects/sound/chat", {"content": "x", "session_id": "s"})["task_id"]
    (server.home / "teams" / "hurt" / "ledger.db").unlink()
    (server.home / "teams" / "hurt" / "ledger.db").write_bytes(b"no database" * 100)
    viewer = server.client(server.tokens.create("vic", role="viewer", team="sound")[1])
    addresses = ("projects", "task-groups", f"tasks/{task}", "tasks/001", "task-groups/s/tasks", "workflows")
    for address in addresses:
        found, seen = admin.get(f"/api/{address}"), viewer.get(f"/api/{address}")
        assert "Team 'hurt' is left out." in found.pop("warnings")[0], address
        assert found == {key: value for key, value in seen.items() if key != "warnings"}
        assert not seen.get("warnings") and "hurt" not in str(seen), address
    with interlock.connect(server.url, server.tokens.admin(), environment={}) as home:
        assert [one.id for one in home.projects()] == ["sound"] and "'hurt' is left out." in home.warnings()[0]
    for address in ("tasks/003", "workflows/none", "task-groups/none/tasks"):
        answer = admin.call("GET", f"/api/{address}")
        assert answer.status == 404 and "'hurt' is left out" in answer.json["message"]
        assert "hurt" not in str(viewer.call("GET", f"/api/{address}").json)
    assert admin.refused("POST", f"/api/tasks/{task}/reply", {"reply": "x"}) == (503, "ledger_unusable")
    assert admin.refused("GET", "/api/projects/hurt/task-groups") == (503, "ledger_unusable")


def test_a_reply_queues_the_task_again_and_names_who_replied(server: Server, admin: Client, project: str) -> None:
    task = admin.post(f"/api/projects/{project}/chat", {"content": "Tidy up"})["task_id"]
    home = connect(str(server.home))
    team = home.team(project)
    team.spawn("bob")
    bob = team.acting("bob")
    bob.claim(task)
    asked = bob.ask(task, "Which directory?")
    home.close()
    shown = admin.get(f"/api/projects/{project}/tasks/{task}")
    assert shown["show_reply_ui"] is True and shown["question"]["id"] == asked.id
    assert shown["status"] == "AWAITING_RESPONSE"
    path = f"/api/projects/{project}/tasks/{task}/reply"
    assert admin.refused("POST", path, {"reply": ""}) == (400, "invalid_request")
    assert admin.refused("POST", path, {"reply": "src", "question_id": "Q-000"}) == (404, "question_not_found")
    eva = server.person("eva")
    done = eva.post(path, {"reply": "src", "question_id": asked.id})
    assert done == {"task_id": task, "old_status": "AWAITING_RESPONSE", "new_status": "QUEUED"}
    assert admin.refused("POST", path, {"reply": "again"}) == (409, "not_awaiting_response")
    events = admin.get(f"/api/teams/{project}/events")["events"]
    assert [e["actor"] for e in events if e["type"] == "question.answered"] == ["eva"]


def test_a_deleted_task_is_not_the_latest_of_its_group(admin: Client, project: str) -> None:
    first, second = (admin.post(f"/api/projects/{project}/chat", {"content": text})["task_id"] for text in "ab")

    def group_without(task: str) -> tuple[int, dict[str, int], str | None, str | None]:
        admin.post(f"/api/teams/{project}/tasks/{task}/delete")
        (group,) = admin.get(f"/api/task-groups?project={project}")["task_groups"]
        return group["task_count"], group["status_counts"], group["latest_task_id"], group["latest_status"]

    assert group_without(second) == (1, {"QUEUED": 1}, first, "QUEUED")
    assert group_without(first) == (0, {}, None, None)


def test_groups_come_in_pages(admin: Client, project: str) -> None:
    for number in range(5):
        admin.post(f"/api/projects/{project}/chat", {"content": f"n {number}", "session_id": f"{project}-{number}"})
    first = admin.get(f"/api/task-groups?project={project}&limit=2")
    last = admin.get(f"/api/task-groups?project={project}&limit=2&offset=4")
    assert (len(first["task_groups"]), len(last["task_groups"]), last["total_count"]) == (2, 1, 5)


def test_a_member_sees_its_own_project_only(server: Server, admin: Client, project: str) -> None:
    home = connect(str(server.home))
    home.team(project).spawn("bob")
    home.close()
    bob = server.member("bob", project)
    assert [one["id"] for one in bob.get("/api/projects")["projects"]] == [project]
    admin.post("/api/projects", {"id": f"{project}-b"})
    assert bob.refused("GET", f"/api/projects/{project}-b/task-groups")[0] == 404
    assert bob.get("/api/task-groups")["total_count"] == 0
