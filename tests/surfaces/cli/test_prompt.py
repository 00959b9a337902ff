"""The questions that `interlock run` offers at a terminal: a slip is asked again, and everyday words approve."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 240.0
PLAN = """
team: tiny
members: {ada: {agent: shell}}
tasks:
  notes: {subject: Write the notes, run: "echo hi", review: human}
"""


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._ours, theirs = os.openpty()
        environment = {**os.environ, "INTERLOCK_HOME": str(directory / "home"), "TERM": "dumb"}
        command = [sys.executable, "-m", "interlock", *arguments]
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=directory, env=environment, start_new_session=True
        )
        os.close(theirs)
        self.said = ""

    def until(self, text: str, times: int = 1) -> None:
        """Read until `text` was there so often, or the process has ended."""
        deadline = time.monotonic() + PATIENCE
        while self.said.count(text) < times:
            assert time.monotonic() < deadline, self.said
            if not select.select([self._ours], [], [], 1.0)[0]:
                continue
            try:
                self.said += os.read(self._ours, 4096).decode("utf-8", "replace")
            except OSError:  # Its end of the terminal is closed.
                raise AssertionError(f"it ended without {text!r}: {self.said}") from None

    def type(self, line: str) -> None:
        os.write(self._ours, f"{line}\n".encode())

    def ended(self) -> int:
        """Its exit code; what it still prints is read, so that it can end."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                if select.select([self._ours], [], [], 0.2)[0]:
                    self.said += os.read(self._ours, 4096).decode("utf-8", "replace")
            except OSError:
                break
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


def test_a_slip_at_the_prompt_for_a_review_is_asked_again_and_lgtm_approves(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    terminal = Terminal(tmp_path, "run", "plan.yaml")
    try:
        terminal.until("or Enter to skip")
        terminal.type("hm")
        terminal.until("Answer a review with")
        terminal.until("or Enter to skip", 2)
        terminal.type("LGTM")
        assert terminal.ended() == 0, terminal.said
    finally:
        terminal.close()
