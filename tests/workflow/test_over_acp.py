"""A real agent program over ACP: menus and file work in a session that lasts from the first step to the last."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.workflow.stage import SKILL
from tests.workflow.test_in_a_team import Place

PROGRAM = Path(__file__).parents[1] / "agents" / "acp_program.py"
SCRIPT = Path(__file__).parent / "programs" / "acp_author.py"


@pytest.mark.long
@pytest.mark.req("BMAD-FR2", "BMAD-UO.2b")
def test_an_agent_over_acp_is_taken_through_every_step_in_one_session(tmp_path: Path) -> None:
    place = Place(tmp_path)
    done = place("run", SKILL, "--agent", f"acp {sys.executable} {PROGRAM} {SCRIPT}", "--tier", "1")
    assert (done["exit"], done["outcome"], done["completed_steps"]) == (0, "COMPLETED", [1, 2, 3]), done["error"]
    assert place.document == "## Step 1\n## Step 2\n## Step 3\n"
    assert done["agent_session"] and done["steps"]["step_1"]["files"] == ["_bmad-output/plan.md"]
    resumed = [one for one in done["decisions"] if one["kind"] == "resume"]
    assert not resumed
