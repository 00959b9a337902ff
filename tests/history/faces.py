"""The command line and MCP as an agent uses them: the agent lives on when the `interlock` that works for it is killed.

Each has the verbs of `Team` that it offers. Of a verb whose process was killed, a whole answer counts, however late it
is read; without one nobody can tell what was done.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

import interlock.storage.postgres.catalog
import interlock.storage.sqlite.catalog
import interlock.surfaces.cli.entry
import interlock.surfaces.cli.logs
import interlock.surfaces.cli.message
import interlock.surfaces.cli.server
import interlock.surfaces.cli.task
import interlock.surfaces.mcp.server  # noqa: F401
from interlock.errors import InterlockError
from interlock.surfaces.cli import main
from tests.history.client import NoAnswer, until

KILLED = 0.15
"""The part of the calls whose process is killed."""
PATIENCE = 100.0
"""Seconds after which an answer will never come."""
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "history", "version": "1"}}


class Face:
    """The verbs of one member in one session, over `interlock` processes of its own. `killed` is told of each kill."""

    name = ""
    lacks: tuple[str, ...] = ()
    """The verbs that it does not offer."""

    def __init__(self, words: Mapping[str, str], rng: Random, killed: Callable[[str], None]) -> None:
        self._environment = {f"INTERLOCK_{name.upper()}": value for name, value in words.items()}
        self._rng = rng
        self._killed = killed
        self._usual: dict[str, float] = {}

    def close(self) -> None:
        """End what still runs."""

    def create_task(self, subject: str) -> Any:
        return self._ask("create", subject=subject)

    def next_task(self) -> Any:
        return self._ask("next")

    def claim(self, task: str, *, take_over: bool) -> Any:
        return self._ask("claim", task=task, take_over=take_over)

    def complete(self, task: str) -> Any:
        return self._ask("complete", task=task)

    def release(self, task: str) -> Any:
        return self._ask("release", task=task)

    def heartbeat(self, task: str) -> Any:
        return self._ask("heartbeat", task=task)

    def task(self, task: str) -> Any:
        return self._ask("look", task=task)

    def tasks(self, *, ready: bool, limit: int) -> list[Any]:
        return [SimpleNamespace(**one) for one in self._ask("list", ready=ready, limit=limit).tasks]

    def send(self, *, to: str, content: str, urgent: bool) -> Any:
        return self._ask("send", to=to, content=content, urgent=urgent)

    def events(self, since: int, *, limit: int) -> tuple[list[Any], int]:
        found = self._ask("events", since=since, limit=limit)
        return [SimpleNamespace(**one) for one in found.events], found.next

    @contextmanager
    def mail(self) -> Iterator[Any]:
        messages = [SimpleNamespace(**one) for one in self._ask("receive").messages]
        yield SimpleNamespace(messages=messages, give_back=lambda: None)

    def _ask(self, verb: str, **given: Any) -> Any:
        began, usual = time.monotonic(), self._usual.get(verb, 0.1)
        after = self._rng.uniform(0.0, 1.3 * usual) if self._rng.random() < KILLED else None
        answer, failed = self._call(verb, given, after)
        self._usual[verb] = 0.8 * usual + 0.2 * (time.monotonic() - began)
        if failed:
            error = InterlockError(answer["message"])
            error.code = answer["error"]
            raise error
        if answer is None or answer.get("task", answer) is None:
            return None
        run = answer.get("run_id") or answer.get("runId") or ".0"
        return SimpleNamespace(**{**answer, "run": int(run.rpartition(".")[2])})

    def _call(self, verb: str, given: Mapping[str, Any], after: float | None) -> tuple[Any, bool]:
        """The answer, and whether it is a refusal; who answers is killed `after` so many seconds. Raises NoAnswer."""
        raise NotImplementedError

    def _begin(self, *words: str, **streams: Any) -> subprocess.Popen[bytes]:
        """An `interlock` that need not load what is loaded here, where no ledger was ever open."""

        def become() -> None:
            os.closerange(3, 256)  # Also the one by which Popen waits for a program.
            os.environ.update(self._environment)
            sys.argv = ["interlock", *words]
            try:
                main()
            finally:
                sys.stdout.flush()
                os._exit(0)

        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable], stdin=pipe, stdout=pipe, preexec_fn=become, **streams)


class CommandLine(Face):
    """A process for each verb."""

    name = "cli"
    lacks = ("acknowledge",)

    def _call(self, verb: str, given: Mapping[str, Any], after: float | None) -> tuple[Any, bool]:
        words = {
            "create": ["task", "create"], "look": ["task", "show"], "send": ["message", "send"], "events": ["events"],
            "receive": ["message", "read"],
        }.get(verb, ["task", verb])  # fmt: skip
        for name, value in given.items():
            option = f"--{name.replace('_', '-')}"
            if name in ("task", "subject", "content"):
                words.append(str(value))
            elif value is not False:
                words += [option] if value is True else [option, str(value)]
        process = self._begin("--json", *words, stderr=subprocess.PIPE)
        try:
            said, refusal = process.communicate(timeout=PATIENCE if after is None else after)
        except subprocess.TimeoutExpired:
            process.kill()
            said, refusal = process.communicate()
            if after is None:
                raise
            self._killed(self.name)
        for text, failed in ((said, False), (refusal, True)):
            line = text.splitlines(keepends=True)[-1:]
            if line and line[0].endswith(b"\n"):
                return json.loads(line[0]), failed
        if process.returncode >= 0:
            raise RuntimeError(f"{words} ended with {process.returncode}, and said {said!r} and {refusal!r}")
        raise NoAnswer


class McpServer(Face):
    """One process, and another one after each kill."""

    name = "mcp"
    lacks = ("acknowledge", "heartbeat", "events")
    _process: subprocess.Popen[bytes] | None = None
    _count = 0

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _call(self, verb: str, given: Mapping[str, Any], after: float | None) -> tuple[Any, bool]:
        task = {"task_id": given.get("task")}
        tool, arguments = {
            "create": ("task_create", given),
            "next": ("task_claim", {}),
            "claim": ("task_claim", {**task, "take_over": given.get("take_over")}),
            "complete": ("task_complete", task),
            "release": ("task_update", {**task, "release": True}),
            "look": ("task_list", {"id": given.get("task")}),
            "list": ("task_list", given),
            "send": ("send_message", {"recipient": given.get("to"), "content": given.get("content")}),
            "receive": ("read_inbox", {}),
        }[verb]
        if self._process is None and not until(self._start, PATIENCE):
            raise RuntimeError("no MCP server starts")
        answer = self._request("tools/call", {"name": tool, "arguments": arguments}, after)["result"]
        return json.loads(answer["content"][0]["text"]), answer.get("isError", False)

    def _start(self) -> bool:
        """Start a server; it ends by itself where the ledger is away."""
        self._process = self._begin("mcp")
        try:
            self._request("initialize", HELLO, None)
            self._say(method="notifications/initialized")
        except (RuntimeError, BrokenPipeError):
            self.close()
        return self._process is not None

    def _say(self, **message: Any) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def _request(self, method: str, params: Mapping[str, Any], after: float | None) -> Any:
        process = self._process
        assert process is not None and process.stdout is not None
        self._count += 1
        self._say(id=self._count, method=method, params=params)
        source, said = process.stdout.fileno(), b""
        end = time.monotonic() + (PATIENCE if after is None else after)
        while (answer := self._answer(said)) is None and (left := end - time.monotonic()) > 0:
            if select.select([source], [], [], left)[0]:
                said += (data := os.read(source, 1 << 20))
                if not data:
                    break
        if after is not None:
            process.kill()
            self._killed(self.name)
            answer = self._answer(said + process.communicate()[0])
            self._process = None
        if answer is None and after is None:
            raise RuntimeError(f"the MCP server did not answer {method} {params}, but said {said!r}")
        if answer is None:
            raise NoAnswer
        return answer

    def _answer(self, said: bytes) -> Any:
        return next((one for one in map(json.loads, said.split(b"\n")[:-1]) if one.get("id") == self._count), None)


BY_NAME: dict[str, type[Face]] = {one.name: one for one in (CommandLine, McpServer)}
