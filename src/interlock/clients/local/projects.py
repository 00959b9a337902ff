"""Which projects' programs joined a team of this home: one small file each, so that nobody has to wait for another."""

from __future__ import annotations

import hashlib
import os

from interlock.errors import StorageError

DIRECTORY = "joined"


def listed(home: str) -> list[str]:
    """The directories, sorted.

    Raises:
        StorageError: they cannot be read.
    """
    where = os.path.join(home, DIRECTORY)
    found = []
    try:
        for name in os.listdir(where) if os.path.isdir(where) else ():
            with open(os.path.join(where, name), encoding="utf-8", errors="surrogateescape") as file:
                found.append(file.read())
    except OSError as error:
        raise StorageError(f"{where} cannot be read: {error}.", path=where) from error
    return sorted(found)


def note(home: str, project: str) -> None:
    """Add a directory.

    Raises:
        StorageError: it cannot be written.
    """
    try:
        os.makedirs(os.path.join(home, DIRECTORY), mode=0o700, exist_ok=True)
        with open(_path(home, project), "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(project)
    except OSError as error:
        raise StorageError(f"{home} cannot be written: {error}.", path=home) from error


def forget(home: str, project: str) -> None:
    """Take a directory out, if it is there.

    Raises:
        StorageError: it cannot be removed.
    """
    try:
        os.unlink(_path(home, project))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StorageError(f"{home} cannot be written: {error}.", path=home) from error


def _path(home: str, project: str) -> str:
    return os.path.join(home, DIRECTORY, hashlib.sha256(os.fsencode(project)).hexdigest()[:32])
