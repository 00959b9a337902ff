"""Which process of this machine is at the other end of a connection, as far as that matters: whether it is a run's.

Where the far end is on this machine, the system's table of connections has it, too, with the number of its socket;
whoever holds that socket is the caller. Only what descends from supervisors is searched: while no run is open, a
connection costs a look at the names of all processes, one or two milliseconds. Where the far end has no holder any
more, it has sent its request and gone: it cannot hear the answer, and while a run is open it is taken for one of its
processes.

Known on Linux only, for processes that this user may look into.
"""

from __future__ import annotations

import ipaddress
import os
import sys

from interlock.model.run import RunOrigin
from interlock.processes import ancestry, groups, table
from interlock.processes.supervisor import NAME

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def origin(home: str, client: tuple[str, int], server: int) -> RunOrigin | None:
    """The run of that home that the process belongs to which has connected from `client` (address and port) to the port
    `server`; None where it is none's, or cannot be known."""
    if not table.PROC:
        return None
    tops = table.named(NAME)
    runs = [(top, found) for top in tops if (found := ancestry.origin_of(top, home)) is not None]
    if not runs:
        return None
    socket = _socket(*client, server)
    if socket is None:
        return None  # It is on another machine, or in a network of its own.
    if socket == "0":
        return RunOrigin(0)
    rows = table.rows()
    for top, found in runs:
        for row in groups.descendants(rows, top):
            if _holds(row.pid, f"socket:[{socket}]"):
                return found
    return None


def _socket(address: str, port: int, server: int) -> str | None:
    """The number of the socket at that address and port which is connected to the port `server`."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    wanted = ((mapped or found).packed, port, server)
    for path in TABLES:
        try:
            with open(path, encoding="ascii") as file:
                next(file)
                for line in file:
                    fields = line.split()
                    (here, number), (_, other) = fields[1].split(":"), fields[2].split(":")
                    if (int(number, 16), int(other, 16)) == wanted[1:] and _decoded(here) == wanted[0]:
                        return fields[9]
        except OSError:
            continue
    return None


def _decoded(place: str) -> bytes:
    """An address as the table writes it: words of 32 bits in the machine's own order."""
    raw = bytes.fromhex(place)
    words = b"".join(int.from_bytes(raw[at : at + 4], "big").to_bytes(4, sys.byteorder) for at in range(0, len(raw), 4))
    return words[12:] if words.startswith(b"\0" * 10 + b"\xff\xff") else words


def _holds(pid: int, socket: str) -> bool:
    try:
        held = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False  # It has ended, or is another user's.
    for number in held:
        try:
            if os.readlink(f"/proc/{pid}/fd/{number}") == socket:
                return True
        except OSError:
            continue  # It was closed meanwhile.
    return False
