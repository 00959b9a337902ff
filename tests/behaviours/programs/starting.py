"""What the programs beside this one share: they say that they are ready, and wait for the word."""

from __future__ import annotations

import sys


def ready() -> None:
    """Print `ready` and wait until the test says go."""
    print("ready", flush=True)
    sys.stdin.readline()
