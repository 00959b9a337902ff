"""A team as an agent program sees it: through an MCP server of its own, which is killed now and then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

from interlock.errors import AnswerLost, InterlockError, LedgerBusy

SHOWN = {"in-progress": "in_progress"}


def _thing(said: dict[str, Any]) -> SimpleNamespace:
    """What a tool says of a thing, as the worker reads it: `run` is the number of a task's run, not its command."""
    made = SimpleNamespace(**said)
    if said.get("runId"):
        made.run = int(said["runId"].rpartition(".")[2])
    return made


class SpokenTeam:
    """What of `Team` the worker uses, as tools of `interlock mcp`."""

    def __init__(self, team: str, member: str, session: str | None, rng: Random) -> None:
        self._words = ["--team", team, "--as", member]
        self._variables = {**os.environ, **({"INTERLOCK_SESSION": session} if session else {})}
        self._rng = rng
        self._count = 0
        self._server: subprocess.Popen[str] | None = None

    def create_task(self, subject: str, **fields: Any) -> Any:
        return self._call("task_create", subject=subject, **fields)

    def next_task(self) -> Any:
        found = self._call("task_claim")
        return found if hasattr(found, "id") else None

    def claim(self, id: str, *, take_over: bool) -> Any:
        return self._call("task_claim", task_id=id, take_over=take_over)

    def complete(self, id: str, *, summary: str) -> Any:
        return self._call("task_complete", task_id=id, summary=summary)

    def release(self, id: str) -> Any:
        return self._call("task_update", task_id=id, release=True)

    def update(self, id: str, *, log: str) -> Any:
        return self._call("task_update", task_id=id, log=log)

    def send(self, *, to: str, content: str, client_id: str, urgent: bool) -> Any:
        return self._call("send_message", recipient=to, content=content, client_id=client_id, urgent=urgent)

    def tasks(self, *, status: str | None = None, owner: str | None = None, ready: bool = False, limit: int) -> Any:
        wanted = {"status": SHOWN[status]} if status else {}
        return self._call("task_list", **wanted, **({"owner": owner} if owner else {}), ready=ready, limit=limit).tasks

    @contextmanager
    def mail(self) -> Iterator[Any]:
        yield self._call("read_inbox")

    def _call(self, tool: str, **arguments: Any) -> Any:
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})
        found = json.loads(result["content"][0]["text"], object_hook=_thing)
        if result.get("isError"):
            error = InterlockError(found.message)
            error.code = found.error
            raise LedgerBusy(found.message) if found.error == LedgerBusy.code else error
        return found

    def _ask(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        server = self._server or self._begun()
        assert server.stdout is not None
        answer: dict[str, Any] = {}
        self._tell(server, method, parameters, id=self._count)
        if method == "tools/call" and self._rng.random() < 0.05:
            server.kill()
            self._server = None
        while answer.get("id") != self._count:
            line = server.stdout.readline()
            if not line:
                self._server = None
                # It begins for nobody whose home does not answer.
                assert server.wait() < 0 or "INTERLOCK_URL" in os.environ, "it ends by itself"
                raise AnswerLost("The MCP server has ended.")
            answer = json.loads(line)
        self._count += 1
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _begun(self) -> subprocess.Popen[str]:
        self._server = server = subprocess.Popen(
            [sys.executable, "-m", "interlock", "mcp", *self._words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self._variables,
        )  # fmt: skip
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "storm", "version": "1"}}
        self._ask("initialize", about)
        self._tell(server, "notifications/initialized", {})
        return server

    def _tell(self, server: subprocess.Popen[str], method: str, parameters: dict[str, Any], **more: Any) -> None:
        assert server.stdin is not None
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": parameters, **more}) + "\n")
        server.stdin.flush()
