"""A home and a directory to work in, for whole turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.behaviours.driving import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A home and a directory to work in."""
    made = Place(tmp_path)
    yield made
    for name in made.home.teams():
        made.home.stop(name, now=True)
    made.home.close()
