"""Which process is which, and whether it still lives.

A process id alone names nothing for long: the system hands it out again. A `ProcessRef` adds the start time, the boot
and the host, so that a record made before a crash can be judged afterwards.
"""

from __future__ import annotations

import os

from interlock.errors import InvalidRequest, NotAvailable
from interlock.processes import table

_GENERATIONS = 32
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "busybox"})


class ProcessRef:
    """One process, named so that no other process is ever mistaken for it."""

    __slots__ = ("boot", "host", "pid", "started")

    def __init__(self, pid: int, started: str, boot: str, host: str) -> None:
        self.pid = pid
        self.started = started
        self.boot = boot
        self.host = host

    def as_text(self) -> str:
        """`host|boot|pid|started`, one line."""
        return f"{self.host}|{self.boot}|{self.pid}|{self.started}"

    @classmethod
    def parse(cls, text: str) -> ProcessRef:
        """The reverse of `as_text`.

        Raises:
            InvalidRequest: `text` is not of that form.
        """
        fields = text.strip().split("|")
        if len(fields) == 4 and fields[2].isdecimal() and fields[3].isdecimal() and int(fields[2]) > 0:
            return cls(int(fields[2]), fields[3], fields[1], fields[0])
        raise InvalidRequest(f"{text!r} names no process: expected `host|boot|pid|started`.", value=text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProcessRef) and self.as_text() == other.as_text()

    def __hash__(self) -> int:
        return hash(self.as_text())

    def __repr__(self) -> str:
        return f"ProcessRef({self.as_text()!r})"


_current: ProcessRef | None = None
_boot: str | None = None


def current() -> ProcessRef:
    """This process.

    Raises:
        NotAvailable: the system has neither `/proc` nor `ps`.
    """
    global _current
    if _current is None or _current.pid != os.getpid():
        _current = identify(os.getpid())
        if _current is None:
            raise NotAvailable("Processes cannot be told apart here: neither /proc nor ps can be read.")
    return _current


def identify(pid: int) -> ProcessRef | None:
    """The process that has `pid` now (ended but not yet waited for counts), or null."""
    row = table.row(pid)
    return None if row is None else ProcessRef(pid, str(row.started), this_boot(), this_host())


def ancestors() -> list[ProcessRef]:
    """The processes that this one descends from, its parent first."""
    found: list[ProcessRef] = []
    row = table.row(os.getpid())
    while row is not None and row.parent > 1 and len(found) < _GENERATIONS:
        row = table.row(row.parent)
        if row is not None:
            found.append(ProcessRef(row.pid, str(row.started), this_boot(), this_host()))
    return found


def starter() -> ProcessRef | None:
    """The program that had this one started: the nearest ancestor that is no shell which only carries out a command."""
    found = ancestors()
    for identity in found:
        words = table.words(identity.pid)
        shell = bool(words) and os.path.basename(words[0]).lstrip("-") in _SHELLS
        if not (shell and any(word.startswith("-") and word.endswith("c") for word in words[1:4])):
            return identity
    return found[0] if found else None


def alive(identity: ProcessRef) -> bool | None:
    """Whether that very process still runs; null on another host, where we cannot know."""
    if identity.host != this_host():
        return None
    if identity.boot != this_boot():
        return False
    row = table.row(identity.pid)
    return row is not None and row.running and str(row.started) == identity.started


def this_host() -> str:
    return os.uname().nodename.replace("|", "_")


def this_boot() -> str:
    global _boot
    if _boot is None:
        _boot = table.boot().replace("|", "_")
    return _boot


def _forget() -> None:
    global _current
    _current = None


os.register_at_fork(after_in_child=_forget)
