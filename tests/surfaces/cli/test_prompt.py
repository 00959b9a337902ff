"""The questions that `interlock run` offers at a terminal: a slip is asked again, and everyday words approve."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

PATIENCE = 240.0
PLAN = """
team: tiny
members: {ada: {agent: shell}}
tasks:
  notes: {subject: Write the notes, run: "echo hi", review: human}
"""


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, directory: Path, *arguments: str, term: str = "dumb") -> None:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        environment = {**os.environ, "INTERLOCK_HOME": str(directory / "home"), "TERM": term}
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

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


def test_a_slip_at_the_prompt_for_a_review_is_asked_again_and_lgtm_approves(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    with Terminal(tmp_path, "run", "plan.yaml") as terminal:
        terminal.until("or Enter to skip")
        terminal.type("hm")
        terminal.until("Answer a review with")
        terminal.until("or Enter to skip", 2)
        terminal.type("LGTM")
        assert terminal.ended() == 0, terminal.said
        assert "Nothing was run" not in terminal.said, "it was run, and approved here"


@pytest.mark.long
def test_the_prompt_for_a_review_shows_what_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGER", "cat")
    (tmp_path / ".gitignore").write_text("home/\n")
    commit = ["-c", "user.name=u", "-c", "user.email=u@x", "commit", "--quiet", "--allow-empty", "--message=first"]
    for words in (["init", "--quiet"], commit):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "plan.yaml").write_text(f"isolation: worktree\n{PLAN.replace('echo hi', 'echo hi > notes')}")
    with Terminal(tmp_path, "run", "plan.yaml") as terminal:
        terminal.until("[d]iff, or Enter to skip")
        terminal.type("diff")
        terminal.until("+hi")
        terminal.until("or Enter to skip", 2)
        terminal.type("a")
        assert terminal.ended() == 0, terminal.said


@pytest.mark.long
def test_the_demo_tells_the_kill_and_the_lie_while_they_happen_on_a_small_terminal(tmp_path: Path) -> None:
    with Terminal(tmp_path, "demo", term="xterm") as terminal:
        terminal.until("NOT done: its check failed")
        terminal.until("ben KILLED halfway")
        assert "10 of 10 done" not in terminal.said
        terminal.until("in spite of the kill")
        terminal.until("Next: `interlock init`")
        code = terminal.ended()
    assert code == 0 and "The agents are scripts" in terminal.said and "10 of 10 done" in terminal.said
    lines = re.sub(r"\x1b\[[0-?]*[a-zA-Z]", "", terminal.said).replace("\r", "\n").split("\n")
    assert max(map(len, lines)) <= 80, "nothing is broken by the terminal"
