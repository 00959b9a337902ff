"""Fixtures of the behaviour tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.behaviours.driving import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A home and a directory to work in."""
    return Place(tmp_path)
