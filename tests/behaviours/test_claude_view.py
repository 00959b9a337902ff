"""A team shown in the layout of Claude Code's Agent Teams, read back as that program and our own import read it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import InvalidRequest
from interlock.plan import sources


class TheirTask(BaseModel):
    """What Claude Code requires of a task, as its own schema says."""

    model_config = ConfigDict(strict=True)

    id: str
    subject: str
    description: str
    owner: str = ""
    status: str
    blocks: list[str]
    blocked_by: list[str] = Field(alias="blockedBy")
    metadata: dict[str, Any] = {}


class TheirMessage(BaseModel):
    """The same of a message in an inbox."""

    model_config = ConfigDict(strict=True)

    sender: str
    text: str
    timestamp: str
    read: bool = False
    summary: str = ""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    opened = interlock.connect(str(tmp_path / "home"))
    yield opened
    opened.close()


@pytest.fixture
def view(tmp_path: Path) -> Path:
    return tmp_path / "view"


@pytest.fixture
def team(home: Home, view: Path, tmp_path: Path) -> Team:
    """A team that had a task before it was shown."""
    made = home.create_team("alpha", workdir=str(tmp_path))
    made.spawn("ada", agent="claude", model="sonnet", type="writer")
    made.create_task("Write the parser", body="By hand")
    made.configure({"mirror.claude": str(view)})
    return made


def tasks(view: Path) -> dict[str, TheirTask]:
    """Their tasks by subject; the name of each file is its id."""
    found = {}
    for path in (view / "tasks" / "alpha").glob("*.json"):
        task = TheirTask.model_validate_json(path.read_bytes())
        assert path.stem == task.id and task.id.isdecimal()
        assert task.status in ("pending", "in_progress", "completed")
        found[task.subject] = task
    return found


def inbox(view: Path, name: str) -> list[TheirMessage]:
    found = json.loads((view / "teams" / "alpha" / "inboxes" / f"{name}.json").read_text())
    return [TheirMessage.model_validate({**one, "sender": one["from"]}) for one in found]


def test_what_was_there_and_what_comes_is_shown(team: Team, view: Path, tmp_path: Path) -> None:
    first = team.task("1")
    second = team.create_task("Test it", blocked_by=[first.id], assignee="ada")
    gone = team.create_task("Forget it")
    team.cancel(gone.id)
    shown = tasks(view)
    assert shown.keys() == {"Write the parser", "Test it"}
    assert (shown["Write the parser"].status, shown["Write the parser"].blocks) == ("pending", ["2"])
    assert (shown["Test it"].blocked_by, shown["Test it"].owner) == (["1"], "ada")
    ada = team.acting("ada", session="s-1")
    ada.claim(first.id)
    assert (tasks(view)["Write the parser"].status, tasks(view)["Write the parser"].owner) == ("in_progress", "ada")
    ada.complete(first.id, summary="written")
    assert tasks(view)["Write the parser"].status == "completed"
    team.depend(second.id, on=first.id, remove=True)
    assert (tasks(view)["Write the parser"].blocks, tasks(view)["Test it"].blocked_by) == ([], [])
    config = json.loads((view / "teams" / "alpha" / "config.json").read_text())
    assert (config["name"], config["leadAgentId"]) == ("alpha", "team-lead@alpha")
    assert [(one["name"], one["agentType"], one["cwd"]) for one in config["members"]] == [
        ("team-lead", "team-lead", str(tmp_path)), ("ada", "writer", str(tmp_path)),
    ]  # fmt: skip


def test_an_inbox_shows_what_waits(team: Team, view: Path) -> None:
    team.send(to="ada", content="Use the grammar.", summary="grammar")
    team.acting("ada").send(to="lead", content="On it.")
    assert [(one.sender, one.text, one.summary) for one in inbox(view, "ada")] == [
        ("human", "Use the grammar.", "grammar")
    ]
    assert [(one.sender, one.text) for one in inbox(view, "team-lead")] == [("ada", "On it.")]
    with team.acting("ada", session="s-1").mail():
        pass
    assert inbox(view, "ada") == []


def test_mail_that_a_hook_hands_over_is_gone_from_there(team: Team, view: Path, tmp_path: Path) -> None:
    hook = [sys.executable, "-m", "interlock.surfaces.cli", "inject", "--team", "alpha", "--as", "ada"]
    for content in ("Use the grammar.", "And the lexer."):  # The second one goes the fast way: its session is known.
        team.send(to="ada", content=content)
        assert [one.text for one in inbox(view, "ada")] == [content]
        ran = subprocess.run([*hook, "--home", str(tmp_path / "home")], capture_output=True, text=True, check=True)
        assert content in ran.stdout, ran.stderr
        assert inbox(view, "ada") == []


def test_our_own_import_reads_it(team: Team, view: Path) -> None:
    team.create_task("Test it", blocked_by=[team.task("1").id], assignee="ada")
    source = sources.read("claude", str(view))
    assert (source.name, source.members) == ("alpha", {"ada": {"agent": "claude", "type": "writer", "model": "sonnet"}})
    read = {task.subject: (task.body, task.owner, {*task.waits_for}) for task in source.tasks}
    assert read == {"Write the parser": ("By hand", None, set()), "Test it": ("", "ada", {"1"})}


def test_what_others_write_there_is_kept_beside_and_never_read(team: Team, view: Path) -> None:
    file = view / "tasks" / "alpha" / "1.json"
    theirs = json.dumps({**json.loads(file.read_text()), "status": "completed"})
    file.write_text(theirs)
    (view / "teams" / "alpha" / "inboxes" / "ada.json").write_text('[{"from": "x", "text": "y", "timestamp": "z"}]')
    team.update(team.task("1").id, priority="high")
    team.send(to="ada", content="hello")
    assert (team.task("1").state, tasks(view)["Write the parser"].status) == ("ready", "pending")
    assert [one.text for one in inbox(view, "ada")] == ["hello"]
    assert theirs in [path.read_text() for path in (view / "edited").iterdir()]


def test_a_team_of_another_program_is_left_alone(home: Home, view: Path) -> None:
    config = view / "teams" / "beta" / "config.json"
    config.parent.mkdir(parents=True)
    config.write_text('{"name": "beta", "members": []}')
    team = home.create_team("beta")
    team.configure({"mirror.claude": str(view)})
    assert "mirror_pending" in team.create_task("Write the parser").warnings
    assert config.read_text() == '{"name": "beta", "members": []}'
    assert [path for path in view.rglob("*") if path.is_file()] == [config]
    config.unlink()
    team.create_task("Test it")
    assert len(list((view / "tasks" / "beta").iterdir())) == 2, "what was owed is written"


def test_nothing_is_shown_unless_a_directory_is_named(home: Home, tmp_path: Path) -> None:
    team = home.create_team("gamma")
    team.create_task("Write the parser")
    assert not list(tmp_path.rglob("teams/gamma/inboxes"))
    with pytest.raises(InvalidRequest, match="absolute path"):
        team.configure({"mirror.claude": "view"})


def test_a_view_that_is_gone_is_written_whole_with_the_next_change(team: Team, view: Path) -> None:
    shutil.rmtree(view)
    team.create_task("Test it")
    assert tasks(view).keys() == {"Write the parser", "Test it"} and inbox(view, "ada") == []
