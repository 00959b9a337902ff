"""A team for agents to connect to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.team import Team


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    opened = interlock.connect(str(tmp_path / "home"))
    yield opened
    opened.close()


@pytest.fixture
def team(home: Home) -> Team:
    """A team of a lead and two seats."""
    made = home.create_team("alpha")
    made.spawn("ada")
    made.spawn("bob")
    return made
