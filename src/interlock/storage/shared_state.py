"""A small JSON file of a home that several processes read and write in turn, such as how far something was sent."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from interlock.storage.files import replace


@contextmanager
def shared_state(path: str, *, wait: bool = False) -> Iterator[dict[str, Any] | None]:
    """What the JSON file says, {} where it is absent or damaged, written again when the block ends; one process at a
    time. None, and nothing is written, while another is at it and nobody is to `wait`.

    Raises:
        OSError: it cannot be written.
    """
    directory, name = os.path.split(path)
    lock = os.path.join(directory, f".{name.removesuffix('.json')}.lock")
    descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(descriptor)
        yield None
        return
    try:
        state = read_state(path)
        before = json.dumps(state)
        yield state
        after = json.dumps(state)
        if after != before:
            replace(path, after.encode())
    finally:
        os.close(descriptor)


def read_state(path: str) -> dict[str, Any]:
    """What such a file says."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
