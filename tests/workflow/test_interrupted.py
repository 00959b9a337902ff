"""Killed at any moment and taken up again: the same document, no step done twice, nobody asked twice."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from interlock.workflow.engine.ports import Asking
from interlock.workflow.state.document import RunPlan, StepId, WorkflowState
from tests.workflow.stage import APC, DONE, MemoryDesk, NoCheckpoints, Part, Play, Player, play, project


class Copies(NoCheckpoints):
    """Checkpoints that keep the output folder whole."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create(self, state: WorkflowState, *, step: StepId, reason: str, at: str) -> None:
        kept = self.root / ".kept"
        shutil.rmtree(kept, ignore_errors=True)
        (self.root / "_bmad-output").mkdir(exist_ok=True)
        shutil.copytree(self.root / "_bmad-output", kept)

    def restore(self, state: WorkflowState) -> Sequence[str] | None:
        shutil.rmtree(self.root / "_bmad-output", ignore_errors=True)
        shutil.copytree(self.root / ".kept", self.root / "_bmad-output")
        return []


def author(root: Path, log: list[str]) -> Play:
    """Asks a question in step 2, shows a menu in each, appends on C."""
    at = {"step": "", "answer": ""}

    async def part(part: Part) -> str:
        if part.step:
            at["step"] = part.step
            log.append(part.step)
            if part.step == "2":
                return "Which storage should it use?"
        elif at["step"] == "2" and not part.answer.startswith("C"):
            at["answer"] = part.answer
        if part.answer.startswith("C") or "final step" in part.prompt:
            out = root / "_bmad-output" / "plan.md"
            out.parent.mkdir(exist_ok=True)
            with out.open("a") as file:
                file.write(f"## Part {at['step']} {at['answer'] if at['step'] == '2' else ''}\n")
            return DONE
        return f"Draft.\n{APC}"

    return part


def document(root: Path) -> str:
    return (root / "_bmad-output" / "plan.md").read_text()


@pytest.mark.long
@pytest.mark.req("BMAD-FR26", "BMAD-FR27", "BMAD-NFR7", "BMAD-E3.1", "BMAD-UO.3")
@pytest.mark.parametrize("tier", [1, 4])
def test_killed_at_every_save_and_resumed_it_comes_to_the_same(tmp_path: Path, tier: int) -> None:
    def human(asking: Asking) -> str:
        return "SQLite" if asking.kind == "clarification" else "confirm"

    root = project(tmp_path / "whole", steps=4)
    plan = RunPlan(project=str(root), tier=tier)
    whole = play(root, Player(author(root, [])), desk=MemoryDesk(answers=human), plan=plan, checkpoints=Copies(root))
    assert whole.state.outcome == "COMPLETED"
    questions = [one["key"].partition("/")[2] for one in whole.state.asked]
    for moment in range(1, whole.desk.saves + 1):
        root = project(tmp_path / f"at-{moment}", steps=4)
        plan = RunPlan(project=str(root), tier=tier)
        desk, log = MemoryDesk(answers=human, die_at=moment), [""]
        kept = Copies(root)
        play(root, Player(author(root, log)), desk=desk, plan=plan, checkpoints=kept)
        done_before = list(desk.saved.completed_steps) if desk.saved else []
        log.clear()
        desk.die_at = None
        again = play(root, Player(author(root, log)), desk=desk, state=desk.saved, plan=plan, checkpoints=kept)
        assert again.state.outcome == "COMPLETED", moment
        assert document(root) == document(tmp_path / "whole"), moment
        assert not {str(one) for one in done_before} & set(log), f"killed at {moment}: a step was done twice"
        assert [one["key"].partition("/")[2] for one in again.state.asked] == questions, moment
        assert len(desk.asked) == len(questions), f"killed at {moment}: somebody was asked twice"


@pytest.mark.req("BMAD-3.2.2", "BMAD-3.2.5", "BMAD-FR27")
def test_it_goes_on_with_the_step_after_the_last_that_was_done_and_says_so(tmp_path: Path) -> None:
    root = project(tmp_path / "p", steps=5)
    desk = MemoryDesk(die_at=9)
    play(root, Player(author(root, [])), desk=MemoryDesk(), plan=RunPlan(project=str(root), tier=1))
    shutil.rmtree(root / "_bmad-output")

    async def part(part: Part) -> str:
        return DONE

    play(root, Player(part), desk=desk, plan=RunPlan(project=str(root), tier=1))
    assert desk.saved is not None and desk.saved.completed_steps
    last = int(desk.saved.completed_steps[-1])
    player = Player(part)
    outcome = play(root, player, state=desk.saved)
    assert f"# Step {last + 1}:" in player.prompts[0]
    assert outcome.state.resumed == f"▶ Resumed at step {last + 1}/5"
    assert outcome.state.outcome == "COMPLETED"


def test_an_agent_that_can_resume_its_session_goes_on_in_it(tmp_path: Path) -> None:
    root = project(tmp_path / "p")
    desk = MemoryDesk(die_at=4)
    play(root, Player(author(root, []), resumes=True), desk=desk, plan=RunPlan(project=str(root), tier=1))
    assert desk.saved is not None and desk.saved.agent_session == "s1"
    player = Player(author(root, []), resumes=True)
    outcome = play(root, player, state=desk.saved)
    assert player.sessions[0].agent_session == "s1" and "You were interrupted. Go on." in player.prompts[0]
    assert outcome.state.outcome is not None or outcome.ending.kind == "parked"


@pytest.mark.parametrize("forgets", [False, True], ids=["cannot be resumed", "another session"])
def test_a_new_session_is_told_everything(tmp_path: Path, forgets: bool) -> None:
    """Whoever took the last one's place knows nothing: not the workflow, not its variables, not how a turn ends."""
    root = project(tmp_path / "p")
    plan = RunPlan(project=str(root), tier=1, brief="It has to run offline.", values={"story": "1-2-seeds"})
    desk = MemoryDesk(die_at=4)
    play(root, Player(author(root, []), resumes=True), desk=desk, plan=plan)
    assert desk.saved is not None and desk.saved.agent_session == "s1" and desk.saved.sent is not None
    player = Player(author(root, []), resumes=forgets, forgets=forgets)
    play(root, player, state=desk.saved)
    first = player.prompts[0]
    for told in ("# Workflow ", "How this run works", "It has to run offline.", "- story: 1-2-seeds", "# Step "):
        assert told in first, told
    assert "the session that was at work on it ended before its turn did" in first


@pytest.mark.req("BMAD-3.2.4")
def test_a_workflow_that_was_changed_meanwhile_is_put_to_a_human_who_may_start_afresh(tmp_path: Path) -> None:
    for word in ("start fresh", "resume"):
        root = project(tmp_path / word.replace(" ", "-"))
        desk = MemoryDesk(die_at=6)

        async def part(part: Part) -> str:
            return DONE

        play(root, Player(part), desk=desk, plan=RunPlan(project=str(root), tier=1))
        saved, path = desk.saved, root / "_bmad/bmm/workflows/make-plan/steps/step-03-part.md"
        assert saved is not None and saved.completed_steps
        path.write_text(path.read_text() + "\nAnd one thing more.\n")
        asked = MemoryDesk(answers=lambda asking, word=word: word)
        player = Player(part)
        outcome = play(root, player, desk=asked, state=saved)
        (question,) = asked.asked.values()
        assert "version mismatch" in question.text and question.options[0] == "start fresh"
        assert outcome.state.outcome == "COMPLETED"
        assert ("# Step 1:" in player.prompts[0]) == (word == "start fresh")
