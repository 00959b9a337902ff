"""One served home for the pages of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import interlock
from interlock.app.home import Home
from tests.surfaces.http.harness import Client, Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("home"))
    yield made
    said = made.close()
    assert "Traceback" not in said, said


@pytest.fixture(scope="module")
def home(server: Server) -> Iterator[Home]:
    """The same home, from outside the server."""
    found = interlock.connect(str(server.home))
    yield found
    found.close()


@pytest.fixture(scope="module")
def browser(server: Server) -> Client:
    """A person's browser."""
    made = server.browser()
    made.headers["accept"] = "text/html"
    return made
