"""The short night with Claude Code and Codex themselves, whose models are played by task (see `short_night.py`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.agents.endpoint import Endpoint, Move, Seen, call, fail, say, stall
from tests.agents.real import SECONDS, enter, since
from tests.night.short_night import FALSE, LIE, LIMIT, QUESTION, WORK, ShortNight

pytestmark = [pytest.mark.npm, pytest.mark.timeout(SECONDS)]

NAMED = re.compile(r"^# (\w+): .* \((TASK-[\d-]+)\)$", re.MULTILINE)


class Models:
    """What both models do, by the task that a conversation is about; each of the misfortunes once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.limits = 0

    def play(self, seen: Seen) -> Move:
        """The next move: the first things first, and past the last of them the turn ends."""
        found = [one for text in seen.prompts for one in NAMED.findall(text)]
        if not found:
            return say("noted")
        key, task = found[-1]
        spoken = since(seen, f"# {key}: ")
        if key == "publish":
            return [call("ask_human", question=QUESTION, task_id=task), say("I have asked.")][min(spoken, 1)]
        if key == "div" and not self.limits:
            self.limits += 1
            return fail(429, LIMIT, x_should_retry="false")
        begun = self.path / "marks" / "in mid-turn"
        if key == "power" and not begun.exists():
            begun.touch()
            return stall()
        complete = call("task_complete", task_id=task, summary=LIE)
        steps = [self.write(seen.model, task, WORK[key]), complete, say("That was all.")]
        if key == "mul":
            steps = [self.write(seen.model, task, FALSE), complete, *steps]
        return steps[min(spoken, len(steps) - 1)]

    def write(self, model: str, task: str, work: dict[str, str]) -> Move:
        """It makes that file in the worktree of its task, each in the way of its kind."""
        ((path, text),) = work.items()
        if model == "ada":
            where = self.path / "home" / "teams" / "night" / "worktrees" / task
            return call("Write", file_path=str(where / path), content=text)
        lines = "".join(f"+{line}\n" for line in text.splitlines())
        return call("apply_patch", input=f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n")


@pytest.mark.long
def test_a_short_night_of_claude_code_and_codex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = Models(tmp_path)
    with Endpoint(most=150, ada=models.play, bob=models.play) as endpoint:
        enter(monkeypatch, tmp_path / "user", "claude", endpoint, "ada")
        enter(monkeypatch, tmp_path / "user", "codex", endpoint, "bob")
        agents = {"ada": "claude", "bob": "codex"}
        members = {name: {"agent": one, "permissions": "workspace"} for name, one in agents.items()}
        with ShortNight(tmp_path, members) as night:
            code = night.pass_by(killed_when="in mid-turn")
            night.check(code)
