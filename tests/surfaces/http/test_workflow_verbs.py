"""A run over HTTP: what it can be rolled back to, feedback, and who may."""

from __future__ import annotations

from pathlib import Path

import pytest

import interlock
from scripts import seeded_run
from tests.surfaces.http.harness import Client, Server

RUN = f"/api/workflows/{seeded_run.STORY}"


@pytest.fixture
def files(server: Server, admin: Client, team: str, tmp_path: Path) -> Path:
    """Where a run of the team has written what."""
    home = interlock.connect(str(server.home))
    seeded_run.add(home, team, tmp_path)
    home.close()
    return tmp_path / "_bmad-output"


def address(verb: str, team: str) -> str:
    return f"{RUN}/{verb}?team={team}"


@pytest.mark.long
def test_a_run_is_shown_what_it_can_be_rolled_back_to_and_is(admin: Client, team: str, files: Path) -> None:
    document = files / f"{seeded_run.STORY}.md"
    whole = document.read_bytes()
    points = admin.get(address("checkpoints", team))["checkpoints"]
    assert [one["step_id"] for one in points] == ["gate-code_review", 4, 3, 2, 1]
    preview = admin.post(address("rollback", team), {"to": 3, "dry_run": True})
    assert preview["restored"] == [f"_bmad-output/{document.name}"] and preview["rolled_back"][:2] == [3, 4]
    assert document.read_bytes() == whole
    done = admin.post(address("rollback", team), {"to": "3"})
    assert document.name not in str(done["left"]) and "As of step 2" in document.read_text()
    assert admin.get(f"{RUN}?team={team}")["current_step"] == 3
    undone = admin.post(address("rollback", team), {"undo": True})
    assert "undone" in undone["text"] and document.read_bytes() == whole


def test_a_rollback_leaves_what_others_changed_unless_it_is_included(admin: Client, team: str, files: Path) -> None:
    document = files / f"{seeded_run.STORY}.md"
    document.write_text("mine\n")
    asked = admin.post(address("rollback", team), {"to": 3})["left"]
    assert f"_bmad-output/{document.name}" in str(asked) and document.read_text() == "mine\n"
    admin.post(address("rollback", team), {"undo": True})
    admin.post(address("rollback", team), {"to": 3, "include": [f"_bmad-output/{document.name}"]})
    assert "As of step 2" in document.read_text()


@pytest.mark.parametrize("body", [{}, {"to": 3, "undo": True}, {"undo": True, "dry_run": True}, {"to": None}])
def test_a_rollback_says_either_where_to_or_undo(admin: Client, team: str, files: Path, body: object) -> None:
    assert admin.refused("POST", address("rollback", team), body) == (400, "invalid_request")


def test_feedback_is_given_listed_and_forgotten(admin: Client, team: str, files: Path) -> None:
    given = admin.post(address("feedback", team), {"text": "Remember this preference: always thorough"})
    assert given["understood"] == "explicit_preference" and given["workflow_id"] == seeded_run.STORY
    [one] = admin.get(address("feedback", team))["preferences"]
    assert "always thorough" in one["text"]
    gone = admin.call("DELETE", address(f"feedback/{one['id']}", team)).json
    assert gone["id"] == one["id"] and admin.get(address("feedback", team)) == {"preferences": [], "next": None}
    assert admin.refused("DELETE", address("feedback/none", team)) == (400, "invalid_request")
    assert admin.refused("POST", address("feedback", team), {"text": "hello"}) == (400, "invalid_request")


def test_who_only_looks_changes_nothing(server: Server, admin: Client, team: str, files: Path) -> None:
    viewer, bob = server.person("vic", "viewer"), server.member("bob", team)
    for one in (viewer, bob):
        assert one.get(address("checkpoints", team))["checkpoints"]
        assert one.refused("POST", address("rollback", team), {"to": 3}) == (403, "forbidden")
        assert one.refused("POST", address("feedback", team), {"text": "Good choice"}) == (403, "forbidden")
        assert one.refused("DELETE", address("feedback/x", team)) == (403, "forbidden")
    for path in ("checkpoints", "feedback"):
        assert admin.refused("GET", f"/api/workflows/none/{path}") == (404, "workflow_not_found")
    assert admin.refused("POST", "/api/workflows/none/rollback", {"to": 1}) == (404, "workflow_not_found")
