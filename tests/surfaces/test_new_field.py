"""A field of a task is described once: what a new one takes to reach every face, tried in a copy of the source."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import interlock

SOURCE = Path(interlock.__file__).resolve().parent
MOST_FILES = 5

CHANGES = {
    "model/task.py": [
        (
            "class TaskSpec(TypedDict, total=False):",
            '    colour: Annotated[str | None, TaskField("Its colour.", "C", longest=50, agents=True)]\n',
            "    body: Annotated[\n",
        ),
        ("class Task:", "    colour: str | None = None\n", "    blocked_by: list[str] = field"),
        ("SHOWN = (", '    "colour "\n', '    "context worktree'),
    ],
    "storage/sql/tasks.py": [("columns = (", '        "colour",\n', "    )  # fmt: skip\n    coders")],
    "storage/sql/__init__.py": [],
    "storage/sqlite/migrations/007_colour.sql": [],
}
"""By file: below which line, what is added, and before what."""

USES = """
import json, sys
from interlock import connect
from interlock.surfaces.http import requests, responses
from interlock.surfaces.mcp.team_tools import TOOLS

home = connect(sys.argv[1])
team = home.create_team("alpha")
first = team.create_task("By the verb", colour="red")
body = requests.NewTask(subject="By a request", colour="green", by=None)
second = team.create_task(**body.given())
edit = requests.TaskEdit(colour="blue")
second = team.update(second.id, **edit.given())
third = team.create_task(**TOOLS["task_create"].checked({"subject": "By a tool", "colour": "white"}))
print(json.dumps({
    "colours": [one.as_dict()["colour"] for one in team.tasks()],
    "answer": "colour" in responses.TaskDocument.model_fields,
    "tool": TOOLS["task_create"].schema["properties"]["colour"],
    "request": requests.NewTask.model_json_schema()["properties"]["colour"]["anyOf"][0],
}))
"""


def test_a_new_field_is_a_change_in_at_most_five_files(tmp_path: Path) -> None:
    copy = tmp_path / "src" / "interlock"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    version = max(int(path.name[:3]) for path in (copy / "storage/sqlite/migrations").glob("*.sql")) + 1
    for name, additions in CHANGES.items():
        path = copy / name.replace("007", f"{version:03d}")
        if path.suffix == ".sql":
            path.write_text("ALTER TABLE tasks ADD COLUMN colour TEXT;\n")
        text = path.read_text().replace(f"\nVERSION = {version - 1}\n", f"\nVERSION = {version}\n")
        for below, added, before in additions:
            head, found, rest = text.partition(below)
            assert found, f"{name} has no {below!r}"
            assert before in rest, f"{name} has no {before!r} below {below!r}"
            text = head + found + rest.replace(before, added + before, 1)
        path.write_text(text)
    assert len(CHANGES) <= MOST_FILES

    environment = {**os.environ, "PYTHONPATH": str(copy.parent), "INTERLOCK_HOME": str(tmp_path / "home")}
    environment["INTERLOCK_TEAM"] = "alpha"

    def run(*words: str) -> str:
        done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    found = json.loads(run("-c", USES, str(tmp_path / "home")))
    assert found["colours"] == ["red", "blue", "white"]
    assert found["answer"], "a task's document has it"
    assert found["tool"] == {"description": "Its colour", "type": "string"}
    assert found["request"] == {"type": "string", "pattern": r"^[^\x00]*$", "maxLength": 50}
    made = json.loads(run("-m", "interlock.surfaces.cli", "task", "create", "By hand", "--colour", "black", "--json"))
    assert made["colour"] == "black"
    assert "Its colour" in run("-m", "interlock.surfaces.cli", "task", "update", "--help")
