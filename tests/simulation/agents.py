"""What agents say about their work: in time or late, once or again, in any order, true or not."""

from __future__ import annotations

import json
from typing import Any

from interlock.app.team import Team
from interlock.clock import iso
from interlock.core.tasks import finish, verify
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal
from interlock.model.task import Task
from interlock.protocol import routing
from interlock.protocol.message import parse
from tests.simulation.world import World

OUTCOMES = ("done", "blocked", "needs_review", "partial")


class Voice:
    """One agent at one run of one task. It outlives the run, and goes on speaking."""

    def __init__(self, world: World, member: str, session: str, task: Task, process: str) -> None:
        self.world = world
        self.process = process
        self._checking: Task | None = None
        self.member = member
        self.session = session
        self.task = task.id
        self.run = task.run
        self._said: list[dict[str, Any]] = []

    @property
    def run_id(self) -> str:
        """The run that it is at, or was."""
        return f"{self.task}.{self.run}"

    def team(self) -> Team:
        """The team as it sees it."""
        return self.world.team().acting(self.member, session=self.session)

    def speak(self) -> None:
        """Say something; nothing that comes from an older run may change the task."""
        world = self.world
        before = world.row(self.task)
        self._speak()
        after = world.row(self.task)
        if before is None or after is None or before.run == self.run or before.session == self.session:
            return
        if before.state == "review" and before.review == self.member:
            return  # Here it speaks as the reviewer.
        pairs = ((name, (getattr(before, name), getattr(after, name))) for name in before.__slots__)
        changed = {name: (old, new) for name, (old, new) in pairs if new != old}
        changed.pop("updated_at", None)  # A line in the Work Log is open to everybody.
        assert not changed, f"{self.run_id} of {self.session} is old, and has changed {self.task}: {changed}"

    def _speak(self) -> None:
        world, dice = self.world, self.world.rng.random()
        if self._checking is not None:
            self._decide(self._checking)
        elif dice < 0.15:
            world.attempt(self.member, f"beats for {self.run_id}", lambda: self.team().heartbeat(self.task))
        elif dice < 0.5:
            self._report(world.rng.choice(self._said) if self._said and world.chance(0.4) else self._completion())
        elif dice < 0.6:
            fields = {"taskId": self.task, "agentId": self.member, "progress": "on my way"}
            if world.chance(0.5):
                fields["status"] = world.rng.choice(["blocked", "in-progress", "review", "done"])
            self._send(self._envelope("status.update", fields))
        elif dice < 0.7:
            self._drop()
        elif dice < 0.75:
            world.drop(self.task, "run_heartbeat", {"expiresAt": iso(world.clock.now() + 30), "runId": self.run_id})
        elif dice < 0.85:
            self._send(self._lie())
        else:
            self._verb()

    def _completion(self) -> dict[str, Any]:
        note = self.world.note()
        payload: dict[str, Any] = {"outcome": self.world.rng.choice(OUTCOMES), "notes": note}
        if payload["outcome"] == "blocked":
            payload["blockers"] = [note]
        return self._envelope("completion.report", payload)

    def _envelope(self, type: str, payload: dict[str, Any]) -> dict[str, Any]:
        return {
            "protocol": "aof", "version": 1, "type": type, "taskId": self.task, "fromAgent": self.member,
            "toAgent": "lead", "sentAt": iso(self.world.clock.now()), "runId": self.run_id, "payload": payload,
        }  # fmt: skip

    def _lie(self) -> dict[str, Any]:
        envelope = self._completion()
        others = [task.id for task in self.world.teams[0].tasks()] or [self.task]
        lie = self.world.rng.choice(["task", "agent", "run", "outcome", "json", "depth"])
        if lie == "task":
            envelope["taskId"] = self.world.rng.choice(others)
        elif lie == "agent":
            envelope["fromAgent"] = self.world.rng.choice(["lead", "human", "nobody", "m1"])
        elif lie == "run":
            envelope["runId"] = f"{self.task}.{self.run + 1}"
        elif lie == "outcome":
            envelope["payload"]["outcome"] = "splendid"
        elif lie == "json":
            envelope["payload"] = None
        else:
            child = self.world.rng.choice(others)
            envelope |= {"type": "handoff.request", "taskId": child, "payload": {
                "taskId": child, "parentTaskId": self.task, "fromAgent": self.member, "toAgent": "m0",
                "dueBy": iso(self.world.clock.now()),
            }}  # fmt: skip
        return envelope

    def _report(self, envelope: dict[str, Any]) -> None:
        """Send a report, and note it when it moved the task: it may do so once."""
        note = envelope["payload"]["notes"]
        self._said.append(envelope)
        seq = self.world.teams[0].head()
        answer = self._send(envelope)
        if answer is not None and answer.get("applied"):
            moved = [event.type for event in self.world.teams[0].events(seq)[0] if event.task_id == self.task]
            assert {"task.transitioned", "verify.started"} & set(moved), f"{note} was applied, and moved nothing"
            self.world.effects[note] = self.world.effects.get(note, 0) + 1

    def _send(self, envelope: dict[str, Any]) -> dict[str, Any] | None:
        what = f"says {envelope['type']} about {envelope['taskId']}, run {envelope['runId']}: {envelope['payload']}"
        begins_check = (envelope["payload"] or {"outcome": "done"}).get("outcome") == "done"
        if not begins_check and self.world.chance(0.2):
            self.world.attempt(self.member, f"mails: {what}", lambda: self.team().send(
                to="lead", content=f"AOF/1 {json.dumps(envelope)}"
            ))  # fmt: skip
            return None
        answer = self.world.attempt(self.member, what, lambda: self._routed(envelope))
        return None if answer is None else answer.as_dict()

    def _routed(self, envelope: dict[str, Any]) -> routing.Answer:
        """As `team.protocol`, but for the verify, which takes its time: the agent may be gone before it has ended."""
        caller = Principal(self.member, self.session, process=self._living())
        answer = routing.route(self.world.workspace(), caller, parse(envelope, explicit=True), verifier=self._mark())
        self._checking = answer.verifying
        return answer

    def _complete(self) -> None:
        with self.world.workspace().act(Principal(self.member, self.session, process=self._living())) as act:
            task = finish.complete(act, find(act.rows, self.task), summary="done, I think", verifier=self._mark())
        self._checking = task if task.verifying is not None else None

    def _ask(self) -> None:
        found = self.world.row(self.task)
        if found is not None and found.review != self.member:  # A reviewer may ask about any run.
            self.team().ask(self.task, "which of both?", held=self.world.chance(0.5))

    def _decide(self, task: Task) -> None:
        """The check that it had begun has ended."""
        self._checking = None
        mark = str((task.verifying or {})["process"])

        def decide() -> None:
            with self.world.workspace().act(Principal(self.member, self.session)) as act:
                verify.verified(act, find(act.rows, task.id), self.world.evidence(), run=task.run, verifier=mark)

        self.world.attempt(self.member, f"has checked {task.run_id}", decide)

    def _living(self) -> str | None:
        """Its process, where it still has one: what comes late comes from nowhere."""
        return self.process if self.world.alive[self.process] else None

    def _mark(self) -> str:
        return f"{self.process}#{self.world.token()}"

    def _drop(self) -> None:
        note, world = self.world.note(), self.world
        world.say(f"{iso(world.clock.now())} {self.member}: lays down {note} for {self.run_id}")
        fields = {"outcome": world.rng.choice(OUTCOMES), "completedAt": iso(world.clock.now()), "notes": note}
        world.drop(self.task, "run_result", {**fields, "runId": self.run_id, "agentId": self.member})
        # Of another run of the task it may have overwritten the file before anybody looked.
        world.dropped = [one for one in world.dropped if one[0] != self.task or one[1] == self.run]
        found = world.row(self.task)
        if found is not None and found.run == self.run and found.state == "in-progress":
            world.dropped.append((self.task, self.run, note, iso(world.clock.now())))

    def _verb(self) -> None:
        team, task = self.team(), self.task
        name, verb = self.world.rng.choice([
            ("completes", self._complete),
            ("releases", lambda: team.release(task)),
            ("blocks", lambda: team.block(task, reason="no key")),
            ("unblocks", lambda: team.unblock(task)),
            ("logs to", lambda: team.update(task, log="on my way")),
            ("asks about", self._ask),
            ("wants a retitled", lambda: team.update(task, subject="Renamed")),
            ("lets stop, if it was asked, not", lambda: team.answer_shutdown(approve=self.world.chance(0.3))),
        ])  # fmt: skip
        self.world.attempt(self.member, f"{name} {self.run_id}", verb)
