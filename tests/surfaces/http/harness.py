"""A real `interlock up` in a process of its own, and a client that speaks plain HTTP to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import interlock
from interlock.app.tokens import Tokens
from tests import forked
from tests.forked import Forked
from tests.surfaces.http import documented

PATIENCE = 100.0


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Somebody who calls. `headers` go with every request."""

    host: str
    port: int
    headers: dict[str, str] = field(default_factory=dict)

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
        try:
            sent = {**self.headers, **(headers or {})}
            data = None
            if body is not None:
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                sent.setdefault("content-type", "application/json")
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            answer = Answer(response.status, response.headers, response.read())
            if answer.headers.get_content_type() == "application/json" and method != "HEAD":
                documented.check(method, path, answer.status, answer.json)
            return answer
        finally:
            connection.close()

    def get(self, path: str, **more: Any) -> Any:
        answer = self.call("GET", path, **more)
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json

    def post(self, path: str, body: Any = None, status: tuple[int, ...] = (200, 201), **more: Any) -> Any:
        answer = self.call("POST", path, {} if body is None else body, **more)
        assert answer.status in status, (answer.status, answer.body)
        return answer.json

    def refused(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, str]:
        answer = self.call(method, path, body, **more)
        assert set(answer.json) >= {"error", "message"}, answer.body
        return answer.status, answer.json["error"]

    def pages(self, path: str, under: str, limit: int = 2) -> list[Any]:
        """All of a list, got by pages; each but the last is full."""
        first, found, onward = f"{path}{'&' if '?' in path else '?'}limit={limit}", [], ""
        while True:
            page = self.get(first + onward)
            found += [page[under]]
            if page["next"] is None:
                assert all(len(one) == limit for one in found[:-1]) and (found[-1] or len(found) == 1), found
                return [item for one in found for item in one]
            onward = f"&after={quote(str(page['next']), safe='')}"

    def stream(self, after: str | None = None, last: str | None = None) -> Stream:
        return Stream(self, after, last)


class Stream:
    """A reader of /api/events, in a thread. `events` grows; `cursor` is where to go on."""

    def __init__(self, client: Client, after: str | None, last: str | None) -> None:
        self.events: list[dict[str, Any]] = []
        self.comments: list[str] = []
        self.cursor: str | None = None
        self.ended = threading.Event()
        self._changed = threading.Condition()
        self._connection = http.client.HTTPConnection(client.host, client.port, timeout=PATIENCE)
        headers = {**client.headers, **({} if last is None else {"last-event-id": last})}
        self._connection.request("GET", "/api/events" + ("" if after is None else f"?after={after}"), headers=headers)
        self._socket = self._connection.sock
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        assert self._answer.headers["content-type"].startswith("text/event-stream")
        threading.Thread(target=self._read, daemon=True).start()
        self.until(lambda: self.cursor is not None)

    def until(self, wanted: Any) -> None:
        """Wait until something is there."""
        with self._changed:
            assert self._changed.wait_for(wanted, PATIENCE), f"not within {PATIENCE} s; there is: {self.events}"

    def has(self, type: str, team: str | None = None) -> None:
        self.until(lambda: any(e["type"] == type and team in (None, e["team"]) for e in list(self.events)))

    def close(self) -> None:
        """Leave. The thread that reads notices it by the end of the line."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        assert self.ended.wait(PATIENCE)

    def _read(self) -> None:
        try:
            data = ""
            for raw in self._answer:
                line = raw.decode().rstrip("\r\n")
                with self._changed:
                    if line.startswith("data:"):
                        data += line[5:].lstrip()
                    elif line.startswith("id:"):
                        place = line[3:].strip()
                    elif line.startswith(":"):
                        self.comments.append(line[1:].strip())
                    elif not line:
                        if data:
                            self.events.append(json.loads(data))
                            data = ""
                            self.cursor = place
                        elif self.cursor is None and self.comments:
                            self.cursor = place
                    self._changed.notify_all()
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            pass
        finally:
            self._answer.close()
            self._connection.close()
            self.ended.set()
            with self._changed:
                self._changed.notify_all()


class Server:
    """One `interlock up`. `environment`: settings of that process alone; `program`: what Python executes for it, where
    it is not to be forked; `within`: the words of a command that starts it."""

    def __init__(
        self,
        home: Path,
        *,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = (),
        within: Sequence[str] = (),
    ) -> None:
        self.home = home
        self._local = interlock.connect(str(home), environment=environment or {})
        self.tokens: Tokens = self._local.tokens()
        words = ("--home", str(home), "--json", "up", "--port", str(port))
        self.process: subprocess.Popen[str] | Forked = (
            subprocess.Popen(
                [*within, sys.executable, *(program or ("-m", "interlock")), *words],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})},
            ) if program or within else Forked(forked.interlock, *words, environment=environment)
        )  # fmt: skip
        assert self.process.stdout is not None and self.process.stderr is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.ready = json.loads(line)
        self.url: str = self.ready["url"]
        parts = urlsplit(self.url)
        assert parts.hostname is not None and parts.port is not None
        self.host, self.port = parts.hostname, parts.port

    def client(self, secret: str | None = None, **headers: str) -> Client:
        """A caller with a token; the admin one by default."""
        secret = self.tokens.admin() if secret is None else secret
        return Client(self.host, self.port, {"authorization": f"Bearer {secret}", **headers})

    def stranger(self, **headers: str) -> Client:
        return Client(self.host, self.port, dict(headers))

    def browser(self) -> Client:
        """A person's browser that came in by a link."""
        cookie, key = self.come_in()
        return self.stranger(cookie=cookie, origin=self.url, **{"x-interlock-key": key})

    def come_in(self) -> tuple[str, str]:
        """What a browser with script has by a link: its cookie, and the key that its script keeps."""
        caller = self.stranger(accept="application/json", origin=self.url)
        answer = caller.call("POST", f"/open/{self.tokens.new_code()}")
        assert answer.status == 200, answer.body
        return answer.headers["set-cookie"].split(";")[0], json.loads(answer.body)["key"]

    def member(self, name: str, team: str) -> Client:
        return self.client(self.tokens.create(name, role="worker", team=team)[1])

    def person(self, name: str, role: str = "operator") -> Client:
        return self.client(self.tokens.create(name, role=role)[1])

    def ask_to_end(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> str:
        """End it; what it said on stderr."""
        self._local.close()
        if self.process.poll() is None:
            self.ask_to_end()
        _, said = self.process.communicate(timeout=PATIENCE)
        return said


def children(pid: int) -> list[int]:
    """The processes that a process has started, and those they started."""
    from interlock.processes import table

    rows = table.rows()
    found: list[int] = []
    parents = {pid}
    while parents:
        below = {row.pid for row in rows if row.parent in parents and row.running}
        found += below
        parents = below
    return found
