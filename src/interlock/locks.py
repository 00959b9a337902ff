"""Locks between processes, and between threads of one: each ends with its block, or with the process that holds it."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def alone_in(directory: str) -> Iterator[None]:
    """Wait until nobody else is in such a block for `directory`; nothing is written there.

    Raises:
        OSError: it is no directory that can be read.
    """
    with _alone(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)):
        yield


@contextmanager
def alone_with(file: str) -> Iterator[None]:
    """Wait until nobody else is in such a block for `file`, which is made where it is not and stays.

    Raises:
        OSError: it cannot be made or opened.
    """
    with _alone(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)):
        yield


@contextmanager
def _alone(descriptor: int) -> Iterator[None]:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
