"""Waiting for what nobody announces: a file that a program writes, a process that another one ends."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 200.0
"""Seconds: a busy machine may take them, and a test that waits in vain is red anyway."""


def until(condition: Callable[[], object], patience: float = PATIENCE) -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.01)
