"""stdin and stdout for a protocol alone: a stray print, or a program that a verb starts, can neither corrupt it nor
read from it."""

from __future__ import annotations

import fcntl
import os
from typing import BinaryIO


def standard_streams() -> tuple[BinaryIO, int]:
    """Keep what stdin and stdout lead to for the protocol alone; return (file to read, descriptor to write).

    Descriptor 1 is led to stderr and descriptor 0 to nothing.
    """
    wire_in = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    wire_out = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(wire_in, "rb", closefd=False), wire_out
