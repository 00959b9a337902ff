"""What a program prints, on its way to people: secrets blanked, cut into lines, logged, and kept in bounds.

Everything downstream (log file, updates, evidence, a prompt with findings) sees only the blanked text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from interlock.errors import StorageError

BLANK = b"***"
LOG_BYTES = 268_435_456  # a program that prints for ever must not fill the disk
LINE_BYTES = 65_536  # a longer line reaches `on_line` in pieces

_SHORTEST_SECRET_LINE = 8


class Blanker:
    """Replaces secrets in a stream, also where one spreads over several chunks. Overlapping ones become one blank.

    Only what could be the beginning of a secret is held back, so that a line is seen as soon as it is printed.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        found = set()
        for secret in secrets:
            text = secret.strip()
            lines = [line.strip() for line in text.splitlines()]
            # A key of several lines is often printed line by line, indented or escaped.
            found.update([text, *(line for line in lines if len(line) >= _SHORTEST_SECRET_LINE)])
        found.discard("")
        self._secrets = sorted((os.fsencode(secret) for secret in found), key=len, reverse=True)
        self._held = b""
        self._covered = 0  # so many bytes of what is held belong to a secret whose blank is already out

    def feed(self, chunk: bytes) -> bytes:
        """What can be shown after `chunk`."""
        if not self._secrets:
            return chunk
        text = self._held + chunk
        return self._emit(text, len(text) - self._open_end(text))

    def finish(self) -> bytes:
        """The rest, at the end of the stream."""
        return self._emit(self._held, len(self._held))

    def _emit(self, text: bytes, until: int) -> bytes:
        out = bytearray()
        position = 0
        covered = max(self._covered - until, 0)
        for start, end in self._spans(text):
            if start >= until:
                break
            out += text[position:start]
            if start > 0 or not self._covered:
                out += BLANK
            position = min(end, until)
            covered = max(covered, end - until)
        out += text[position:until]
        self._held = text[until:]
        self._covered = covered
        return bytes(out)

    def _spans(self, text: bytes) -> list[tuple[int, int]]:
        """Where secrets stand in `text`, in order, those that overlap merged."""
        found = [(0, self._covered)] if self._covered else []
        for secret in self._secrets:
            position = text.find(secret)
            while position >= 0:
                found.append((position, position + len(secret)))
                position = text.find(secret, position + 1)
        merged: list[tuple[int, int]] = []
        for start, end in sorted(found):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end))
            else:
                merged.append((start, end))
        return merged

    def _open_end(self, text: bytes) -> int:
        """How many of the last bytes could be the beginning of a secret."""
        longest = 0
        for secret in self._secrets:
            for length in range(min(len(secret) - 1, len(text)), longest, -1):
                if text.endswith(secret[:length]):
                    longest = length
                    break
        return longest


def blanked(text: str, secrets: Iterable[str]) -> str:
    """`text`, all of it, with secrets replaced."""
    blanker = Blanker(secrets)
    raw = text.encode("utf-8", "surrogateescape")
    return (blanker.feed(raw) + blanker.finish()).decode("utf-8", "replace")


class Excerpt:
    """At most `limit` bytes of a stream: its beginning and its end, with a note where the middle was cut."""

    def __init__(self, limit: int) -> None:
        room = max(limit - 64, 2)  # for the note
        self._limit = limit
        self._head_size = room // 2
        self._tail_size = room - self._head_size
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def feed(self, text: bytes) -> None:
        self._total += len(text)
        # As long as all of it fits, all of it is kept; the head is shortened when the note is needed.
        room = self._limit - len(self._head)
        self._head += text[:room]
        self._tail += text[room:]
        if len(self._tail) > 2 * self._tail_size + 65_536:
            del self._tail[: -self._tail_size]

    def text(self) -> str:
        """What was kept; a character that the cut went through is left out."""
        if self._total <= self._limit:
            return self._head.decode("utf-8", "replace")
        end = (self._head + self._tail)[-self._tail_size :]
        cut = self._total - self._head_size - len(end)
        head = self._head[: self._head_size].decode("utf-8", "ignore")
        return f"{head}\n[… {cut} bytes cut …]\n{end.decode('utf-8', 'ignore')}"


class Output:
    """The way of one program's output: blanked, then to the log file, to `on_line`, and kept.

    Raises:
        StorageError: the log file cannot be opened.
    """

    def __init__(self, *, log: str | None, secrets: Iterable[str], limit: int) -> None:
        self.warning: str | None = None
        self._blanker = Blanker(secrets)
        self._kept = Excerpt(limit)
        self._line = bytearray()
        self._log = -1 if not log else _open_log(log)
        self._logged = os.fstat(self._log).st_size if self._log >= 0 else 0

    @property
    def text(self) -> str:
        """What is kept so far."""
        return self._kept.text()

    def feed(self, chunk: bytes, on_line: Callable[[str], None]) -> None:
        """Take what the program printed; `on_line` hears each complete line, without its end."""
        self._take(self._blanker.feed(chunk), on_line)

    def finish(self, on_line: Callable[[str], None]) -> None:
        """The program prints no more: hand on what was held back, and close the log."""
        self._take(self._blanker.finish(), on_line)
        if self._line:
            self._say(self._line, on_line)
            self._line = bytearray()
        self.close()

    def close(self) -> None:
        """Close the log file; may be called twice."""
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    def _take(self, text: bytes, on_line: Callable[[str], None]) -> None:
        if not text:
            return
        self._kept.feed(text)
        self._write(text)
        self._line += text
        *lines, rest = self._line.split(b"\n")
        self._line = rest
        for line in lines:
            self._say(line, on_line)
        while len(self._line) > LINE_BYTES:
            self._say(self._line[:LINE_BYTES], on_line)
            del self._line[:LINE_BYTES]

    def _say(self, line: bytearray, on_line: Callable[[str], None]) -> None:
        on_line(line.decode("utf-8", "replace").removesuffix("\r"))

    def _write(self, text: bytes) -> None:
        if self._log < 0:
            return
        room = LOG_BYTES - self._logged
        if len(text) > room:
            text = text[: max(room, 0)] + b"\n[interlock: the log is full, the rest was not written]\n"
            self.warning = "the log file is full; the rest of the output was not written to it"
        try:
            while text:
                written = os.write(self._log, text)
                self._logged += written
                text = text[written:]
        except OSError as error:  # a full disk must not stop the program whose output this is
            self.warning = f"the log file could not be written: {error.strerror}"
        if self.warning:
            self.close()


def _open_log(path: str) -> int:
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageError(
            f"The log file {path} cannot be written: {error.strerror}. Check its directory and the free space.",
            path=path,
        ) from error
