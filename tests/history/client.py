"""One member that works on a team until it is killed, and writes down what it called and what it was told.

A line before each call, a line after it, one write each: a kill loses neither. Mail is written down while it is handed
over, as an agent would see it. A member at the command line or at MCP ends between two calls instead: the processes
that work for it are killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

import interlock
from interlock.clock import SystemClock
from interlock.errors import InterlockError, StorageError
from interlock.model.task import Task

T = TypeVar("T")

TEAM = "alpha"
FACES = ("library", "cli", "mcp")
MEMBERS = tuple(f"m{number}" for number in range(8))
STATES = {"ready": "open", "backlog": "open", "in-progress": "held"}


class Wrong(SystemClock):
    """A machine's clock that was set badly."""

    def __init__(self, by: float) -> None:
        self._by = by

    def now(self) -> float:
        return super().now() + self._by


class NoAnswer(Exception):
    """Who was called was killed before it had answered."""


class Recorder:
    """Writes the history of one client."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._count = 0

    def call(self, verb: str, **given: Any) -> int:
        """It is about to be called."""
        self._count += 1
        self._write(call=self._count, at=time.monotonic(), verb=verb, given=given)
        return self._count

    def told(self, call: int, answer: Any = None, error: str | None = None) -> None:
        """It was answered."""
        self._write(told=call, at=time.monotonic(), answer=answer, error=error)

    def killed(self, face: str) -> None:
        """The process that works on the newest call was killed."""
        self._write(killed=face)

    def _write(self, **line: Any) -> None:
        os.write(self._file, (json.dumps(line) + "\n").encode())


class Client:
    """A member at work in two sessions of its own, as in two windows. `open` one: a team, or what has verbs of it."""

    def __init__(self, open: Callable[[str], Any], member: str, seed: int, recorder: Recorder) -> None:
        self.rng = Random(seed)
        self.member = member
        self.windows = {name: open(name) for name in (f"{member}-{seed}", f"{member}-{seed}b")}
        self.session = min(self.windows)
        self.recorder = recorder
        self.mine: list[str] = []
        """What it has held once; it may have lost some of it."""
        self.known: list[str] = []
        self.seen: list[tuple[str, str]] = []
        self.since = 0
        self.count = 0

    def act(self) -> None:
        """Do one thing, at random."""
        self.session = self.rng.choice([min(self.windows), *self.windows])
        verbs: dict[Callable[[], None], int] = {
            self.create: 6, self.next: 8, self.claim: 6, self.complete: 8, self.release: 2, self.heartbeat: 4,
            self.look: 3, self.send: 7, self.receive: 6, self.acknowledge: 2, self.events: 2,
        }  # fmt: skip
        verb = self.rng.choices(list(verbs), list(verbs.values()))[0]
        if verb.__name__ not in getattr(self.team, "lacks", ()):
            verb()
        elif verb == self.events:
            self.learn()

    def learn(self) -> None:
        """Look for tasks."""
        with suppress(InterlockError, NoAnswer):
            self.known += [task.id for task in self.team.tasks(ready=True, limit=12)]

    def _do(self, verb: str, what: Callable[[], Any], **given: Any) -> Any:
        call = self.recorder.call(verb, member=self.member, session=self.session, **given)
        try:
            answer = what()
        except InterlockError as error:
            self.recorder.told(call, error=error.code)
            if isinstance(error, StorageError):
                until(lambda: False, self.rng.uniform(0.0, 0.2))  # As anybody would before they try something else.
            return None
        except NoAnswer:
            return None
        self.recorder.told(call, answer)
        return answer

    @property
    def team(self) -> Any:
        return self.windows[self.session]

    def _some(self, tasks: list[str]) -> str | None:
        return self.rng.choice(tasks[-12:]) if tasks else None

    def _text(self) -> str:
        self.count += 1
        return f"{min(self.windows)}-{self.count}"

    def create(self) -> None:
        subject = self._text()
        found = self._do("create", lambda: {"task": self.team.create_task(subject).id}, subject=subject)
        if found:
            self.known.append(found["task"])

    def next(self) -> None:
        def pull() -> Any:
            task = self.team.next_task()
            return task and {"task": task.id, "run": task.run}

        if found := self._do("next", pull):
            self.mine.append(found["task"])

    def claim(self) -> None:
        task = self._some(self.known)
        over = self.rng.random() < 0.3
        if task is not None:
            found = self._on("claim", task, lambda: self.team.claim(task, take_over=over), take_over=over)
            if found:
                self.mine.append(task)

    def _on(self, verb: str, task: str, what: Callable[[], Task], **given: Any) -> Any:
        return self._do(verb, lambda: {"task": task, "run": what().run}, task=task, **given)

    def complete(self) -> None:
        if (task := self._some(self.mine)) is not None:
            self._on("complete", task, lambda: self.team.complete(task))

    def release(self) -> None:
        if (task := self._some(self.mine)) is not None:
            self._on("release", task, lambda: self.team.release(task))

    def heartbeat(self) -> None:
        if (task := self._some(self.mine)) is not None:
            self._do("heartbeat", lambda: {"task": task, "run": self.team.heartbeat(task).number}, task=task)

    def look(self) -> None:
        def seen() -> Any:
            found = self.team.task(str(task))
            session = {"session": found.session} if hasattr(found, "session") else {}
            return {"state": STATES.get(found.state, found.state), "run": found.run, **session}

        if (task := self._some(self.known)) is not None:
            self._do("look", seen, task=task)

    def send(self) -> None:
        text, to = self._text(), self.rng.choice(MEMBERS)
        urgent = self.rng.random() < 0.2
        self._do("send", lambda: bool(self.team.send(to=to, content=text, urgent=urgent)), text=text, to=to)

    def receive(self) -> None:
        call = self.recorder.call("receive", member=self.member, session=self.session)
        told = False
        try:
            with self.team.mail() as mail:
                found = [message for message in mail.messages if message.sender in MEMBERS]
                self.recorder.told(call, [(message.content, message.redelivered) for message in found])
                told = True
                if self.rng.random() < 0.1:
                    mail.give_back()  # It was printed, and nobody can tell whether it was read.
                else:
                    self.seen += [(message.id, message.content) for message in found]
        except InterlockError as error:
            if not told:
                self.recorder.told(call, error=error.code)
        except NoAnswer:
            pass

    def acknowledge(self) -> None:
        seen, self.seen = dict(self.seen), []
        if seen:
            self._do("acknowledge", lambda: [seen[id] for id in self.team.acknowledge(list(seen))])

    def events(self) -> None:
        def after() -> Any:
            return [(one.seq, one.type, one.task_id) for one in self.team.events(since, limit=40)[0]]

        since = self.since
        found = self._do("events", after, since=since)
        for seq, type, task in found or []:
            self.since = seq
            if type == "task.created":
                self.known.append(task)


def work(home: str, member: str, seed: int, log: str, skew: float) -> None:
    """Work for ever."""
    recorder = Recorder(log)
    with interlock.connect(home, clock=Wrong(skew)) as found:
        team = patiently(lambda: found.team(TEAM))
        client = patiently(lambda: Client(lambda name: team.acting(member, session=name), member, seed, recorder))
        client.since = patiently(client.team.head)
        client.learn()
        while True:
            client.act()


def work_by(face: str, home: str, member: str, seed: int, log: str) -> None:
    """Work until asked to end."""
    from tests.history.faces import BY_NAME  # loads what the processes need that it forks

    ending: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ending.append(number))
    recorder = Recorder(log)
    who = {"home": home, "team": TEAM, "member": member}
    rng = Random(seed)
    client = Client(lambda name: BY_NAME[face]({**who, "session": name}, rng, recorder.killed), member, seed, recorder)
    client.learn()
    while not ending:
        client.act()
    for window in client.windows.values():
        window.close()


def patiently(what: Callable[[], T]) -> T:
    """Do what needs the ledger, once it is there."""
    found: list[T] = []

    def there() -> bool:
        with suppress(InterlockError):
            found.append(what())
        return bool(found)

    return found[0] if until(there, 60) else what()


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Look again and again, at most so long; whether it came to be."""
    end = time.monotonic() + seconds
    while not (met := condition()) and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 0.05))
    return met


def schedule(home: str) -> None:
    """Recover what nobody works on any more, for ever."""
    with interlock.connect(home) as found:
        team = patiently(lambda: found.team(TEAM))
        while True:
            with suppress(InterlockError):
                team.poll()
            until(lambda: False, 0.3)


def main(where: str, name: str, seed: str = "", log: str = "", skew: str = "", face: str = "") -> None:
    """Be who the harness has started."""
    if name == "scheduler":
        schedule(where)
    elif face == "library":
        work(where, name, int(seed), log, float(skew))
    else:
        work_by(face, where, name, int(seed), log)


if __name__ == "__main__":
    from tests.history import client  # as those it loads know it

    client.main(*sys.argv[1:])
