"""The checker itself: it accepts every history that a sound ledger can have, and no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.history.checker import Ending, Operation, Register, judge, register, unexplained
from tests.history.harness import UNKNOWN, killed, recorded

TTL = 1000.0
TASK = "T-1"


class Sound:
    """One task on a ledger that does what it should: each call at one moment between its start and its end."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.task = Register()
        self.history: list[Operation] = []
        self.claims: dict[tuple[str, int], str] = {}
        self.events: list[tuple[int, str, str | None, int | None]] = []

    def play(self, calls: int) -> None:
        """So many calls of four clients, who overlap, and of whom some are never answered."""
        sessions = [f"m{number % 3}-{number}" for number in range(4)]
        free = dict.fromkeys(sessions, 0.0)
        moment = 0.0
        for _ in range(calls):
            moment += self.rng.random()
            session = self.rng.choice(sessions)
            moment = max(moment, free[session]) + 0.001
            start = self.rng.uniform(free[session], moment)
            free[session] = end = moment + 2 * self.rng.random()
            given = {"task": TASK, "member": session[:2], "session": session, "take_over": self.rng.random() < 0.3}
            verb = self.rng.choice(["claim", "claim", "complete", "release", "heartbeat", "look"])
            lost = self.rng.random()
            answer, error = self._answered(verb, session, given) if lost > 0.05 else (None, None)
            if lost < 0.1:
                end, answer, error = inf, None, None
            self.history.append(Operation(session, verb, start, end, given, answer, error))

    def _answered(self, verb: str, session: str, given: dict[str, object]) -> tuple[object, str | None]:
        task, mine = self.task, self.task.state == "held" and self.task.session == session
        if verb == "look":
            seen = {"state": task.state, "run": task.run, "session": None if task.state == "open" else task.session}
            return seen, None
        if verb == "claim":
            over = bool(given["take_over"]) and task.member == given["member"]
            if task.state == "done":
                return None, "invalid_transition"
            if task.state == "held" and not mine and not over:
                return None, "task_already_claimed"
            if not mine:
                self.task = Register("held", task.run + 1, str(given["member"]), session)
                self.claims[TASK, task.run + 1] = session
                self._event("task.claimed")
            return {"task": TASK, "run": self.task.run}, None
        if not mine:
            return None, "stale_run"
        if verb != "heartbeat":
            self._event(f"task.{verb}d")
            self.task = replace(task, state="done" if verb == "complete" else "open")
        return {"task": TASK, "run": task.run}, None

    def _event(self, type: str) -> None:
        self.events.append((len(self.events) + 1, type, TASK, self.task.run))

    def judged(self) -> list[str]:
        return judge(self.history, Ending(claims=self.claims, events=self.events), TTL)


def sound(seed: int, calls: int = 40) -> Sound:
    played = Sound(Random(seed))
    played.play(calls)
    return played


@given(st.integers(0, 10**9))
def test_what_a_sound_ledger_says_is_explained(seed: int) -> None:
    assert sound(seed).judged() == []


@given(st.integers(0, 10**9), st.integers(0, 10**9))
@settings(max_examples=60)
def test_it_agrees_with_trying_every_order(seed: int, change: int) -> None:
    """A short history, of which one answer is perhaps another one's."""
    history = sound(seed, calls=5).history
    rng = Random(change)
    one, other = rng.randrange(5), rng.randrange(5)
    if history[one].verb == history[other].verb and max(history[one].end, history[other].end) < inf:
        history[one] = replace(history[one], answer=history[other].answer, error=history[other].error)
    step = register(TTL)

    def fits(order: tuple[Operation, ...]) -> bool:
        state: Register | None = Register()
        for position, call in enumerate(order):
            if any(later.end < call.start for later in order[position:]):
                return False
            state = step(state, call, inf) if state is not None else None
        return state is not None

    answered = [call for call in history if call.end < inf]
    silent = [call for call in history if call.end == inf]
    chosen = [[call for bit, call in enumerate(silent) if mask >> bit & 1] for mask in range(1 << len(silent))]
    explained = any(fits(order) for some in chosen for order in permutations([*answered, *some]))
    assert (unexplained(sorted(history, key=lambda call: call.start), step, Register()) is None) == explained


