"""Contenders that are asked over HTTP, by one client over one kept connection for each process."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, urlencode, urlsplit

from bench import homes
from bench.peers.contender import LEAD, MEMBERS, Contender, Failed
from bench.peers.packages import programs
from bench.server import server
from interlock.app.tokens import Tokens

SECONDS = 60
IDLE_SECONDS = 2.0


class Server(Contender):
    """Asks one server; a process that races reads its address from the place."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self._line: http.client.HTTPConnection | None = None
        self._asked = 0.0

    def headers(self) -> Mapping[str, str]:
        """What every request carries."""
        return {}

    def ask(self, method: str, path: str, body: object = None, refusal: int = 0) -> Any:
        """The answer's JSON; null when the status is `refusal`.

        Raises:
            Failed: another error, or no answer.
        """
        if self._line is None:
            parts = urlsplit(self.remembered("url"))
            self._line = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=SECONDS)
        if time.monotonic() - self._asked > IDLE_SECONDS:
            self._line.close()  # before the server does
        self._asked = time.monotonic()
        data = None if body is None else json.dumps(body).encode()
        try:
            self._line.request(method, path, data, {"Content-Type": "application/json", **self.headers()})
            answer = self._line.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._line.close()
            raise Failed(f"{method} {path}: {error!r}") from error
        if answer.status == refusal:
            return None
        if answer.status >= 300:
            raise Failed(f"{method} {path}: {answer.status} {said[:200]!r}")
        return json.loads(said)


class InterlockServer(Server):
    """`interlock up`. A message is acknowledged by a request of its own after it was read."""

    @contextmanager
    def prepared(self) -> Iterator[None]:
        homes.make(self.place, len(MEMBERS))
        up = ["-m", "interlock.surfaces.cli", "--home", str(self.place), "--json", "up", "--port", "0"]
        with server([sys.executable, *up]) as (url, _):
            self.remember(url=url, token=Tokens(str(self.place)).admin())
            yield

    def headers(self) -> Mapping[str, str]:
        if not self._token:
            self._token = self.remembered("token")
        return {"Authorization": f"Bearer {self._token}"}

    _token = ""

    def create(self, subject: str) -> str:
        return str(self._team("tasks", {"subject": subject})["id"])

    def tasks(self) -> list[str]:
        return [task["id"] for task in self.ask("GET", f"/api/teams/{homes.TEAM}/tasks?status=ready")["tasks"]]

    def claim(self, task: str, member: str) -> bool:
        return self._team(f"tasks/{task}/claim", {"by": member}, refusal=409) is not None

    def next(self, member: str) -> str | None:
        task = self._team("tasks-next", {"by": member})["task"]
        return task and str(task["id"])

    def finish(self, task: str, member: str) -> None:
        self._team(f"tasks/{task}/complete", {"by": member})

    def send(self, sender: str, to: str, content: str) -> None:
        self._team("messages", {"by": sender, "to": to, "content": content})

    def read(self, member: str) -> list[str]:
        session = {"session": f"reader-{os.getpid()}"}
        got = self._team(f"inbox/{member}/receive", session)["messages"]
        if got:
            self._team(f"inbox/{member}/ack", {**session, "ids": [one["id"] for one in got]})
        return [one["content"] for one in got]

    def _team(self, path: str, body: object, refusal: int = 0) -> Any:
        return self.ask("POST", f"/api/teams/{homes.TEAM}/{path}", body, refusal)


class Switchboard(Server):
    """`switchboard serve`, by its REST API. It leases names that its users agree on, and keeps no list of them."""

    lacks: ClassVar[Mapping[str, str]] = {
        "create": "has no tasks: it leases names that its users agreed on",
        "finish": "has no tasks; a lease is released or runs out",
    }
    NAMES = "names.json"

    @contextmanager
    def prepared(self) -> Iterator[None]:
        url = f"http://127.0.0.1:{_free_port()}"
        command = [programs("switchboard") / "switchboard", "serve", "--port", url.rpartition(":")[2]]
        environment = {**os.environ, "HOME": str(self.place), "SWITCHBOARD_TOKEN": ""}
        self.remember(url=url)
        (self.place / self.NAMES).write_text("[]")
        with _running([*map(str, command), "--db", str(self.place / "hub.db"), "--log-level", "warning"], environment):
            _until(lambda: self.ask("GET", "/health"))
            for member in (LEAD, *MEMBERS):
                self.ask("POST", "/agents/register", {"agent_id": member, "name": member})
            yield

    def create(self, subject: str) -> str:
        """Agree on a name: costs nothing, and is not measured."""
        names = [*self._names(), subject.replace(" ", "-")]
        (self.place / self.NAMES).write_text(json.dumps(names))
        return names[-1]

    def tasks(self) -> list[str]:
        held = {lease["resource"] for lease in self.ask("GET", "/leases")["leases"]}
        return [name for name in self._names() if name not in held]

    def claim(self, task: str, member: str) -> bool:
        return self.ask("POST", "/leases/acquire", {"resource": task, "agent_id": member}, refusal=409) is not None

    def next(self, member: str) -> str | None:
        """Each asks once which names are free, and goes through those in order."""
        if self._free is None:
            self._free = iter(self.tasks())
        return next((name for name in self._free if self.claim(name, member)), None)

    _free: Iterator[str] | None = None

    def send(self, sender: str, to: str, content: str) -> None:
        self.ask("POST", "/messages", {"channel": f"@{to}", "agent_id": sender, "body": content})

    def read(self, member: str) -> list[str]:
        got = self.ask("GET", f"/inbox?agent_id={member}&limit=1000")["messages"]
        return [str(one["body"]) for one in got]

    def _names(self) -> list[str]:
        found: list[str] = json.loads((self.place / self.NAMES).read_text())
        return found


