"""Random verbs of several members and sessions, against a plain model of what the ledger must say after each.

The model is a few dictionaries and the contract's rules in their shortest form; it knows nothing of SQL, runs or files.
After every step the ledger must agree with it, task by task and message by message, history must fold to the present,
and the doctor, which checks counters, ranks and every mirrored file, must find nothing.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from interlock.clock import ManualClock
from interlock.errors import InterlockError
from interlock.model.task import FINAL
from interlock.wakeup.inprocess import InProcessNotifier
from interlock.wiring import connect

CALLERS = (("ada", None), ("ada", "s1"), ("ada", "s2"), ("bob", None), ("bob", "s3"), ("human", None))
HELD = ("in-progress", "blocked")
HOLDING_ERRORS = {"forbidden", "stale_run", "task_already_claimed", "invalid_transition"}


@dataclass
class ModelTask:
    """What must be true of one task."""

    state: str
    blockers: set[str] = field(default_factory=set)
    owner: str | None = None
    session: str | None = None


@dataclass
class ModelMessage:
    """What must be true of one message."""

    recipient: str
    attempts: int = 0
    session: str | None = None
    seen: bool = False


class Crash(Exception):
    """The program that was being handed its mail died."""


class Team(RuleBasedStateMachine):
    """The machine. `self.tasks` and `self.messages` are the model, in order of creation."""

    tasks_made = Bundle("tasks")

    @initialize()
    def begin(self) -> None:
        """A home with a team of two members."""
        self.directory = tempfile.mkdtemp(prefix="interlock-model-")
        self.clock = ManualClock()
        self.home = connect(self.directory, environment={}, clock=self.clock, notifier=InProcessNotifier())
        self.team = self.home.create_team("model")
        for name in ("ada", "bob"):
            self.team.spawn(name)
        self.tasks: dict[str, ModelTask] = {}
        self.messages: dict[str, ModelMessage] = {}
        self.sessions: set[tuple[str, str]] = {("human", "cli:human")}

    def teardown(self) -> None:
        if hasattr(self, "home"):
            self.home.close()
            shutil.rmtree(self.directory)

    # -- tasks ---------------------------------------------------------------------------------------------------

    @rule(target=tasks_made, caller=st.sampled_from(CALLERS), blockers=st.lists(tasks_made, max_size=3, unique=True))
    def create(self, caller: tuple[str, str | None], blockers: list[str]) -> Any:
        gone = [blocker for blocker in blockers if self.tasks[blocker].state == "deleted"]
        made, error = self.do(caller, lambda team: team.create_task("A task", blocked_by=blockers))
        if gone:
            assert error == "invalid_request"
            return multiple()
        self.tasks[made.id] = ModelTask("", set(blockers))
        self.wait(made.id)
        return made.id

    @rule(caller=st.sampled_from(CALLERS), id=tasks_made, force=st.booleans())
    def claim(self, caller: tuple[str, str | None], id: str, force: bool) -> None:
        task = self.tasks[id]
        _, error = self.do(caller, lambda team: team.claim(id, force=force))
        if task.state in HELD:
            mine = task.owner == caller[0] and task.session == session_of(caller)
            assert error == (None if mine else "task_already_claimed")
        elif task.state not in ("ready", "backlog"):
            assert error == "invalid_transition"
        elif self.open_blockers(id) and not force:
            assert error == "unmet_dependencies"
        else:
            assert error is None
            task.state, task.owner, task.session = "in-progress", caller[0], session_of(caller)

    @rule(caller=st.sampled_from(CALLERS))
    def take_next(self, caller: tuple[str, str | None]) -> None:
        ready = [id for id, task in self.tasks.items() if task.state == "ready"]
        taken, error = self.do(caller, lambda team: team.next_task())
        assert error is None
        assert (taken and taken.id) == (ready[0] if ready else None)
        if taken:
            task = self.tasks[taken.id]
            task.state, task.owner, task.session = "in-progress", caller[0], session_of(caller)

    @rule(caller=st.sampled_from(CALLERS[:5]), id=tasks_made)
    def take_over(self, caller: tuple[str, str | None], id: str) -> None:
        task = self.tasks[id]
        if task.state in HELD and task.owner == caller[0]:
            _, error = self.do(caller, lambda team: team.claim(id, take_over=True))
            assert error is None
            task.session = session_of(caller)

    @rule(caller=st.sampled_from(CALLERS), id=tasks_made)
    def complete(self, caller: tuple[str, str | None], id: str) -> None:
        before = self.tasks[id].state
        _, error = self.do(caller, lambda team: team.complete(id))
        if self.held_by(id, caller):
            assert error is None
        if error is None and before in HELD:
            self.tasks[id].state = "done"
            for other, task in self.tasks.items():
                if id in task.blockers:
                    self.wait(other)
        elif error is None:
            assert before == "done"  # The same session says again what it said before.
        else:
            assert error in HOLDING_ERRORS

    @rule(caller=st.sampled_from(CALLERS), id=tasks_made)
    def release(self, caller: tuple[str, str | None], id: str) -> None:
        before = self.tasks[id].state
        _, error = self.do(caller, lambda team: team.release(id))
        if self.held_by(id, caller):
            assert error is None
        if error is None and before in HELD:
            self.tasks[id].state = ""
            self.wait(id)
        elif error is not None:
            assert error in HOLDING_ERRORS

    @rule(caller=st.sampled_from(CALLERS), id=tasks_made)
    def block(self, caller: tuple[str, str | None], id: str) -> None:
        task = self.tasks[id]
        if task.state == "in-progress" and self.held_by(id, caller):
            _, error = self.do(caller, lambda team: team.block(id, reason="no key"))
            assert error is None
            task.state = "blocked"

    @rule(id=tasks_made)
    def unblock(self, id: str) -> None:
        task = self.tasks[id]
        _, error = self.do(("human", None), lambda team: team.unblock(id))
        if task.state != "blocked":
            assert error == "invalid_transition"
        elif error is None and task.owner == "human":
            task.state = "in-progress"
        elif error is None:
            task.state = ""
            self.wait(id)

    @rule(id=tasks_made, verb=st.sampled_from(["delete", "cancel"]))
    def drop(self, id: str, verb: str) -> None:
        task = self.tasks[id]
        _, error = self.do(("human", None), lambda team: getattr(team, verb)(id))
        if task.state in FINAL:
            assert error in (None, "invalid_transition")
        else:
            assert error is None
            task.state = "deleted" if verb == "delete" else "cancelled"

    @rule(id=tasks_made, on=tasks_made)
    def depend(self, id: str, on: str) -> None:
        _, error = self.do(("human", None), lambda team: team.depend(id, on=on))
        if self.tasks[id].state in FINAL:
            assert error == "invalid_transition"
        elif self.tasks[on].state == "deleted":
            assert error == "invalid_request"
        elif id == on or self.waits_for(on, id):
            assert error == "dependency_cycle"
        else:
            assert error is None
            self.tasks[id].blockers.add(on)
            self.wait(id)

    @rule(id=tasks_made, on=tasks_made)
    def independ(self, id: str, on: str) -> None:
        _, error = self.do(("human", None), lambda team: team.depend(id, on=on, remove=True))
        if error is None:
            self.tasks[id].blockers.discard(on)
            self.wait(id)
        else:
            assert self.tasks[id].state in FINAL

    # -- mail ----------------------------------------------------------------------------------------------------

    @rule(caller=st.sampled_from(CALLERS), to=st.sampled_from(["ada", "bob"]))
    def send(self, caller: tuple[str, str | None], to: str) -> None:
        sent, error = self.do(caller, lambda team: team.send(to=to, content="hello"), task_verb=False)
        assert error is None
        self.messages[sent.id] = ModelMessage(to)

    @rule(caller=st.sampled_from(CALLERS[:5]), dies=st.booleans())
    def read(self, caller: tuple[str, str | None], dies: bool) -> None:
        given: list[Any] = []

        def read(team: Any) -> None:
            with team.mail() as mail:
                # Interlock's own notices lie in the same inbox; the model knows only what it sent itself.
                given.extend(message for message in mail.messages if message.content == "hello")
                if dies:
                    raise Crash

        self.begins(caller)
        session = session_of(caller)
        self.sees(caller[0], session)
        waiting = {i: m for i, m in self.messages.items() if m.recipient == caller[0] and m.session is None}
        try:
            read(self.seen_by(caller))
        except Crash:
            assert dies
        assert [message.id for message in given] == list(waiting)
        for message in given:
            expected = waiting[message.id]
            expected.attempts += 1
            assert message.redelivered == (expected.attempts > 1)
            expected.session = None if dies else session

    # -- what must always be true --------------------------------------------------------------------------------

    @invariant()
    def the_ledger_agrees_with_the_model(self) -> None:
        if not hasattr(self, "team"):
            return
        found = {task.id: task for task in self.team.tasks()}
        assert set(found) == {id for id, task in self.tasks.items() if task.state != "deleted"}
        for id, task in found.items():
            expected = self.tasks[id]
            assert task.state == expected.state, id
            if expected.state in HELD:
                assert task.owner == expected.owner
            if expected.state not in FINAL:
                assert set(task.blocked_by) == self.open_blockers(id)
            for other in task.blocks:
                assert id in self.tasks[other].blockers
        stages = {message.id: message for message in self.team.history(limit=100_000)}
        assert {id for id in stages if stages[id].type == "message" and stages[id].content == "hello"} == set(
            self.messages
        )
        for id, expected in self.messages.items():
            wanted = "acknowledged" if expected.seen else "delivered" if expected.session else "stored"
            assert stages[id].stage == wanted and stages[id].read == (expected.session is not None)

    @invariant()
    def history_folds_to_the_present(self) -> None:
        if not hasattr(self, "team"):
            return
        events, _ = self.team.events()
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        states: dict[str | None, str] = {}
        for event in events:
            if event.type == "task.created":
                states[event.task_id] = event.payload["state"]
            elif event.type == "task.transitioned":
                assert states[event.task_id] == event.payload["from"]
                states[event.task_id] = event.payload["to"]
        assert states == {id: task.state for id, task in self.tasks.items()}

    @invariant()
    def the_doctor_finds_nothing(self) -> None:
        if hasattr(self, "team"):
            result = self.team.doctor()
            assert result.healthy, result.findings

    # -- the model's own rules -----------------------------------------------------------------------------------

    def do(self, caller: tuple[str, str | None], verb: Any, task_verb: bool = True) -> tuple[Any, str | None]:
        """The verb's answer, or the code of its refusal, which changes nothing: not even that the session acted."""
        self.clock.advance(1)
        try:
            answer = verb(self.seen_by(caller))
        except InterlockError as error:
            return None, error.code
        known = (caller[0], session_of(caller)) in self.sessions
        self.begins(caller)
        if task_verb and known and caller[1] is None:
            self.sees(caller[0], session_of(caller))
        return answer, None

    def seen_by(self, caller: tuple[str, str | None]) -> Any:
        return self.team.acting(caller[0], session=caller[1])

    def begins(self, caller: tuple[str, str | None]) -> None:
        """The first act of a session: what earlier ones were given and never acknowledged is offered again."""
        session = session_of(caller)
        if (caller[0], session) not in self.sessions:
            self.sessions.add((caller[0], session))
            for message in self.messages.values():
                if message.recipient == caller[0] and not message.seen and message.session not in (None, session):
                    message.session = None

    def sees(self, name: str, session: str) -> None:
        """A turn boundary: what this session was given, it has seen."""
        for message in self.messages.values():
            if message.recipient == name and message.session == session:
                message.seen = True

    def wait(self, id: str) -> None:
        """A task that nobody holds is ready when nothing blocks it, else in the backlog."""
        task = self.tasks[id]
        if task.state in ("", "ready", "backlog"):
            task.state = "backlog" if self.open_blockers(id) else "ready"
            task.owner = task.session = None

    def open_blockers(self, id: str) -> set[str]:
        return {blocker for blocker in self.tasks[id].blockers if self.tasks[blocker].state != "done"}

    def waits_for(self, id: str, other: str) -> bool:
        reached, waiting = set(), [id]
        while waiting:
            here = waiting.pop()
            if here not in reached:
                reached.add(here)
                waiting.extend(self.tasks[here].blockers)
        return other in reached

    def held_by(self, id: str, caller: tuple[str, str | None]) -> bool:
        task = self.tasks[id]
        return task.state in HELD and (task.owner, task.session) == (caller[0], session_of(caller))


def session_of(caller: tuple[str, str | None]) -> str:
    """The session of a caller; without one, the lasting session of the command line."""
    return caller[1] or f"cli:{caller[0]}"


DOSE = float(os.environ.get("DOSE", "1"))
QUICK = settings(
    max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
LONG = settings(QUICK, max_examples=max(20, int(400 * DOSE)), stateful_step_count=50)


@pytest.mark.once
class TestTeam(Team.TestCase):  # type: ignore[misc]
    """A small dose with every run of the suite."""

    settings = QUICK


@pytest.mark.storm
@pytest.mark.once
class TestTeamAtLength(Team.TestCase):  # type: ignore[misc]
    """A large one for storms."""

    settings = LONG
