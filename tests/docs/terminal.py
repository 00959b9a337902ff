"""A terminal to carry out what a page shows: a shell that stays, in a home and a directory of its own."""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 300.0
MARK = "\x01end of command\x01"
ENDED = re.compile(rf"{MARK}(\d+)\n")
SHOWN_HOME = "/home/you"

# What differs from one time to the next, in the order in which it is evened out.
EVENED = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\bQ-[0-9a-f]{8,}\b"), "<question>"),
    (re.compile(r"\bshutdown-[0-9a-f]{8,}\b"), "<request>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?=[ T-])(?:[ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z| UTC)?)?"), "<day>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(Z|\b)"), "<time>"),
    (re.compile(r"\bjust now\b|\b\d+ ?\w+ ago\b|\bin \d+ ?(seconds?|minutes?|s|min)\b"), "<then>"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|m|min)\b"), "<span>"),
    (re.compile(r"\s+"), " "),
)


class Terminal:
    """One shell. `directory` is its home; the command line under test stands first on its path."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()
        self._read = ""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("INTERLOCK_", "GIT_", "PYTEST"))
        }
        environment |= {
            "HOME": str(self._directory),
            "PATH": os.pathsep.join([str(commands(self._directory)), environment.get("PATH", os.defpath)]),
            "TZ": "UTC",
            "NO_COLOR": "1",
        }
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=self._directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            bufsize=0,
        )
        # The shell itself survives a Ctrl-C; what it runs gets it as usual.
        self._write("trap : INT\n")

    def begin(self, command: str) -> None:
        """Type a command."""
        self._read = ""
        self._write(f"{command}\n__code=$?; printf '%s%s\\n' {shlex.quote(MARK)} $__code; (exit $__code)\n")

    def finish(self, command: str = "") -> tuple[str, int]:
        """What the command printed, and its exit code, once it has ended."""
        ended = self._until(ENDED, command)
        return self._read[: ended.start()], int(ended[1])

    def interrupt_after(self, pattern: re.Pattern[str], command: str) -> None:
        """Ctrl-C, as soon as what was printed so far fits."""
        deadline = time.monotonic() + PATIENCE
        while not pattern.search(evened(self._read, self._directory)):
            self._more(deadline, command)
        os.killpg(self._shell.pid, signal.SIGINT)

    def close(self) -> None:
        """End the shell and whatever it still runs."""
        try:
            os.killpg(self._shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._shell.communicate()

    def _until(self, pattern: re.Pattern[str], command: str) -> re.Match[str]:
        deadline = time.monotonic() + PATIENCE
        while not (found := pattern.search(self._read)):
            self._more(deadline, command)
        return found

    def _more(self, deadline: float, command: str) -> None:
        assert self._shell.stdout is not None
        ready, _, _ = select.select([self._shell.stdout], [], [], max(0.0, deadline - time.monotonic()))
        block = os.read(self._shell.stdout.fileno(), 65536) if ready else b""
        if not block:
            raise AssertionError(f"{command!r} does not go on; it printed so far:\n{self._read}")
        self._read += block.decode("utf-8", "replace")

    def _write(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(text.encode())


def commands(directory: Path) -> Path:
    """A directory with the `interlock` and `python3` under test."""
    folder = directory / ".commands"
    if not folder.exists():
        folder.mkdir(parents=True)
        for name, words in (("interlock", ["-m", "interlock.surfaces.cli"]), ("python3", [])):
            script = folder / name
            # Agents get a short list of variables, so where the code lies is said here.
            path = shlex.quote(os.environ.get("PYTHONPATH", ""))
            line = f'PYTHONPATH={path} exec {shlex.join([sys.executable, *words])} "$@"'
            script.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
            script.chmod(0o755)
    return folder


def evened(text: str, directory: Path) -> str:
    """`text` without what differs from one time to the next."""
    text = text.replace(str(directory), SHOWN_HOME)
    return "\n".join(_line(line) for line in text.split("\n"))


def _line(line: str) -> str:
    for pattern, word in EVENED:
        line = pattern.sub(word, line)
    return line.strip()


def expected(lines: list[str], *, whole: bool = True) -> re.Pattern[str]:
    """What a page shows, as a pattern: `…` stands for anything, alone on a line for any number of lines."""
    parts = []
    for line in lines:
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(r"[^\n]*?".join(re.escape(_line(part)) if part else "" for part in _split(line)) + r"\n")
    return re.compile("".join(parts) + (r"\s*\Z" if whole else ""))


def _split(line: str) -> list[str]:
    # The blanks around an ellipsis belong to it.
    return re.split(r"\s*…\s*", line)
