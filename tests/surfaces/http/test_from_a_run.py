"""A connection from a process of a run is that member's, whatever it carries."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.wiring import connect
from tests.surfaces.http.harness import Server
from tests.waiting import until

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).with_name("from_a_run.py")


@pytest.mark.skipif(sys.platform != "linux", reason="whose a connection is, is known on Linux only")
@pytest.mark.parametrize("how", ["", "daemon"])
def test_a_process_of_a_run_is_its_member_with_every_cookie_and_token(
    start: Callable[..., Server], tmp_path: Path, how: str
) -> None:
    server = start()
    admin, browser = server.client(), server.browser()
    for team in ("alpha", "beta"):
        admin.post("/api/teams", {"name": team})
    for member in ({"name": "sh", "agent": "shell"}, {"name": "bob"}):
        admin.post("/api/teams/alpha/members", member)
    gate = admin.post("/api/teams/alpha/tasks", {"subject": "Gate", "assignee": "bob", "review": "human"})["id"]
    bob = server.member("bob", "alpha")
    bob.post(f"/api/teams/alpha/tasks/{gate}/claim")
    bob.post(f"/api/teams/alpha/tasks/{gate}/complete", {"summary": "Done"})
    approve = f"/api/teams/alpha/tasks/{gate}/approve"
    status = {"name": "team_status", "arguments": {}}
    requests = {
        "with the cookie": ["POST", approve, browser.headers, {}],
        "as admin": ["POST", approve, admin.headers, {}],
        "as another": ["POST", approve, bob.headers, {"by": "bob"}],
        "a member": ["POST", "/api/teams/alpha/members", admin.headers, {"name": "eve"}],
        "another team": ["GET", "/api/teams/beta", admin.headers, None],
        "a link": ["POST", f"/open/{server.tokens.new_code()}", {}, None],
        "another team's tools": ["MCP", "", {**admin.headers, "Interlock-Team": "beta"}, status],
        "another's tools": ["MCP", "", {**admin.headers, "Interlock-Member": "bob"}, status],
        "the tools": ["MCP", "", admin.headers, status],
        "its own": ["POST", "/api/teams/alpha/tasks", admin.headers, {"subject": "Mine", "assignee": "bob"}],
    }
    asked = {"host": server.host, "port": server.port, "requests": requests}
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    # It waits for its own daemon.
    command = f"env -i {sys.executable} {PROGRAM} {tmp_path} {how}; "
    command += f"until test -e {tmp_path}/answered.json; do sleep 0.05; done"
    run = admin.post("/api/teams/alpha/tasks", {"subject": "Try", "assignee": "sh", "run": command})["id"]
    until(lambda: admin.get(f"/api/tasks/{run}")["status"] == "COMPLETE")
    answered = json.loads((tmp_path / "answered.json").read_text())
    own_status, own = answered.pop("its own")
    assert json.loads(answered.pop("the tools")[1])["you"]["name"] == "sh"
    assert {name: answer[0] for name, answer in answered.items()} == {
        "with the cookie": 403,
        "as admin": 403,
        "as another": 403,
        "a member": 403,
        "another team": 404,
        "a link": 403,
        "another team's tools": 403,
        "another's tools": 403,
    }, answered
    assert own_status == 201
    home = connect(str(server.home))
    assert home.team("alpha").task(json.loads(own)["id"]).created_by == "sh"
    assert home.team("alpha").task(gate).state == "review"
    seen = [event for event in home.team("alpha").events()[0] if event.type == "access.refused"]
    # Another team is hidden, not refused.
    assert len(seen) == 7 and {event.task_id for event in seen} == {run}
    assert {(event.payload["member"], event.payload["face"]) for event in seen} == {("sh", "http")}
    told = [one.outcome for one in home.team("alpha").report().incidents]
    assert told == ["tried what its member may not, and was refused"] * 7
    home.close()
    # From outside the same cookie is a person's.
    assert browser.post(approve)["state"] == "done"
