"""The builder's workflow in a team: real programs at work at the same time, one ledger, nobody triggers anything."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import interlock
from tests.workflow.builder import AGENT, LABELS, SKILL, builder

PROGRAM = Path(__file__).parent / "programs" / "builder_agent.py"


@pytest.mark.req("BMAD-UO.6", "BMAD-6.1.1", "BMAD-6.1.4", "BMAD-E6.1")
def test_six_programs_validate_at_once_and_the_history_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = builder(tmp_path / "app")
    at_work = tmp_path / "at-work"
    at_work.mkdir()
    home = interlock.connect(str(tmp_path / "home"))
    team = home.create_team("garden", workdir=str(root))
    words = ["env", f"AT_WORK={at_work}", f"AGENT={AGENT.format(sidecar='true')}", sys.executable, str(PROGRAM)]
    team.spawn("ada", agent="command", command=words)
    task = team.create_task(SKILL, body=SKILL, type="WORKFLOW")
    home.drive("garden")
    run = team.workflow_run(task.id)
    assert run["outcome"] == "COMPLETED", run["error"]
    met = sorted(one.removesuffix(".met") for one in os.listdir(at_work) if one.endswith(".met"))
    assert met == list(LABELS), "each saw all the others at work"
    rounds = run["examinations"]["parallel_validation"]["rounds"]
    assert [one["verdict"] for one in rounds] == ["changes_requested", "approve"]
    assert rounds[0]["handling"] == "retry_failed_sequentially"
    assert [one["label"] for one in rounds[1]["validators"]] == list(LABELS)
    assert [str(one) for one in run["completed_steps"]][-2:] == ["8f", "9"] and not team.questions()
    print(
        [
            (one["label"], one["status"], one.get("detail"), one["attempts"], one.get("ended"))
            for one in run["subagents"]
        ],
        run["decisions"][-12:],
    )
    examined = [one.payload for one in team.events()[0] if one.type == "workflow.examined"]
    assert [one["handling"] for one in examined] == ["retry_failed_sequentially", "proceed"]
    assert (root / "_bmad-output/creations/poet/poet.agent.yaml").read_text().endswith("# fixed\n")
