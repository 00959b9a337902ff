"""A team's whole work over HTTP."""

from __future__ import annotations

import json

import pytest

from tests.surfaces.http.harness import Client, Server


def test_two_members_share_a_task_list(server: Server, team: str, admin: Client) -> None:
    admin.post(f"/api/teams/{team}/members", {"name": "cleo"})
    bob, cleo = server.member("bob", team), server.member("cleo", team)
    tasks = f"/api/teams/{team}/tasks"
    first = admin.post(tasks, {"subject": "Write the parser"})
    second = admin.post(tasks, {"subject": "Test it", "blocked_by": [first["id"]], "priority": "high"})
    assert (first["state"], first["status"], second["state"]) == ("ready", "pending", "backlog")
    claimed = bob.post(f"{tasks}/{first['id']}/claim")
    assert (claimed["owner"], claimed["status"]) == ("bob", "in_progress")
    assert cleo.refused("POST", f"{tasks}/{first['id']}/claim", {}) == (409, "task_already_claimed")
    assert cleo.refused("POST", f"{tasks}/{second['id']}/claim", {}) == (409, "unmet_dependencies")
    assert bob.post(f"{tasks}/{first['id']}/heartbeat")["member"] == "bob"
    assert bob.post(f"{tasks}/{first['id']}/update", {"log": "half way"})["state"] == "in-progress"
    assert bob.post(f"{tasks}/{first['id']}/complete", {"summary": "it parses"})["status"] == "completed"
    assert cleo.post(f"{tasks}-next")["task"]["id"] == second["id"]
    assert cleo.post(f"{tasks}-next")["task"] is None
    assert cleo.post(f"{tasks}/{second['id']}/release", {"reason": "lunch"})["state"] == "ready"
    assert [task["id"] for task in admin.get(f"{tasks}?ready=true")["tasks"]] == [second["id"]]
    assert [task["id"] for task in admin.get(f"{tasks}?status=completed")["tasks"]] == [first["id"]]
    log = admin.get(f"{tasks}/{first['id']}/work-log")["work_log"]
    assert "half way" in [line["text"] for line in log]
    assert [run["member"] for run in admin.get(f"{tasks}/{first['id']}/runs")["runs"]] == ["bob"]
    found = admin.get(f"/api/teams/{team}/events?after=0")
    assert [event["seq"] for event in found["events"]] == list(range(1, found["next"] + 1))


@pytest.mark.parametrize(
    ("verb", "body", "state"),
    [
        ("block", {"reason": "no network"}, "blocked"),
        ("assign", {"to": "bob"}, "in-progress"),
        ("cancel", {"reason": "not needed"}, None),
        ("delete", {}, "deleted"),
    ],
)
def test_every_verb_is_a_post(team: str, admin: Client, verb: str, body: dict[str, object], state: str | None) -> None:
    task = admin.post(f"/api/teams/{team}/tasks", {"subject": "x"})["id"]
    admin.post(f"/api/teams/{team}/tasks/{task}/claim", {"by": "bob"})
    done = admin.post(f"/api/teams/{team}/tasks/{task}/{verb}", body)
    assert done["tasks"][0]["state"] == "cancelled" if state is None else done["state"] == state


def test_where_nothing_has_to_be_said_no_body_is_an_empty_one(server: Server, team: str, admin: Client) -> None:
    tasks = f"/api/teams/{team}/tasks"
    task, bob = admin.post(tasks, {"subject": "x"})["id"], server.member("bob", team)
    for path, caller in (
        (f"{tasks}/{task}/claim", bob), (f"{tasks}/{task}/complete", bob), (f"{tasks}-next", bob),
        (f"/api/teams/{team}/pause", admin), (f"/api/teams/{team}/resume", admin),
    ):  # fmt: skip
        answer = caller.call("POST", path)
        assert answer.status == 200, (path, answer.body)
    paths = admin.get("/openapi.json")["paths"]
    needed = {path: paths[f"/api/teams/{{team}}{path}"]["post"]["requestBody"].get("required", False) for path in (
        "/tasks/{id}/claim", "/pause", "/tasks", "/tasks/{id}/update", "/merge"
    )}  # fmt: skip
    assert [path for path, needs in needed.items() if needs] == ["/tasks", "/tasks/{id}/update", "/merge"]


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (b'{"subject": "x"}', "text/plain", "`Content-Type: application/json`"),
        (b'{"subject": "x"}', "", "`Content-Type: application/json`"),
        (b"[]", "application/json", "must be one JSON object"),
        (b'{"subject": "caf\xe9"}', "application/json", "not UTF-8: invalid continuation byte at byte 16"),
        (b'{"subject": ' + b"[" * 100_000, "application/json", "nested too deep"),
        (b'{"subject": ' + b"9" * 5000 + b"}", "application/json", "cannot be read as JSON: Exceeds the limit"),
        (b'{"subject": ', "application/json", "is not JSON"),
    ],
)
def test_what_is_wrong_with_a_body_is_said(team: str, admin: Client, body: bytes, kind: str, said: str) -> None:
    answer = admin.call("POST", f"/api/teams/{team}/tasks", body, headers={"content-type": kind})
    assert (answer.status, answer.json["error"]) == (400, "invalid_request")
    assert said in answer.json["message"], answer.json


