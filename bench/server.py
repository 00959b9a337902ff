"""What `interlock up` costs: its memory when nothing happens, and a page of task groups where there are 10,000.

The floor of the page is a bare Starlette application that answers the same JSON on the same uvicorn, asked by the same
client over one connection.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from bench.homes import AT, directory, ledger, make
from bench.measure import Row, at_least_times, at_most, in_turns, median
from interlock.app.tokens import Tokens

GROUPS = 10_000
CALLS = 400
PAGE = "/api/task-groups?limit=50"

BARE = """
import json, socket, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

data = json.load(open(sys.argv[1]))

def page(request):
    return JSONResponse(data)

listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listening.bind(("127.0.0.1", 0))
listening.listen(64)
print(json.dumps({"url": f"http://127.0.0.1:{listening.getsockname()[1]}"}), flush=True)
app = Starlette(routes=[Route("/api/task-groups", page)])
config = uvicorn.Config(app, http="h11", loop="asyncio", access_log=False, log_level="warning")
uvicorn.Server(config).run(sockets=[listening])
"""


def run() -> list[Row]:
    """Memory, then the page."""
    with directory() as home:
        make(home, members=3)
        _fill(home)
        headers = {"authorization": f"Bearer {Tokens(str(home)).admin()}"}
        up = ["-m", "interlock.surfaces.cli", "--home", str(home), "--json", "up", "--port", "0"]
        with server([sys.executable, *up]) as (url, pid), _client(url) as ours:
            memory = _memory(pid)
            page = _get(ours, headers)
            assert json.loads(page)["total_count"] == GROUPS
            (home / "page.json").write_bytes(page)
            with server([sys.executable, "-c", BARE, str(home / "page.json")]) as (url, _), _client(url) as bare:
                mine, floor = in_turns([lambda: _get(ours, headers), lambda: _get(bare, {})], CALLS, warm_up=50)
        rates = [1000 / median(taken) for taken in (mine, floor)]
    return [
        Row("memory of an idle interlock up", memory, goals=(at_most(110),), unit="MB"),
        Row(f"a page of {GROUPS} task groups, per second", rates[0], rates[1], (at_least_times(0.3),), unit="/s"),
    ]


def _fill(home: Path) -> None:
    rows = ledger(home)
    rows.execute("BEGIN IMMEDIATE")
    rows.executemany(
        "INSERT INTO chat_groups (id, created_at, updated_at, first_prompt, task_count, state_counts) "
        "VALUES (?, ?, ?, ?, 3, ?)",
        (
            (f"session-{n}", AT, AT, f"What does part {n} of the program do, and why?", '{"done":3}')
            for n in range(GROUPS)
        ),
    )
    rows.execute("COMMIT")
    rows.close()


@contextmanager
def server(command: list[str]) -> Iterator[tuple[str, int]]:
    """A server that says where it is: its address, and its process."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            parts = urlsplit(json.loads(process.stdout.readline())["url"])
            yield f"{parts.scheme}://{parts.netloc}", process.pid
        finally:
            process.terminate()


def _client(url: str) -> closing[http.client.HTTPConnection]:
    parts = urlsplit(url)
    return closing(http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=60))


def _get(connection: http.client.HTTPConnection, headers: dict[str, str]) -> bytes:
    connection.request("GET", PAGE, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    assert answer.status == 200, body
    return body


def _memory(pid: int) -> float:
    """Resident memory of a process that has had a moment to settle, in MB."""
    time.sleep(3.0)
    told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
    return int(told) / 1024
