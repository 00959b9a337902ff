"""Files that the engine keeps inside a project: written whole or not at all, readable after power loss, never through
a symbolic link that leads out of the project, with the modes any program's files have.

The mirror of the ledger has its own (`mirror.files`): those are private to the user and need not be synced.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress

from interlock.errors import InvalidRequest, NotFound, StorageError
from interlock.storage.files import locked_directory
from interlock.workflow.errors import StateConflict
from interlock.workflow.package.variables import DEFAULT_OUTPUT, INSTALLED, in_package

STATE_FOLDER = ".workflow-state"
ARCHIVE_FOLDER = ".rollback-archive"
MEMORY_FOLDER = ".memory-queue"
OURS = (STATE_FOLDER, ARCHIVE_FOLDER, MEMORY_FOLDER)
TRIES = 3

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)


def output_folder(project: str, configured: str) -> str:
    """The absolute path of a project's output folder.

    Raises:
        InvalidRequest: it lies outside the project, or within the installed package.
    """
    root = os.path.realpath(project)
    found = os.path.normpath(os.path.join(root, configured or DEFAULT_OUTPUT))
    leads = os.path.realpath(found)
    if not _within(leads, root):
        raise InvalidRequest(
            f"The output folder {configured!r} lies outside the project {root}; nothing is written there. Fix "
            "output_folder in the project's config.",
            field="output_folder",
        )
    if in_package(root, found, leads):
        raise InvalidRequest(
            f"The output folder {configured!r} lies within the installed package {INSTALLED}/, where nothing is ever "
            "written. Fix output_folder in the project's config or the workflow's settings, then start a new run.",
            field="output_folder",
        )
    return found


def inside(project: str, path: str) -> str:
    """The absolute path of a file of the project, whose directory may be a link only to within the project.

    Raises:
        InvalidRequest: it leads out of the project.
    """
    root = os.path.realpath(project)
    whole = os.path.normpath(os.path.join(root, path))
    parent = os.path.realpath(os.path.dirname(whole))
    if whole == root or not (_within(whole, root) and _within(parent, root)):
        raise InvalidRequest(f"{path} lies outside the project {root}; it is left alone.", field="path", path=path)
    return os.path.join(parent, os.path.basename(whole))


def relative(project: str, path: str) -> str:
    """`path`, absolute or from the project's root, as the slash-separated path from that root."""
    root = os.path.realpath(project)
    whole = os.path.normpath(os.path.join(root, path))
    if not _within(whole, root) and _within(os.path.realpath(whole), root):
        whole = os.path.realpath(whole)
    return os.path.relpath(whole, root).replace(os.sep, "/")


def put(path: str, data: bytes, mode: int | None = None, *, named: bool = True) -> None:
    """Put `data` at `path` in one step, on disk when this returns; directories on the way are made.

    What another name (a hard link) also shows is left as it is there: `path` becomes a file of its own. Without `named`
    power loss may bring back the older file, whole: for what is written from the ledger again anyway.

    Raises:
        StorageError: the file system refused; what was there still is.
    """
    parent, name = os.path.split(path)
    temporary = os.path.join(parent, f".{name[:100]}.{os.getpid()}.tmp")
    try:
        os.makedirs(parent, exist_ok=True)
        with suppress(FileNotFoundError):
            os.unlink(temporary)  # Left behind by a killed process that had our number.
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW, 0o666 if mode is None else 0o600
        )
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if mode is not None:
                os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
        if named:
            sync_directory(parent)
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary)
        raise StorageError(f"{path} could not be written: {error.strerror or error}.", path=path) from error


def get(path: str) -> bytes | None:
    """The content of a regular file; null where there is none, or something else.

    Raises:
        StorageError: it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if os.path.islink(path):
            return None
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.", path=path) from error
    with os.fdopen(descriptor, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None


def change(
    path: str,
    made: Callable[[str], str],
    *,
    stands: Callable[[], bool] = lambda: True,
    between: Callable[[], None] = lambda: None,
) -> str:
    """Change a file of the user as it is now, in its place; its text afterwards. Where what was written is not what
    `stands` then, it is taken back. `between` is called after each reading.

    Raises:
        StateConflict: it was changed by somebody else at each of three tries; nothing was written.
        NotFound, StorageError: it is gone, or cannot be written.
        UnicodeDecodeError: it is no text.
    """
    for _ in range(TRIES):
        before = get(path)
        if before is None:
            raise NotFound(f"{path} does not exist; nothing was written.", path=path)
        text = before.decode("utf-8")
        between()
        after = made(text)
        if after == text:
            return after
        # Writers of Interlock take turns; others are noticed by the content.
        with locked_directory(os.path.dirname(path)):
            if get(path) != before:
                continue
            mode = os.stat(path).st_mode & 0o7777
            put(path, after.encode(), mode)
            if stands():
                return after
            if get(path) == after.encode():  # Not where somebody else has written since: that is theirs.
                put(path, before, mode)
    raise StateConflict(
        f"{path} was changed by somebody else at each of {TRIES} tries; nothing was written. Try again.", path=path
    )


def drop(path: str) -> None:
    """Remove a file that may be gone already.

    Raises:
        StorageError: the file system refused.
    """
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"{path} could not be removed: {error.strerror or error}.", path=path) from error


def sha(data: bytes, kind: str = "blob") -> str:
    """What a content is known by: the id that git gives it."""
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(data)) + data, usedforsecurity=False).hexdigest()


def sync_directory(path: str) -> None:
    """Make the names in a directory lasting, where the file system can."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError:
        return  # Some file systems cannot sync a directory, and then need not.
    finally:
        os.close(descriptor)


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)