def test_a_reviewer_rejects_and_approves(server: Server, team: str, admin: Client) -> None:
    tasks = f"/api/teams/{team}/tasks"
    bob = server.member("bob", team)
    task = admin.post(tasks, {"subject": "x", "review": "human"})["id"]
    bob.post(f"{tasks}/{task}/claim")
    assert bob.post(f"{tasks}/{task}/complete")["state"] == "review"
    assert [q["kind"] for q in admin.get(f"/api/teams/{team}/questions")["questions"]] == ["review"]
    assert bob.refused("POST", f"{tasks}/{task}/approve", {}) == (403, "forbidden")
    assert admin.post(f"{tasks}/{task}/reject", {"reason": "no tests"})["state"] in ("in-progress", "ready")


def test_a_broadcast_and_the_history(team: str, admin: Client, server: Server) -> None:
    sent = admin.post(f"/api/teams/{team}/broadcast", {"content": "all hands"})
    assert set(sent["delivered"]) == {"lead", "bob"} and sent["not_delivered"] == []
    again = {"to": "bob", "content": "once", "client_id": "c-1"}
    first, second = (admin.post(f"/api/teams/{team}/messages", again) for _ in range(2))
    assert first["id"] == second["id"]
    contents = [message["content"] for message in admin.get(f"/api/teams/{team}/messages")["messages"]]
    assert contents.count("once") == 1 and "all hands" in contents
    bob = server.member("bob", team)
    assert {m["to"] for m in bob.get(f"/api/teams/{team}/messages")["messages"]} == {"bob"}


def test_a_report_in_aof(server: Server, team: str, admin: Client) -> None:
    bob = server.member("bob", team)
    task = admin.post(f"/api/teams/{team}/tasks", {"subject": "x"})["id"]
    bob.post(f"/api/teams/{team}/tasks/{task}/claim")
    envelope = {
        "protocol": "aof", "version": 1, "type": "status.update", "taskId": task, "fromAgent": "bob",
        "toAgent": "lead", "sentAt": "2026-11-21T07:00:00Z", "payload": {"progress": "half way"},
    }  # fmt: skip
    assert bob.post(f"/api/teams/{team}/protocol", envelope)["accepted"] is True
    refused = bob.post(f"/api/teams/{team}/protocol", {**envelope, "protocol": "smtp"})
    assert refused["accepted"] is False and "invalid protocol" in str(refused)
    for no_envelope in ([], 5, None, [envelope]):
        refused = bob.post(f"/api/teams/{team}/protocol", json.dumps(no_envelope).encode())
        assert (refused["accepted"], refused["type"], refused["reason"]) == (False, None, "invalid_envelope")
        assert refused["errors"][0]["message"] == "the message must be one JSON object"
    text = {"content-type": "text/plain"}
    for body, accepted in ((json.dumps(envelope).encode(), True), (b"null", False), (b"\xff\xfe", False)):
        assert bob.post(f"/api/teams/{team}/protocol", body, headers=text)["accepted"] is accepted
    for broken in (b"{", b"", b"AOF/1 {", b"\xff\xfe", b"[" * 5000):  # Said to be JSON, and none.
        refused = bob.post(f"/api/teams/{team}/protocol", broken)
        assert (refused["accepted"], refused["type"], refused["reason"]) == (False, None, "invalid_json"), refused
    assert bob.post(f"/api/teams/{team}/session-end") == {"results": []}


