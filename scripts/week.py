"""A week of a server in minutes: what grows while `interlock up` serves a team of 50 that is never idle.

    python scripts/week.py [--dose 0.01] [--days 7] [--json FILE]

Members create, claim and finish tasks, send and read mail, ask and are answered, over HTTP, Python, MCP and the command
line, each in processes of its own; shell agents are run by the server; readers of the page and of the events come and
go. Each day ends with `ledger prune` and a row of measurements. The whole dose is 20,000 tasks and 100,000 messages.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from email.message import Message
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

TEAM = "week"
Json = dict[str, Any]
TASKS, MEMBERS, SHELLS, DAYS = 20_000, 50, 4, 7
BY_AGENTS = 0.01
"""The share of tasks that shell agents do; members that joined do the others."""
SEND_EACH, BROADCAST_EACH, READ_EACH, ASK_EACH, PAGE_EACH = 2, 11, 4, 40, 25
"""Tasks per message to one member, per message to all, per look into an inbox, per question, per look at the page."""
INTERLOCK = [sys.executable, "-m", "interlock"]
PAGES = ("", "/board", "/board?by=owner", "/graph", "/members", "/messages", "/timeline", "/report")
PATIENCE, QUIET = 60.0, 3.0
"""Seconds until all connections and programs are over at most, and then before a measurement."""


@dataclass
class Day:
    """What one row says; times in ms, sizes in bytes."""

    day: int
    rss: int
    tree_rss: int
    processes: int
    fds: int
    threads: int
    ledger: int
    wal: int
    claim: float
    start: float
    start_cpu: float
    tasks: int = 0
    messages: int = 0
    logs: int = 0
    mirror: int = 0
    files: int = 0
    status: float = 0.0
    poll: float = 0.0
    board: float = 0.0
    rows: dict[str, int] = field(default_factory=dict)


class Server:
    """`interlock up` of one home, and how it is called."""

    def __init__(self, home: Path) -> None:
        self.home = home
        began = time.perf_counter()
        up = [*INTERLOCK, "--home", str(home), "--json", "up", "--port", "0"]
        with open(home.parent / "up.log", "ab") as log:
            self.process = subprocess.Popen(up, stdout=subprocess.PIPE, stderr=log)
        assert self.process.stdout is not None
        parts = urlsplit(json.loads(self.process.stdout.readline())["url"])
        self.address = f"{parts.hostname}:{parts.port}"
        self.call("GET", "/readyz")
        self.start = (time.perf_counter() - began) * 1000
        spent = psutil.Process(self.process.pid).cpu_times()
        self.start_cpu = (spent.user + spent.system) * 1000

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One call on a connection of its own."""
        with closing(Client(self.address, self.home)) as client:
            return client.call(method, path, body)

    def end(self) -> None:
        """End it as its user would."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Client:
    """A connection that is kept, with the home's own token."""

    def __init__(self, address: str, home: Path) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=120)
        self._headers = {"authorization": f"Bearer {(home / 'token').read_text().strip()}"}
        self.close = self._connection.close
        self.said: Message = Message()
        """The headers of the last answer."""

    def call(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> Any:
        """Send; answer with the parsed JSON, or the text of a page."""
        sent, kind = (None, {}) if body is None else (json.dumps(body), {"content-type": "application/json"})
        self._connection.request(method, path, sent, {**self._headers, **kind, **headers})
        answer = self._connection.getresponse()
        text, self.said = answer.read(), answer.headers
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")
        return json.loads(text) if text and "application/json" in str(self.said["content-type"]) else text


def members() -> list[str]:
    """Those who joined."""
    return [f"m{n}" for n in range(MEMBERS - SHELLS)]


# The processes that work: each says at its end how long its claims took.


def over_http(home: Path, address: str, tasks: int, who: list[str]) -> list[float]:
    """Members that speak HTTP; each change has a key, as of a client that sends again."""
    claims: list[float] = []
    base, key = f"/api/teams/{TEAM}", os.urandom(6).hex()
    with closing(Client(address, home)) as client:
        numbers = count()

        def post(path: str, **body: Any) -> Any:
            return client.call("POST", base + path, body, {"idempotency-key": f"{key}-{next(numbers)}"})

        for n in range(tasks):
            me, other = who[n % len(who)], who[(n * 7 + 1) % len(who)]
            id = post("/tasks", subject=f"Look at part {n}", body="What does it do, and why? " * 8, assignee=me)["id"]
            began = time.perf_counter()
            post(f"/tasks/{id}/claim", by=me)
            claims.append((time.perf_counter() - began) * 1000)
            if n % ASK_EACH == 0:
                asked = post("/questions", task_id=id, text="Which way?", options=["left", "right"], by=me)
                client.call("GET", f"{base}/questions")
                answer = {"reply": "left", "question_id": asked["id"]}
                client.call("POST", f"/api/projects/{TEAM}/tasks/{id}/reply", answer)
                post(f"/tasks/{id}/claim", by=me)
            post(f"/tasks/{id}/complete", by=me, summary=f"Part {n} is clear.")
            if n % SEND_EACH == 0:
                post("/messages", to=other, content=f"{id} is done, have a look.", by=me)
            if n % BROADCAST_EACH == 0:
                post("/broadcast", content=f"{id} changes what all build on.", by=me)
            if n % READ_EACH == 0:
                session = f"{key}-{n}"
                mail = post(f"/inbox/{me}/receive", session=session)["messages"]
                if mail:
                    post(f"/inbox/{me}/ack", session=session, ids=[one["id"] for one in mail])
            if n % PAGE_EACH == 0:
                client.call("GET", f"/projects/{TEAM}{PAGES[n // PAGE_EACH % len(PAGES)]}")
                client.call("GET", f"/projects/{TEAM}/tasks/{id}")
                client.call("GET", "/metrics")
    return claims


def over_python(home: Path, address: str, tasks: int, who: list[str]) -> list[float]:
    """Members that use the home's files, beside the server."""
    import interlock

    claims: list[float] = []
    opened = interlock.connect(str(home))
    team = opened.team(TEAM)
    for n in range(tasks):
        me, other = team.acting(who[n % len(who)], session=f"python-{os.getpid()}-{n}"), who[(n * 7 + 1) % len(who)]
        id = team.create_task(
            f"Look at module {n}", body="What does it do, and why? " * 8, assignee=who[n % len(who)]
        ).id
        began = time.perf_counter()
        me.claim(id)
        claims.append((time.perf_counter() - began) * 1000)
        me.complete(id, summary=f"Module {n} is clear.")
        if n % SEND_EACH == 0:
            me.send(to=other, content=f"{id} is done, have a look.")
        if n % BROADCAST_EACH == 0:
            me.broadcast(content=f"{id} changes what all build on.")
        if n % READ_EACH == 0:
            with me.mail() as mail:
                assert mail is not None
        me.end_session()
    opened.close()
    return claims


def over_mcp(home: Path, address: str, tasks: int, who: list[str]) -> list[float]:
    """Members that speak MCP over HTTP, each task in a session of its own."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "week", "version": "1"}}
    for n in range(tasks):
        me = who[n % len(who)]
        headers = {
            "accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18",
            "interlock-team": TEAM, "interlock-member": me,
        }  # fmt: skip
        with closing(Client(address, home)) as client:
            ask = partial(_asked, client, headers)
            ask("initialize", hello, id=1)
            headers["mcp-session-id"] = str(client.said["mcp-session-id"])
            ask("notifications/initialized", {})
            task = _used(ask, "task_create", subject=f"Look at file {n}", assignee=me)
            _used(ask, "task_claim", task_id=task["id"])
            _used(ask, "task_complete", task_id=task["id"], summary="It is clear.")
            _used(ask, "read_inbox")
            client.call("DELETE", "/mcp", headers=headers)
    return []


def _asked(client: Client, headers: Json, method: str, params: Json, **id: int) -> Any:
    said = client.call("POST", "/mcp", {"jsonrpc": "2.0", "method": method, "params": params, **id}, headers)
    return said if isinstance(said, dict) else said and json.loads(said.rpartition(b"data: ")[2])


def _used(ask: Callable[..., Any], tool: str, **given: str) -> Any:
    answer = ask("tools/call", {"name": tool, "arguments": given}, id=2)["result"]
    if answer.get("isError"):
        raise RuntimeError(f"{tool}: {answer}")
    return json.loads(answer["content"][0]["text"])


def over_commands(home: Path, address: str, tasks: int, who: list[str]) -> list[float]:
    """Members at a terminal, each command a process."""
    for n in range(tasks):
        me = ["--as", who[n % len(who)]]
        id = command(home, "task", "create", f"Look at command {n}", "--assignee", me[1], *me)["id"]
        command(home, "task", "claim", id, *me)
        command(home, "task", "complete", id, "--summary", "It is clear.", *me)
        command(home, "message", "read", *me)
    return []


WORK: dict[str, tuple[Callable[..., list[float]], float]] = {
    "http": (over_http, 0.145),
    "python-1": (over_python, 0.285),
    "python-2": (over_python, 0.285),
    "python-3": (over_python, 0.28),
    "mcp": (over_mcp, 0.003),
    "commands": (over_commands, 0.002),
}
"""Who works, and the share of the tasks."""


def command(home: Path, *words: str) -> Any:
    """One command, and what it says."""
    done = subprocess.run(
        [*INTERLOCK, "--home", str(home), "--team", TEAM, "--json", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{words}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def listen(home: Path, address: str, over: threading.Event) -> None:
    """Readers of the events that come, read a little, and leave without a word."""
    token, (host, port) = (home / "token").read_text().strip(), address.split(":")
    while not over.is_set():
        with suppress(OSError), closing(socket.create_connection((host, int(port)), timeout=5)) as line:
            line.sendall(
                f"GET /api/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
            )
            until = time.monotonic() + 1.0
            while time.monotonic() < until and not over.is_set() and line.recv(65536):
                pass
        over.wait(0.2)


@contextmanager
def listeners(home: Path, address: str, readers: int = 8) -> Iterator[None]:
    over = threading.Event()
    threads = [threading.Thread(target=listen, args=(home, address, over)) for _ in range(readers)]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        over.set()
        for one in threads:
            one.join()


# One day, and what is measured at its end.


def made_home(directory: Path) -> Path:
    """A home with the team: members that joined, and shell agents."""
    import interlock

    home = directory / "home"
    workdir = directory / "project"
    workdir.mkdir()
    opened = interlock.connect(str(home))
    opened.create_project(TEAM, str(workdir))
    team = opened.team(TEAM)
    team.configure({"member_limit": MEMBERS + 2, "task_limit": TASKS, "inbox_limit": 100 * TASKS, "parallel": 2})
    for name in members():
        team.spawn(name)
    for n in range(SHELLS):
        team.spawn(f"shell{n}", agent="shell")
    opened.close()
    return home


def day(server: Server, tasks: int) -> list[float]:
    """A day of that many tasks: how long claims over HTTP took."""
    home, by_agents = server.home, max(1, round(tasks * BY_AGENTS))
    commands = []
    for n in range(by_agents):
        wanted = {"subject": f"Run {n}", "run": f"echo part {n}; seq 2000", "assignee": f"shell{n % SHELLS}"}
        commands.append(server.call("POST", f"/api/teams/{TEAM}/tasks", wanted)["id"])
    crew = members()
    with listeners(home, server.address):
        at_work = {}
        for n, (name, (_, share)) in enumerate(WORK.items()):
            own = json.dumps(crew[n :: len(WORK)])
            share_of = max(1, round((tasks - by_agents) * share / sum(one for _, one in WORK.values())))
            words = [sys.executable, __file__, "--as", name, str(home), server.address, str(share_of), own]
            at_work[name] = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        said = {name: one.communicate()[0] for name, one in at_work.items()}
    for name, one in at_work.items():
        if one.returncode:
            raise SystemExit(f"{name} ended with {one.returncode}")
    for id in commands:
        while server.call("GET", f"/api/teams/{TEAM}/tasks/{id}")["state"] != "done":
            time.sleep(0.5)
    for name in (*members(), "lead"):  # Everybody reads all mail before the night.
        session = f"evening-{time.time_ns()}"
        while mail := server.call("POST", f"/api/teams/{TEAM}/inbox/{name}/receive", {"session": session})["messages"]:
            ids = [one["id"] for one in mail]
            server.call("POST", f"/api/teams/{TEAM}/inbox/{name}/ack", {"session": session, "ids": ids})
    return sorted(json.loads(said["http"]))


def measured(server: Server, number: int, claims: list[float]) -> Day:
    """A row."""
    import interlock

    home, process = server.home, psutil.Process(server.process.pid)
    base = home / "teams" / TEAM
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and (_connected(process) or process.children(recursive=True)):
        time.sleep(0.2)
    time.sleep(QUIET)
    below = process.children(recursive=True)
    row = Day(
        day=number, rss=process.memory_info().rss, tree_rss=sum(one.memory_info().rss for one in (process, *below)),
        processes=1 + len(below), fds=process.num_fds(), threads=process.num_threads(),
        ledger=_size(base / "ledger.db"), wal=_size(base / "ledger.db-wal"), claim=claims[len(claims) // 2],
        start=server.start, start_cpu=server.start_cpu,
    )  # fmt: skip
    for path in home.rglob("*"):
        if path.is_file():
            row.files += 1
            row.logs += _size(path) if path.suffix == ".log" else 0
            row.mirror += _size(path) if path.suffix in (".md", ".json", ".jsonl") else 0
    with closing(sqlite3.connect(f"file:{base}/ledger.db?mode=ro", uri=True)) as ledger:
        names = [name for (name,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        row.rows = {name: ledger.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}
        (row.messages,) = ledger.execute("SELECT coalesce(max(n), 0) FROM messages").fetchone()
        row.tasks = row.rows["tasks"]
    with closing(Client(server.address, home)) as client:
        row.board = _timed(lambda: client.call("GET", f"/projects/{TEAM}/board"))
        row.status = _timed(lambda: client.call("GET", f"/api/teams/{TEAM}/status"))
    opened = interlock.connect(str(home))
    row.poll = _timed(opened.team(TEAM).poll)
    opened.close()
    return row


def _connected(process: psutil.Process) -> bool:
    return any(one.status == psutil.CONN_ESTABLISHED for one in process.net_connections("tcp"))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _timed(call: Callable[[], object], times: int = 5) -> float:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append((time.perf_counter() - began) * 1000)
    return sorted(taken)[times // 2]


MB = 1_048_576
COLUMNS: dict[str, Callable[[Day], float]] = {
    "day": lambda row: row.day,
    "tasks": lambda row: row.tasks,
    "messages": lambda row: row.messages,
    "server MB": lambda row: row.rss / MB,
    "tree MB": lambda row: row.tree_rss / MB,
    "processes": lambda row: row.processes,
    "handles": lambda row: row.fds,
    "threads": lambda row: row.threads,
    "ledger MB": lambda row: row.ledger / MB,
    "WAL MB": lambda row: row.wal / MB,
    "logs MB": lambda row: row.logs / MB,
    "mirror MB": lambda row: row.mirror / MB,
    "files": lambda row: row.files,
    "claim ms": lambda row: row.claim,
    "status ms": lambda row: row.status,
    "poll ms": lambda row: row.poll,
    "board ms": lambda row: row.board,
    "start ms": lambda row: row.start,
    "its CPU ms": lambda row: row.start_cpu,
}


def line(row: Day | None = None) -> str:
    """A row of the table, or its head."""
    shown = [name if row is None else column(row) for name, column in COLUMNS.items()]
    texts = [one if isinstance(one, str) else f"{one:,.1f}" if isinstance(one, float) else f"{one:,}" for one in shown]
    return "| " + " | ".join(text.rjust(len(name)) for text, name in zip(texts, COLUMNS, strict=True)) + " |"


def week(directory: Path, dose: float, days: int, say: Callable[[str], None] = print) -> tuple[list[Day], Day]:
    """Live through the days; the last row is of a server that was started again after them."""
    home = made_home(directory)
    server = Server(home)
    rows = []
    say(line())
    try:
        for number in range(1, days + 1):
            claims = day(server, max(20, round(TASKS * dose / days)))
            time.sleep(1.1)  # `prune` keeps what is younger than the age it is given.
            command(home, "ledger", "prune", "--older-than", "0m")
            rows.append(measured(server, number, claims))
            say(line(rows[-1]))
    finally:
        server.end()
    server = Server(home)
    try:
        again = measured(server, days + 1, claims)
    finally:
        server.end()
    say(line(again))
    return rows, again


def verdict(rows: list[Day], again: Day) -> list[str]:
    """What grew between the second day and the last, and by how much."""
    first, last = rows[min(1, len(rows) - 1)], rows[-1]
    told = []
    for name in ("rss", "tree_rss", "processes", "fds", "threads", "wal", "logs"):
        before, after = getattr(first, name), getattr(last, name)
        told.append(f"{name}: {before:,} -> {after:,} ({(after - before) / (before or 1):+.1%})")
    told.append(f"start at the end: {again.start:.0f} ms, of them CPU {again.start_cpu:.0f} ms")
    told.append(f"rows: {last.rows}")
    return told


def main() -> None:
    if sys.argv[1:2] == ["--as"]:
        name, home, address, tasks, who = sys.argv[2:]
        print(json.dumps(WORK[name][0](Path(home), address, int(tasks), json.loads(who))))
        return
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--dose", type=float, default=1.0)
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    directory = Path(tempfile.mkdtemp(prefix="interlock-week-"))
    try:
        rows, again = week(directory, asked.dose, asked.days, lambda text: print(text, flush=True))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(*verdict(rows, again), sep="\n")
    if asked.json:
        asked.json.write_text(json.dumps([asdict(one) for one in (*rows, again)], indent=1))


if __name__ == "__main__":
    main()
