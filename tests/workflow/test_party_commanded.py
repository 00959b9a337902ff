"""Party Mode as people meet it: on the command line, with programs that know nothing of each other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.workflow.stage import SKILL
from tests.workflow.test_in_a_team import Place

PROGRAM = Path(__file__).parent / "programs" / "discussing.py"


@pytest.mark.req("BMAD-5.3.2", "BMAD-5.2.1", "BMAD-5.2.2", "BMAD-E5.2", "BMAD-FR25b")
def test_programs_discuss_a_stall_and_the_status_shows_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    found = place("run", SKILL, "--agent", f"{sys.executable} {PROGRAM}", "--tier", "1")
    assert found["outcome"] == "COMPLETED", found
    party = place("status")["party"]
    assert (party["how"], party["status"], party["exit_reason"]) == ("simulated", "ended", "consensus_reached")
    (round,) = party["rounds"]
    assert (round["round_number"], round["agents_responded"], round["consensus_level"]) == (1, 3, 100)
    assert party["summary"]["recommendation"] == "Add a section for the users"
    events, _ = place.team.events()
    types = [one.type for one in events if one.type.startswith("workflow.party")]
    assert types == ["workflow.party_round", "workflow.party_ended"]
