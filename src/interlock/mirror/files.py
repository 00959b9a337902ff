"""Writing files so that a reader sees the old one or the new one, never half of one.

Not synced to disk: everything here can be written again from the ledger, which is.
"""

from __future__ import annotations

import os

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700


def replace(path: str, data: bytes) -> None:
    """Put `data` at `path` in one step; directories on the way are made.

    Raises:
        OSError: the file system refused; nothing was half-written and no temporary file stays.
    """
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        descriptor = _create(temporary)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=DIRECTORY_MODE, exist_ok=True)
        descriptor = _create(temporary)
    try:
        try:
            _write_all(descriptor, data)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except OSError:
        remove(temporary)
        raise


def append(path: str, data: bytes, size: int) -> bool:
    """Append to a file that has exactly `size` bytes; false, and nothing written, where it has not.

    Raises:
        OSError: the file system refused; the file is as it was.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return False
    try:
        if os.fstat(descriptor).st_size != size:
            return False
        try:
            _write_all(descriptor, data)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)
    return True


def remove(path: str) -> None:
    """Remove a file that may be gone already."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def read(path: str) -> bytes | None:
    """The content of a regular file; null where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def _create(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), FILE_MODE)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
