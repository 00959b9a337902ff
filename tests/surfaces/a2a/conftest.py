"""One `interlock up` with the setting `a2a` on, and a team whose agent is a small program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock
from interlock.app.team import Team
from tests.surfaces.http.harness import Server

AGENT = """
import os, subprocess, sys, time
prompt = sys.stdin.read()
task = prompt.split("## ")[0]  # Its mail may speak of others.
if "Paint the shed" in task and "blue" not in prompt:
    subprocess.run(["interlock", "question", "ask", os.environ["INTERLOCK_TASK"], "In which colour?"], check=True)
elif "Paint for ever" in task:
    time.sleep(600)
elif "Paint the impossible" in task:
    print("there is no paint")
    sys.exit(1)
else:
    print("It is painted.")
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = tmp_path_factory.mktemp("a2a")
    agent, work = path / "agent.py", path / "work"
    agent.write_text(AGENT)
    work.mkdir()
    with interlock.connect(str(path / "home")) as home:
        team = home.create_team("crew", workdir=str(work))
        team.spawn("ann", command=[sys.executable, str(agent)])
        team.configure({"retry_delay": 0.05, "stop_grace": 1.0, "retries": 0})
    made = Server(path / "home", environment={"INTERLOCK_A2A": "true"})
    yield made
    said = made.close()
    assert made.process.returncode == 0, said
    assert "Traceback" not in said, said


@pytest.fixture
def team(server: Server) -> Iterator[Team]:
    """The server's team, from outside."""
    with interlock.connect(str(server.home)) as home:
        yield home.team("crew")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """An empty home."""
    return tmp_path / "home"
