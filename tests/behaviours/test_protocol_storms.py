"""Random talk: whatever agents say, in whatever order, no handler breaks and the ledger stays one that makes sense."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import InterlockError
from interlock.model.task import MOVES, WAITING
from interlock.protocol.envelope import OUTCOMES
from tests.behaviours.speech import ack, completion, handoff, message, since, update

MEMBERS = ("ada", "bob", "lead", "human", "stranger")
STATUSES = ("in-progress", "blocked", "review", "done", "ready", None)


class Storm:
    """A team in which everybody talks at random; `seed` says the same again."""

    def __init__(self, team: Team, seed: int) -> None:
        self.team = team
        self.random = Random(seed)
        reviews = (None, "none", "human", "bob")
        self.tasks = [
            team.create_task(f"Task {n}", review=reviews[n % 4], verify="true" if n == 5 else None).id for n in range(6)
        ]

    def step(self) -> None:
        """One verb of somebody's."""
        random, task = self.random, self.random.choice(self.tasks)
        by = random.choice(MEMBERS[:4])
        verbs: list[Callable[[], Any]] = [
            lambda: self.say(task, by), lambda: self.say(task, by), lambda: self.say(task, by),
            lambda: self.team.claim(task, by=by), lambda: self.team.claim(task, by=by),
            lambda: self.team.release(task, by=by), lambda: self.team.complete(task, by=by),
            lambda: self.team.approve(task, by=by), lambda: self.team.reject(task, reason="more", by=by),
            lambda: self.team.unblock(task, by=by), lambda: self.team.assign(task, to=random.choice(("ada", None))),
            lambda: self.drop(task), lambda: self.team.session_end(by=by),
        ]  # fmt: skip
        try:
            random.choice(verbs)()
        except InterlockError:
            pass  # A refusal; anything else fails the test.

    def say(self, task: str, by: str) -> None:
        """One AOF/1 message, mostly of the one who sends it, as text or by mail."""
        random = self.random
        name = by if random.random() < 0.8 else random.choice(MEMBERS)
        run = f"{task}.{random.randint(1, 3)}" if random.random() < 0.2 else None
        said = random.choice([
            completion(task, random.choice(OUTCOMES), by=name, run=run, blockers=["a", "b"][: random.randint(0, 2)]),
            update(task, by=name, status=random.choice(STATUSES), notes="n"),
            handoff(random.choice(self.tasks), task, random.choice(MEMBERS), by=name),
            ack(task, random.random() < 0.5, by=name, reason="because"),
            message("custom", task, {}, by=name),
        ])  # fmt: skip
        if random.random() < 0.3:
            self.team.send(by, to="lead", content=f"AOF/1 {json.dumps(said)}")
        else:
            answer = self.team.protocol(said, by=by)
            assert answer.accepted == (answer.reason is None)

    def drop(self, task: str) -> None:
        """A result laid down by hand, sound or not."""
        path = Path(self.team.directory) / "runs" / task / "run_result.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        outcome = self.random.choice((*OUTCOMES, "nonsense"))
        path.write_text(json.dumps({"outcome": outcome, "completedAt": "2026-02-10T10:00:00Z"}))

    def check(self) -> None:
        """What must hold whatever was said."""
        assert since(self.team, 0, "protocol.message.failed") == []
        state = dict.fromkeys(self.tasks, "ready")
        for event in since(self.team, 0, "task.transitioned"):
            assert event.task_id is not None and event.payload["from"] == state[event.task_id]
            assert event.payload["to"] in MOVES[state[event.task_id]]
            state[event.task_id] = event.payload["to"]
        questions = {question.task_id for question in self.team.questions()}
        for task in self.team.tasks():
            assert task.state == state[task.id]
            assert (task.owner is None) <= (task.state in ("ready", "backlog", "blocked", "deadletter", "done"))
            assert task.metadata.get("delegationDepth", 0) <= 1
            running = [run for run in self.team.runs(task.id) if run.ended_at is None]
            assert len(running) == (task.state in ("in-progress", "blocked") and task.owner is not None)
            if task.state == "review" and task.review != "bob":
                assert task.id in questions
            if task.state in WAITING:
                (question,) = [one for one in self.team.questions() if one.task_id == task.id]
                reason = str(task.output).partition("YES/NO")[0].strip()  # Before AOF's own words, when it said any
                assert task.question is not None and (reason in question.text or reason.endswith(question.text))
        assert questions <= {task.id for task in self.team.tasks() if task.state in (*WAITING, "review")}


@pytest.mark.parametrize("seed", range(12))
def test_no_talk_breaks_anything(home: Home, seed: int) -> None:
    team = home.create_team("storm")
    team.configure({"mirror": seed % 4 == 0})
    team.spawn("ada")
    team.spawn("bob")
    storm = Storm(team, seed)
    for _ in range(120):
        storm.step()
    storm.check()


@pytest.mark.storm
def test_much_talk_breaks_nothing(home: Home, dose: float) -> None:
    for seed in range(100, 100 + int(100 * dose)):
        team = home.create_team(f"storm-{seed}")
        team.configure({"mirror": False})
        team.spawn("ada")
        team.spawn("bob")
        storm = Storm(team, seed)
        for _ in range(300):
            storm.step()
        storm.check()
        home.delete_team(team.name, force=True)
