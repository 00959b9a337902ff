"""Every path ends: COMPLETED, FAILED or CANCELLED, with what led there."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.agents.session import Opening, Turn
from interlock.errors import AgentError
from interlock.workflow.engine import machine
from interlock.workflow.state.document import (
    CANCELLED,
    COMPLETED,
    FAILED,
    IDLE,
    OUTCOMES,
    RECOVERING,
    RUNNING,
    STATES,
    TERMINAL,
    VALIDATING,
    WAITING_USER,
    WorkflowState,
)
from tests.workflow.stage import DONE, MemoryDesk, Part, Player, play, project, script, ways_to_end, writes


@pytest.mark.req("BMAD-states", "BMAD-2b.10.4")
def test_the_nine_states_and_a_way_to_the_end_from_each() -> None:
    assert set(STATES) == set(machine.MOVES) and len(STATES) == 9
    for state in STATES:
        way = ways_to_end(state)
        assert way[0] == state and way[-1] == TERMINAL
        assert all(b in machine.MOVES[a] for a, b in zip(way, way[1:], strict=False))
    assert machine.MOVES[TERMINAL] == frozenset()


@pytest.mark.req("BMAD-states")
def test_the_transitions_of_the_specification_are_there_and_no_other_is_taken(tmp_path: Path) -> None:
    state = WorkflowState("x", "y")
    for to in ("INITIALIZING", RUNNING, VALIDATING, WAITING_USER, "COMPLETING"):
        machine.move(state, to)
    machine.end(state, COMPLETED)
    with pytest.raises(machine.IllegalMove):
        machine.move(state, RUNNING)
    failed = WorkflowState("x", "y", state=FAILED)
    machine.move(failed, RECOVERING)
    machine.move(failed, RUNNING)
    with pytest.raises(machine.IllegalMove):
        machine.move(WorkflowState("x", "y", state=IDLE), WAITING_USER)
    outcome = play(project(tmp_path / "p"), Player(script(Turn("killed"), DONE)))
    taken = [(one["from"], one["to"]) for one in outcome.desk.of("workflow.state")]
    assert all(to in machine.MOVES[before] for before, to in taken)
    assert (FAILED, RECOVERING) in taken and (RECOVERING, RUNNING) in taken


@pytest.mark.req("BMAD-2b.10.1", "BMAD-FR18", "BMAD-NFR8")
def test_an_error_that_nothing_helps_against_ends_in_failed_with_its_details(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    desk = MemoryDesk(answers=lambda asking: "stop")
    outcome = play(root, Player(script(Turn("failed", detail="disk full"))), desk=desk)
    assert (outcome.state.state, outcome.state.outcome) == (TERMINAL, FAILED)
    assert "disk full" in str(outcome.state.error) and len(outcome.state.error_details["tried"]) == 3
    assert desk.of("workflow.ended")[0]["outcome"] == FAILED


@pytest.mark.req("BMAD-2b.10.1")
def test_an_agent_that_cannot_be_started_ends_in_failed_at_once(tmp_path: Path) -> None:
    class Missing(Player):
        async def open(self, opening: Opening):  # type: ignore[no-untyped-def]
            raise AgentError("The program is not installed: install it.")

    outcome = play(project(tmp_path / "p"), Missing(script(DONE)))
    assert outcome.state.outcome == FAILED and outcome.state.error == "The program is not installed: install it."


@pytest.mark.req("BMAD-2b.10.5", "BMAD-FR18")
def test_the_same_state_for_the_fifth_time_is_an_infinite_loop(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=2)
    for number in (1, 2):
        path = root / f"_bmad/bmm/workflows/make-plan/steps/step-0{number}-part.md"
        path.write_text(path.read_text().replace("This is the final step.", "Go back to the first."))
    other = '{"step": "completed", "next": "step-02-part.md"}', '{"step": "completed", "next": "step-01-part.md"}'

    async def part(part: Part) -> str:
        return other[1] if part.step == "2" else other[0]

    outcome = play(root, Player(part))
    assert (outcome.state.outcome, outcome.state.error) == (FAILED, "infinite_loop_detected")
    assert outcome.state.error_details["step"] in (1, 2)


def test_a_human_who_answers_breaks_the_count_of_a_loop(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    replies = iter([f"answer {number}" for number in range(12)])

    async def part(part: Part) -> str:
        return "Which colour?" if part.turn <= 12 and part.turn % 2 else DONE if part.turn > 12 else "Which size?"

    outcome = play(root, Player(part), desk=MemoryDesk(answers=lambda asking: next(replies)))
    assert outcome.state.outcome == COMPLETED or outcome.state.error != "infinite_loop_detected"


def test_the_final_validation_misses_a_document_that_is_gone(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    play_on = writes(root)

    async def part(part: Part) -> str | Turn:
        said = await play_on(part)
        notes = root / "_bmad-output/notes.md"
        if part.step == "1":
            notes.parent.mkdir(parents=True)
            notes.write_text("# Notes\n")
        elif "final step" in part.prompt:
            notes.unlink()
        return str(said).replace(DONE, '{"step": "completed", "outputs": ["_bmad-output/notes.md"]}')

    outcome = play(root, Player(part))
    assert outcome.state.outcome == FAILED and "notes.md is gone" in str(outcome.state.error)


def test_outcomes_are_three() -> None:
    assert OUTCOMES == (COMPLETED, FAILED, CANCELLED)
