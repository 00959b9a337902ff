"""Waking other processes of this user on this machine, through datagram sockets in the runtime directory.

Each waiter binds one socket:

    <runtime>/<team>/<pid>~<random>~<topic>.<topic>…

`<team>` is the CRC-32 of the home's real path and the team's name, `<topic>` that of the topic, or `all`. A checksum
keeps the path below the 104 bytes that a socket's name may have, and costs no import; two names with one checksum
wake each other for nothing, which the port allows. The topics stand in the file's name, so that binding registers
the waiter for all of them in one atomic step, and one `listdir` tells the writer whom to wake: one byte each, from
an unbound non-blocking socket. A socket whose owner was killed refuses the byte, and the writer removes it.

The runtime directory is `$XDG_RUNTIME_DIR/interlock`, else `/run/user/<uid>/interlock` (an agent's environment is often
scrubbed of the variable, and must end up in the same place), else `/tmp/interlock-<uid>`. It must be a real
directory, ours, and closed to others (0700); otherwise nobody is woken through it, and waiters poll instead.
"""

from __future__ import annotations

import os
import stat
from binascii import crc32
from collections.abc import Callable, Collection

from interlock import wakeup

PATH_BYTES = 103
"""The longest socket name that both Linux (107) and macOS (103) take, in bytes."""

EVERY_TOPIC = "all"


class SocketNotifier:
    """Wakes waiters in every process that uses the same home and runtime directory."""

    def __init__(self, home: str, runtime: str | None = None) -> None:
        """`home` is the directory of the teams; `runtime` overrides where the sockets are kept."""
        self._home = os.path.realpath(home)
        self._runtime = runtime or runtime_directory()
        self._directories: dict[str, str] = {}

    def notify(self, team: str, topics: Collection[str]) -> None:
        marks = {mark(topic) for topic in topics}
        if marks:
            self._rouse(self._directory(team), lambda name: hears(name, marks))

    def _rouse(self, directory: str, concerned: Callable[[str], bool]) -> None:
        try:
            names = os.listdir(directory)
        except OSError:
            return  # nobody waits, which is the usual case
        if names and trusted(self._runtime) and (found := [name for name in names if concerned(name)]):
            _send(directory, found)

    def waiter(
        self, team: str, topics: Collection[str], changed: Callable[[], bool] | None = None
    ) -> wakeup.notifier.Waiter:
        try:
            return self._bind(self._directory(team), topics, changed)
        except OSError:
            # No directory that can be trusted, no descriptors left, no such sockets here: late beats never.
            return wakeup.waiters.PollingWaiter(changed)

    def leftovers(self, team: str, *, remove: bool = False) -> list[str]:
        directory = self._directory(team)
        try:
            names = os.listdir(directory) if trusted(self._runtime) else []
        except OSError:
            return []
        found = [f"{directory}/{name}" for name in sorted(names) if not _runs(name.partition("~")[0])]
        for path in found if remove else ():
            try:
                os.unlink(path)
            except OSError:
                pass  # a writer was faster
        return found

    def _directory(self, team: str) -> str:
        found = self._directories.get(team)
        if found is None:
            name = crc32(os.fsencode(team), crc32(os.fsencode(self._home + "/")))
            found = self._directories[team] = f"{self._runtime}/{name:08x}"
        return found

    def _bind(
        self, directory: str, topics: Collection[str], changed: Callable[[], bool] | None
    ) -> wakeup.notifier.Waiter:
        import socket

        prepare(self._runtime)
        path = f"{directory}/{os.getpid()}~{os.urandom(4).hex()}~"
        marks = ".".join(sorted(map(mark, topics))) or EVERY_TOPIC
        if len(os.fsencode(path + marks)) > PATH_BYTES:
            marks = EVERY_TOPIC
        path += marks
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            receiver.setblocking(False)
            _bind_in(directory, receiver.bind, path)
        except OSError:
            receiver.close()
            raise

        def release() -> None:
            receiver.close()
            # The last one out removes the team's directory, so that writers find nothing to list.
            for remove, what in ((os.unlink, path), (os.rmdir, directory)):
                try:
                    remove(what)
                except OSError:
                    pass  # a writer was faster, or others still wait

        return wakeup.waiters.DescriptorWaiter(receiver.fileno(), changed, release)


def runtime_directory() -> str:
    """Where this user's sockets are kept; the directory may not exist yet."""
    for parent in (os.environ.get("XDG_RUNTIME_DIR"), f"/run/user/{os.getuid()}"):
        if parent and trusted(parent):
            return f"{parent}/interlock"
    return f"/tmp/interlock-{os.getuid()}"


def trusted(directory: str) -> bool:
    """True where `directory` is a real directory, belongs to us, and is closed to everybody else."""
    try:
        found = os.lstat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def prepare(runtime: str) -> None:
    """Make the runtime directory where it is missing.

    Raises:
        OSError: it cannot be made, or what is there cannot be trusted.
    """
    try:
        os.mkdir(runtime, 0o700)
    except FileExistsError:
        pass
    if not trusted(runtime):
        raise PermissionError(f"{runtime} must be a directory of mode 0700 that belongs to this user")


def mark(topic: str) -> str:
    """How a topic stands in a socket's name."""
    return f"{crc32(topic.encode('utf-8', 'surrogatepass')):08x}"


def hears(name: str, marks: Collection[str]) -> bool:
    """Whether the waiter whose socket has that name waits for one of those topics; where none is said, each does."""
    return not marks or not {EVERY_TOPIC, *marks}.isdisjoint(name.rpartition("~")[2].split("."))


def _bind_in(directory: str, bind: Callable[[str], None], path: str) -> None:
    """Bind, making the team's directory; the last waiter of the team may remove it at any moment."""
    for _ in range(100):
        try:
            os.mkdir(directory, 0o700)
        except FileExistsError:
            pass
        try:
            return bind(path)
        except FileNotFoundError:
            continue
    raise FileNotFoundError(f"{directory} is removed as often as it is made")


def _runs(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except (PermissionError, ValueError):
        return True  # another user's, or no name of ours
    return True


def _send(directory: str, names: Collection[str]) -> None:
    """One byte to each socket, and the dead ones removed."""
    import socket

    try:
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except OSError:
        return  # no descriptors left: the waiters' safety net covers it
    with sender:
        sender.setblocking(False)
        for name in names:
            path = f"{directory}/{name}"
            try:
                sender.sendto(b"!", path)
            except ConnectionRefusedError:
                try:
                    os.unlink(path)
                except OSError:
                    pass  # another writer was faster
            except OSError:
                pass  # full (it is being woken anyway), or gone
