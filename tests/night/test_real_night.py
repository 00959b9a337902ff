"""The long night with Claude Code and Codex themselves, in two repositories at once, whose models are played by task.

What goes wrong with a task goes wrong once: its program is killed in mid-turn, its provider limits it, it says that it
is done when nothing is written, writes half of it, or says nothing. Both runners are killed, and everything is stopped
for a while, as a laptop that is closed. What must be true in the morning is what `long_night.py` says.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from interlock.processes import table
from interlock.runner.run_processes import session_token
from tests.agents.endpoint import Endpoint, Move, Seen, call, fail, say, stall
from tests.agents.real import NAMED, enter, write
from tests.night.long_night import QUESTION, LongNight
from tests.night.stage import Night
from tests.waiting import until

WHERE = re.compile(r"[^\s\"'\\]*/teams/(\w+)/worktrees/")
LIMIT = "You've hit your usage limit. Try again in 1 second."
MEMBERS = {"ada": "claude", "bob": "codex", "cem": "claude", "dot": "codex"}
SUSPENDED = 8.0  # seconds


class Models:
    """What both models do next, from what is in the worktree of the task that the conversation is about."""

    def __init__(self) -> None:
        self.nights: dict[str, tuple[Night, LongNight]] = {}
        self.completed: dict[str, int] = {}
        self.done: set[str] = set()
        self.crashing: list[tuple[Night, str]] = []
        self.lock = threading.Lock()

    def play(self, seen: Seen) -> Move:
        """The next move of a conversation."""
        named = [one for text in seen.prompts for one in NAMED.findall(text)]
        where = WHERE.findall(str(seen.body))
        if not named or not where:
            return say("noted")
        (key, task), team = named[-1], where[-1]
        night, works = self.nights[team]
        root = night.home / "teams" / team / "worktrees" / task
        if key == works.impossible:
            # An answer of ours may not arrive, and the program asks for it again: what the ledger has was asked.
            asked = any(QUESTION in text for text in seen.results) or bool(night.team.questions())
            return say("I have asked.") if asked else call("ask_human", question=QUESTION, task_id=task)
        match self._misfortune(team, key):
            case "crash":
                self.crashing.append((night, key))
                return stall()
            case "limit":
                return fail(429, LIMIT, x_should_retry="false")
            case "lie":
                return self._complete(seen, task, "All is written, and all tests pass.")
            case "silent":
                return say("That was all.")
            case "half":
                self.done.add(f"{team} {key} halved")
                return write(seen, root, f"parts/{key}.py", "NUMBER = 0\n")
        if self.completed.get(task) == seen.spoken - 1:
            return say("That was all.")
        if f"{team} {key} halved" in self.done:
            self.done.discard(f"{team} {key} halved")
            return self._complete(seen, task, "Nearly.")
        for path, text in works.wanted(key, root).items():
            if not (root / path).exists() or (root / path).read_text() != text:
                return write(seen, root, path, text)
        return self._complete(seen, task, "Its test is green.")

    def _complete(self, seen: Seen, task: str, summary: str) -> Move:
        self.completed[task] = seen.spoken
        return call("task_complete", task_id=task, summary=summary)

    def _misfortune(self, team: str, key: str) -> str | None:
        """The next one of that task that has not happened yet."""
        with self.lock:
            for number, name in enumerate(self.nights[team][1].misfortunes(key)):
                if (mark := f"{team} {key} {number}") not in self.done:
                    self.done.add(mark)
                    return name
        return None


@contextmanager
def killing(models: Models) -> Iterator[None]:
    """While this lasts, each program that a model wants to crash is killed, with all that it began."""
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            while models.crashing:
                night, key = models.crashing.pop()
                for run in night.team.runs(key):
                    token = None if run.ended_at else session_token(run.session)
                    pids = [row.pid for row in table.rows() if row.running]
                    for pid in table.marked(pids, f"INTERLOCK_RUN_TOKEN={token}") if token else ():
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def suspend(night: Night) -> None:
    """Everything stops for a while, and does not notice."""
    stopped = night.alive()
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGSTOP:
            until(partial(_is_over, time.monotonic() + SUSPENDED))


def pass_by(night: Night, work: LongNight) -> int:
    """The runner is killed when a third is done; everything is stopped for a while when two thirds are."""
    half = len(work.possible) // 2
    night.kill_when(lambda: len(night.done()) >= half // 2, 900)
    runner = night.begin()
    try:
        until(lambda: len(night.done()) >= half or runner.poll() is not None, 900)
        suspend(night)
        return runner.wait(900)
    finally:
        runner.kill()
        runner.wait()


def _is_over(moment: float) -> bool:
    return time.monotonic() > moment


@pytest.mark.npm
@pytest.mark.storm
@pytest.mark.timeout(1800)
def test_a_long_night_of_claude_code_and_codex(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dose: float, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (max(fewest, int(tasks * dose)) for fewest, tasks in ((8, 30), (6, 10)))
    members = {name: {"agent": agent, "permissions": "workspace"} for name, agent in MEMBERS.items()}
    (tmp_path / "night").mkdir()
    models, began = Models(), time.monotonic()
    with Endpoint(most=40 * (first + second), claude=models.play, codex=models.play) as endpoint, ExitStack() as stack:
        for agent in dict.fromkeys(MEMBERS.values()):
            enter(monkeypatch, tmp_path / "night" / "user", agent, endpoint, agent)
        one, two = LongNight(7, first), LongNight(7, second)
        night = stack.enter_context(Night(tmp_path / "night", one.files(), one.plan(members)))
        other = stack.enter_context(
            Night(tmp_path / "other", two.files(), two.plan(members), team="other", beside=night)
        )
        models.nights = {"night": (night, one), "other": (other, two)}
        with killing(models), ThreadPoolExecutor() as pool:
            codes = list(pool.map(pass_by, (night, other), (one, two)))
        for (had, work), code in zip(models.nights.values(), codes, strict=True):
            work.check(had, code)
        with capsys.disabled():
            print(f"\n{first + second} tasks, {len(endpoint.seen)} requests, {time.monotonic() - began:.0f} s")
            for had, work in models.nights.values():
                print(f"{had.name}: {json.dumps(work.figures)}")
