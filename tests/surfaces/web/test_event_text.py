"""The timeline in words."""

from __future__ import annotations

from pathlib import Path

import pytest

import interlock
from interlock.model.event import EVENT_TYPES, Event
from interlock.surfaces.web.event_text import entries, line


@pytest.mark.parametrize("type", sorted(EVENT_TYPES))
def test_every_event_can_be_told_whatever_its_payload(type: str) -> None:
    for payload in ({}, {"reason": None, "to": "done", "seconds": None, "fields": None}, {"text": "x" * 9000}):
        told = line(Event(1, type, "2026-01-01T00:00:00.000Z", "ada", None, payload))
        assert told.text and len(told.text) < 700


def test_one_act_is_one_line(tmp_path: Path) -> None:
    team = interlock.connect(str(tmp_path / "home")).create_team("crew")
    for name in ("ada", "bob"):
        team.spawn(name)
    task = team.create_task("Write it").id
    team.claim(task, by="ada")
    team.complete(task, by="ada", summary="Written.")
    team.broadcast("ada", content="Done!")
    told = [(one.event.actor, one.text) for one in reversed(entries(team.latest(limit=100)))]
    assert ("ada", "taken by ada, run 1") in told
    assert ("ada", "done") in told
    assert ("ada", "wrote to lead, bob") in told
    assert not any("in-progress" in text for _, text in told)


def test_an_examination_is_called_by_its_name_and_no_id_of_the_engine_is_shown() -> None:
    def told(type: str, **payload: object) -> str:
        return line(Event(1, f"workflow.{type}", "2026-01-01T00:00:00.000Z", "interlock", None, payload)).text

    own = {"step": "gate-code_review", "name": "Code review"}
    assert told("step_started", **own) == "Code review begins"
    assert told("step_completed", **own, status="completed") == "Code review is completed"
    assert told("step_completed", step=3, name="Write", status="completed") == "step 3 is completed: Write"
    assert told("timeout", **own) == "a time limit ended a turn in Code review"
    assert told("decided", choice="gate-code_review", why="after step 2") == "decided Code review, since after step 2"
