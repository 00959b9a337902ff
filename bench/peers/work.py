"""The work: each call by itself, in turns with Interlock's, then four processes at once; what went wrong is counted.

`note-SENDER-NUMBER` is the text of a message, so that each can be told from all others.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from bench import homes
from bench.crew import Crew
from bench.measure import median, once
from bench.peers import packages
from bench.peers.contender import LEAD, MEMBERS, Contender, Failed

CONTENDERS = {
    "clawteam": ("commands:ClawTeam", "commands:InterlockCommand"),
    "backlog": ("commands:Backlog", "commands:InterlockCommand"),
    "switchboard": ("servers:Switchboard", "servers:InterlockServer"),
    "cao": ("servers:Cao", "servers:InterlockServer"),
    "procrastinate": ("libraries:Procrastinate", "libraries:InterlockLibrary"),
}
"""Each with the way into Interlock that is of the same kind."""


@dataclass(frozen=True, slots=True)
class Dose:
    """How much work: turns of single calls, and for each race its rounds, tasks, and messages of each sender."""

    turns: int
    rounds: int
    tasks: int
    messages: int


DOSES = {
    "clawteam": Dose(5, 2, 8, 2),
    "backlog": Dose(5, 2, 8, 0),
    "switchboard": Dose(50, 3, 200, 50),
    "cao": Dose(5, 1, 0, 4),
    "procrastinate": Dose(50, 3, 200, 0),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One piece of work. Times are medians in ms, races in things per second; null: it cannot, and `note` says why.

    `wrong` of each is what went wrong in all rounds together: `2 claimed twice`, or `0 of 120`.
    """

    peer: str
    work: str
    unit: str
    theirs: float | None
    ours: float | None
    their_wrong: str = ""
    our_wrong: str = ""
    note: str = ""


def opened(kind: str, place: Path) -> Contender:
    """A contender in a place."""
    module, name = kind.split(":")
    found: Contender = getattr(import_module(f"bench.peers.{module}"), name)(place)
    return found


def race(peer: str, dose: Dose) -> list[Figure]:
    """Everything that the peer and Interlock can both do, in turns.

    Raises:
        Failed: the peer could not be started, or a single call of its failed.
    """
    with homes.directory() as place, ExitStack() as ends:
        pair = []
        for kind, name in zip(CONTENDERS[peer], ("theirs", "ours"), strict=True):
            (place / name).mkdir()
            pair.append(opened(kind, place / name))
            ends.enter_context(pair[-1].prepared())
        figures = [*_single(peer, pair, dose.turns)]
        if dose.tasks:
            figures += _tasks(peer, pair, dose)
        if dose.messages:
            figures += _messages(peer, pair, dose)
        missing = [
            Figure(peer, WORKS[work], "", None, None, note=f"{packages.PACKAGES[peer].title} {why}")
            for work, why in pair[0].lacks.items()
        ]
        return [*figures, *missing]


WORKS = {
    "create": "create a task",
    "claim": "claim a task",
    "finish": "finish a task",
    "message": "send a message until it is read",
}
CREATE_RACE, CLAIM_RACE, SEND_RACE = "4 processes create tasks", "4 processes claim one list", "4 processes send"


def _single(peer: str, pair: list[Contender], turns: int) -> Iterator[Figure]:
    """Each call alone."""
    lacks = pair[0].lacks
    taken: dict[str, tuple[list[float], list[float]]] = {work: ([], []) for work in WORKS if work not in lacks}
    for turn in range(-1, turns):  # the first does not count
        for side, contender in enumerate(pair):
            for work, ms in _calls(contender, turn, taken):
                if turn >= 0:
                    taken[work][side].append(ms)
    for work, (theirs, ours) in taken.items():
        yield Figure(peer, WORKS[work], "ms", median(theirs), median(ours))


def _calls(contender: Contender, turn: int, wanted: Any) -> Iterator[tuple[str, float]]:
    if "claim" in wanted:
        made: list[str] = []
        spent = once(lambda: made.append(contender.create(f"single {turn}")))
        if "create" in wanted:
            yield "create", spent
        yield "claim", once(lambda: contender.claim(made[0], MEMBERS[0]))
        if "finish" in wanted:
            yield "finish", once(lambda: contender.finish(made[0], MEMBERS[0]))
    if "message" in wanted:
        text = f"note-single-{turn + 1}"

        def message() -> None:
            contender.send(MEMBERS[1], MEMBERS[0], text)
            if (got := contender.read(MEMBERS[0])) != [text]:
                raise Failed(f"{text} was sent, and {got} read")

        yield "message", once(message)


