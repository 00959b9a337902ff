"""The project's own documents are compared before a workflow builds on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflow.stage import Player, play, project, writes


def planning(root: Path, **texts: str) -> None:
    (root / "_bmad-output").mkdir(exist_ok=True)
    for name, text in texts.items():
        (root / "_bmad-output" / f"{name}.md").write_text(text)


@pytest.mark.req("BMAD-UO.1")
def test_what_documents_disagree_about_is_told_to_the_agent_and_holds_nothing_up(tmp_path: Path) -> None:
    root, player = project(tmp_path), Player(writes(tmp_path))
    planning(root, prd="# PRD\n\n- FR1: users log in\n- FR2: users pay\n", epics="# Epics\n\nStory 1.1 (FR1): log in\n")
    outcome = play(root, player)
    assert outcome.ending.kind == "completed"
    (compared,) = outcome.desk.of("workflow.aligned")
    assert compared["alignment_status"] == "MISALIGNED" and compared["documents"] == ["prd", "stories"]
    assert any("FR2" in one for one in outcome.state.misaligned)
    assert "What the project's documents disagree about" in player.prompts[0] and "FR2" in player.prompts[0]


def test_one_document_has_nothing_to_disagree_with(tmp_path: Path) -> None:
    root, player = project(tmp_path), Player(writes(tmp_path))
    planning(root, prd="# PRD\n\n- FR1: users log in\n")
    outcome = play(root, player)
    assert not outcome.desk.of("workflow.aligned") and "disagree" not in player.prompts[0]
