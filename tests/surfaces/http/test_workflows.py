"""Workflows over HTTP; what the engine does is tested with the engine."""

from __future__ import annotations

from pathlib import Path

from tests.surfaces.http.harness import Client, Server
from tests.workflow.stage import SKILL, project


def test_without_a_package_there_is_nothing_to_run(admin: Client, team: str, server: Server) -> None:
    assert admin.get(f"/api/workflows?team={team}") == {"workflows": [], "next": None}
    assert admin.get(f"/api/workflows/queue?team={team}") == {"queue": [], "next": None}
    started = {"team": team, "skill": "bmm:create-prd"}
    assert admin.refused("POST", "/api/workflows", started) == (404, "directory_not_found")
    assert admin.refused("POST", "/api/workflows", {**started, "directory": "/"}) == (404, "workflow_not_found")
    malformed = {**started, "skill": "/bmad:invalid", "directory": "/"}
    assert admin.refused("POST", "/api/workflows", malformed) == (400, "invalid_skill_path")
    for path in ("none", "none/decisions"):
        assert admin.refused("GET", f"/api/workflows/{path}") == (404, "workflow_not_found")
    for verb in ("resume", "cancel"):
        assert admin.refused("POST", f"/api/workflows/none/{verb}", {}) == (404, "workflow_not_found")
    assert server.person("vic", "viewer").refused("POST", "/api/workflows", started) == (403, "forbidden")


def test_only_an_admin_names_a_directory(server: Server, team: str, tmp_path: Path) -> None:
    started = {"team": team, "skill": "bmm:create-prd", "directory": str(tmp_path)}
    assert server.person("otto").refused("POST", "/api/workflows", started) == (403, "forbidden")


def test_a_run_is_found_in_whichever_team_has_it(admin: Client, server: Server, tmp_path: Path) -> None:
    root = project(tmp_path / "plan-app")
    for name in ("a-first", "b-second", "c-third"):
        admin.post("/api/teams", {"name": name})
        admin.post(f"/api/teams/{name}/members", {"name": "bob"})
    begun = admin.post("/api/workflows", {"team": "b-second", "skill": SKILL, "directory": str(root)})
    assert admin.get(f"/api/workflows/{begun['workflow_id']}")["workflow_id"] == begun["workflow_id"]
    address = f"/api/workflows/{begun['workflow_id']}/adjust"
    said = admin.post(address, {"said": "use tier 3"})
    assert said["in_force"]["tier"]["value"] == 3 and admin.post(address, {})["said"] == ["use tier 3"]
    assert admin.refused("POST", address, {"said": "skip final approval"}) == (403, "safety_override_blocked")
    assert admin.refused("POST", address, {"said": "hello"}) == (400, "invalid_request")
    assert server.person("vic", "viewer").refused("POST", address, {"said": "use tier 0"}) == (403, "forbidden")
