"""What the files of a team must say, told from its verbs alone, and processes that work on it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from interlock.app.team import Team
from interlock.mirror.rebuild import compare
from interlock.mirror.render import is_ours
from interlock.model.task import STATES


def assert_files_agree(team: Team) -> None:
    """After one read verb every file shows the ledger, and nothing else of ours lies about."""
    tasks = {task.id: task for state in STATES for task in team.tasks(status=state)}
    directory = Path(team.directory)
    lying = sorted(path.relative_to(directory / "tasks") for path in directory.glob("tasks/*/TASK-*.md"))
    lying = [path for path in lying if ".edited-" not in path.name and ".adopted-" not in path.name]
    assert [str(path) for path in lying] == sorted(f"{task.state}/{task.id}.md" for task in tasks.values())
    for path in lying:
        data = (directory / "tasks" / path).read_bytes()
        task = tasks[path.stem]
        fields = dict(line.split(": ", 1) for line in data.decode().split("\n---\n")[0].splitlines()[2:])
        assert is_ours(data)
        assert json.loads(fields["state"]) == task.state
        assert json.loads(fields["owner"]) == task.owner
        assert json.loads(fields["blocked_by"]) == task.blocked_by
        assert json.loads(fields["subject"]) == task.subject
    with team._workspace.ledger.snapshot() as rows:  # type: ignore[attr-defined]
        for name in rows.team.names():
            found = rows.team.address(name)
            inbox = directory / "inbox" / found[1] / "messages.jsonl"
            shown = [json.loads(line)["id"] for line in inbox.read_text().splitlines()] if inbox.exists() else []
            assert shown == [message.id for message in rows.messages.undelivered(name)]
    shown = [member["name"] for member in json.loads((directory / "config.json").read_text())["members"]]
    assert shown == [member.name for member in team.members()]
    workspace = team._workspace  # type: ignore[attr-defined]
    assert compare(team.directory, workspace.ledger, workspace.clock) == []
    assert not list(directory.rglob("*.tmp"))


def python(home: str | Path, script: str, *args: object) -> subprocess.Popen[str]:
    """Another process that runs `script` with `home` connected; `sys.argv[1:]` is `args`."""
    start = f"import os, sys, interlock\nhome = interlock.connect({str(home)!r})\n"
    command = [sys.executable, "-c", start + script, *(str(arg) for arg in args)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str], timeout: float = 200) -> str:
    """What it printed; fails where it failed."""
    out, _ = process.communicate(timeout=timeout)
    assert process.returncode == 0, f"exit {process.returncode}: {out}"
    return out
