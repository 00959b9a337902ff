"""read_files HOME TEAM: reads the team's files and its ledger until told to stop; prints what was ever torn."""

from __future__ import annotations

import json
import select
import sys
from pathlib import Path

from starting import ready

import interlock

path, name = sys.argv[1:]
directory = Path(path) / "teams" / name
team = interlock.connect(path).team(name)
ready()
looks = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    looks += 1
    config = json.loads((directory / "config.json").read_text())
    names = [member["name"] for member in config["members"]]
    assert names[0] == "lead" and len(set(names)) == len(names), names
    for file in (directory / "tasks").glob("*/*.md"):
        try:
            text = file.read_text()
        except FileNotFoundError:
            continue  # it moved to another state's directory
        assert text.startswith("---\ndigest: ") and text.endswith("\n") and text.count("\n---\n") >= 1, text
    # One moment: a task that waits has an open blocker, and whom it blocks knows of it.
    tasks, edges = team.graph()
    by_id = {task.id: task for task in tasks}
    for task in tasks:
        assert (task.state == "backlog") == (task.state in ("backlog", "ready") and bool(task.blocked_by)), task
        assert all(task.id in by_id[blocker].blocks for blocker in task.blocked_by), task
print(looks)
