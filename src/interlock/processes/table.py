"""What processes exist, read from `/proc`, or from `ps` where there is none (macOS).

A start time is a whole number that only has a meaning on this machine and boot: clock ticks since the boot from
`/proc`, seconds since the epoch from `ps`. It is compared, never shown. `ps` knows no session ids and may hide
environments, so there the group id carries the weight.

Kept free of imports: `inject` loads this at each start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

PROC = os.path.exists("/proc/self/stat")

_FIELDS = "pid=,ppid=,pgid=,stat=,lstart="


class Row:
    """One process: its parent, process group and session, when it started, and whether it still runs."""

    __slots__ = ("group", "parent", "pid", "running", "session", "started")

    def __init__(self, pid: int, parent: int, group: int, session: int, running: bool, started: int) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.session = session
        self.running = running  # a zombie keeps its pid and its start time, but runs no more
        self.started = started


def row(pid: int) -> Row | None:
    """The process with that id, a zombie included; null when there is none."""
    if pid <= 0:
        return None
    if PROC:
        return _proc_row(pid)
    found = _ps_rows("-p", str(pid))
    return found[0] if found else None


def rows() -> list[Row]:
    """Every process that can be seen from here."""
    if not PROC:
        return _ps_rows("-A")
    return [found for name in os.listdir("/proc") if name.isdigit() and (found := _proc_row(int(name))) is not None]


def marked(pids: Iterable[int], marker: str) -> set[int]:
    """Those of `pids` that were started with `marker` (`NAME=value`) in their environment.

    Only processes of this user can be looked into; others are never among the answer.
    """
    if not PROC:
        return _ps_marked(marker).intersection(pids)
    # A marker that ends with "=" is a variable of any value.
    needle = b"\0" + os.fsencode(marker) + (b"" if marker.endswith("=") else b"\0")
    found = set()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            continue  # it ended meanwhile, or is somebody else's
        if needle in b"\0" + environment + b"\0":
            found.add(pid)
    return found


def environment(pid: int, variable: str) -> dict[str, str] | None:
    """The environment that a process was started with; null where `variable` is not in it, or it cannot be read."""
    if not PROC:
        which = ("-E", "-ww") if sys.platform == "darwin" else ("eww",)
        pairs = _run("ps", *which, "-p", str(pid), "-o", "command=").split()
    else:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                content = file.read()
        except OSError:
            return None  # it ended meanwhile, or is somebody else's
        if b"\0" + os.fsencode(variable) + b"=" not in b"\0" + content:
            return None
        pairs = os.fsdecode(content).split("\0")
    found = {name: value for name, equals, value in (pair.partition("=") for pair in pairs) if equals}
    return found if variable in found else None


def words(pid: int) -> list[str]:
    """The command line of a process; empty where it cannot be read."""
    if not PROC:
        return _run("ps", "-ww", "-p", str(pid), "-o", "command=").split()
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return os.fsdecode(file.read()).split("\0")[:-1]
    except OSError:
        return []


def named(name: bytes) -> list[int]:
    """The pids of what the system calls by that name; only where there is `/proc`."""
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _comm(pid) == name]


def names(pid: int) -> set[str]:
    """What that process is called: by the system, which cuts names, and by the first word of its command line."""
    called = {os.path.basename(word).lstrip("-") for word in words(pid)[:1]}
    return {*called, os.fsdecode(_comm(str(pid)))} if PROC else called


def _comm(pid: str) -> bytes:
    try:
        file = os.open(f"/proc/{pid}/comm", os.O_RDONLY)
    except OSError:
        return b""  # it ended meanwhile
    try:
        return os.read(file, 64).rstrip(b"\n")
    except OSError:
        return b""
    finally:
        os.close(file)


def boot() -> str:
    """What names the time since this machine was started."""
    if PROC:
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
                return file.read().strip()
        except OSError:
            return ""  # a sandbox that hides it: the start times still tell processes apart
    # The boot time moves when the clock is set; the session's UUID does not.
    return _run("sysctl", "-n", "kern.bootsessionuuid").strip() or _run("sysctl", "-n", "kern.boottime").strip()


def _proc_row(pid: int) -> Row | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The second field is the program's name in brackets, which may itself hold blanks and brackets.
    end = text.rfind(b")")
    fields = text[end + 2 :].split()
    if len(fields) < 20:
        return None
    running = fields[0] not in (b"Z", b"X", b"x")
    return Row(pid, int(fields[1]), int(fields[2]), int(fields[3]), running, int(fields[19]))


def _ps_rows(*which: str) -> list[Row]:
    import calendar
    import time

    found = []
    for line in _run("ps", *which, "-o", _FIELDS).splitlines():
        fields = line.split(None, 4)
        if len(fields) < 5:
            continue
        try:
            started = calendar.timegm(time.strptime(fields[4].strip(), "%a %b %d %H:%M:%S %Y"))
            pid, parent, group = int(fields[0]), int(fields[1]), int(fields[2])
        except ValueError:
            continue
        found.append(Row(pid, parent, group, group, not fields[3].startswith("Z"), started))
    return found


def _ps_marked(marker: str) -> set[int]:
    which = ("-A", "-E", "-ww") if sys.platform == "darwin" else ("axeww",)
    found = set()
    for line in _run("ps", *which, "-o", "pid=,command=").splitlines():
        pid, *words = line.split()
        if marker in words or (marker.endswith("=") and any(word.startswith(marker) for word in words)):
            found.add(int(pid))
    return found


def _run(*argv: str) -> str:
    import subprocess

    # Fixed language and time zone: the text is parsed, and must not change when the user travels.
    environment = {"PATH": "/bin:/usr/bin:/sbin:/usr/sbin", "LC_ALL": "C", "TZ": "UTC"}
    try:
        done = subprocess.run(argv, env=environment, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")
