"""The official suite for MCP servers, `@modelcontextprotocol/conformance`, against `interlock up`, and against a server
with the suite's own tools, resources and prompts on our layer.

`conformance-*.yml` beside this file lists what fails and why; the suite itself also fails where something listed there
passes. `make programs ARGS=conformance` installs it.
"""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests import pinned
from tests.surfaces.http.harness import Server

HERE = Path(__file__).parent
FIXTURE = (str(HERE / "fixture_server.py"),)
SECONDS = 300

pytestmark = [pytest.mark.long, pytest.mark.npm, pytest.mark.timeout(2 * SECONDS)]


class Signed:
    """A door to a server that gives every request a token; the suite has none."""

    def __init__(self, server: Server, token: str) -> None:
        self._address = (server.host, server.port)
        self._line = f"\r\nAuthorization: Bearer {token}\r\nConnection: close".encode()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=[self._socket.accept()[0]], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._address) as server, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                if not (got := client.recv(65536)):
                    return
                head += got
            first, _, rest = head.partition(b"\r\n")
            server.sendall(first + self._line + b"\r\n" + rest)
            threading.Thread(target=_pump, args=[client, server], daemon=True).start()
            _pump(server, client)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while got := source.recv(65536):
            target.sendall(got)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def suite() -> list[str]:
    """The command; skips where it is not installed."""
    programs = pinned.programs("conformance")
    return [f"{programs}/node", f"{programs}/conformance"]


@pytest.fixture(params=["up", "fixture"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """(which, address) of a server with a team that has a task."""
    server = Server(tmp_path / "home", **({"program": FIXTURE} if request.param == "fixture" else {}))
    admin = server.client()
    admin.post("/api/teams", {"name": "alpha"})
    admin.post("/api/teams/alpha/members", {"name": "ann"})
    admin.post("/api/teams/alpha/tasks", {"subject": "Write the parser"})
    door = Signed(server, server.tokens.create("ann", role="worker", team="alpha")[1])
    yield request.param, f"http://127.0.0.1:{door.port}/mcp"
    door.close()
    assert "Traceback" not in server.close()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_what_the_specification_requires_and_we_offer_passes(
    suite: list[str], served: tuple[str, str], revision: str, tmp_path: Path
) -> None:
    which, url = served
    baseline = HERE / f"conformance-{which}.yml"
    words = [*suite, "server", "--url", url, "--requirements", revision]
    ran = subprocess.run(
        [*words, "--expected-failures", str(baseline), "--output-dir", str(tmp_path / "results")],
        capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert ran.returncode == 0 and "Baseline check passed" in ran.stdout, ran.stdout[-5000:] + ran.stderr[-2000:]


@pytest.mark.parametrize("served", ["fixture"], indirect=True)
def test_calls_that_last_are_durable_tasks(suite: list[str], served: tuple[str, str], tmp_path: Path) -> None:
    """Left out: what asks the client for input (no question of ours does), and a tool that only tasks can call."""
    scenarios = (
        "lifecycle capability-negotiation wire-fields request-state-removal request-headers dispatch-and-envelope"
    )
    words = [*suite, "server", "--url", served[1], "--expected-failures", str(HERE / "conformance-fixture.yml")]
    for scenario in scenarios.split():
        ran = subprocess.run(
            [*words, "--scenario", f"tasks-{scenario}", "--output-dir", str(tmp_path / "results")],
            capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
        assert ran.returncode == 0 and "Baseline check passed" in ran.stdout, ran.stdout[-5000:] + ran.stderr[-2000:]
