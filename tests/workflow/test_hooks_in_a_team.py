"""Hooks as people meet them: on the command line, with a program that speaks ACP, killed and taken up again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.processes import table
from tests.waiting import until
from tests.workflow.stage import SKILL
from tests.workflow.test_hooks import ran, script
from tests.workflow.test_in_a_team import AUTHOR, Place

PROGRAM = Path(__file__).parents[1] / "agents" / "acp_program.py"
SCRIPT = Path(__file__).parent / "programs" / "acp_asks.py"
LOG = 'echo "$INTERLOCK_HOOK_EVENT $INTERLOCK_HOOK_STEP $*" >> log'


def hooked(directory: Path, hooks: str, text: str = "", steps: int = 1) -> Place:
    lines = "".join(f"  {line}\n" for line in hooks.splitlines())
    place = Place(directory, steps, workflow=f"hooks:\n{lines}")
    script(place.root, "log.sh", f"{LOG}; {text}")
    return place


def over_acp(place: Place, *more: str) -> dict[str, Any]:
    agent = f"acp {sys.executable} {PROGRAM} {SCRIPT}"
    return place("run", SKILL, "--agent", agent, "--permissions", "workspace", "--tier", "1", *more)


def events(place: Place, type: str) -> list[dict[str, Any]]:
    return [dict(one.payload) for one in place.team.events()[0] if one.type == type]


@pytest.mark.long
@pytest.mark.req("BMAD-7.3.1", "BMAD-7.3.2", "BMAD-7.3.3", "BMAD-E7.3")
def test_an_agents_tools_and_its_steps_end_have_their_hooks(tmp_path: Path) -> None:
    hooks = "PreToolUse: [{matcher: Write, command: scripts/log.sh, critical: true}]\n"
    place = hooked(tmp_path, hooks + "PostToolUse: [{matcher: edit, command: scripts/log.sh}]\nStop: scripts/log.sh")
    done = over_acp(place)
    assert (done["exit"], done["outcome"]) == (0, "COMPLETED"), done["error"]
    assert ran(place.root) == ["PreToolUse 1 ", "PreToolUse 1 ", "PostToolUse 1 ", "Stop 1 "], "asked for, then used"
    shown = place("status", done["workflow_id"])["hooks"]["steps"]["step_1"]
    assert (shown["runs"], shown["failed"]) == (4, 0)
    assert Path(shown["output"]).is_relative_to(place.home_path) and Path(shown["output"]).stat().st_mode & 0o77 == 0
    assert [one["command"] for one in place("show", SKILL)["hooks"]] == ["scripts/log.sh"] * 3


@pytest.mark.long
@pytest.mark.req("BMAD-7.3.1", "BMAD-7.3.4")
def test_a_hook_refuses_what_the_members_policy_would_allow(tmp_path: Path) -> None:
    place = hooked(tmp_path, "PreToolUse: [{matcher: Write, command: scripts/log.sh}]", "echo 'no plans' >&2; exit 2")
    done = over_acp(place)
    assert done["outcome"] is None and done["completed_steps"] == [], "what was refused is not done"
    assert "plan.md does not exist" in place("status", done["workflow_id"])["waiting"]["text"]
    assert not (place.root / "_bmad-output/plan.md").exists()
    assert (place.root / "refused").read_text() == "reject"
    assert not events(place, "workflow.hook_failed")
    assert not [one for one in events(place, "permission.answered") if one.get("answer") == "allow"]


@pytest.mark.long
@pytest.mark.req("BMAD-7.3.5", "BMAD-FR53")
def test_a_critical_failure_halts_the_run_until_a_human_takes_it_up(tmp_path: Path) -> None:
    place = hooked(tmp_path, "Stop: [{command: scripts/log.sh, critical: true}]", "echo 'no tests' >&2; exit 1")
    failed = place("run", SKILL, "--agent", place.agent(), "--tier", "1")
    assert (failed["exit"], failed["outcome"], failed["error"]) == (1, "FAILED", "critical_hook_failed")
    assert failed["error_details"]["reason"] == "exit 1: no tests" and failed["completed_steps"] == []
    (told,) = events(place, "workflow.hook_failed")
    assert told["critical"] is True and told["command"] == "scripts/log.sh"
    script(place.root, "log.sh", LOG)
    again = place("resume", failed["workflow_id"])
    assert (again["exit"], again["outcome"]) == (0, "COMPLETED"), again["error"]
    assert ran(place.root) == ["Stop 1 ", "Stop 1 "]


@pytest.mark.long
def test_hooks_can_be_switched_off(tmp_path: Path) -> None:
    place = hooked(tmp_path, "Stop: [{command: scripts/log.sh, critical: true}]", "exit 1")
    place.environment["INTERLOCK_WORKFLOW_HOOKS"] = "off"
    assert place("run", SKILL, "--agent", place.agent(), "--tier", "1")["outcome"] == "COMPLETED"
    assert ran(place.root) == []


@pytest.mark.long
@pytest.mark.req("BMAD-7.5.1", "BMAD-7.5.2", "BMAD-7.5.3", "BMAD-7.5.4")
def test_a_session_is_the_life_of_the_runner_or_a_chat(tmp_path: Path) -> None:
    place = hooked(tmp_path, "SessionStart:\n  - {command: scripts/log.sh once, once: true}\n  - scripts/log.sh each")
    team = place.home.create_team("plan-app", workdir=str(place.root))
    program = ["env", "DOCUMENT=_bmad-output/plan.md", sys.executable, str(AUTHOR)]
    team.spawn("ada", agent="command", command=program)
    both, each = ["SessionStart 1 once", "SessionStart 1 each"], ["SessionStart 1 each"]

    def seen() -> list[str]:
        found = ran(place.root)
        (place.root / "log").unlink()
        return found

    for expected in (both, each):
        team.create_task(SKILL, body=SKILL, type="WORKFLOW")
        place.home.drive("plan-app")
        assert seen() == expected, "one process works on both"
    assert place.apart("run", SKILL, "--agent", "ada", "--tier", "1", "--new")["outcome"] == "COMPLETED"
    assert seen() == both, "another process is another session"


@pytest.mark.req("BMAD-7.5.1", "BMAD-7.5.2")
def test_a_once_hook_of_a_chat_is_not_run_again_when_the_engine_is_killed_within_it(tmp_path: Path) -> None:
    hooks = "SessionStart: [{command: scripts/log.sh once, once: true, timeout: 300}]\nStop: scripts/log.sh"
    place = hooked(tmp_path, hooks, 'test "$1" != once || { echo $$ > hook.pid; exec sleep 200; }')
    home = place.home
    home.create_project("plan-app", workdir=str(place.root))
    team = home.team("plan-app")
    team.spawn("ada", agent="command", command=["env", "DOCUMENT=_bmad-output/plan.md", sys.executable, str(AUTHOR)])
    home.chat("plan-app", SKILL)
    argv = [sys.executable, "-m", "interlock.surfaces.cli", "work", "--team", "plan-app"]
    process = subprocess.Popen(
        argv, cwd=place.root, env=place.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    hook = place.root / "hook.pid"
    try:
        until(lambda: (hook.exists() and hook.read_text().strip()) or process.poll() is not None)
        left = table.row(int(hook.read_text()))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
    assert left is not None and left.running
    home.drive("plan-app")
    assert team.workflow_run()["outcome"] == "COMPLETED", team.workflow_run()["error"]
    assert ran(place.root) == ["SessionStart 1 once", "Stop 1 "]
    row = table.row(left.pid)
    assert row is None or not row.running or row.started != left.started, (
        "what the killed engine had left running is ended"
    )
