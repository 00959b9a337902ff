"""Files: writing them so that a reader sees the old one or the new one, and locks between processes.

A `Tree` reaches everything from the descriptor of its root, one component after the other, and never through a
symbolic link: a link that somebody put inside the team's directory makes a write fail, it does not lead it elsewhere.
And a directory that is renamed meanwhile (a team being deleted) is not made again under its old name.

Not synced to disk: everything here can be written again from the ledger, which is.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

EDITED = ".edited-"
KEPT = 64
KEPT_DEPTH = 2
"""Directories kept open, and how deep they may be: those of states, inboxes and runs. Deeper ones move with their
tasks."""
FILE_MODE = 0o600
DIRECTORY_MODE = 0o700

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
# Not to wait: a FIFO that lies where a file should be would hold up the verb for ever.
_READ = os.O_RDONLY | os.O_NONBLOCK | _NOFOLLOW
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | _NOFOLLOW
_OVERWRITE = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | _NOFOLLOW
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | _NOFOLLOW


class NotAFile(OSError):
    """Something else (a directory, a link, a device) lies where a file should be."""


class Tree:
    """The files below `root`. Paths are relative to it, with slashes.

    Every method raises OSError where the file system refuses; nothing is then half-written.
    """

    def __init__(self, root: str) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        self._kept: dict[str, int] = {}
        self._busy = 0

    def __enter__(self) -> Tree:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget()
        os.close(self._root)

    def _keep(self, parts: list[str], make: bool) -> int:
        """The descriptor of a directory, which stays open for what else is to be done in it."""
        if not parts:
            return self._root
        path = "/".join(parts)
        if path not in self._kept:
            self._kept[path] = _step(self._keep(parts[:-1], make), parts[-1], make)
        return self._kept[path]

    def _forget(self) -> None:
        while self._kept:
            os.close(self._kept.popitem()[1])

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """The open directory that holds `path`, and the last part of `path`."""
        *parents, name = path.split("/")
        here, own = self._keep(parents[:KEPT_DEPTH], make), False
        for part in parents[KEPT_DEPTH:]:
            try:
                below = _step(here, part, make)
            finally:
                if own:
                    os.close(here)
            here, own = below, True
        self._busy += 1
        try:
            yield here, name
        finally:
            if own:
                os.close(here)
            self._busy -= 1
            if len(self._kept) > KEPT and not self._busy:
                self._forget()

    def read(self, path: str) -> bytes | None:
        """The content of a file; None where there is nothing.

        Raises:
            NotAFile: something else lies there.
        """
        try:
            descriptor = self._open(path, _READ)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            size = _regular(descriptor, path).st_size
            data = os.read(descriptor, size + 1)
            if len(data) == size:
                return data
            pieces = [data]
            while data:
                data = os.read(descriptor, 1 << 20)
                pieces.append(data)
            return b"".join(pieces)
        finally:
            os.close(descriptor)

    def size(self, path: str) -> int | None:
        """The size of a file in bytes; None where there is nothing.

        Raises:
            NotAFile: something else lies there.
        """
        try:
            with self._parent(path) as (parent, name):
                found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(found.st_mode):
            raise NotAFile(f"{path} is no file")
        return found.st_size

    def replace(self, path: str, data: bytes) -> None:
        """Put `data` at `path` in one step; directories on the way are made."""
        with self._parent(path, make=True) as (parent, name):
            temporary = f"{name}.{os.getpid()}.tmp"
            descriptor = _create(temporary, parent)
            try:
                try:
                    _write_all(descriptor, data)
                finally:
                    os.close(descriptor)
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except OSError:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=parent)
                raise

    def overwrite(self, path: str, data: bytes) -> None:
        """Put `data` at `path` in place, for what changes all the time. A reader, or a crash, may see half of it, so
        `data` must tell whether it is whole."""
        with self._parent(path, make=True) as (parent, name):
            descriptor = os.open(name, _OVERWRITE, FILE_MODE, dir_fd=parent)
            try:
                size = _regular(descriptor, path).st_size
                _write_all(descriptor, data)
                if size > len(data):
                    os.ftruncate(descriptor, len(data))
            finally:
                os.close(descriptor)

    def append(self, path: str, data: bytes, size: int) -> bool:
        """Append to a file that has exactly `size` bytes; false, and nothing written, where it has not."""
        try:
            descriptor = self._open(path, _APPEND)
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            found = _regular(descriptor, path)
            # The file may have a second name anywhere: then it is replaced rather than changed under both.
            if found.st_size != size or found.st_nlink != 1:
                return False
            try:
                _write_all(descriptor, data)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)
        return True

    def remove(self, path: str) -> None:
        """Remove a file that may be gone already."""
        try:
            with self._parent(path) as (parent, name):
                os.unlink(name, dir_fd=parent)
        except (FileNotFoundError, NotADirectoryError):
            return

    def move(self, source: str, target: str) -> bool:
        """Move a file or directory to where nothing lies; false where the source is gone or something lies there."""
        try:
            with self._parent(source) as (old, name), self._parent(target, make=True) as (new, new_name):
                if _exists(new_name, new):
                    return False
                os.rename(name, new_name, src_dir_fd=old, dst_dir_fd=new)
                self._drop(source)
        except FileNotFoundError:
            return False
        return True

    def make(self, path: str) -> None:
        """Make a directory, with those on the way."""
        with self._parent(f"{path}/.", make=True):
            return

    def names(self, path: str) -> list[str]:
        """What lies in a directory; nothing where there is none."""
        try:
            with self._parent(f"{path}/.") as (directory, _):
                return os.listdir(directory)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def is_directory(self, path: str) -> bool:
        """Whether a directory lies there."""
        try:
            with self._parent(f"{path}/."):
                return True
        except OSError:
            return False

    def remove_directory(self, path: str) -> None:
        """Remove a directory that is empty; one that is not stays."""
        try:
            with self._parent(path) as (parent, name):
                os.rmdir(name, dir_fd=parent)
                self._drop(path)
        except OSError:
            return  # Somebody else's file is in it, or it is gone.

    def lock(self, name: str) -> int:
        """A descriptor of the lock file `name`, which is made where it is missing. The caller closes it."""
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | _NOFOLLOW, FILE_MODE, dir_fd=self._root)

    def is_same(self, name: str, descriptor: int) -> bool:
        """Whether `name` in the root is still that open file."""
        try:
            there = os.stat(name, dir_fd=self._root, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(descriptor))

    def _drop(self, path: str) -> None:
        found = self._kept.pop(path, None)
        if found is not None:
            os.close(found)

    def _open(self, path: str, flags: int) -> int:
        with self._parent(path) as (parent, name):
            return os.open(name, flags, dir_fd=parent)


def _step(parent: int, name: str, make: bool) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        if not make:
            raise
    try:
        os.mkdir(name, DIRECTORY_MODE, dir_fd=parent)
    except FileExistsError:
        pass  # Another process was faster.
    return os.open(name, _DIRECTORY, dir_fd=parent)


def replace(path: str, data: bytes) -> None:
    """As `Tree.replace`, for a file in a directory that is there."""
    with Tree(os.path.dirname(path)) as tree:
        tree.replace(os.path.basename(path), data)


def _create(name: str, parent: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW
    try:
        return os.open(name, flags, FILE_MODE, dir_fd=parent)
    except FileExistsError:
        # Left behind by a killed process that had our number.
        os.unlink(name, dir_fd=parent)
        return os.open(name, flags, FILE_MODE, dir_fd=parent)


def _exists(name: str, parent: int) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _regular(descriptor: int, path: str) -> os.stat_result:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise NotAFile(f"{path} is no file")
    return found


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextmanager
def locked_directory(directory: str) -> Iterator[None]:
    """Wait until nobody else is in such a block for `directory`; nothing is written there.

    Raises:
        OSError: it is no directory that can be read.
    """
    with _locked(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)):
        yield


@contextmanager
def locked_file(file: str) -> Iterator[None]:
    """Wait until nobody else is in such a block for `file`, which is made where it is not and stays.

    Raises:
        OSError: it cannot be made or opened.
    """
    with _locked(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)):
        yield


@contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
