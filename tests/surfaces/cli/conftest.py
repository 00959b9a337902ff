"""Command lines run in this process, through the same entry as the program's, in a home and directory of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import Answer, command

Interlock = Callable[..., Answer]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory: empty, with a home beside it, nothing of the caller's in the environment."""
    monkeypatch.setenv("INTERLOCK_HOME", str(tmp_path / "home"))
    for name in ("INTERLOCK_TEAM", "INTERLOCK_MEMBER", "INTERLOCK_SESSION", "INTERLOCK_RUN", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    directory = tmp_path / "project"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def interlock(here: Path) -> Interlock:
    """Run a command line: `interlock("task", "list", input="…")`."""
    return command


@pytest.fixture
def team(interlock: Interlock) -> str:
    """A team with two members, researcher and tester."""
    for line in ("team create alpha-squad", "member spawn researcher", "member spawn tester"):
        assert interlock(*line.split()).code == 0
    return "alpha-squad"


@pytest.fixture
def task(interlock: Interlock, team: str) -> Callable[..., str]:
    """Create a task; its id."""

    def create(subject: str, *options: str) -> str:
        answer = interlock("--json", "task", "create", subject, *options)
        assert answer.code == 0, answer.err
        return str(answer.json["id"])

    return create
