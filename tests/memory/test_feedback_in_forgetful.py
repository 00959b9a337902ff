"""What people say about a run is kept in Forgetful where it is the memory, and heeded by the runs that follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.memory.test_in_runs import Place
from tests.workflow.stage import SKILL
from tests.workflow.test_in_a_team import Place as Project

pytestmark = pytest.mark.long


@pytest.mark.req("BMAD-7.8.1", "BMAD-7.8.2", "BMAD-7.8.3", "BMAD-7.8.4", "BMAD-FR64", "BMAD-E7.7", "BMAD-4.1.5")
def test_feedback_is_kept_in_forgetful_and_heeded_by_the_next_run(tmp_path: Path) -> None:
    place = Place(tmp_path, steps=2).with_server()
    author = ("run", SKILL, "--agent", Project.agent(place), "--tier", "1")
    run = place(*author)
    assert run["outcome"] == "COMPLETED"
    assert place("feedback", "Good choice")["stored"]
    assert place("feedback", "Remember this preference: always use thorough validation")["stored"]
    kept = {tag: one for one in place.server.memories for tag in one["tags"]}  # type: ignore[attr-defined]
    assert {"type:positive_pattern", "type:explicit_preference"} <= set(kept)
    for one in (kept["type:positive_pattern"], kept["type:explicit_preference"]):
        assert f"workflow_id:{run['workflow_id']}" in one["tags"] and one["project_ids"] and one["importance"] >= 7
    assert {"thorough", "validation"} <= set(kept["type:explicit_preference"]["keywords"])
    assert place("feedback", run["workflow_id"], "Don't do that again")["understood"] == "negative_pattern"
    asked = place(*author)
    assert asked["state"] == "WAITING_USER" and asked["waiting"]["purpose"] == "menu", "it does not choose that again"


@pytest.mark.req("BMAD-FR64")
def test_feedback_waits_in_the_queue_while_forgetful_is_out_of_reach(tmp_path: Path) -> None:
    place = Place(tmp_path, steps=2).without_server()
    assert place.run()["outcome"] == "COMPLETED"
    assert place("feedback", "Remember this preference: be brief")["exit"] == 0
    assert any("be brief" in str(one) for one in place.queued)
