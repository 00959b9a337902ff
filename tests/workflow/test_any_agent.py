"""Whatever an agent does, a run ends or asks a human, within its limits."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.agents.session import Permission, PermissionChoice, Turn
from interlock.workflow.state.document import OUTCOMES, STATES, TERMINAL, WAITING_USER, RunPlan, WorkflowState
from tests.workflow import virtual
from tests.workflow.stage import APC, MemoryDesk, Outcome, Part, Player, play, project, ways_to_end

pytestmark = pytest.mark.long

SAID = st.sampled_from(
    [
        APC,
        f"Done.\n{APC}",
        "[X] Exit",
        "[D] Delete everything [O] Overwrite",
        "[A] Accept [P] Pivot [C] Clarify",
        "1. One\n2. Two\n\nChoose a number (1-2):",
        "Choose a number (1-5), [r] to Reshuffle, [a] List All, or [x] to Proceed:\n1. First\n2. Second",
        "[E] Exit Party Mode - End the collaborative session",
        "Accept these changes? (y/n)",
        "Which database do you want?",
        "HALT: cannot go on",
        '{"step": "completed"}',
        'Verdict: PASSED\n{"step": "completed", "verdict": "FAILED", "issues": ["one"]}',
        'Status: FAILED\n{"step": "completed", "verdict": "PASSED"}',
        '{"step": "completed", "next": "step-01-part.md"}',
        '{"step": "completed", "next": "nowhere.md"}',
        '{"step": "skipped", "reason": "no"}',
        '{"step": "blocked", "reason": "no key"}',
        '{"step": "failed", "reason": "broken"}',
        '{"step": "finished"}',
        '{"step": "waiting"}',
        '{"step": "waiting", "brief": "silent"}',
        '{"step": 3}\n{"step": "completed", "issues": 5, "outputs": ["../../etc/passwd", 7]}',
        "",
        "I think all is well.",
        "Critical: 9\nMajor: 12\nCompliance Score: 12 %\n" + APC,
        "x" * 5000,
        "```\n[C] Continue\n```",
    ]
)
ENDS = st.sampled_from(["failed", "killed", "timeout", "cancelled", "capacity"])
TURN = st.one_of(
    st.tuples(st.just("say"), SAID),
    st.tuples(st.just("say"), st.text(max_size=200)),
    st.tuples(st.just("end"), ENDS),
    st.tuples(st.just("silence"), st.sampled_from([1.0, 59.0, 61.0, 5000.0])),
    st.tuples(st.just("flood"), st.integers(1, 300)),
    st.tuples(st.just("tool"), st.sampled_from([10.0, 400.0, 4000.0])),
    st.tuples(st.just("permission"), st.sampled_from([1.0, 3000.0])),
    st.tuples(st.just("goes on"), st.integers(1, 3)),
)
REPLIES = st.sampled_from(
    ["C", "yes", "confirm", "retry", "skip", "stop", "details", "because", "1", "continue", "P", "reject"]
)


def chaos(root: Path, turns: list[tuple[str, Any]]) -> Player:
    async def part(part: Part) -> str | Turn:
        kind, value = turns[(part.turn - 1) % len(turns)]
        if kind == "say":
            part.say(value)
            return str(value)
        if kind == "end":
            return Turn(value, "partial output", detail="because")
        if kind == "silence":
            await virtual.passes(value)
            return "late"
        if kind == "flood":
            for number in range(value):
                part.say(f"line {number}")
            return "flood\n" * value
        if kind == "tool":
            part.tool("in_progress", str(root / "made.txt"))
            await virtual.passes(value)
            part.tool("completed", str(root / "made.txt"))
            return "wrote it"
        if kind == "permission":
            await part.opening.permit(Permission("p", "rm", "execute", (PermissionChoice("n", "No", "reject_once"),)))
            await virtual.passes(value / 100)
            return "asked"
        part.tool("completed", str(root / f"_bmad/bmm/workflows/make-plan/steps/step-0{value}-part.md"), kind="read")
        return APC

    return Player(part)


def holds(outcome: Outcome) -> None:
    """What is true of every run that the controller has let go of."""
    state, ending = outcome.state, outcome.ending
    assert state.state in STATES and ways_to_end(state.state)
    if ending.kind in ("completed", "failed", "cancelled"):
        assert state.state == TERMINAL and state.outcome in OUTCOMES
        assert state.outcome == "COMPLETED" or state.error, "a failure says why"
    elif ending.kind == "parked":
        assert state.state == WAITING_USER and state.waiting is not None
        assert state.waiting.question_id in outcome.desk.asked
    else:
        assert ending.kind in ("capacity", "stopped")
    again = WorkflowState.from_dict(state.as_dict())
    assert again == state
    assert len({one["key"] for one in state.asked}) == len(state.asked)
    assert len(set(map(str, state.completed_steps))) == len(state.completed_steps)
    assert all(step.status in ("completed", "skipped") for step in map(state.step, state.completed_steps) if step)
    assert 0 <= state.progress_percent <= 100
    assert len(state.menu_history) <= 100 and len(state.decisions) <= 200
    assert len(str(state.as_dict())) < 400_000


@pytest.mark.req("BMAD-FR18", "BMAD-NFR8", "BMAD-E3.2", "BMAD-2b.10.4")
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    turns=st.lists(TURN, min_size=1, max_size=8),
    replies=st.lists(st.one_of(st.none(), REPLIES), max_size=12),
    tier=st.integers(0, 4),
    yolo=st.booleans(),
    brief=st.sampled_from(["", "Database: SQLite\nA small tool."]),
    module=st.sampled_from(["bmm", "bmb"]),
)
def test_a_run_ends_or_asks_whatever_the_agent_does(
    turns: list[tuple[str, Any]], replies: list[str | None], tier: int, yolo: bool, brief: str, module: str
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = project(Path(directory) / "p", module=module)
        left = list(replies)
        desk = MemoryDesk(answers=lambda asking: left.pop(0) if left else None)
        plan = RunPlan(project=str(root), tier=tier, yolo=yolo, brief=brief)
        outcome = play(root, chaos(root, turns), skill=f"/bmad:{module}:workflows:make-plan", desk=desk, plan=plan)
        holds(outcome)
        # Silence is bounded, and so is everything that is tried: no run lasts for ever without a human.
        assert outcome.seconds < 40 * 3600
