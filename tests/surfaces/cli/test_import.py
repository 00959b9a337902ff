"""`interlock import`: files as the other programs write them, taken over as a plan.

The files of Backlog.md are those of its version 1.52.0, Task Master's those of 0.43.1; the others follow the formats
that their projects describe.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.cli.conftest import Interlock

AGENT = ("--agent", "sh -c true")

BACKLOG = {
    "backlog/config.yml": 'project_name: "Demo"\nstatuses: ["To Do", "In Progress", "Shipped"]\ntask_prefix: "task"\n',
    "backlog/tasks/task-1 - Write-the-parser.md": (
        "---\nid: TASK-1\ntitle: Write the parser\nstatus: In Progress\nassignee: []\n"
        "created_date: '2026-11-23 06:36'\nlabels:\n  - a\n  - b\ndependencies: []\npriority: high\nordinal: 1000\n"
        "---\n\n"
        "## Description\n\n<!-- SECTION:DESCRIPTION:BEGIN -->\nParse it\n<!-- SECTION:DESCRIPTION:END -->\n\n"
        "## Acceptance Criteria\n<!-- AC:BEGIN -->\n- [ ] #1 It parses\n<!-- AC:END -->\n"
    ),
    "backlog/tasks/task-2 - Test-it.md": (
        "---\nid: TASK-2\ntitle: Test it\nstatus: To Do\nassignee:\n  - '@ada'\nlabels: []\n"
        "dependencies:\n  - TASK-1\n  - task-3\n---\n"
    ),
    "backlog/tasks/task-2.1 - Part.md": (
        "---\nid: TASK-2.1\ntitle: Part of it\nstatus: To Do\nparent_task_id: TASK-2\nmilestone:\n---\n"
    ),
    "backlog/tasks/task-3 - Over.md": "---\nid: TASK-3\ntitle: Over\nstatus: Shipped\ndependencies: []\n---\n",
    "backlog/archive/tasks/task-4 - Old.md": "---\nid: TASK-4\ntitle: Old\nstatus: To Do\n---\n",
}
TASKMASTER: Any = {
    "master": {
        "tasks": [
            {"id": "1", "title": "Write the parser", "description": "Parse it", "details": "with care",
             "testStrategy": "run it", "status": "in-progress", "dependencies": [], "priority": "high", "subtasks": []},
            {"id": "2", "title": "Test it", "description": "Test", "details": "", "testStrategy": "",
             "status": "pending", "dependencies": ["1"], "priority": "medium",
             "subtasks": [
                 {"id": 1, "title": "Unit tests", "status": "pending", "dependencies": [], "parentTaskId": 2},
                 {"id": 2, "title": "More tests", "status": "pending", "dependencies": [1]},
             ]},
            {"id": 3, "title": "Later", "status": "deferred", "dependencies": []},
            {"id": 4, "title": "After that", "status": "pending", "dependencies": [3]},
        ],
        "metadata": {"version": "1.0.0"},
    },
    "other": {"tasks": [{"id": 1, "title": "Elsewhere", "status": "pending", "dependencies": []}]},
}  # fmt: skip
BEADS = [
    {"id": "bd-a1", "title": "Epic", "issue_type": "epic", "status": "open", "priority": 1},
    {"id": "bd-a1.1", "title": "Part", "description": "Do it", "acceptance_criteria": "- works", "status": "open",
     "priority": 0, "labels": ["cli"],
     "dependencies": [{"issue_id": "bd-a1.1", "depends_on_id": "bd-a1", "type": "parent-child"}]},
    {"id": "bd-b2", "title": "After it", "status": "blocked", "issue_type": "bug", "assignee": "ada",
     "dependencies": [{"issue_id": "bd-b2", "depends_on_id": "bd-a1.1", "type": "blocks"},
                      {"issue_id": "bd-b2", "depends_on_id": "bd-c3", "type": "related"}]},
    {"id": "bd-c3", "title": "Over", "status": "closed", "priority": 2},
    {"id": "bd-d4", "status": "tombstone"},
]  # fmt: skip
SPRINT = """development_status:
  epic-1: in-progress
  1-1-beds: done
  1-2-seeds: in-progress
  1-3-water: backlog
  epic-1-retrospective: optional
