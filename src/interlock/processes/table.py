"""What processes exist: read from `/proc`, or by psutil where there is none (macOS).

A start time is a whole number that only has a meaning on this machine and boot: the kernel's clock ticks since the boot
from `/proc`, its seconds since the epoch elsewhere. It is compared, never shown.

psutil takes longer to import than most commands to run, so that `/proc` is read without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

PROC = sys.platform == "linux" or os.path.exists("/proc/self/stat")


class Row(NamedTuple):
    """One process. A zombie keeps its pid and its start time, but is not `running`; its group may be unknown: 0."""

    pid: int
    parent: int
    group: int
    session: int
    running: bool
    started: int


def row(pid: int) -> Row | None:
    """The process with that id, a zombie included; None when there is none."""
    if pid <= 0:
        return None
    if not PROC:
        return _psutil_row(pid)
    # The second field is the program's name in brackets, which may itself hold blanks and brackets.
    _, _, text = _read(pid, "stat").rpartition(b")")
    fields = text.split()
    if len(fields) < 20:
        return None
    running = fields[0] not in (b"Z", b"X", b"x")
    return Row(pid, int(fields[1]), int(fields[2]), int(fields[3]), running, int(fields[19]))


def _psutil_row(pid: int) -> Row | None:
    import psutil

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            # The public `create_time()` moves when the clock is set; this is the kernel's own.
            started = int(process._proc.create_time(monotonic=True))
            running = process.status() != psutil.STATUS_ZOMBIE
            group, session = (os.getpgid(pid), os.getsid(pid)) if running else (0, 0)
            return Row(pid, int(process.ppid()), group, session, running, started)
    except (psutil.Error, OSError):
        return None


def rows() -> list[Row]:
    """Every process that can be seen from here."""
    return [found for pid in _pids() if (found := row(pid)) is not None]


def _pids() -> list[int]:
    if PROC:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    import psutil

    return list(psutil.pids())


def environment(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty for one of another user, or that has ended."""
    if PROC:
        pairs = (pair.partition("=") for pair in os.fsdecode(_read(pid, "environ")).split("\0"))
        return {name: value for name, equals, value in pairs if equals}
    return dict(_asked(pid, "environ") or {})


def marked(pids: Iterable[int], marker: str) -> set[int]:
    """Those of `pids` that were started with `marker` (`NAME=value`, or `NAME=` for any value) in their environment.

    Only processes of this user can be looked into; others are never among the answer.
    """
    if not PROC:
        name, _, value = marker.partition("=")
        found = {pid: environment(pid).get(name) for pid in pids}
        return {pid for pid, has in found.items() if has is not None and value in ("", has)}
    needle = b"\0" + os.fsencode(marker) + (b"" if marker.endswith("=") else b"\0")
    return {pid for pid in pids if needle in b"\0" + _read(pid, "environ") + b"\0"}


def words(pid: int) -> list[str]:
    """The command line of a process; empty where it cannot be read."""
    if PROC:
        return os.fsdecode(_read(pid, "cmdline")).split("\0")[:-1]
    return list(_asked(pid, "cmdline") or [])


def names(pid: int) -> set[str]:
    """What that process is called: by the system, which cuts names, and by the first word of its command line."""
    called = {os.path.basename(word).lstrip("-") for word in words(pid)[:1]}
    return {*called, os.fsdecode(_read(pid, "comm").rstrip(b"\n")) if PROC else str(_asked(pid, "name") or "")} - {""}


def named(name: bytes) -> list[int]:
    """The pids of what the system calls by that name; only where there is `/proc`."""
    return [pid for pid in _pids() if _read(pid, "comm").rstrip(b"\n") == name]


def boot() -> str:
    """What names the time since this machine was started."""
    if PROC:
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
                return file.read().strip()
        except OSError:
            return ""  # a sandbox that hides it: the start times still tell processes apart
    import subprocess

    # The boot time moves when the clock is set; the session's UUID does not.
    asked = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
    try:
        done = subprocess.run(asked, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()


def _read(pid: int, name: str) -> bytes:
    """A file of that process; empty where it has ended meanwhile, or is another user's."""
    try:
        with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def _asked(pid: int, what: str) -> Any:
    import psutil

    try:
        return psutil.Process(pid).as_dict([what])[what]
    except psutil.Error:
        return None
