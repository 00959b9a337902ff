"""Workflows over HTTP; what the engine does is tested with the engine."""

from __future__ import annotations

from pathlib import Path

from tests.surfaces.http.harness import Client, Server


def test_without_a_package_there_is_nothing_to_run(admin: Client, team: str, server: Server) -> None:
    assert admin.get(f"/api/workflows?team={team}") == {"workflows": []}
    assert admin.get(f"/api/workflows/queue?team={team}") == {"queue": []}
    started = {"team": team, "skill": "bmm:create-prd"}
    assert admin.refused("POST", "/api/workflows", started) == (404, "directory_not_found")
    assert admin.refused("POST", "/api/workflows", {**started, "directory": "/"}) == (404, "workflow_not_found")
    for path in ("none", "none/decisions"):
        assert admin.refused("GET", f"/api/workflows/{path}") == (404, "workflow_not_found")
    for verb in ("resume", "cancel"):
        assert admin.refused("POST", f"/api/workflows/none/{verb}", {}) == (404, "workflow_not_found")
    assert server.person("vic", "viewer").refused("POST", "/api/workflows", started) == (403, "forbidden")


def test_only_an_admin_names_a_directory(server: Server, team: str, tmp_path: Path) -> None:
    started = {"team": team, "skill": "bmm:create-prd", "directory": str(tmp_path)}
    assert server.person("otto").refused("POST", "/api/workflows", started) == (403, "forbidden")
