"""Lists come in pages: `limit`, `after` and `next`."""

from __future__ import annotations

import pytest

from tests.surfaces.http.harness import Client, Server
from tests.workflow.stage import SKILL, project


@pytest.fixture(scope="module")
def full(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A team with something in every list; beside it are two others."""
    admin, team = server.client(), "full"
    root = project(tmp_path_factory.mktemp("here") / "plan-app")
    for name in ("empty", "full", "other"):
        admin.post("/api/projects", {"id": name, "workdir": str(root)})
    for name in ("ada", "bob", "cleo", "dora"):
        admin.post(f"/api/teams/{team}/members", {"name": name})
    here = f"/api/teams/{team}"
    for number in range(5):
        admin.post(f"{here}/tasks", {"subject": f"n {number}", "priority": "high" if number == 3 else "normal"})
        admin.post(f"{here}/messages", {"to": "bob", "content": f"message {number}"})
        admin.post(f"/api/projects/{team}/chat", {"content": "x", "session_id": f"s-{number}"})
        admin.post(f"/api/projects/{team}/chat", {"content": "y", "session_id": "s-0"})
        admin.post(f"{here}/shutdown", {"member": ("ada", "bob", "cleo", "dora", "lead")[number]})
        task = f"{here}/tasks/001"
        admin.post(f"{task}/claim", {"by": "bob"})
        admin.post(f"{task}/update", {"by": "bob", "log": f"step {number}"})
        admin.post(f"{here}/questions", {"by": "bob", "task_id": "001", "text": f"Which {number}?"})
        if number < 4:
            admin.post("/api/projects/full/tasks/001/reply", {"reply": "a"})
        admin.post("/api/workflows", {"team": team, "skill": SKILL, "directory": str(root)})
    return team


LISTS = (
    ("/api/teams", "teams", None), ("/api/projects", "projects", "id"), ("/api/workflows", "workflows", "workflow_id"),
    ("/api/task-groups", "task_groups", "task_group_id"), ("/api/task-groups/s-0/tasks", "tasks", "id"),
    ("/api/teams/full/tasks", "tasks", "id"), ("/api/teams/full/tasks?ready=true", "tasks", "id"),
    ("/api/teams/full/tasks?status=pending", "tasks", "id"), ("/api/teams/full/members", "members", "name"),
    ("/api/teams/full/questions", "questions", "id"), ("/api/teams/full/shutdown", "shutdown_requests", "id"),
    ("/api/teams/full/tasks/001/runs", "runs", "run_id"), ("/api/teams/full/tasks/001/work-log", "work_log", "text"),
    ("/api/teams/full/tasks/001/conversation", "conversation", "id"), ("/api/teams/full/inbox/bob", "messages", "id"),
)  # fmt: skip

NUMBERED = ("task_groups", "messages")
"""Their cursors are numbers."""


@pytest.mark.parametrize(("path", "under", "name"), LISTS)
def test_a_list_by_pages_is_the_same_list(admin: Client, full: str, path: str, under: str, name: str | None) -> None:
    whole = admin.get(path)
    assert whole["next"] is None and whole[under]
    for limit in (1, 2, len(whole[under])):
        assert admin.pages(path, under, limit) == whole[under]
    names = [one if name is None else one[name] for one in whole[under]]
    assert len(names) == len(set(names)) > 0


@pytest.mark.parametrize("path", [path for path, under, _ in LISTS if under not in NUMBERED])
def test_what_no_answer_gave_as_next_is_refused(admin: Client, full: str, path: str) -> None:
    answer = admin.call("GET", f"{path}{'&' if '?' in path else '?'}after=nothing")
    assert (answer.status, answer.json["error"], answer.json["field"]) == (400, "invalid_request", "after")
    assert "'nothing' is not in this list" in answer.json["message"]
    for query in ("limit=0", "limit=x", "limit=10001"):
        assert admin.refused("GET", f"{path}{'&' if '?' in path else '?'}{query}") == (400, "invalid_request")


def test_lists_of_a_workflow_come_in_pages(admin: Client, full: str) -> None:
    run = admin.get("/api/workflows")["workflows"][0]["workflow_id"]
    for part, under in (("decisions", "decisions"), ("checkpoints", "checkpoints"), ("feedback", "preferences")):
        whole = admin.get(f"/api/workflows/{run}/{part}")
        assert whole["next"] is None and admin.pages(f"/api/workflows/{run}/{part}", under) == whole[under]


def test_messages_are_paged_from_the_newest_to_the_oldest(admin: Client, full: str) -> None:
    path = "/api/teams/full/messages?member=bob"
    whole = admin.get(path)
    assert whole["next"] is None and len(whole["messages"]) > 5
    found: list[object] = []
    onward: str | None = ""
    while onward is not None:
        page = admin.get(f"{path}&limit=2{onward}")
        found = page["messages"] + found
        assert page["next"] is None or admin.get(f"{path}&limit=2&before={page['next']}") == admin.get(
            f"{path}&limit=2&after={page['next']}"
        )
        onward = None if page["next"] is None else f"&after={page['next']}"
    assert found == whole["messages"]
    assert admin.call("GET", f"{path}&after=x").json["field"] == "after"


def test_a_list_goes_on_after_a_task_that_left_it(admin: Client, team: str) -> None:
    tasks = f"/api/teams/{team}/tasks"
    made = [admin.post(tasks, {"subject": f"n {number}"})["id"] for number in range(4)]
    page = admin.get(f"{tasks}?status=pending&limit=2")
    assert [one["id"] for one in page["tasks"]] == made[:2] and page["next"] == made[1]
    admin.post(f"{tasks}/{made[1]}/delete")
    assert [one["id"] for one in admin.get(f"{tasks}?status=pending&after={page['next']}")["tasks"]] == made[2:]
    assert admin.refused("GET", f"{tasks}?ready=true&after={made[1]}") == (400, "invalid_request")


def test_a_member_s_pages_hold_nothing_of_others(server: Server, admin: Client, full: str) -> None:
    bob = server.member("bob", full)
    assert bob.pages("/api/teams", "teams", 1) == [full]
    assert {one["team"] for one in bob.pages("/api/workflows", "workflows")} == {full}
    assert bob.refused("GET", "/api/teams?after=other") == (400, "invalid_request")
