"""Lets eight clients work on one team while everything below them fails, and has their history judged."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from random import Random

import interlock
from interlock.app.team import Team
from tests.history.checker import Ending, Operation, judge
from tests.history.client import MEMBERS, TEAM, patiently, until
from tests.history.faults import Faults

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEDULERS = 2
LEASE = 2.0
"""Seconds that a claim lasts without a heartbeat."""
SETTINGS = {
    "claim_ttl": int(LEASE), "heartbeat_ttl": int(LEASE), "retries": 10_000, "retry_delay": 0, "mirror": False,
    "task_limit": 1_000_000, "inbox_limit": 1_000_000,
}  # fmt: skip
HOUR = 3600.0
UNKNOWN = ("commit_unknown", "answer_lost")
"""Errors of what may have been done, or was done at a moment that nobody told."""


@dataclass
class Report:
    """What a storm was, and what was wrong."""

    operations: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = ", ".join(f"{count} {name}" for name, count in self.outcomes.most_common())
        faults = ", ".join(f"{count} {name}" for name, count in self.faults.most_common())
        return f"{self.operations} operations ({told}); faults: {faults or 'none'}; {len(self.problems)} problems"


class Storm:
    """One run of the harness. `faults` is what may break besides the clients; null lets nothing fail at all."""

    def __init__(self, seed: int, directory: Path, faults: Faults | None) -> None:
        self.rng = Random(seed)
        self.directory = directory
        self.faults = faults
        self.report = Report()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._faces: dict[str, str] = {}
        self._logs: list[Path] = []

    def run(self, operations: int, seconds: float) -> Report:
        """Work until so many operations were recorded, or so much time has passed."""
        home = str(self.directory / "home")
        if self.faults is not None:
            self.faults.prepare(Path(home))
        with interlock.connect(home) as found:
            patiently(found.teams)
            team = found.create_team(TEAM)
            team.configure(SETTINGS)
            for member in MEMBERS:
                team.spawn(member)
        try:
            self._weather(home, operations, time.monotonic() + seconds)
        finally:
            for name in list(self.running):
                self._end(name)
        if self.faults is not None:
            self.faults.calm()
        with interlock.connect(home) as found:
            patiently(found.teams)
            last = list(self._drained(found.team(TEAM)))
            ending = _ending(found.team(TEAM))
            self.report.problems += [f"doctor: {one}" for one in found.doctor(TEAM).findings if one.level == "error"]
        for face, count in Counter(face for path in self._logs for face in killed(path)).items():
            self.report.faults[f"kill -9 {face}"] = count
        history = [*(one for path in self._logs for one in recorded(path)), *last]
        self.report.operations = len(history)
        for one in history:
            self.report.outcomes["unknown" if one.end == inf else one.error or "done"] += 1
        self.report.problems += judge(history, ending, LEASE)
        return self.report

    def _weather(self, home: str, operations: int, end: float) -> None:
        for number in range(SCHEDULERS):
            self._start(home, f"scheduler {number}")
        while time.monotonic() < end and not self.report.problems:
            for name in MEMBERS:
                if name not in self.running:
                    self._start(home, name)
            until(lambda: False, self.rng.uniform(0.2, 1.0))
            self._bury()
            if sum(path.stat().st_size for path in self._logs) > operations * 170 and self._count() >= operations:
                return
            if self.faults is not None:
                self._strike(self.faults)

    def _strike(self, faults: Faults) -> None:
        dice = self.rng.random()
        name = self.rng.choice(list(self.running))
        if dice < 0.4:
            self.report.faults[self._end(name)] += 1
            if name not in MEMBERS:
                self._start(str(self.directory / "home"), name)
        elif dice < 0.6:
            self.report.faults["suspend"] += 1
            own = self._faces.get(name) == "library" and self.rng.random() < 0.5
            process = self.running[name if own else "scheduler 0"]
            process.send_signal(signal.SIGSTOP)
            until(lambda: False, self.rng.uniform(0.2, 1.5 * LEASE))
            process.send_signal(signal.SIGCONT)
        else:
            self.report.faults[faults.strike(self.rng)] += 1

    def _end(self, name: str) -> str:
        """Kill a process, or ask it to end where it has others that work for it; which it was."""
        process, asked = self.running.pop(name), self._faces.get(name, "library") != "library"
        process.send_signal(signal.SIGTERM if asked else signal.SIGKILL)
        process.wait()
        return "end" if asked else "kill -9"

    def _start(self, home: str, name: str) -> None:
        seed = self.rng.randrange(10**9)
        log = self.directory / f"{name}-{seed}.jsonl"
        skew = self.rng.choice([-HOUR, 0.0, HOUR]) if self.faults is not None and self.faults.own_clock else 0.0
        words, environment = ["scheduler"], {}
        if name in MEMBERS:
            log.touch()
            self._logs.append(log)
            face = self._faces[name] = self.rng.choice(self.faults.faces if self.faults is not None else ["library"])
            words = [name, str(seed), str(log), str(skew), face]
            if self.faults is not None and self.faults.url is not None:
                home, environment = self.faults.url, {"INTERLOCK_TOKEN": self.faults.token}
        with open(self.directory / f"{name}.err", "ab") as errors:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "tests.history.client", home, *words], cwd=ROOT, stderr=errors,
                env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
            )  # fmt: skip

    def _bury(self) -> None:
        for name, process in list(self.running.items()):
            if process.poll() is not None:
                said = (self.directory / f"{name}.err").read_text()[-2000:]
                self.report.problems.append(f"{name} ended by itself with {process.returncode}:\n{said}")
                del self.running[name]

    def _count(self) -> int:
        return sum(path.read_text().count('"call"') for path in self._logs)

    def _drained(self, team: Team) -> Iterable[Operation]:
        """All mail that is left."""
        for member in MEMBERS:
            last = team.acting(member, session=f"{member}-last")
            while True:
                start = time.monotonic()
                found = patiently(last.read)
                said = [(one.content, one.redelivered) for one in found if one.sender in MEMBERS]
                yield Operation("the end", "receive", start, time.monotonic(), {"member": member}, said)
                if not found:
                    break


def killed(path: Path) -> list[str]:
    """The faces at which a client had its processes killed, once for each kill."""
    *lines, _ = path.read_text().split("\n")
    return [line["killed"] for line in map(json.loads, lines) if "killed" in line]


def recorded(path: Path) -> list[Operation]:
    """The operations of one client."""
    calls: dict[int, Operation] = {}
    *lines, _ = path.read_text().split("\n")
    for line in map(json.loads, lines):
        if "killed" in line:
            continue
        if "call" in line:
            calls[line["call"]] = Operation(path.stem, line["verb"], line["at"], given=line["given"])
        else:
            asked = calls[line["told"]]
            end = inf if line["error"] in UNKNOWN else line["at"]
            error = None if end == inf else line["error"]
            calls[line["told"]] = Operation(
                asked.client, asked.verb, asked.start, end, asked.given, line["answer"], error
            )
    return [one for one in calls.values() if one.end < inf or one.verb != "receive"]


def _ending(team: Team) -> Ending:
    tasks = team.tasks(limit=None)
    runs = [run for task in tasks for run in team.runs(task.id)]
    return Ending(
        subjects=[(task.id, task.subject) for task in tasks],
        lapsed=[(run.task_id, run.number) for run in runs if run.outcome == "expired"],
        claims={(run.task_id, run.number): run.session for run in runs},
        events=[(one.seq, one.type, one.task_id, _run(one.payload.get("run"))) for one in team.events()[0]],
        messages=[(one.recipient, one.content) for one in team.history(limit=10**9) if one.sender in MEMBERS],
    )


def _run(said: object) -> int | None:
    """The number of a run, which events name as `TASK.N` or as N."""
    last = str(said).rpartition(".")[2]
    return int(last) if last.isdigit() else None


def storm(operations: int, seconds: float, seed: int, where: str) -> Report:
    """Run one storm over the ledger `where`: calm, sqlite, postgres, pgbouncer or http."""
    directory = Path(tempfile.mkdtemp(prefix="interlock-history-"))
    with ExitStack() as stack:
        faults = None if where == "calm" else stack.enter_context(Faults.of(where, directory))
        report = Storm(seed, directory, faults).run(operations, seconds)
    if report.problems:
        again = f"python -m tests.history {where} --operations {operations} --seconds {seconds:g} --seed {seed}"
        report.problems.append(f"again: {again}    (files: {directory})")
    else:
        shutil.rmtree(directory)
    return report