"""


def claude(here: Path) -> Path:
    """A team of Claude Code with two teammates, as its files are; the directory of that program."""
    config = {
        "name": "release", "leadAgentId": "team-lead@release",
        "members": [
            {"name": "team-lead", "agentType": "team-lead", "model": "opus", "cwd": str(here)},
            {"name": "Backend", "agentType": "general-purpose", "model": "sonnet", "cwd": str(here)},
            {"name": "docs", "agentType": "writer", "model": "haiku", "cwd": str(here)},
        ],
    }  # fmt: skip
    tasks = [
        {"id": "1", "subject": "Build it", "description": "Well", "status": "in_progress", "owner": "Backend",
         "blocks": ["2"], "blockedBy": []},
        {"id": "2", "subject": "Write of it", "description": "", "status": "pending", "blocks": [],
         "blockedBy": ["1", "9"]},
        {"id": "3", "subject": "docs", "status": "in_progress", "metadata": {"_internal": True}},
    ]  # fmt: skip
    place = here / ".claude"
    put(place, {"teams/release/config.json": json.dumps(config), "teams/release/inboxes/docs.json": "[]"})
    put(place, {f"tasks/release/{task['id']}.json": json.dumps(task) for task in tasks})
    return place


def put(place: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)


def sources(here: Path) -> dict[str, tuple[str, Path]]:
    """A project of each kind, with the team that it becomes by default."""
    put(here / "b", BACKLOG)
    put(here / "t", {".taskmaster/tasks/tasks.json": json.dumps(TASKMASTER, indent=2)})
    put(here / "d", {".beads/issues.jsonl": "".join(f"{json.dumps(one)}\n" for one in BEADS)})
    epics = "## Epic 1: The garden\n\n### Story 1.2: Seeds\nSow.\n"
    put(here / "m/_bmad-output", {"implementation-artifacts/sprint-status.yaml": SPRINT})
    put(here / "m/_bmad-output", {"planning-artifacts/epics.md": epics})
    return {
        "backlog": ("demo-backlog", here / "b"), "taskmaster": ("t-taskmaster", here / "t"),
        "beads": ("d-beads", here / "d"), "bmad": ("m-bmad", here / "m"), "claude": ("release-claude", claude(here)),
    }  # fmt: skip


EXPECTED: dict[str, dict[str, tuple[str, list[str]]]] = {
    "backlog": {
        "TASK-1": ("Write the parser", []), "TASK-2.1": ("Part of it", []),
        "TASK-2": ("Test it", ["TASK-1", "TASK-2.1"]),
    },
    "taskmaster": {
        "1": ("Write the parser", []), "2.1": ("Unit tests", ["1"]), "2.2": ("More tests", ["1", "2.1"]),
        "2": ("Test it", ["1", "2.1", "2.2"]),
    },
    "beads": {"bd-a1.1": ("Part", []), "bd-a1": ("Epic", ["bd-a1.1"]), "bd-b2": ("After it", ["bd-a1.1"])},
    "bmad": {"1-2-seeds": ("Story 1-2: Seeds", []), "1-3-water": ("Story 1-3: Water", ["1-2-seeds"])},
    "claude": {"1": ("Build it", []), "2": ("Write of it", ["1"])},
}  # fmt: skip
LEFT_OUT = {
    "backlog": {"TASK-3", "TASK-4"}, "taskmaster": {"3", "4"}, "beads": {"bd-c3", "bd-d4"}, "bmad": {"1-1-beds"},
    "claude": {"3"},
}  # fmt: skip


@pytest.mark.parametrize("kind", EXPECTED)
def test_open_tasks_become_a_plan_with_their_ids_and_what_they_wait_for(
    interlock: Interlock, here: Path, kind: str
) -> None:
    team, path = sources(here)[kind]
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    dry = interlock("--json", "import", kind, str(path), *AGENT, "--dry-run")
    assert dry.code == 0 and len(dry.json["new"]) == len(EXPECTED[kind])
    assert interlock("--json", "team", "list").json["teams"] == []

    made = interlock("--json", "import", kind, str(path), *AGENT)
    assert made.code == 0, made.err
    assert (made.json["team"], set(made.json["left_out"])) == (team, LEFT_OUT[kind])
    tasks = interlock("--json", "task", "list", "--team", team).json["tasks"]
    theirs = {task["id"]: task["metadata"]["source_id"] for task in tasks}
    found = {theirs[one["id"]]: (one["subject"], sorted(theirs[id] for id in one["blocked_by"])) for one in tasks}
    assert found == EXPECTED[kind]
    assert {task["metadata"]["source"] for task in tasks} == {kind}
    assert {file: file.read_bytes() for file in before} == before

    events = interlock("--json", "events", "--team", team).json
    again = interlock("--json", "import", kind, str(path), *AGENT)
    assert again.code == 0 and len(again.json["unchanged"]) == len(tasks)
    assert interlock("--json", "events", "--team", team).json == events


def test_texts_priorities_and_members_come_along(interlock: Interlock, here: Path) -> None:
    found = sources(here)
    for kind, (_, path) in found.items():
        assert interlock("import", kind, str(path), *AGENT).code == 0

    def task(team: str, key: str) -> Any:
        return interlock("--json", "task", "show", key, "--team", team).json

    first = task("demo-backlog", "task-1")
    assert first["body"] == "## Description\n\nParse it\n\n## Acceptance Criteria\n- [ ] #1 It parses"
    assert (first["priority"], first["metadata"]["source_labels"]) == ("high", "a, b")
    assert task("demo-backlog", "task-2")["metadata"]["source_owner"] == "ada"
    second = task("t-taskmaster", "task-1")
    assert second["body"] == "Parse it\n\n## Details\n\nwith care\n\n## Test strategy\n\nrun it"
    assert second["metadata"]["source_tag"] == "master"
    third = task("d-beads", "bd-a1.1")
    assert (third["body"], third["priority"]) == ("Do it\n\n## Acceptance criteria\n\n- works", "critical")
    assert "Sow." in task("m-bmad", "1-2-seeds")["body"]
    assert task("release-claude", "task-1")["assignee"] == "backend"
    members = interlock("--json", "member", "list", "--team", "release-claude").json["members"]
    assert [(one["name"], one["type"]) for one in members if one["role"] == "member"] == [
        ("backend", "general-purpose"), ("docs", "writer"),
    ]  # fmt: skip


def test_what_changes_there_changes_here_and_nothing_else(interlock: Interlock, here: Path) -> None:
    put(here, {".beads/issues.jsonl": "".join(f"{json.dumps(one)}\n" for one in BEADS)})
    team = ("--team", "mine")
    assert interlock("import", "beads", ".", *AGENT, *team).code == 0
    assert interlock("task", "create", "Of my own", *team).code == 0
    over = [one | {"status": "closed"} if one["id"] == "bd-a1.1" else one for one in BEADS]
    new = {"id": "bd-e5", "title": "New", "dependencies": [{"depends_on_id": "bd-b2", "type": "blocks"}]}
    put(here, {".beads/issues.jsonl": "".join(f"{json.dumps(one)}\n" for one in [*over, new])})
    again = interlock("--json", "import", "beads", ".", *AGENT, *team).json
    changed = {name: again[name] for name in ("new", "updated", "removed_open")}
    assert changed == {"new": ["bd-e5"], "updated": ["bd-a1", "bd-b2"], "removed_open": ["bd-a1.1"]}
    states = {one["subject"]: one["state"] for one in interlock("--json", "task", "list", *team).json["tasks"]}
    assert states == {
        "Part": "cancelled", "Epic": "ready", "After it": "ready", "New": "backlog", "Of my own": "ready",
    }  # fmt: skip


def test_an_import_replaces_no_other_plan(interlock: Interlock, here: Path) -> None:
    found = sources(here)
    (here / "plan.yaml").write_text("team: mine\nmembers: {ada: {agent: shell}}\ntasks: {a: {run: 'true'}}\n")
    assert interlock("run", "plan.yaml", "--unattended").code == 0
    for other in ("mine", "d-beads"):
        assert interlock("import", "beads", str(found["beads"][1]), *AGENT).code == 0
        refused = interlock("--json", "import", "backlog", str(found["backlog"][1]), *AGENT, "--team", other)
        assert (refused.code, refused.error["error"]) == (1, "invalid_request")
        assert "another plan" in refused.error["message"]


@pytest.mark.parametrize(
    ("kind", "files", "fault"),
    [
        ("beads", {"x.jsonl": '{"id": "a", "title": "A"}\n{"id": "b"\n'}, "x.jsonl:2: this is not JSON"),
        ("beads", {"x.jsonl": '\n{"id": "a", "title": "A", "status": "wild"}'}, "x.jsonl:2: status 'wild' is none of"),
        ("beads", {"x.jsonl": '{"title": "A", "priority": 1.0}'}, "x.jsonl:1: id is missing"),
        ("beads", {"x.jsonl": '{"id": "a", "title": "A", "priority": 1.0}'}, "x.jsonl:1: priority must be a number"),
        ("beads", {"x.jsonl": '{"id": "a", "title": " "}'}, "x.jsonl:1: title is blank"),
        ("beads", {"x.jsonl": '{"id": "a", "title": "A"}\n' * 2}, 'x.jsonl:2: there are two tasks "a"'),
        ("beads", {"x.jsonl": '{"id": "a", "title": "A", "dependencies": [{"depends_on_id": "z"}]}'},
         'x.jsonl:1: task "a" waits for "z", which is not there'),
        ("beads", {"x.jsonl": "".join(
            json.dumps({"id": one, "title": "T", "dependencies": [{"depends_on_id": other}]}) + "\n"
            for one, other in ("ab", "ba"))}, "x.jsonl:2: dependency cycle: a -> b -> a"),
        ("beads", {"x.jsonl": "[1]"}, "x.jsonl:1: this should be a mapping, not a list"),
        ("beads", {}, "no beads are here"),
        ("taskmaster", {"tasks.json": '{\n"tasks": [\n\t{"id": 1,\n\t"title": ["x"]}]}'},
         "tasks.json:4: title must be text, not a list"),
        ("taskmaster", {"tasks.json": '{\n"tasks": 7}'}, "tasks.json:2: tasks must be a list, not the number 7"),
        ("taskmaster", {"tasks.json": "{\n\n"}, "tasks.json:3: this is not JSON"),
        ("taskmaster", {"tasks.json": "[" * 100_000}, "tasks.json:1: this is not JSON"),
        ("taskmaster", {"tasks.json": '{"tasks": []}'}, "no task is here"),
        ("backlog", {"backlog/config.yml": "project_name: x", "backlog/tasks/a.md": "# A\n"}, "a.md:1: a task begins"),
        ("backlog", {"backlog/config.yml": "a: [", "backlog/tasks/a.md": "# A\n"}, "config.yml:1: this is not YAML"),
        ("backlog", {"backlog/config.yml": "a: b", "backlog/tasks/a.md": "---\nid: T-1\ntitle: [x]\n---\n"},
         "a.md:3: title must be text, not a list"),
        ("bmad", {"sprint-status.yaml": "development_status:\n  epic-1: backlog\n  1-1-a: wild\n"},
         "sprint-status.yaml:3: 1-1-a: 'wild' is none of"),
        ("bmad", {"sprint-status.yaml": "a:\n  b: [\n"}, "this is not YAML"),
        ("claude", {"tasks/x/1.json": '{"id": "1",\n "subject": "A",\n "status": "wild"}'}, "1.json:3: status 'wild'"),
        ("claude", {}, "no teams of Claude Code are here"),
    ],
)  # fmt: skip
def test_a_file_that_makes_no_sense_is_refused_with_its_line(
    interlock: Interlock, here: Path, kind: str, files: dict[str, str], fault: str
) -> None:
    put(here, files)
    path = "x.jsonl" if "x.jsonl" in files else "tasks/x" if "tasks/x/1.json" in files else "."
    refused = interlock("import", kind, path, *AGENT)
    assert refused.code == 1
    assert fault in refused.err
    assert interlock("--json", "team", "list").json["teams"] == []


def test_an_agent_or_a_directory_that_is_not_there_is_named(interlock: Interlock, here: Path) -> None:
    path = str(sources(here)["beads"][1])
    refused = interlock("--json", "import", "beads", path, "--agent", "clade")
    assert (refused.code, refused.error["error"]) == (1, "agent_error")
    assert refused.error["message"].startswith("Unknown agent 'clade'") and "/tmp" not in refused.error["message"]
    refused = interlock("--json", "import", "beads", path, "--agent", "shell")
    assert (refused.code, refused.error["error"]) == (1, "invalid_plan")
    assert "needs an agent" in refused.error["message"] and ".yaml" not in refused.error["message"]
    refused = interlock("--json", "import", "beads", path, *AGENT, "--workdir", str(here / "nowhere"))
    assert (refused.code, refused.error["field"]) == (1, "workdir")
    assert interlock("--json", "team", "list").json["teams"] == []
