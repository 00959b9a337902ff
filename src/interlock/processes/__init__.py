"""Processes: which is which, the programs that Interlock runs, and how everything that they start is ended.

The name of this machine in what is stored stands here, since the hooks need it and load little. Two machines may have
one host name, as laptops of one make often do, and then share a ledger; a process of the one must not look dead to the
other. So the name has a mark of the machine's id, where the system has one (Linux).
"""

from __future__ import annotations

import os
from binascii import crc32

MARK = "@"


def bare_host() -> str:
    """The host name alone, as references were stored before they had a mark."""
    return os.uname().nodename.replace("|", "_")


def marked_host() -> str:
    """`name@mark`, or the name where the machine has no id."""
    try:
        with open("/etc/machine-id", "rb") as file:
            id = file.read(100).strip()
    except OSError:
        id = b""
    return f"{bare_host()}{MARK}{crc32(id):08x}" if id else bare_host()


def shown_host(host: str) -> str:
    """A stored name without what only tells machines apart."""
    return host.partition(MARK)[0]
