"""Whether a program failed because its disk was full, which says nothing about what it was to do."""

from __future__ import annotations

import errno
import os
import re

NO_ROOM = 1 << 20
"""Bytes: on a disk with less, it was the disk."""
LITTLE_ROOM = 1 << 30
"""Bytes: with less, who says so is believed: what it had written it may have removed again when it failed."""
FULL = os.strerror(errno.ENOSPC)
_SAYS_SO = re.compile(r"no space left on device|disk quota exceeded|not enough space on the disk", re.IGNORECASE)


def lacked(said: str, *places: str) -> bool:
    """Whether what a program has `said` before it failed, and the disks of `places` and of temporary files, show that
    there was no space."""
    room = free(*places, os.environ.get("TMPDIR", "/tmp"))
    return room < NO_ROOM or (room < LITTLE_ROOM and _SAYS_SO.search(said) is not None)


def free(*places: str) -> float:
    """The bytes that are free on the fullest of their disks; infinity where none can be written."""
    return min((_free(place) for place in places), default=float("inf"))


def _free(place: str) -> float:
    try:
        disk = os.statvfs(place)
    except (AttributeError, OSError):  # There is none on Windows.
        return float("inf")
    if disk.f_flag & os.ST_RDONLY:
        return float("inf")
    return 0.0 if disk.f_files and not disk.f_favail else float(disk.f_bavail * disk.f_frsize)
