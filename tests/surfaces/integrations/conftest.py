"""A project, a team, and windows of an agent program in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from tests.docs.terminal import commands

PROGRAM = Path(__file__).with_name("program.py")


class Window:
    """One running agent program."""

    def __init__(self, directory: Path, session: str, *options: str, within: Sequence[str] = ()) -> None:
        self.session = session
        self._process = subprocess.Popen(
            [*within, sys.executable, str(PROGRAM), *options],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def hook(self, event: str, **fields: Any) -> Any:
        """Run our hook for an event; the document it answered, null for none."""
        [[code, out, err]] = self._ask(do="hook", event=event, fields={"session_id": self.session, **fields})
        assert (code, err) == (0, ""), err
        return json.loads(out) if out else None

    def told(self, event: str, **fields: Any) -> str:
        """The text that a hook puts before the model."""
        answer = self.hook(event, **fields)
        if answer is None:
            return ""
        assert answer["hookSpecificOutput"]["hookEventName"] == event
        return str(answer["hookSpecificOutput"]["additionalContext"])

    def shell(self, command: str) -> tuple[int, str, str]:
        """What a command that the program runs prints."""
        code, out, err = self._ask(do="shell", command=command)
        return code, out, err

    def tool(self, name: str, **arguments: Any) -> Any:
        """What a tool of our MCP server answers."""
        answer = self._ask(do="tool", tool=name, arguments=arguments)
        document = json.loads(answer["content"][0]["text"])
        assert not answer.get("isError"), document
        return document

    def connect(self) -> Any:
        """Start our MCP server: whether it speaks the protocol of 2026, and what it can do."""
        return self._ask(do="connect")

    def tell(self, method: str, **params: Any) -> None:
        """Notify our MCP server."""
        self._ask(do="tell", method=method, params=params)

    def notice(self) -> Any:
        """The next notification of our MCP server, as soon as there is one."""
        return self._ask(do="notice")

    def close(self) -> None:
        """Close the window, as a user does."""
        self._process.communicate(timeout=60)

    def kill(self) -> None:
        """It is gone from one moment to the next."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, **what: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory: a project, with a home beside it and `interlock` on the path."""
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("INTERLOCK_HOOK_TIMEOUT", "60")  # a busy machine is not what is tested
    monkeypatch.setenv("PATH", os.pathsep.join([str(commands(tmp_path)), os.environ["PATH"]]))
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    directory = tmp_path / "project"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def home(project: Path) -> Iterator[Home]:
    opened = interlock.connect()
    yield opened
    opened.close()


@pytest.fixture
def team(home: Home, project: Path) -> Team:
    """A team with a lead, made in the project."""
    return home.create_team("alpha", workdir=str(project))


@pytest.fixture
def window(project: Path, team: Team) -> Iterator[Callable[..., Window]]:
    """Joins Claude Code as ada, and opens windows by the id that the program gives its session."""
    run = subprocess.run(
        ["interlock", "join", "--team", "alpha", "--name", "ada", "--agent", "claude"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    opened: list[Window] = []

    def open_(session: str, *options: str) -> Window:
        opened.append(Window(project, session, *options))
        return opened[-1]

    yield open_
    for one in opened:
        one.kill()
