"""Judges what clients called and what they were told, as Jepsen's checkers do: pure, from a recorded history alone.

A task is a compare-and-set register: nobody's, somebody's under a fencing token (the number of the run and its
session), or done. Whatever the clients were told must be explained by some order of their calls in which each takes
effect at one moment between its start and its end. A call without an answer took effect at some moment after its start,
or never; one that was refused, for whatever reason, changed nothing: Interlock says so in its error.

A message is handed over exactly once, or marked as redelivered; one that was acknowledged is not handed over any more.
Events are numbered without gaps, and one that was seen by anybody is there for ever.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, TypeVar

State = TypeVar("State")
Step = Callable[[State, "Operation", float], State | None]

SLACK = 0.25
"""Seconds by which a lease may seem too short: clocks tick differently."""


@dataclass(slots=True, frozen=True)
class Operation:
    """One call of one client. Times are those of the machine's monotonic clock."""

    client: str
    verb: str
    start: float
    end: float = inf
    """When it was answered; infinite for one that never was, or whose effect the answer says is unknown."""
    given: Mapping[str, Any] = field(default_factory=dict)
    answer: Any = None
    error: str | None = None

    @property
    def session(self) -> str:
        return str(self.given.get("session", self.client))

    def __str__(self) -> str:
        said = "no answer" if self.end == inf else self.error or self.answer
        return f"{self.verb} {dict(self.given)} by {self.client} at {self.start:.3f} to {self.end:.3f}: {said}"


@dataclass(slots=True, frozen=True)
class Ending:
    """What the ledger has when all is over."""

    subjects: Sequence[tuple[str, str]] = ()
    """(id, subject) of every task."""
    lapsed: Sequence[tuple[str, int]] = ()
    """(task, run) of every run that ended because its lease did."""
    claims: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """The session of each run."""
    events: Sequence[tuple[int, str, str | None, int | None]] = ()
    """(seq, type, task, run) of every event, in the ledger's order."""
    messages: Sequence[tuple[str, str]] = ()
    """(recipient, text) of every message."""


@dataclass(slots=True, frozen=True)
class Register:
    """A task as those who compete for it see it."""

    state: str = "open"
    run: int = 0
    member: str | None = None
    session: str | None = None
    until: float = -inf
    """Until when at least its lease lasts."""


def unexplained(
    operations: Sequence[Operation], step: Step[State], initial: State
) -> tuple[Operation, set[State]] | None:
    """The first answer that no order explains, with the states that were possible then; null where one explains all.

    Just-in-time linearization: whatever is under way takes effect only when an answer needs it to have.
    `step(state, operation, now)` is the state after an operation that took effect not later than `now`, or null.
    """
    points = [(one.start, 0, index) for index, one in enumerate(operations)]
    points += [(one.end, 1, index) for index, one in enumerate(operations) if one.end < inf]
    under_way: set[int] = set()
    possible = {(initial, frozenset[int]())}
    for now, ends, index in sorted(points):
        if not ends:
            under_way.add(index)
            continue
        before, todo, after = set(possible), list(possible), set()
        while todo:
            state, done = todo.pop()
            if index in done:
                after.add((state, done - {index}))
                continue
            for other in under_way - done:
                moved = step(state, operations[other], now)
                if moved is not None and (found := (moved, done | {other})) not in before:
                    before.add(found)
                    todo.append(found)
        if not after:
            return operations[index], {state for state, _ in possible}
        under_way.discard(index)
        possible = after
    return None


def register(ttl: float) -> Step[Register]:
    """What each verb may say about a task and do to it, where a claim or a heartbeat lasts `ttl` seconds."""

    def step(state: Register, one: Operation, now: float) -> Register | None:
        given, mine = one.given, state.state == "held" and state.session == one.session
        lasts = max(state.until, one.start + ttl - SLACK)
        if one.verb == "expire":
            held = state.state == "held" and state.run == given["run"] and now >= state.until
            return Register("open", state.run) if held else None
        if one.verb == "look":
            if one.end == inf:
                return state
            session = state.session if state.state != "open" else None
            seen = one.answer["state"], one.answer["run"], one.answer.get("session", session)  # Not all say whose.
            return state if seen == (state.state, state.run, session) else None
        if one.verb == "claim":
            if one.error == "task_already_claimed":
                return state if state.state == "held" and not mine else None
            if one.error is not None:
                return state if state.state == "done" else None
            if mine and (one.end == inf or one.answer["run"] == state.run):
                return state
            over = given.get("take_over") and state.state == "held" and state.member == given["member"]
            if state.state != "open" and not over:
                return None
            if one.end < inf and one.answer["run"] != state.run + 1:
                return None
            return Register("held", state.run + 1, given["member"], one.session, one.start + ttl - SLACK)
        if one.error is not None:  # The others work on what their session holds.
            return None if mine else state
        target = {"complete": "done", "release": "open", "heartbeat": "held"}[one.verb]
        repeated = target != "held" and (state.state, state.session) == (target, one.session)
        if not mine and not repeated:  # It may be said once more by who did it, while nobody has done anything since.
            return None
        if one.end < inf and one.answer["run"] != state.run:
            return None
        return replace(state, state=target, until=lasts if target == "held" else state.until)

    return step


REGISTER = {"claim", "complete", "release", "heartbeat", "look"}
REFUSED = {"task_already_claimed", "invalid_transition", "stale_run", "forbidden"}
"""What a verb says of the task; any other error says only that nothing was done."""


