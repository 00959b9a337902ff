"""`interlock scheduler poll`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.surfaces.cli.conftest import Interlock


@pytest.mark.req("AOF-61.12", "AOF-61.13")
def test_a_poll_answers_its_actions_as_json(interlock: Interlock, team: str, here: Path) -> None:
    assert interlock("scheduler", "poll", "--json").json == {"actions": [], "actions_executed": 0}
    task = interlock("task", "create", "Write", "--json").json["id"]
    interlock("task", "claim", task, "--as", "lead")
    run = here.parent / "home" / "teams" / team / "runs" / task
    (run / "run_heartbeat.json").write_text(json.dumps({"expiresAt": "2026-02-10T10:00:00.000Z"}))
    dry = interlock("scheduler", "poll", "--dry-run", "--json").json
    assert [set(action) for action in dry["actions"]] == [{"type", "task_id", "reason"}]
    assert interlock("task", "show", task, "--json").json["state"] == "in-progress"
    done = interlock("scheduler", "poll", "--json").json
    assert (done["actions"], done["actions_executed"]) == (dry["actions"], 0)
    assert interlock("task", "show", task, "--json").json["state"] == "ready"


def test_a_poll_says_in_words_what_it_did(interlock: Interlock, team: str) -> None:
    assert "nothing to do" in interlock("scheduler", "poll").out
    assert "Nothing would be done" in interlock("scheduler", "poll", "--dry-run").out
