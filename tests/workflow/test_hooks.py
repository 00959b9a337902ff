"""Hooks in a run: when they are run, what their failures do, what the agent is told, what a session remembers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from interlock.agents.session import Permission, PermissionChoice, Turn
from interlock.workflow.engine import machine
from interlock.workflow.engine.automation_controller import AutomationController
from interlock.workflow.engine.ports import Superseded
from interlock.workflow.hooks.tool_calls import QUEUE
from interlock.workflow.state.document import RunPlan, WorkflowState
from tests.workflow.stage import DONE, MemoryDesk, Outcome, Part, Play, Player, play, project, writes
from tests.workflow.subagents import run_all

CHOICES = (PermissionChoice("yes", "Allow", "allow_once"), PermissionChoice("no", "Reject", "reject_once"))


def script(root: Path, name: str, text: str) -> None:
    path = root / "scripts" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def hooked(directory: Path, hooks: str, steps: int = 1, text: str = "", **more: Any) -> Path:
    """A project whose steps have these hooks. `scripts/log.sh` notes what it was run for in `log`; `text` goes on."""
    lines = "".join(f"  {line}\n" for line in hooks.splitlines())
    root = project(directory / "p", steps, **({"front": f"hooks:\n{lines}"} | more))
    script(root, "log.sh", f'echo "$INTERLOCK_HOOK_EVENT $INTERLOCK_HOOK_STEP $*" >> log; {text}')
    return root


def ran(root: Path) -> list[str]:
    return (root / "log").read_text().splitlines() if (root / "log").exists() else []


def perform(root: Path, play_: Play, desk: MemoryDesk | None = None, **more: Any) -> Outcome:
    return play(root, Player(play_), desk=desk or MemoryDesk(), hooks=root.parent / "kept", **more)


def failures(outcome: Outcome) -> list[dict[str, Any]]:
    return outcome.desk.of("workflow.hook_failed")


def note(root: Path, what: str) -> None:
    with (root / "log").open("a") as file:
        file.write(f"{what}\n")


def uses(root: Path, *, id: str = "t1", title: str = "Edit plan.md", kind: str = "edit", announce: str = "") -> Play:
    """An agent that asks before it uses a tool, uses it if it may, and is done. It announces it with that status."""

    async def part(part: Part) -> str:
        if announce:
            part.tool(announce, "plan.md", id=id, kind=kind)
        answer = await part.opening.permit(Permission("1", title, kind, CHOICES, ("plan.md",), tool=id))
        if answer == "yes":
            note(root, "the tool")
        part.tool("completed" if answer == "yes" else "failed", "plan.md", id=id, kind=kind)
        return DONE

    return part


async def allow(permission: Permission) -> str | None:
    return "yes"


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.01)


@pytest.mark.req("BMAD-7.3.1", "BMAD-7.3.2", "BMAD-FR51", "BMAD-E7.3")
@pytest.mark.parametrize("announce", ["", "pending", "in_progress"])
def test_a_tool_has_its_hooks_before_and_after_it_each_once(tmp_path: Path, announce: str) -> None:
    root = hooked(tmp_path, "PreToolUse: scripts/log.sh before\nPostToolUse: scripts/log.sh after")
    outcome = perform(root, uses(root, announce=announce), permit=allow)
    assert outcome.ending.kind == "completed", outcome.ending
    assert ran(root) == ["PreToolUse 1 before", "the tool", "PostToolUse 1 after"]


@pytest.mark.req("BMAD-7.3.1", "BMAD-7.3.2")
def test_a_tool_that_asks_nobody_has_its_hooks_when_it_is_first_heard_of(tmp_path: Path) -> None:
    root = hooked(tmp_path, "PreToolUse: scripts/log.sh before\nPostToolUse: scripts/log.sh after")

    async def part(part: Part) -> str:
        for id in ("a", "b"):
            for status in ("pending", "pending", "in_progress", "in_progress", "completed", "completed"):
                part.tool(status, id=id)
        part.tool("completed", id="c")
        part.tool("failed", id="d")
        return DONE

    assert perform(root, part).ending.kind == "completed"
    assert ran(root) == ["PreToolUse 1 before", "PostToolUse 1 after"] * 4


@pytest.mark.req("BMAD-7.3.1")
@pytest.mark.parametrize("announce", ["", "pending"])
def test_a_hook_may_refuse_a_tool_and_the_agent_reads_why(tmp_path: Path, announce: str) -> None:
    hooks = "PreToolUse: [{matcher: edit, command: scripts/no.sh}]\nPostToolUse: scripts/log.sh after"
    root = hooked(tmp_path, hooks, 2)
    script(root, "no.sh", "echo 'not on a Friday' >&2; exit 2")
    asked: list[Permission] = []

    async def permit(permission: Permission) -> str | None:
        asked.append(permission)
        return "yes"

    player = Player(uses(root, announce=announce))
    outcome = play(root, player, hooks=tmp_path / "kept", permit=permit)
    assert outcome.ending.kind == "completed" and not asked, "nobody else is asked"
    assert ran(root) == [], "neither the tool ran, nor what comes after a tool"
    assert "The tool was refused: not on a Friday" in player.prompts[1]
    (decided, *_) = [one for one in outcome.state.decisions if one["kind"] == "hook"]
    assert decided["choice"] == "refuse" and not failures(outcome)


def test_a_tool_that_another_refuses_has_not_been_used(tmp_path: Path) -> None:
    root = hooked(tmp_path, "PreToolUse: scripts/log.sh before\nPostToolUse: scripts/log.sh after")

    async def refuse(permission: Permission) -> str | None:
        return "no"

    perform(root, uses(root), permit=refuse)
    assert ran(root) == ["PreToolUse 1 before"]


def test_what_is_known_of_a_tool_only_later_finds_its_hooks_then(tmp_path: Path) -> None:
    hooks = (
        "PreToolUse:\n  - {matcher: other, command: scripts/log.sh other}\n  - {matcher: Bash, command: scripts/no.sh}"
    )
    root = hooked(tmp_path, hooks)
    script(root, "no.sh", "cat > asked.json; exit 2")

    async def part(part: Part) -> str:
        part.tool("pending", id="x", kind="other")
        data = {"rawInput": {"command": "rm -rf /"}}
        said = await part.opening.permit(Permission("9:x", "rm -rf /", "execute", CHOICES, (), data, tool="x"))
        note(root, str(said))
        return DONE

    perform(root, part, permit=allow)
    assert ran(root) == ["PreToolUse 1 other", "no"]
    tool = json.loads((root / "asked.json").read_text())["tool"]
    assert (tool["kind"], tool["input"]) == ("execute", {"command": "rm -rf /"})


@pytest.mark.parametrize("critical", [False, True])
def test_a_tool_that_is_refused_too_late_is_a_failure_of_the_hook(tmp_path: Path, critical: bool) -> None:
    root = hooked(tmp_path, f"PreToolUse: [{{command: scripts/no.sh, critical: {critical}}}]")
    script(root, "no.sh", "exit 2")

    async def part(part: Part) -> str:
        part.tool("in_progress")
        part.tool("completed")
        return DONE

    outcome = perform(root, part)
    (failed,) = failures(outcome)
    assert "ran without asking for permission" in failed["reason"]
    assert outcome.state.error == ("critical_hook_failed" if critical else None)


@pytest.mark.req("BMAD-7.3.3", "BMAD-FR51", "BMAD-E7.3")
def test_stop_runs_at_a_steps_end_before_the_run_goes_on(tmp_path: Path) -> None:
    root = hooked(
        tmp_path, "Stop: scripts/log.sh", 3, text="cat > stop-$INTERLOCK_HOOK_STEP.json; wc -l < _bmad-output/plan.md"
    )
    player = Player(writes(root))
    outcome = play(root, player, hooks=tmp_path / "kept")
    assert outcome.ending.kind == "completed" and ran(root) == ["Stop 1 ", "Stop 2 ", "Stop 3 "]
    read = json.loads((root / "stop-2.json").read_text())
    assert (read["event"], read["step"]["id"], read["status"]) == ("Stop", 2, "completed")
    second = next(prompt for prompt in player.prompts if "# Step 2:" in prompt)
    assert second.endswith("Stop, scripts/log.sh:\n\n```text\n1\n```") and "not the user's words" in second
    assert not any("What hooks" in prompt for prompt in player.prompts if prompt.startswith("C"))


@pytest.mark.parametrize("critical", [False, True])
def test_stop_runs_for_each_step_that_an_agent_went_through_by_itself(tmp_path: Path, critical: bool) -> None:
    hooks = f"Stop: [{{command: scripts/log.sh, critical: {critical}}}]"
    root = hooked(tmp_path, hooks, 3, text="test $INTERLOCK_HOOK_STEP != 2")

    async def part(part: Part) -> str:
        out = root / "_bmad-output" / "plan.md"
        out.parent.mkdir(exist_ok=True)
        out.write_text("---\nstepsCompleted: [1, 2, 3]\n---\nAll parts.\n")
        return '{"step": "finished"}'

    outcome = perform(root, part)
    assert ran(root) == ["Stop 1 ", "Stop 2 ", "Stop 3 "][: 2 if critical else 3]
    assert outcome.state.completed_steps == ([1] if critical else [1, 2, 3])
    assert outcome.state.error == ("critical_hook_failed" if critical else None)


@pytest.mark.req("BMAD-7.3.4", "BMAD-FR53")
@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "Stop", "SessionStart"])
@pytest.mark.parametrize("how", ["exit 7", "missing", "malformed"])
def test_a_failure_is_logged_and_the_workflow_goes_on(tmp_path: Path, event: str, how: str) -> None:
    command = {"exit 7": "scripts/log.sh", "missing": "scripts/none.sh", "malformed": "x && y"}[how]
    root = hooked(tmp_path, f'{event}: [{{command: "{command}"}}]', text="echo no luck >&2; exit 7")
    outcome = perform(root, uses(root), permit=allow)
    assert outcome.ending.kind == "completed" and "the tool" in ran(root)
    (failed,) = failures(outcome)
    said = {"exit 7": "exit 7: no luck", "missing": "no file of the project", "malformed": "step-01-part.md:5"}[how]
    assert said in failed["reason"] and failed["critical"] is False


@pytest.mark.req("BMAD-7.3.5", "BMAD-FR53", "BMAD-E7.3")
@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "Stop", "SessionStart"])
@pytest.mark.parametrize("how", ["exit 7", "missing", "malformed"])
def test_a_critical_failure_halts_the_workflow_and_a_human_may_take_it_up(tmp_path: Path, event: str, how: str) -> None:
    command = {"exit 7": "scripts/log.sh", "missing": "scripts/none.sh", "malformed": "x && y"}[how]
    root = hooked(tmp_path, f'{event}: [{{command: "{command}", critical: true}}]', 2, text="test -e fixed || exit 7")
    outcome = perform(root, uses(root), permit=allow)
    assert (outcome.ending.kind, outcome.state.outcome) == ("failed", "FAILED")
    assert outcome.state.error == "critical_hook_failed" and outcome.state.error_details["step"] == 1
    assert outcome.state.completed_steps == [] and failures(outcome)[0]["critical"] is True
    assert ("the tool" in ran(root)) == (event in ("PostToolUse", "Stop") and how != "malformed")
    (ended,) = outcome.desk.of("workflow.ended")
    assert ended["error"] == "critical_hook_failed"
    if how == "malformed":
        return
    script(root, "none.sh", "exit 0")
    (root / "fixed").touch()
    state = WorkflowState.from_dict(outcome.state.as_dict())
    machine.reopen(state)
    again = perform(root, uses(root), outcome.desk, state=state, permit=allow)
    assert again.ending.kind == "completed" and again.state.completed_steps == [1, 2], again.state.error_details


def test_a_critical_failure_ends_the_turn_that_is_under_way(tmp_path: Path) -> None:
    root = hooked(tmp_path, "PreToolUse: [{command: scripts/none.sh, critical: true}]")

    async def part(part: Part) -> str | Turn:
        part.tool("in_progress")
        await anyio.sleep_forever()
        return DONE

    outcome = perform(root, part)
    assert outcome.state.error == "critical_hook_failed"


@pytest.mark.req("BMAD-7.5.1", "BMAD-7.5.2", "BMAD-7.5.3", "BMAD-7.5.4", "BMAD-FR54", "BMAD-hooks")
def test_a_once_hook_runs_once_in_a_session_and_others_for_each_workflow(tmp_path: Path) -> None:
    hooks = "SessionStart:\n  - {command: scripts/log.sh once, once: true}\n  - scripts/log.sh each"
    root = hooked(tmp_path, hooks, 2)
    session, seen = MemoryDesk(), []
    for id, desk in (("first", session), ("second", session), ("third", MemoryDesk())):
        state = WorkflowState(id, "/bmad:bmm:workflows:make-plan", plan=RunPlan(project=str(root), tier=1))
        assert perform(root, writes(root), desk, state=state).ending.kind == "completed"
        seen.append(ran(root))
        (root / "log").unlink()
    both, each = ["SessionStart 1 once", "SessionStart 1 each"], ["SessionStart 1 each"]
    assert seen == [both, each, both], "the third is in a new session"


def test_a_once_hook_of_a_run_that_goes_on_in_another_session_is_not_run_again(tmp_path: Path) -> None:
    """B10: a run that waited for a person was taken up by another process, which is another session."""
    root = hooked(tmp_path, "SessionStart:\n  - {command: scripts/log.sh once, once: true}\n  - scripts/log.sh each", 2)
    desk = MemoryDesk(die_at=8)
    perform(root, writes(root), desk)
    assert desk.saved is not None and desk.saved.outcome is None
    assert perform(root, writes(root), MemoryDesk(), state=desk.saved).ending.kind == "completed"
    assert [one for one in ran(root) if one.endswith("once")] == ["SessionStart 1 once"]


def test_a_session_starts_before_the_first_step_and_tells_its_agent(tmp_path: Path) -> None:
    root = hooked(tmp_path, "SessionStart: scripts/log.sh", 2, text="echo 'The house style is ```dry```.'")
    player = Player(writes(root))
    outcome = play(root, player, hooks=tmp_path / "kept")
    assert "````text\nThe house style is ```dry```.\n````" in player.prompts[0]
    assert sum("house style" in prompt for prompt in player.prompts) == 1
    assert outcome.state.hooks.get("context") is None


@pytest.mark.long
def test_a_run_that_was_killed_goes_on_without_what_had_its_turn(tmp_path: Path) -> None:
    hooks = (
        "SessionStart:\n  - {command: scripts/log.sh once, once: true}\n  - scripts/log.sh each\nStop: scripts/log.sh"
    )
    for moment in range(1, 12):
        root = hooked(tmp_path / str(moment), hooks, 2)
        desk = MemoryDesk(die_at=moment)
        perform(root, writes(root), desk)
        desk.die_at = None
        again = perform(root, writes(root), desk, state=desk.saved)
        assert again.ending.kind == "completed", moment
        starts = [one for one in ran(root) if one.startswith("SessionStart")]
        assert starts == ["SessionStart 1 once", "SessionStart 1 each"], moment


@pytest.mark.req("BMAD-7.4.1", "BMAD-7.4.2", "BMAD-7.4.3", "BMAD-7.4.4", "BMAD-FR52", "BMAD-E7.4")
def test_what_a_step_prints_is_kept_within_its_limits_and_shown_short(tmp_path: Path) -> None:
    text = "head -c 70000 /dev/zero | tr '\\0' x; head -c 20000 /dev/zero | tr '\\0' y >&2"
    root = hooked(tmp_path, "PostToolUse: scripts/log.sh", text=text)

    async def part(part: Part) -> str:
        for number in range(6):
            part.tool("completed", id=str(number))
        return DONE

    outcome = perform(root, part)
    shown = outcome.state.hooks["steps"]["step_1"]
    kept = Path(shown["output"]).read_bytes()
    assert len(kept) == shown["bytes"] <= 262_144 and (shown["runs"], shown["failed"]) == (6, 0)
    entries = [json.loads(line) for line in kept.splitlines()]
    assert len(entries[-1]["stdout"]) == 65_536 and len(entries[-1]["stderr"]) == 16_384 and entries[-1]["truncated"]
    assert entries[0]["stdout"] == "" and "90000 bytes" in entries[0]["message"], "the oldest is pruned"
    warned = outcome.desk.of("workflow.hook_truncated")
    assert len(warned) == 6
    assert "stdout: 4464 bytes truncated, its original size is 70000 bytes" in warned[0]["message"]
    assert "stderr: 3616 bytes truncated, its original size is 20000 bytes" in warned[0]["message"]
    assert len(json.dumps(outcome.state.hooks["steps"])) < 3000, "what the ledger keeps is short"


def test_the_agent_is_told_no_more_than_64_kb_at_once(tmp_path: Path) -> None:
    root = hooked(tmp_path, "PostToolUse: scripts/log.sh", 2, text="head -c 40000 /dev/zero | tr '\\0' x")

    async def part(part: Part) -> str:
        for number in range(4):
            part.tool("completed", id=f"{part.turn}-{number}")
        return DONE

    player = Player(part)
    play(root, player, hooks=tmp_path / "kept")
    assert player.prompts[1].count("x" * 40_000) == 1


@pytest.mark.long
def test_an_agent_faster_than_its_hooks_is_not_held_up_and_what_was_not_run_is_told(tmp_path: Path) -> None:
    root = hooked(tmp_path, "PreToolUse: scripts/log.sh")

    async def part(part: Part) -> str:
        for number in range(QUEUE + 20):
            part.tool("in_progress", id=str(number))
        return DONE

    outcome = perform(root, part)
    lost = failures(outcome)
    assert outcome.ending.kind == "completed" and lost and len(ran(root)) + len(lost) == QUEUE + 20
    assert "was faster than the hooks" in lost[0]["reason"]


def test_an_agent_that_writes_its_own_hook_does_not_have_it_run(tmp_path: Path) -> None:
    root = hooked(tmp_path, "Stop: scripts/log.sh", 2)

    async def part(part: Part) -> str:
        script(root, "log.sh", "echo mine > stolen")
        return DONE

    outcome = perform(root, part)
    assert outcome.ending.kind == "completed" and not (root / "stolen").exists()
    assert "is not what it was when the run began" in failures(outcome)[0]["reason"]


def test_what_subagents_do_has_hooks_too(tmp_path: Path) -> None:
    from interlock.workflow.agents.assignment import Assignment
    from interlock.workflow.engine.context import Draft, Note
    from interlock.workflow.engine.examination import APPROVE, Examined
    from interlock.workflow.engine.runtime import Runtime

    class Delegated:
        name, title = "second_look", "Second look"

        def called_for(self, run: Draft) -> str | None:
            return "always"

        def begin(self, run: Draft, round: int) -> Delegated:
            return self

        async def ask(self, runtime: Runtime, note: Note) -> None:
            assert runtime.dispatcher is not None
            await run_all(runtime.dispatcher, [Assignment("look", "a"), Assignment("look", "b")])

        def judge(self, run: Draft, said: None) -> Examined:
            return Examined(APPROVE, "fine", ())

    front = {"front": "", "workflow": "hooks:\n  PreToolUse: scripts/log.sh\n"}
    root = hooked(tmp_path, "", text="", **front)

    async def part(part: Part) -> str:
        return DONE

    helper = Player(uses(root))
    outcome = perform(root, part, examinations=(Delegated(),), subagents=helper, permit=allow)
    assert outcome.ending.kind == "completed", outcome.state.error
    assert sum(one.startswith("PreToolUse gate-second_look") for one in ran(root)) == 2, "same ids, two sessions"


def test_a_workflow_without_hooks_runs_as_ever(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    outcome = perform(root, writes(root))
    assert outcome.ending.kind == "completed" and outcome.state.hooks == {} and not (tmp_path / "kept").exists()


def test_a_tools_once_hook_runs_for_the_first_one_only(tmp_path: Path) -> None:
    root = hooked(tmp_path, "PostToolUse: [{command: scripts/log.sh, once: true}]", 2)

    async def part(part: Part) -> str:
        for number in range(3):
            part.tool("completed", id=f"{part.turn}-{number}")
        return DONE

    assert perform(root, part).ending.kind == "completed" and ran(root) == ["PostToolUse 1 "]


def test_a_run_that_was_taken_over_in_the_middle_of_a_turn_lets_go(tmp_path: Path) -> None:
    root = hooked(tmp_path, "PreToolUse: [{command: scripts/log.sh, once: true}]")

    class Lost(MemoryDesk):
        async def change_life(self, change: Any) -> None:
            raise Superseded("somebody else has it")

    async def part(part: Part) -> str:
        part.tool("in_progress")
        await anyio.sleep_forever()
        return DONE

    outcome = perform(root, part, Lost())
    assert (outcome.ending.kind, outcome.ending.summary) == ("superseded", "somebody else has it")
    assert ran(root) == []


def test_stopping_a_run_ends_the_hook_that_is_at_work(tmp_path: Path) -> None:
    root = hooked(tmp_path, "Stop: [{command: scripts/log.sh, timeout: 600}]", text="exec sleep 500")

    async def part(part: Part) -> str:
        return DONE

    async def stop(controller: AutomationController) -> None:
        await until(lambda: bool(ran(root)))
        await controller.cancel()

    outcome = perform(root, part, meanwhile=stop)
    assert outcome.ending.kind == "stopped" and outcome.state.completed_steps == []


@pytest.mark.parametrize("word", ["start fresh", "resume"])
def test_hooks_that_a_human_has_changed_with_the_workflow_are_taken_as_they_are(tmp_path: Path, word: str) -> None:
    root = hooked(tmp_path, "Stop: scripts/log.sh", 3)
    desk = MemoryDesk(answers=lambda asking: word, die_at=6)
    perform(root, writes(root), desk)
    path = root / "_bmad/bmm/workflows/make-plan/steps/step-03-part.md"
    path.write_text(path.read_text().replace("hooks:\n", "hooks:\n  PostToolUse: scripts/new.sh\n"))
    script(root, "log.sh", "echo changed >> log")
    desk.die_at = None
    outcome = perform(root, writes(root), desk, state=desk.saved)
    assert outcome.ending.kind == "completed" and "changed" in ran(root) and not failures(outcome)
