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
    assert ("ada", "started, run 1") in told
    assert ("ada", "done") in told
    assert ("ada", "wrote to lead, bob") in told
    assert not any("in-progress" in text for _, text in told)


def test_reminders_are_told_once_for_each_question_and_several_in_a_row_are_one() -> None:
    def reminder(seq: int, task: str, question: str) -> Event:
        at = f"2026-01-01T{seq:02}:00:00.000Z"
        return Event(seq, "question.reminded", at, "interlock", task, {"id": question, "kind": "question"})

    other = Event(4, "task.retried", "2026-01-01T04:00:00.000Z", "human", "t1", {})
    events = [reminder(9, "t1", "a"), reminder(8, "t1", "a"), other, reminder(3, "t2", "b"), reminder(2, "t1", "a"),
              reminder(1, "t3", "c")]  # fmt: skip
    told = [(one.event.seq, one.event.task_id, one.text) for one in entries(events)]
    assert told == [
        (9, "t1", "a question is still open"),
        (4, "t1", "is tried again"),
        (3, None, "2 questions are still open"),
    ]


def test_a_change_of_the_checkout_that_several_runs_were_told_of_is_one_line() -> None:
    def changed(seq: int, task: str, file: str) -> Event:
        at = f"2026-01-01T{seq:02}:00:00.000Z"
        return Event(seq, "checkout.changed", at, "interlock", task, {"path": "/work", "changed": [file]})

    events = [
        changed(4, "t2", "run.log"),
        changed(3, "t1", "run.log"),
        changed(2, "t1", "notes"),
        changed(1, "t1", "a"),
    ]
    told = [(one.event.seq, one.event.task_id, one.text, one.tone) for one in entries(events)]
    assert told == [
        (4, None, "your checkout changed meanwhile: run.log", "loud"),
        (2, "t1", "your checkout changed meanwhile: notes", "loud"),
        (1, "t1", "your checkout changed meanwhile: a", "loud"),
    ]


def test_an_examination_is_called_by_its_name_and_no_id_of_the_engine_is_shown() -> None:
    def told(type: str, **payload: object) -> str:
        return line(Event(1, f"workflow.{type}", "2026-01-01T00:00:00.000Z", "interlock", None, payload)).text

    own = {"step": "gate-code_review", "name": "Code review"}
    assert told("step_started", **own) == "Code review started"
    assert told("step_completed", **own, status="completed") == "Code review is completed"
    assert told("step_completed", step=3, name="Write", status="completed") == "step 3 is completed: Write"
    assert told("timeout", **own) == "a time limit ended a turn in Code review"
    assert told("decided", choice="gate-code_review", why="after step 2") == "decided Code review, since after step 2"
