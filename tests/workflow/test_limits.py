"""Time limits, in virtual time: silence ends an agent, work does not; everything that ends can go on later."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from interlock.agents.session import Opening, Permission, PermissionChoice, Turn
from interlock.workflow.agents.watch import Limits
from interlock.workflow.state.document import RunPlan
from tests.workflow import virtual
from tests.workflow.stage import APC, DONE, MemoryDesk, Part, Player, play, project


@pytest.mark.req("BMAD-2b.9.3", "BMAD-NFR1", "BMAD-FR17", "BMAD-E5.7")
def test_an_agent_that_is_silent_for_61_seconds_is_ended_and_one_of_59_is_not(tmp_path: Path) -> None:
    for seconds, ended in ((59, False), (61, True)):
        root = project(tmp_path / str(seconds))

        async def part(part: Part, seconds: int = seconds) -> str:
            if part.turn == 1:
                await virtual.passes(seconds)
            return DONE

        player = Player(part)
        outcome = play(root, player)
        timeouts = [one["timeout_error"] for one in outcome.desk.of("workflow.timeout")]
        assert timeouts == (["agent_timeout"] if ended else [])
        assert player.sessions[0].closed and len(player.sessions) == (2 if ended else 1)
        assert outcome.state.outcome == "COMPLETED", "the step was begun again in a new session"


@pytest.mark.req("BMAD-2b.9.4", "BMAD-2b.9.3")
def test_what_was_ended_for_its_time_keeps_its_state_and_goes_on(tmp_path: Path) -> None:
    root = project(tmp_path / "p")

    async def silent(part: Part) -> str:
        if part.step == "2":
            await virtual.passes(10_000)
        return DONE

    stopped = play(root, Player(silent))
    assert stopped.ending.kind == "parked" and stopped.state.timeout_error == "agent_timeout"
    assert stopped.state.completed_steps == [1] and len(stopped.desk.of("workflow.timeout")) == 4
    assert stopped.desk.saved is not None
    stopped.desk.replies[str(stopped.desk.saved.waiting and stopped.desk.saved.waiting.question_id)] = "retry"

    async def speaks(part: Part) -> str:
        return DONE

    player = Player(speaks)
    outcome = play(root, player, desk=stopped.desk, state=stopped.desk.saved)
    assert outcome.state.outcome == "COMPLETED" and outcome.state.timeout_error is None
    assert not any("# Step 1:" in one for one in player.prompts)


@pytest.mark.req("BMAD-FR17", "BMAD-NFR1")
@pytest.mark.parametrize("manner", ["speaking", "tools", "thinking out loud"])
def test_an_agent_at_work_audibly_for_ninety_minutes_in_one_step_is_left_alone(tmp_path: Path, manner: str) -> None:
    root = project(tmp_path / "p")

    async def part(part: Part) -> str:
        if part.turn == 1:
            for minute in range(90 * 60 // 50):
                if manner == "tools":
                    part.tool("in_progress", id=f"t{minute}")
                    await virtual.passes(50)
                    part.tool("completed", id=f"t{minute}")
                else:
                    part.say(f"still at it {minute}")
                    await virtual.passes(50)
        return DONE

    outcome = play(root, Player(part))
    assert outcome.state.outcome == "COMPLETED" and outcome.seconds >= 90 * 60 - 50
    assert not outcome.desk.of("workflow.timeout")


def test_a_tool_that_runs_is_no_silence(tmp_path: Path) -> None:
    root = project(tmp_path / "p")

    async def part(part: Part) -> str:
        if part.turn == 1:
            part.tool("in_progress")
            await virtual.passes(1200)
            part.tool("completed")
        return DONE

    outcome = play(root, Player(part))
    assert outcome.state.outcome == "COMPLETED" and not outcome.desk.of("workflow.timeout")


@pytest.mark.req("BMAD-2b.9.1", "BMAD-FR17", "BMAD-NFR1", "BMAD-E5.7")
def test_a_workflow_without_progress_for_half_an_hour_fails_with_workflow_timeout(tmp_path: Path) -> None:
    root = project(tmp_path / "p")

    async def part(part: Part) -> str:
        if part.step == "2":
            part.tool("in_progress")
            await virtual.passes(100_000)
        return DONE

    player = Player(part)
    outcome = play(root, player)
    assert (outcome.state.outcome, outcome.state.timeout_error) == ("FAILED", "workflow_timeout")
    assert outcome.seconds == 1800.0 and player.sessions[-1].closed
    assert outcome.state.completed_steps == [1] and outcome.desk.saved is not None


@pytest.mark.req("BMAD-2b.9.2", "BMAD-FR17", "BMAD-NFR1", "BMAD-E5.7")
def test_a_nested_operation_without_progress_for_five_minutes_goes_back_to_its_parent(tmp_path: Path) -> None:
    root = project(tmp_path / "p", module="bmb")

    async def part(part: Part) -> str:
        if part.turn == 1:
            return f"Compliance Score: 10%\n{APC}"
        if part.turn == 2:
            part.tool("in_progress")
            await virtual.passes(100_000)
        return APC if "time is up" in part.prompt else DONE

    player = Player(part)
    outcome = play(root, player, skill="/bmad:bmb:workflows:make-plan")
    assert [one["timeout_error"] for one in outcome.desk.of("workflow.timeout")] == ["nested_timeout"]
    assert "Elicitation was ended: its time is up" in player.prompts[2]
    assert 300 <= outcome.seconds < 310 and outcome.state.outcome == "COMPLETED"


def test_waiting_for_a_human_counts_for_no_limit(tmp_path: Path) -> None:
    root = project(tmp_path / "p")

    async def slowly(permission: Permission) -> str:
        await virtual.passes(7200)
        return "y"

    async def part(part: Part) -> str:
        if part.turn == 1:
            asked = Permission("p", "write", "edit", (PermissionChoice("y", "Yes", "allow_once"),))
            assert await part.opening.permit(asked) == "y"
        return DONE

    class Patient(Player):
        async def open(self, opening: Opening):  # type: ignore[no-untyped-def]
            return await super().open(opening)

    player = Patient(part)
    outcome = play(root, player, permit=slowly)
    assert outcome.seconds >= 7200 and outcome.state.outcome == "COMPLETED" and not outcome.desk.of("workflow.timeout")


def test_no_capacity_gives_the_run_back_and_uses_up_no_attempt(tmp_path: Path) -> None:
    root = project(tmp_path / "p")

    async def part(part: Part) -> str | Turn:
        return Turn("capacity", retry_at=123.0) if part.turn == 2 else DONE

    desk = MemoryDesk()
    outcome = play(root, Player(part), desk=desk)
    assert (outcome.ending.kind, outcome.ending.retry_at) == ("capacity", 123.0)
    again = play(root, Player(part), desk=desk, state=desk.saved)
    assert again.state.completed_steps[0] == 1 and again.ending.kind in ("capacity", "completed")


def test_a_turn_that_failed_on_a_full_disk_gives_the_run_back_too(disk: Path) -> None:
    root, filler = project(disk / "p"), disk / "filler"

    async def part(part: Part) -> str | Turn:
        if part.turn == 2 and not filler.exists():
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass
            return Turn("failed", "cannot write plan.md: No space left on device")
        return DONE

    desk = MemoryDesk()
    outcome = play(root, Player(part), desk=desk)
    assert (outcome.ending.kind, outcome.state.recovery) == ("capacity", {}), outcome.ending
    filler.write_bytes(b"")
    again = play(root, Player(part), desk=desk, state=desk.saved)
    assert again.state.outcome == "COMPLETED"


def test_limits_can_be_set(tmp_path: Path) -> None:
    root = project(tmp_path / "p")

    async def part(part: Part) -> str:
        if part.turn == 1:
            await virtual.passes(500)
        return DONE

    limits = Limits(silence=600, workflow=0)
    plan = RunPlan(project=str(root), tier=1)
    assert play(root, Player(part), limits=limits, plan=plan).state.outcome == "COMPLETED"