def test_a_list_can_be_asked_for_in_any_vocabulary(team: str, admin: Client) -> None:
    ready, taken = (admin.post(f"/api/teams/{team}/tasks", {"subject": "x"})["id"] for _ in range(2))
    admin.post(f"/api/teams/{team}/tasks/{taken}/claim", {"by": "bob"})
    for words, task in ((("ready", "pending", "QUEUED"), ready), (("in-progress", "in_progress", "RUNNING"), taken)):
        for word in words:
            found = admin.get(f"/api/teams/{team}/tasks?status={word}")["tasks"]
            assert [one["id"] for one in found] == [task], word
    assert admin.refused("GET", f"/api/teams/{team}/tasks?status=queued") == (400, "invalid_request")


def test_pausing_and_deleting_a_team(team: str, admin: Client) -> None:
    admin.post(f"/api/teams/{team}/pause", {"reason": "lunch"})
    assert admin.get(f"/api/teams/{team}")["settings"]["paused"] is True
    admin.post(f"/api/teams/{team}/resume")
    assert admin.get(f"/api/teams/{team}/status")["team"] == team
    assert "needs_you" in admin.get(f"/api/teams/{team}/report") or admin.get(f"/api/teams/{team}/report")
    assert admin.call("DELETE", f"/api/teams/{team}/members/bob").json == {"removed": "bob", "released": []}
    assert admin.call("DELETE", f"/api/teams/{team}").json == {"deleted": team}
    assert admin.refused("GET", f"/api/teams/{team}") == (404, "team_not_found")


def test_metrics_count_what_there_is(team: str, admin: Client) -> None:
    admin.post(f"/api/teams/{team}/tasks", {"subject": "x"})
    text = admin.call("GET", "/metrics").body.decode()
    assert f'interlock_tasks{{state="ready",team="{team}"}} 1' in text
    assert 'route="/api/teams/{team}/tasks"' in text and team not in text.split("interlock_http_requests_total")[2]
    for line in text.splitlines():
        assert line.startswith("#") or (len(line.rsplit(" ", 1)) == 2 and float(line.rsplit(" ", 1)[1]) >= 0)


def test_a_member_asks_a_person_and_cannot_answer_itself(server: Server, team: str, admin: Client) -> None:
    bob = server.member("bob", team)
    task = admin.post(f"/api/teams/{team}/tasks", {"subject": "x"})["id"]
    bob.post(f"/api/teams/{team}/tasks/{task}/claim")
    asked = bob.post(f"/api/teams/{team}/questions", {"task_id": task, "text": "Which one?", "options": ["a", "b"]})
    assert [q["id"] for q in admin.get(f"/api/teams/{team}/questions")["questions"]] == [asked["id"]]
    assert bob.refused("POST", f"/api/projects/{team}/tasks/{task}/reply", {"reply": "a"}) == (403, "forbidden")
    told = admin.get(f"/api/teams/{team}/tasks/{task}/conversation")["conversation"]
    assert [(one["text"], one["answer"]) for one in told] == [("Which one?", None)]


def test_a_worker_s_token_has_nothing_executed_and_reveals_no_variable(server: Server, team: str) -> None:
    bob, tasks = server.member("bob", team), f"/api/teams/{team}/tasks"
    for control in ({"run": "env"}, {"verify": "env"}, {"env": ["MY_DEPLOY_TOKEN"]}, {"timeout": 1}, {"retries": 0}):
        assert bob.refused("POST", tasks, {"subject": "Mine", **control}) == (403, "forbidden")
    for name in ("env", "timeout", "retries", "limits", "run", "verify", "workflow"):
        assert bob.refused("POST", tasks, {"subject": "Mine", "metadata": {name: []}}) == (400, "invalid_request")
    own = bob.post(tasks, {"subject": "Mine"})["id"]
    assert bob.refused("POST", f"{tasks}/{own}/update", {"command": "env"}) == (403, "forbidden")
    assert server.client().post(f"{tasks}/{own}/update", {"env": ["CI"], "timeout": 5})["env"] == ["CI"]