def _tasks(peer: str, pair: list[Contender], dose: Dose) -> Iterator[Figure]:
    """Tasks that are created by all, then claimed by all."""
    rates: dict[str, tuple[list[float], list[float]]] = {CREATE_RACE: ([], []), CLAIM_RACE: ([], [])}
    wrong = {work: (Counter[str](), Counter[str]()) for work in rates}
    creates = "create" not in pair[0].lacks
    for turn in range(dose.rounds):
        for side, (kind, contender) in enumerate(zip(CONTENDERS[peer], pair, strict=True)):
            before = set(contender.tasks())
            if creates:
                made, rate = _race("creator", kind, contender, dose.tasks // len(MEMBERS), turn)
                rates[CREATE_RACE][side].append(rate)
                wrong[CREATE_RACE][side].update(made["errors"])
                ids = made["found"]
                listed = set(contender.tasks()) - before
                wrong[CREATE_RACE][side]["given one id"] += len(ids) - len(set(ids))
                wrong[CREATE_RACE][side]["lost"] += len(set(ids) - listed)
            else:
                for number in range(dose.tasks):
                    contender.create(f"agreed {turn} {number}")
            free = contender.tasks()
            got, rate = _race("claimer", kind, contender, 0, turn)
            rates[CLAIM_RACE][side].append(rate)
            wrong[CLAIM_RACE][side].update(got["errors"])
            wrong[CLAIM_RACE][side].update(claim_errors(free, got["found"]))
    for work, sides in rates.items():
        if sides[0]:
            done = dose.tasks * dose.rounds
            yield Figure(
                peer, work, "/s", median(sides[0]), median(sides[1]), *(_said(one, done) for one in wrong[work])
            )


def _messages(peer: str, pair: list[Contender], dose: Dose) -> Iterator[Figure]:
    """Messages that are sent by all to one who reads them afterwards; a rate is until the last was read."""
    rates: tuple[list[float], list[float]] = ([], [])
    wrong = (Counter[str](), Counter[str]())
    for turn in range(dose.rounds):
        for side, (kind, contender) in enumerate(zip(CONTENDERS[peer], pair, strict=True)):
            began = time.perf_counter()
            sent, _ = _race("sender", kind, contender, dose.messages, turn)
            got: list[str] = []
            while len(set(got)) < len(sent["found"]) and (more := contender.read(LEAD)):
                got += more
            rates[side].append(len(got) / (time.perf_counter() - began))
            times = Counter(got)
            wrong[side].update(sent["errors"])
            wrong[side]["lost"] += len(set(sent["found"]) - set(times))
            wrong[side]["doubled"] += sum(count > 1 for count in times.values())
            wrong[side]["out of their sender's order"] += overtaken(got)
    done = dose.messages * len(MEMBERS) * dose.rounds
    yield Figure(peer, SEND_RACE, "/s", median(rates[0]), median(rates[1]), *(_said(one, done) for one in wrong))


def claim_errors(free: Sequence[str], claimed: Sequence[str]) -> dict[str, int]:
    """How many of the free tasks were claimed by more than one, and by nobody."""
    twice = sum(count > 1 for count in Counter(claimed).values())
    return {"claimed twice": twice, "never claimed": len(set(free) - set(claimed))}


def overtaken(got: list[str]) -> int:
    """How many came after one that their sender sent later."""
    newest: dict[str, int] = {}
    count = 0
    for text in got:
        sender, _, number = text.rpartition("-")
        count += int(number) < newest.get(sender, -1)
        newest[sender] = max(newest.get(sender, -1), int(number))
    return count


def _said(wrong: Counter[str], done: int) -> str:
    found = [f"{count} {what}" for what, count in wrong.items() if count]
    return f"{', '.join(found)} of {done}" if found else f"0 of {done}"


def _race(work: str, kind: str, contender: Contender, count: int, turn: int) -> tuple[dict[str, Any], float]:
    """What all four found and which errors they met, and their rate."""
    arguments = [(kind, contender.place, member, count, turn) for member in MEMBERS]
    with Crew(f"peers.work:{work}", arguments) as crew:
        answers, seconds = crew.race()
    found = [one for answer in answers for one in answer["found"]]
    errors = Counter[str]()
    for answer in answers:
        errors["failed"] += len(answer["errors"])
        for error in answer["errors"][:1]:
            print(f"{kind}: {error}", file=sys.stderr)
    return {"found": found, "errors": errors}, len(found) / seconds


MOST_ERRORS = 5
"""So many failed calls, and a process gives up."""


def creator(kind: str, place: str, member: str, count: str, turn: str) -> Callable[[], Any]:
    """A process that creates tasks."""
    contender = opened(kind, Path(place))
    subjects = iter([f"race {turn} {member} {number}" for number in range(int(count))])
    return lambda: _until_done(lambda: (one := next(subjects, None)) and contender.create(one))


def claimer(kind: str, place: str, member: str, count: str, turn: str) -> Callable[[], Any]:
    """A process that claims until nothing is left."""
    contender = opened(kind, Path(place))
    return lambda: _until_done(lambda: contender.next(member))


def sender(kind: str, place: str, member: str, count: str, turn: str) -> Callable[[], Any]:
    """A process that sends messages to the lead."""
    contender = opened(kind, Path(place))
    texts = iter([f"note-{turn}-{member}-{number}" for number in range(int(count))])

    def send() -> str | None:
        if text := next(texts, None):
            contender.send(member, LEAD, text)
        return text

    return lambda: _until_done(send)


def _until_done(work: Callable[[], str | None]) -> dict[str, list[str]]:
    found: list[str] = []
    errors: list[str] = []
    while len(errors) < MOST_ERRORS:
        try:
            one = work()
        except Failed as error:
            errors.append(str(error))
            continue
        if one is None:
            break
        found.append(one)
    return {"found": found, "errors": errors}
