"""Programs of others, installed by `make programs` exactly as `pins/` says. A test downloads nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import pinned


def home(name: str) -> Path:
    """The directory of an installed program; skips where it is not there, or not as its pin says."""
    if not pinned.is_there(name):
        pytest.skip(f"{name} is not installed: `make programs ARGS={name}` downloads it")
    return pinned.WHERE / name


def programs(name: str) -> str:
    """The directory with its commands, for PATH; skips like `home`."""
    home(name)
    return str(pinned.programs(name))
