"""One process that does random things to a team until it is killed.

Before each verb it writes down what it is about to do, after it what came back: one write each, to a file of its own,
so that a kill loses neither. Mail is handed over by writing it to another file, which stands for the pipe of a hook:
what is in it was given to the agent, whatever became of the process.

With a point above 0 it kills itself around the n-th interesting call (a statement, a write, a rename, a lock…).
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from random import Random
from types import FrameType
from typing import Any

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import CommitUnknown, InterlockError, LedgerBusy, LedgerUnusable, ServerUnreachable, StorageError
from tests.crash.speaking import SpokenTeam
from tests.waiting import until

MEMBERS = ("m0", "m1", "m2")
TEAM = "alpha"
INTERESTING = frozenset("execute open write rename unlink mkdir rmdir flock ftruncate close".split())


class Log:
    """What the worker is about to do and what it got."""

    def __init__(self, path: str, way: str) -> None:
        self.way = way
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, kind: str, verb: str, **fields: Any) -> None:
        line = {"kind": kind, "verb": verb, "way": self.way, **fields}
        os.write(self._descriptor, (json.dumps(line) + "\n").encode())


class Worker:
    """A member at work."""

    def __init__(self, home: Home, name: str, seed: int, log: Log, out: int) -> None:
        self.rng = Random(seed)
        self.seed = seed
        self.home = home
        self.name = name
        self.log = log
        self.out = out
        session = None if self.rng.random() < 0.5 else f"{name}-{seed}"
        self.people: Team = home.team(TEAM)
        self.team: Any = self.people.acting(name, session=session)
        self.speaks = self.rng.random() < 0.2
        if self.speaks:
            self.team = SpokenTeam(TEAM, name, session, self.rng)
            log.way = f"MCP, {log.way}"
        self.count = 0

    def run(self) -> None:
        verbs: dict[Callable[[], None], int] = {
            self.create: 3, self.next: 5, self.claim: 2, self.complete: 4, self.release: 2, self.send: 5, self.hand: 5,
            self.inject: 3, self.note: 2, self.depend: 2, self.heartbeat: 1, self.delete: 1, self.look: 2,
        }  # fmt: skip
        if self.speaks:  # These have no tool, or one that says more than the verb.
            for other in (self.inject, self.depend, self.heartbeat, self.delete, self.look):
                del verbs[other]
        while True:
            verb = self.rng.choices(list(verbs), list(verbs.values()))[0]
            try:
                verb()
            except (LedgerBusy, LedgerUnusable, StorageError):
                raise
            except InterlockError as error:
                self.log.write("refused", verb.__name__, error=error.code)

    def token(self) -> str:
        self.count += 1
        return f"{self.name}-{self.seed}-{self.count}"

    def create(self) -> None:
        subject = self.token()
        ready = [task.id for task in self.team.tasks(ready=True, limit=5)]
        blockers = self.rng.sample(ready, min(len(ready), self.rng.randrange(3)))
        self.log.write("try", "create", subject=subject)
        verify = "true" if self.rng.random() < 0.1 else None
        by = self.people if verify else self.team  # What is executed is for people to say.
        task = by.create_task(subject, blocked_by=blockers, verify=verify)
        self.log.write("done", "create", subject=subject, id=task.id)

    def next(self) -> None:
        self.log.write("try", "claim")
        task = self.team.next_task()
        if task is not None:
            self.log.write("done", "claim", id=task.id, run=task.run, owner=task.owner)

    def claim(self) -> None:
        ready = self.team.tasks(ready=True, limit=3)
        if ready:
            self.log.write("try", "claim")
            task = self.team.claim(self.rng.choice(ready).id, take_over=True)
            self.log.write("done", "claim", id=task.id, run=task.run, owner=task.owner)

    def held(self) -> str | None:
        held = self.team.tasks(status="in-progress", owner=self.name, limit=5)
        if not held:
            return None
        task = self.team.claim(held[0].id, take_over=True)
        self.log.write("done", "claim", id=task.id, run=task.run, owner=task.owner)
        return task.id

    def complete(self) -> None:
        task = self.held()
        if task is not None:
            self.log.write("try", "complete", id=task)
            found = self.team.complete(task, summary="done")
            self.log.write("done", "complete", id=task, state=found.state, run=found.run)

    def release(self) -> None:
        task = self.held()
        if task is not None:
            self.log.write("try", "release", id=task)
            found = self.team.release(task)
            self.log.write("done", "release", id=task, run=found.run)

    def send(self) -> None:
        text, to = self.token(), self.rng.choice([*MEMBERS, "lead"])
        self.log.write("try", "send", text=text, to=to)
        urgent = self.rng.random() < 0.2
        self.team.send(to=to, content=text, client_id=text, urgent=urgent)
        self.log.write("done", "send", text=text, to=to)

    def hand(self) -> None:
        with self.team.mail() as mail:
            for message in mail.messages:
                line = {"text": message.content, "redelivered": message.redelivered}
                os.write(self.out, (json.dumps(line) + "\n").encode())

    def inject(self) -> None:
        with self.team.mail(inject=True) as mail:
            text = mail.as_xml().encode()
            while text:
                cut = self.rng.randrange(1, 400)
                os.write(self.out, text[:cut])
                text = text[cut:]

    def note(self) -> None:
        task, text = self.held(), self.token()
        if task is not None:
            self.team.update(task, log=text)
            self.log.write("done", "note", id=task, text=text)

    def depend(self) -> None:
        ready = [task.id for task in self.team.tasks(ready=True, limit=8)]
        if len(ready) > 1:
            one, other = self.rng.sample(ready, 2)
            self.team.depend(one, on=other)
            self.log.write("done", "depend", id=one, on=other)
            if self.rng.random() < 0.6:
                self.log.write("try", "independ", id=one, on=other)
                self.team.depend(one, on=other, remove=True)

    def heartbeat(self) -> None:
        task = self.held()
        if task is not None:
            self.team.heartbeat(task)

    def delete(self) -> None:
        if self.rng.random() < 0.3:
            subject = self.token()
            task = self.team.create_task(subject)
            self.team.delete(task.id)
            self.log.write("done", "delete", id=task.id)

    def look(self) -> None:
        self.team.describe()
        self.team.status()


class Founder:
    """Somebody who makes and deletes teams."""

    def __init__(self, home: Home, seed: int, log: Log) -> None:
        self.rng = Random(seed)
        self.home = home
        self.seed = seed
        self.log = log

    def run(self) -> None:
        count = 0
        while True:
            count += 1
            try:
                self.found(f"t{self.seed}-{count}")
            except CommitUnknown as error:
                self.log.write("refused", "found", error=error.code)

    def found(self, name: str) -> None:
        self.log.write("try", "create_team", team=name)
        team = self.home.create_team(name)
        self.log.write("done", "create_team", team=name)
        if self.rng.random() < 0.5:
            team.create_task("Something")
            self.log.write("done", "work", team=name)
        if self.rng.random() < 0.8:
            self.log.write("try", "delete_team", team=name)
            self.home.delete_team(name)
            self.log.write("done", "delete_team", team=name)


def answers(home: Home) -> bool:
    """Whether it does: its server may have been killed."""
    with suppress(ServerUnreachable):
        home.teams()
        return True
    return False


def kill_myself_at(point: int, after: bool) -> None:
    """Die around the n-th interesting call from now on: before it, or right after it."""
    left = point
    kind = "c_return" if after else "c_call"

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal left
        if event == kind and getattr(argument, "__name__", "") in INTERESTING:
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(watch)


def main(name: str, seed: int, log: str, out: str, point: int) -> None:
    home = interlock.connect()
    until(lambda: answers(home))
    told = Log(log, "HTTP" if home.elsewhere else "here")
    descriptor = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    worker = Founder(home, seed, told) if name == "founder" else Worker(home, name, seed, told, descriptor)
    if point:
        kill_myself_at(point, after=seed % 2 == 0)
    worker.run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]))
