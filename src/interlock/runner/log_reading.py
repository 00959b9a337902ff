"""Reading the log of a run, or another file of it, which may be large: by lines, or by bytes."""

from __future__ import annotations

import os

from interlock.processes.output import LINE_BYTES

BEFORE = 5
"""So many lines are read before the one that was looked for."""
_PIECE = 1 << 20


def read_lines(path: str, *, first: int | None, find: str | None, most: int) -> tuple[int, list[str], int, int | None]:
    """Read at most `most` lines of a log that may be large, without holding it.

    Args:
        first: the number of the first line that is wanted, from 1; `None`: the last ones.
        find: go on to the first line from `first` on (or from the beginning) that has these words, in either case.

    Returns:
        (number of the first line, the lines, how many the log has, the number of the line that was found).

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        log = file.fileno()
        size = os.fstat(log).st_size
        total = _newlines(log, 0, size) + (size > 0 and os.pread(log, 1, size - 1) != b"\n")
        found = None
        if find:
            from_byte = _start_of(log, first or 1)
            if (at := _find(log, find.encode().lower(), from_byte)) >= 0:
                found = (first or 1) + _newlines(log, from_byte, at)
                first = max(1, found - BEFORE)
        first = max(1, total - most + 1 if first is None else min(first, total))
        at = _start_of(log, first)
        lines: list[str] = []
        while len(lines) < most and (piece := os.pread(log, LINE_BYTES, at)):
            line, end, _ = piece.partition(b"\n")
            at = at + len(line) + 1 if end else _find(log, b"\n", at) + 1 or size
            lines.append(line.decode("utf-8", "replace").rstrip("\r"))
    return first, lines, total, found


def read_part(path: str, start: int, most: int) -> tuple[bytes, int]:
    """Read at most `most` bytes from the byte `start` on; of a link, where it leads.

    Returns:
        (the bytes, how many the file has).

    Raises:
        OSError: it cannot be read.
    """
    if os.path.islink(path):
        leads = os.fsencode(os.readlink(path))
        return leads[start : start + most], len(leads)
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0) as file:
        return os.pread(file.fileno(), most, start), os.fstat(file.fileno()).st_size


# Read rather than mapped: a mapped file that somebody cuts short ends the process.
def _find(log: int, words: bytes, start: int) -> int:
    """Return where lower-case words begin in either case, or -1."""
    at = start
    while piece := os.pread(log, _PIECE + len(words) - 1, at):
        if (found := piece.lower().find(words)) >= 0:
            return at + found
        at += _PIECE
    return -1


def _newlines(log: int, start: int, end: int) -> int:
    return sum(os.pread(log, min(_PIECE, end - at), at).count(b"\n") for at in range(start, end, _PIECE))


def _start_of(log: int, line: int) -> int:
    """Return where a line begins, counted from 1; the end of the log where there are fewer."""
    left, at = line - 1, 0
    while left and (piece := os.pread(log, _PIECE, at)):
        count = piece.count(b"\n")
        if count >= left:
            place = -1
            for _ in range(left):
                place = piece.find(b"\n", place + 1)
            return at + place + 1
        left, at = left - count, at + len(piece)
    return at
