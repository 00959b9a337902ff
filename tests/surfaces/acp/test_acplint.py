"""acplint, a linter for agents of the Agent Client Protocol, against `interlock acp` and against our scripted program.

acplint 0.1.0 writes some names otherwise than the published schema; `acplint_dialect.py` translates them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema
from pydantic import ValidationError

from tests.agents.acting import acp_command
from tests.behaviours.driving import QUICK, Place
from tests.surfaces.acp import acplint_dialect
from tests.waiting import until

pytest.importorskip("acplint", reason="acplint is not installed: `make setup`")
PATIENT = str(Path(__file__).with_name("patient_acplint.py"))
DONE = {"call": "task_complete", "with": {"task_id": "{task}", "summary": "Done as asked."}}
WRITING = {"match": "Write 'test'", "do": [{"ask": {"title": "write it", "kind": "execute"}}, DONE]}


def lint(agent: list[str], path: Path, **variables: str) -> dict[str, Any]:
    """What acplint says of an agent, with the names of the checks that failed under `failed`."""
    report = path / "acplint.json"
    command = [sys.executable, acplint_dialect.__file__, *agent]
    subprocess.run(
        [
            sys.executable, PATIENT, "--agent", command[0], "--agent-args", " ".join(command[1:]),
            "--cwd", str(path), "--output", "json", "--output-file", str(report),
        ],
        env={**os.environ, **variables}, capture_output=True, timeout=280,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(report.read_text())
    failed = {one["name"]: one["message"] for one in found["results"] if one["status"] not in ("PASS", "SKIP")}
    return {**found, "failed": failed}


@pytest.mark.long
def test_a_team_passes_acplint(place: Place) -> None:
    team = place.home.create_team("crew", workdir=str(place.work))
    turns = [[{"say": "Working on it.\n"}, DONE]]
    team.spawn("bob", agent="acp", command=acp_command(place.path, turns=turns, when=[WRITING]))
    team.configure(QUICK)
    with place.runner(endless=True):
        until(lambda: bool(team.status().workers), 60)
        agent = [sys.executable, "-m", "interlock", "acp", "--team", "crew"]
        found = lint(agent, place.work, INTERLOCK_HOME=place.home.path)
    assert found["conformance_level"] == "Full Conformance" and not found["failed"]
    assert any(one.answered_face == "acp" for task in team.tasks() for one in team.conversation(task.id))
    seen = next(one["details"] for one in found["results"] if one["name"] == "coverage_methods_exercised")
    assert {"agentMessageChunk", "agentThoughtChunk", "plan", "toolCall", "toolCallUpdate"} <= set(
        seen["update_types_seen"]
    )


@pytest.mark.storm
def test_our_scripted_program_passes_acplint(tmp_path: Path) -> None:
    turns = [[{"think": "hm"}, {"tool": {"title": "look", "kind": "read"}}, {"say": "Done."}]]
    found = lint(acp_command(tmp_path, turns=turns, state=str(tmp_path / "state")), tmp_path)
    assert found["conformance_level"] == "Full Conformance" and not found["failed"]


def test_the_relay_changes_only_what_the_published_schema_refuses() -> None:
    said = {"method": "session/prompt", "params": {"sessionId": "s", "content": [{"type": "text", "text": "hi"}]}}
    with pytest.raises(ValidationError):
        schema.PromptRequest.model_validate(said["params"])
    assert schema.PromptRequest.model_validate(acplint_dialect.to_agent(said)["params"]).prompt
    answer = {"result": {"outcome": {"optionId": "0", "optionKind": "allow"}}}
    with pytest.raises(ValidationError):
        schema.RequestPermissionResponse.model_validate(answer["result"])
    assert schema.RequestPermissionResponse.model_validate(acplint_dialect.to_agent(answer)["result"])
    plan = acp.session_notification("s", acp.update_plan([acp.plan_entry("one")])).model_dump(by_alias=True)
    told = acplint_dialect.to_acplint({"method": "session/update", "params": json.loads(json.dumps(plan))})
    assert set(told["params"]["update"]) - {"plan"} == set(plan["update"]) - {"entries"}
    with pytest.raises(ValidationError):
        schema.SessionNotification.model_validate(told["params"])
    assert schema.InitializeResponse.model_fields["protocol_version"].annotation is int