def judge(history: Iterable[Operation], ending: Ending, ttl: float) -> list[str]:
    """Everything that was promised and not held."""
    operations = sorted(history, key=lambda one: one.start)
    return [*_tasks(operations, ending, ttl), *_created(operations, ending), *_mail(operations, ending),
            *_events(operations, ending)]  # fmt: skip


def _tasks(operations: Sequence[Operation], ending: Ending, ttl: float) -> list[str]:
    of: dict[str, list[Operation]] = defaultdict(list)
    granted: dict[tuple[str, int], str] = {}
    problems = []
    for one in operations:
        if one.verb in ("claim", "next") and one.answer:
            run = (one.answer["task"], one.answer["run"])
            if granted.setdefault(run, one.session) != one.session:
                problems.append(f"run {run} was given to {granted[run]} and to {one.session}: {one}")
    for one in operations:
        if one.error is None or one.error in REFUSED:
            for known in _pulled(one, granted, ending) if one.verb == "next" else [one]:
                if known.verb in REGISTER:
                    of[known.given["task"]].append(known)
    for task, number in ending.lapsed:
        of[task].append(Operation("the ledger", "expire", -inf, given={"task": task, "run": number}))
    for task, found in of.items():
        wrong = unexplained(found, register(ttl), Register())
        if wrong is not None:
            problems.append(f"nothing explains: {wrong[0]}\n    {task} could be {wrong[1]}")
    return problems


def _pulled(one: Operation, granted: Mapping[tuple[str, int], str], ending: Ending) -> list[Operation]:
    """`next` as the claim of what it answered; one without an answer may be any of which its session was not told."""
    if one.end < inf:
        return [replace(one, verb="claim", given={**one.given, "task": one.answer["task"]})] if one.answer else []
    untold = [run for run, session in ending.claims.items() if session == one.session and run not in granted]
    return [replace(one, verb="claim", given={**one.given, "task": task}) for task, _ in untold]


def _created(operations: Sequence[Operation], ending: Ending) -> list[str]:
    stored = Counter(subject for _, subject in ending.subjects)
    ids = dict(ending.subjects)
    problems = []
    for one in operations:
        if one.verb == "create":
            least, most = (1, 1) if one.end < inf and one.error is None else (0, 0 if one.error is not None else 1)
            if not least <= stored[one.given["subject"]] <= most:
                problems.append(f"{stored[one.given['subject']]} tasks are there from: {one}")
            elif least and ids.get(one.answer["task"]) != one.given["subject"]:
                problems.append(f"another task is there than the answer says: {one}")
    return problems


def _mail(operations: Sequence[Operation], ending: Ending) -> list[str]:
    handed: dict[tuple[str, str], list[tuple[Operation, bool]]] = defaultdict(list)
    sent = {(one.given["to"], one.given["text"]): one for one in operations if one.verb == "send"}
    acknowledged: dict[tuple[str, str], float] = {}
    problems = []
    for one in operations:
        if one.verb == "receive" and one.error is None:
            for text, marked in one.answer:
                handed[one.given["member"], text].append((one, marked))
        elif one.verb == "acknowledge" and one.error is None and one.end < inf:
            for text in one.answer:
                acknowledged.setdefault((one.given["member"], text), one.end)
    stored = Counter(ending.messages)
    for message, times in handed.items():
        if message not in sent:
            problems.append(f"nobody sent {message}, which was handed over")
        elif any(one.end < sent[message].start for one, _ in times):
            problems.append(f"{message} was handed over before it was sent")
        if (unmarked := sum(not marked for _, marked in times)) > 1:
            problems.append(f"{message} was handed over {unmarked} times without a mark")
        if late := [one for one, _ in times if one.start > acknowledged.get(message, inf)]:
            problems.append(
                f"{message} was handed over although acknowledged at {acknowledged[message]:.3f}: {late[0]}"
            )
    for message, one in sent.items():
        if one.error is not None and (stored[message] or message in handed):
            problems.append(f"it is there although refused: {one}")
        elif one.error is None and (stored[message] > 1 or (one.end < inf and not stored[message])):
            problems.append(f"{stored[message]} messages are there from: {one}")
        elif stored[message] and message not in handed:
            problems.append(f"it never arrived: {one}")
    return problems


def _events(operations: Sequence[Operation], ending: Ending) -> list[str]:
    problems = []
    numbers = [seq for seq, *_ in ending.events]
    if numbers != list(range(1, len(numbers) + 1)):
        gaps = [seq for before, seq in zip([0, *numbers], numbers, strict=False) if seq != before + 1]
        problems.append(f"the numbers of the events are not in line at {gaps[:5]}")
    there = {seq: (seq, type, task) for seq, type, task, _ in ending.events}
    told = {(type, task, run) for _, type, task, run in ending.events}
    for one in operations:
        if one.error is not None or one.end == inf:
            continue
        if one.verb == "events":
            seen = [tuple(event) for event in one.answer]
            if [event[0] for event in seen] != [one.given["since"] + 1 + n for n in range(len(seen))]:
                problems.append(f"events were seen with a gap: {one}")
            problems += [
                f"event {event} was seen and is gone: {one.client}" for event in seen if there.get(event[0]) != event
            ]
        elif one.verb in ("claim", "next") and one.answer:
            task = one.given.get("task") or one.answer["task"]
            if ("task.claimed", task, one.answer["run"]) not in told:
                problems.append(f"no event tells of: {one}")
        elif one.verb in ("complete", "release"):
            type = {"complete": "task.completed", "release": "task.released"}[one.verb]
            if (type, one.given["task"], one.answer["run"]) not in told:
                problems.append(f"no event tells of: {one}")
    return problems
