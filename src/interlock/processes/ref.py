"""Which process is which, and whether it still lives.

A process id alone names nothing for long: the system hands it out again. A `ProcessRef` adds the start time, the boot
and the host, so that what was stored before a crash can be judged afterwards.
"""

from __future__ import annotations

import os
from dataclasses import field, replace
from functools import cache

from interlock.errors import InvalidRequest, NotAvailable
from interlock.lazy_dataclass import dataclass
from interlock.processes import bare_host, marked_host, table

TOKEN_MARK = "#"


@dataclass(frozen=True, slots=True)
class ProcessRef:
    """One process, named so that no other is ever mistaken for it, stored as `host|boot|pid|started#token`.

    `started` is in the system's own units (see `table`). `token`, if any, is the run token in the environment of what
    the process starts; it is no part of its identity. It is chosen before there is a program, so that a crash can lose
    sight of none.
    """

    host: str
    boot: str
    pid: int
    started: int
    token: str | None = field(default=None, compare=False)

    @classmethod
    def parse(cls, text: str) -> ProcessRef:
        """Read what `as_text` wrote.

        Raises:
            InvalidRequest: `text` is not of that form.
        """
        process, _, token = text.strip().partition(TOKEN_MARK)
        fields = process.split("|")
        if len(fields) == 4 and fields[2].isdecimal() and fields[3].isdecimal() and int(fields[2]) > 0:
            return cls(fields[0], fields[1], int(fields[2]), int(fields[3]), token or None)
        raise InvalidRequest(f"{text!r} names no process: expected `host|boot|pid|started`.", value=text)

    def as_text(self) -> str:
        """The stored form, one line."""
        text = f"{self.host}|{self.boot}|{self.pid}|{self.started}"
        return text if self.token is None else f"{text}{TOKEN_MARK}{self.token}"

    @property
    def here(self) -> bool:
        """Whether it is, or was, a process of this machine."""
        return self.host in (this_host(), bare_host())

    def with_token(self, token: str) -> ProcessRef:
        """The same process, starting what carries `token`."""
        return replace(self, token=token)


def token_of(text: str) -> str | None:
    """The run token in a stored reference, also in one that names no process (`#token`)."""
    return text.partition(TOKEN_MARK)[2] or None


def without_token(text: str) -> str:
    """A stored reference as it may be shown: a run token lets its bearer act for the run."""
    return text.partition(TOKEN_MARK)[0]


def alive(process: ProcessRef | str) -> bool | None:
    """Whether that very process still runs; None on another host, where we cannot know.

    Text that names no process names none that lives.
    """
    if isinstance(process, str):
        try:
            process = ProcessRef.parse(process)
        except InvalidRequest:
            return False
    if not process.here:
        return None
    if process.boot != this_boot():
        return False
    row = table.row(process.pid)
    return row is not None and row.running and row.started == process.started


def identify(pid: int) -> ProcessRef | None:
    """The process that has `pid` now (ended but not yet waited for counts), or None."""
    row = table.row(pid)
    return None if row is None else ProcessRef(this_host(), this_boot(), pid, row.started)


@cache
def current() -> ProcessRef:
    """This process.

    Raises:
        NotAvailable: the system does not show processes.
    """
    found = identify(os.getpid())
    if found is None:
        raise NotAvailable("Processes cannot be told apart here: the system shows none of them.")
    return found


os.register_at_fork(after_in_child=current.cache_clear)


@cache
def this_host() -> str:
    """The name of this machine, as it is stored."""
    return marked_host()


@cache
def this_boot() -> str:
    """What names the time since this machine was started, as it is stored."""
    return table.boot().replace("|", "_")
