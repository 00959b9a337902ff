"""What agents say they have decided and learned is collected while a run goes on, and people's choices with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interlock.clock import ManualClock
from interlock.memory.local import LocalMemory
from interlock.workflow.memory.memory_bridge import MemoryBridge, Origin
from interlock.workflow.memory.post_workflow_curator import PostWorkflowCurator
from tests.workflow.stage import DONE, SKILL, MemoryDesk, Player, knows, play, project, script

MENU = "Done so far.\n\n**Select an Option:**\n[D] Draft the epics\n[S] Start with the stories\n[M] Map the journeys\n"
KAFKA = '{"kind": "architecture", "text": "Chose Kafka over RabbitMQ"}'
ASKED = f'Which region are the servers in?\n{{"step": "waiting", "learned": [{KAFKA}]}}'


def test_what_is_said_at_any_turn_is_collected_once(tmp_path: Path) -> None:
    kafka = {"kind": "architecture", "text": "Chose Kafka  over RabbitMQ", "importance": 9}
    again = json.dumps({"step": "completed", "learned": [kafka, {"text": "x"}, "Backoff  helps", 7]})
    desk = MemoryDesk(answers=lambda asking: "Frankfurt only, as the law demands")
    outcome = play(project(tmp_path), Player(script(ASKED, again, DONE)), desk=desk)
    assert outcome.state.outcome == "COMPLETED"
    found = [(one["kind"], one["text"], one["step"]) for one in outcome.state.learned]
    assert found == [("architecture", "Chose Kafka over RabbitMQ", 1), ("learned", "Backoff helps", 1)]


def test_an_agent_that_talks_without_end_is_not_kept_whole(tmp_path: Path) -> None:
    many = json.dumps({"step": "completed", "learned": [f"lesson number {n}" for n in range(90)]})
    outcome = play(project(tmp_path, 5), Player(script(many)))
    assert len(outcome.state.learned) == 8


def test_what_overcame_a_failure_is_kept_with_its_signature(tmp_path: Path) -> None:
    kept: list[tuple[str, str]] = []
    failed = '{"step": "completed", "verdict": "FAILED", "issues": ["no scope"]}'
    passed = 'Added a section called Scope.\n{"step": "completed", "verdict": "PASSED"}'
    player = Player(script(failed, passed, DONE))
    outcome = play(project(tmp_path), player, knowledge=knows(learn=lambda *one: kept.append(one)))
    ((failure, helped),) = kept
    assert "no scope" in failure and helped == "heuristic fixes: Added a section called Scope."
    (noted,) = outcome.state.learned
    assert (noted["kind"], noted["text"], noted["solution"]) == ("fixed", failure, helped)


@pytest.mark.req("BMAD-4.1.4")
def test_of_a_long_decision_the_sentences_that_decide_are_kept_in_memory(tmp_path: Path) -> None:
    talk = " ".join(f"We talked about it for long and went through the papers of meeting {n}." for n in range(24))
    long = f"The store of orders was discussed. {talk} In the end we chose PostgreSQL over MongoDB. {talk}"
    said = json.dumps({"step": "completed", "learned": [{"kind": "architecture", "text": long, "importance": 10}]})
    outcome = play(project(tmp_path / "p"), Player(script(said, DONE)))
    memory = LocalMemory(str(tmp_path), ManualClock())
    curator = PostWorkflowCurator(MemoryBridge(memory, Origin("p", outcome.state.workflow_id, SKILL)))
    curator.curate(outcome.state)
    (found,) = memory.recall("", project_id="p", tags=["type:architecture"]).memories
    assert len(long) > 3000 and len(found.content) <= 2000 and found.importance == 10
    assert found.content.startswith("The store of orders was discussed.")
    assert "we chose PostgreSQL over MongoDB." in found.content and "…" in found.content
    memory.close()


@pytest.mark.req("BMAD-4.1.1", "BMAD-4.1.3")
def test_what_people_chose_and_decided_in_a_run_that_succeeded_is_kept(tmp_path: Path) -> None:
    replies = {"region": "Frankfurt only, as the law demands", "Select": "S"}
    desk = MemoryDesk(answers=lambda asking: next((one for word, one in replies.items() if word in asking.text), "yes"))
    player = Player(script(ASKED, MENU + '{"step": "waiting"}', DONE))
    outcome = play(project(tmp_path / "p", front="", body=""), player, desk=desk)
    assert outcome.state.outcome == "COMPLETED"
    memory = LocalMemory(str(tmp_path), ManualClock())
    curator = PostWorkflowCurator(MemoryBridge(memory, Origin("p", outcome.state.workflow_id, SKILL)))
    curator.curate(outcome.state)
    found = {one.tagged("type"): one for one in memory.recall("", project_id="p").memories}
    assert "Frankfurt only" in found["decision"].content and found["decision"].importance == 8
    assert "Kafka over RabbitMQ" in found["architecture"].content
    assert (
        "a person chose S" in found["selection_pattern"].content
        and "Draft the epics" in found["selection_pattern"].content
    )
    memory.close()