def call(verb: str, start: float, end: float, session: str = "m0-1", **more: object) -> Operation:
    """A call about the one task; `run` is what it was answered, `error` how it was refused."""
    run, error = more.pop("run", None), more.pop("error", None)
    given = {"task": TASK, "member": session[:2], "session": session, **more}
    answer = None if run is None else {"task": TASK, "run": run}
    return Operation(session, verb, start, end, given, answer, None if error is None else str(error))


def mail(verb: str, start: float, answer: object = None, **given: object) -> Operation:
    return Operation("m0-1", verb, start, start + 1, {"member": "m0", **given}, answer)


CLAIMED = (1, "task.claimed", TASK, 1)
SENT = mail("send", 0, to="m0", text="a")
STORED = Ending(messages=[("m0", "a")])
WRONG: dict[str, tuple[list[Operation], Ending, str]] = {
    "two hold one run": (
        [call("claim", 0, 1, run=1), call("claim", 2, 3, "m1-2", run=1)],
        Ending(events=[CLAIMED]), "given to",
    ),
    "a claim of what is held": (
        [call("claim", 0, 1, run=1), call("claim", 2, 3, "m1-2", run=2)],
        Ending(events=[CLAIMED, (2, "task.claimed", TASK, 2)]), "nothing explains",
    ),
    "a completion by somebody else": (
        [call("claim", 0, 1, run=1), call("complete", 2, 3, "m1-2", run=1)],
        Ending(events=[CLAIMED, (2, "task.completed", TASK, 1)]), "nothing explains",
    ),
    "a completion after the lease was lost": (
        [call("claim", 0, 1, run=1), call("claim", 2 * TTL, 2 * TTL + 1, "m1-2", run=2),
         call("complete", 3 * TTL, 3 * TTL + 1, run=1)],
        Ending(lapsed=[(TASK, 1)], events=[CLAIMED, (2, "task.claimed", TASK, 2), (3, "task.completed", TASK, 1)]),
        "nothing explains",
    ),
    "a lease that ended early": (
        [call("claim", 0, 1, run=1), call("claim", 2, 3, "m1-2", run=2)],
        Ending(lapsed=[(TASK, 1)], events=[CLAIMED, (2, "task.claimed", TASK, 2)]), "nothing explains",
    ),
    "a lost claim": (
        [call("claim", 0, 1, run=1), call("heartbeat", 2, 3, error="stale_run")],
        Ending(events=[CLAIMED]), "nothing explains",
    ),
    "a claim after the end": (
        [call("claim", 0, 1, run=1), call("complete", 2, 3, run=1), call("claim", 4, 5, "m1-2", run=2)],
        Ending(events=[CLAIMED, (2, "task.completed", TASK, 1), (3, "task.claimed", TASK, 2)]), "nothing explains",
    ),
    "a stale read": (
        [call("claim", 0, 1, run=1),
         replace(call("look", 2, 3), answer={"state": "open", "run": 0, "session": None})],
        Ending(events=[CLAIMED]), "nothing explains",
    ),
    "a lost task": ([Operation("m0-1", "create", 0, 1, {"subject": "s"}, {"task": TASK})], Ending(), "0 tasks"),
    "a task made twice": (
        [Operation("m0-1", "create", 0, inf, {"subject": "s"})], Ending(subjects=[("T-1", "s"), ("T-2", "s")]),
        "2 tasks",
    ),
    "a task although refused": (
        [Operation("m0-1", "create", 0, 1, {"subject": "s"}, None, "storage_error")], Ending(subjects=[(TASK, "s")]),
        "1 tasks",
    ),
    "a lost message": ([SENT], Ending(), "0 messages"),
    "a message that never arrives": ([SENT], STORED, "never arrived"),
    "a message to somebody else": (
        [SENT, mail("receive", 2, [("a", False)], member="m1")], STORED, "nobody sent",
    ),
    "a message twice without a mark": (
        [SENT, mail("receive", 2, [("a", False)]), mail("receive", 4, [("a", False)])], STORED, "without a mark",
    ),
    "a message after its acknowledgement": (
        [SENT, mail("receive", 2, [("a", False)]), mail("acknowledge", 4, ["a"]), mail("receive", 6, [("a", True)])],
        STORED, "although acknowledged",
    ),
    "a message before it was sent": (
        [replace(SENT, start=5, end=6), mail("receive", 2, [("a", False)])], STORED, "before it was sent",
    ),
    "a message although refused": (
        [replace(SENT, error="storage_error"), mail("receive", 2, [("a", False)])], STORED, "although refused",
    ),
    "a lost event": ([call("claim", 0, 1, run=1)], Ending(), "no event tells"),
    "a gap": ([], Ending(events=[CLAIMED, (3, "note", None, None)]), "not in line"),
    "an event that is gone": (
        [mail("events", 0, [(1, "note", None)], since=0)], Ending(events=[CLAIMED]), "seen and is gone",
    ),
    "events out of order": (
        [mail("events", 0, [(2, "note", None)], since=0)], Ending(events=[CLAIMED, (2, "note", None, None)]),
        "with a gap",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_must_never_be_is_found(name: str) -> None:
    operations, ending, said = WRONG[name]
    problems = judge(operations, ending, TTL)
    assert any(said in problem for problem in problems), problems


FORGIVEN: dict[str, Callable[[], tuple[list[Operation], Ending]]] = {
    "a message that nobody knows to have been seen comes again, marked": lambda: (
        [SENT, mail("receive", 2, [("a", False)]), mail("receive", 4, [("a", True)])], STORED,
    ),
    "a message that was offered and never printed comes marked": lambda: (
        [SENT, mail("receive", 4, [("a", True)])], STORED,
    ),
    "a call without an answer that took effect": lambda: (
        [call("claim", 0, inf), call("claim", 2, 3, "m1-2", error="task_already_claimed")], Ending(),
    ),
    "a call without an answer that took none": lambda: (
        [call("claim", 0, inf), call("claim", 2, 3, "m1-2", run=1)], Ending(events=[CLAIMED]),
    ),
    "a pull without an answer": lambda: (
        [Operation("m0-1", "next", 0, inf, {"member": "m0", "session": "m0-1"}),
         call("claim", 2, 3, "m1-2", error="task_already_claimed")],
        Ending(claims={(TASK, 1): "m0-1"}),
    ),
    "a lease that ended in time": lambda: (
        [call("claim", 0, 1, run=1), call("claim", TTL, TTL + 1, "m1-2", run=2)],
        Ending(lapsed=[(TASK, 1)], events=[CLAIMED, (2, "task.claimed", TASK, 2)]),
    ),
    "the same said twice": lambda: (
        [call("claim", 0, 1, run=1), call("complete", 2, 3, run=1), call("complete", 4, 5, run=1)],
        Ending(events=[CLAIMED, (2, "task.completed", TASK, 1)]),
    ),
}  # fmt: skip


def test_what_a_client_was_told_is_read_and_what_nobody_can_know_stays_open(tmp_path: Path) -> None:
    told = [
        {"answer": {"task": TASK}, "error": None},
        *({"answer": None, "error": code} for code in (*UNKNOWN, "busy")),
    ]
    lines: list[dict[str, Any]] = []
    for number, one in enumerate(told, 1):
        lines += [
            {"call": number, "at": number, "verb": "create", "given": {}},
            {"told": number, "at": number + 0.5, **one},
        ]
    lines += [{"killed": "cli"}, {"call": 9, "at": 9, "verb": "next", "given": {}}]
    lines += [{"killed": "mcp"}, {"call": 10, "at": 10, "verb": "receive", "given": {}}]
    log = tmp_path / "m0-1.jsonl"
    log.write_text("\n".join(map(json.dumps, lines)) + '\n{"call": 11, "at"')
    found = recorded(log)
    assert [(one.end, one.error) for one in found] == [
        (1.5, None),
        (inf, None),
        (inf, None),
        (4.5, "busy"),
        (inf, None),
    ]
    assert killed(log) == ["cli", "mcp"]


@pytest.mark.parametrize("name", FORGIVEN)
def test_what_may_be_is_no_fault(name: str) -> None:
    assert judge(*FORGIVEN[name](), TTL) == []