class Cao(Server):
    """`cao-server`, by its REST API. A message is pasted into the terminal of an agent.

    The agent is a script behind CAO's own provider for tests, `mock_cli`: it writes down what is typed into it and
    prompts again, at once. tmux runs on a socket in the place.
    """

    lacks: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("create", "claim", "finish"), "has no list of tasks: a supervisor gives each to one agent"
    )
    AGENT = '#!/bin/bash\nprintf "❯ "\nwhile IFS= read -r line; do\n  printf "%s\\n" "$line" >> {log}\n'
    AGENT += '  printf "> MOCK: %s\\n❯ " "${{line:0:40}}"\ndone\n'

    @contextmanager
    def prepared(self) -> Iterator[None]:
        url = f"http://127.0.0.1:{_free_port()}"
        self._agent()
        environment = {
            **os.environ, "HOME": str(self.place), "CAO_HOME_DIR": str(self.place / "cao"), "SHELL": "/bin/bash",
            "PATH": f"{self.place}:{os.environ['PATH']}", "TMUX_TMPDIR": str(self.place), "TMUX": "",
        }  # fmt: skip
        cao = programs("cao")
        subprocess.run([str(cao / "cao"), "init"], env=environment, check=True, capture_output=True, timeout=SECONDS)
        self.remember(url=url)
        command = [str(cao / "cao-server"), "--host", "127.0.0.1", "--port", url.rpartition(":")[2]]
        try:
            with _running(command, environment):
                _until(lambda: self.ask("GET", "/health"))
                asked = {"agent_profile": "developer", "provider": "mock_cli", "working_directory": str(self.place)}
                terminal = self.ask("POST", f"/sessions?{urlencode(asked)}")["id"]
                self.remember(url=url, terminal=terminal)
                yield
        finally:
            subprocess.run(["tmux", "kill-server"], env=environment, capture_output=True)

    def send(self, sender: str, to: str, content: str) -> None:
        """Senders are named by ids of terminals; all messages go to the only one there is."""
        asked = urlencode({"sender_id": f"0000000{sender[-1]}", "message": content}, quote_via=quote)
        self.ask("POST", f"/terminals/{self.remembered('terminal')}/inbox/messages?{asked}")

    def read(self, member: str) -> list[str]:
        """What has been typed into the agent since the last call; waits until there is something."""
        log = self.place / "typed.log"
        for _ in range(SECONDS * 100):
            data = log.read_text("utf-8", "replace") if log.exists() else ""
            if found := re.findall(r"\bnote-\S*\d", data[self._seen :]):
                self._seen = len(data)
                return found
            time.sleep(0.01)
        return []

    _seen = 0

    def _agent(self) -> None:
        program = self.place / "mock_cli"
        program.write_text(self.AGENT.format(log=self.place / "typed.log"), encoding="utf-8")
        program.chmod(0o755)
        for name in (".bashrc", ".bash_profile"):
            (self.place / name).write_text(f"PATH={self.place}:$PATH\n")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _until(work: Callable[[], object]) -> None:
    """Wait until a server answers."""
    for _ in range(SECONDS * 10):
        with suppress(Failed):
            work()
            return
        time.sleep(0.1)
    raise Failed(f"it did not answer within {SECONDS} s")


@contextmanager
def _running(command: list[str], environment: Mapping[str, str]) -> Iterator[None]:
    """A server, ended at the end."""
    if not shutil.which(command[0]):
        raise Failed(f"there is no {command[0]}")
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet) as process:
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
