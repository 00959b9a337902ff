"""One server for the tests of a module, and a team of their own for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.surfaces.http.harness import Client, Server

_numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("home"))
    yield made
    said = made.close()
    assert made.process.returncode == 0, said
    assert "Traceback" not in said, said


@pytest.fixture
def admin(server: Server) -> Client:
    return server.client()


@pytest.fixture
def team(admin: Client) -> str:
    """A new team with the member bob."""
    name = f"team-{next(_numbers)}"
    admin.post("/api/teams", {"name": name})
    admin.post(f"/api/teams/{name}/members", {"name": "bob"})
    return name


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Begin servers of one's own."""
    made: list[Server] = []

    def begin(home: Path | None = None, **more: object) -> Server:
        made.append(Server(home or tmp_path / "home", **more))  # type: ignore[arg-type]
        return made[-1]

    yield begin
    for server in made:
        server.close()
