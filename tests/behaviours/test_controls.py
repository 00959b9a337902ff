"""What is executed comes from plans, people and a lead outside every run; a task's metadata is data."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.app.team import Team
from interlock.errors import Forbidden, InvalidRequest
from interlock.storage.sqlite import schema
from tests.behaviours.driving import Place

CONTROLS: list[dict[str, Any]] = [
    {"verify": "touch owned"},
    {"run": "touch owned"},
    {"env": ["MY_DEPLOY_TOKEN"]},
    {"timeout": 5},
    {"retries": 0},
    {"limits": {"turns": 3}},
]
NAMES = ("env", "timeout", "retries", "limits", "run", "verify", "workflow")


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: next(iter(control)))
def test_a_member_sets_nothing_that_is_executed(team: Team, control: dict[str, Any]) -> None:
    field = next(iter(control))
    with pytest.raises(Forbidden, match=f"Leave {field} out and ask the lead") as refused:
        team.create_task("Mine", **control, by="ada")
    assert refused.value.details["field"] == field and team.tasks() == []
    own = team.create_task("Mine", by="ada").id
    change = {"command" if field == "run" else field: control[field]}
    with pytest.raises(Forbidden, match="comes from a plan, a person or a lead outside every run"):
        team.update(own, **change, by="ada")
    for by in ("lead", "human"):
        assert team.create_task("Theirs", **control, by=by).as_dict()[field] == control[field]
        assert team.update(own, **change, by=by).as_dict()[field] == control[field]
    with pytest.raises(Forbidden):
        team.update(own, **dict.fromkeys(change), by="ada")


@pytest.mark.parametrize("names", [["A=B"], ["PATH", "1A"], [""], ["A B"], ["INTERLOCK_TOKEN"], ["interlock_token"]])
def test_what_names_no_variable_is_refused(team: Team, names: list[str]) -> None:
    task = team.create_task("Deploy", env=["_A1", "path"]).id
    for verb in (lambda: team.create_task("Deploy", env=names), lambda: team.update(task, env=names)):
        with pytest.raises(InvalidRequest, match="env: "):
            verb()


@pytest.mark.parametrize(
    "field", ["worktree", "merging", "workflow", "delegation_depth", "review_required", "plan_key", "plan_digest",
              "group_id", "project_id", "why", "linked", "command", "state", "foo"],
)  # fmt: skip
def test_a_new_task_is_given_only_what_a_task_may_say(team: Team, field: str) -> None:
    with pytest.raises(InvalidRequest, match=f"A task has no {field} to set") as refused:
        team.create_task("Deploy", **{field: None})  # type: ignore[arg-type]
    assert refused.value.details["field"] == field
    assert team.tasks() == []
    assert team.create_task("Deploy", blocked_by=None).state == "ready"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "control", [{"env": "PATH"}, {"env": [1]}, {"timeout": "next friday"}, {"timeout": -1}, {"retries": "x"},
                {"retries": True}, {"limits": {"beer": 1}}, {"limits": [1]}],
)  # fmt: skip
def test_a_control_of_the_wrong_type_is_refused(team: Team, control: dict[str, Any]) -> None:
    field = next(iter(control))
    with pytest.raises(InvalidRequest, match=rf"\b{field}\b"):
        team.create_task("Deploy", **control)


@pytest.mark.parametrize("name", NAMES)
def test_metadata_does_not_steer_and_says_so(team: Team, name: str) -> None:
    for by in ("human", "lead", "ada"):
        with pytest.raises(InvalidRequest, match=rf"metadata is data and must not hold {name}\b"):
            team.create_task("Deploy", metadata={name: None}, by=by)
    task = team.create_task("Deploy", metadata={"branch": "main", "url": {"env": "prod"}}, by="ada").id
    with pytest.raises(InvalidRequest, match=name):
        team.update(task, metadata={name: 1})
    assert team.task(task).metadata == {"branch": "main", "url": {"env": "prod"}}


def test_a_member_cannot_get_around_a_review_by_metadata(team: Team) -> None:
    with pytest.raises(Forbidden, match="reviewRequired is set by plans, people and the protocol"):
        team.create_task("Mine", metadata={"reviewRequired": False}, by="ada")
    task = team.create_task("Mine", metadata={"reviewRequired": True}, by="human").id
    team.claim(task, by="ada")
    for change in ({"reviewRequired": False}, {"reviewRequired": None}, {"delegationDepth": 0}):
        with pytest.raises(Forbidden):
            team.update(task, metadata=change, by="ada")
    kept = team.update(task, metadata={"reviewRequired": True, "branch": "main"}, by="ada")
    assert kept.metadata == {"branch": "main", "reviewRequired": True}
    assert team.update(task, metadata={"branch": "x"}, by="ada").metadata == {"branch": "x", "reviewRequired": True}
    assert team.update(task, metadata={"reviewRequired": None}).metadata == {}
    for wrong in ({"reviewRequired": "no"}, {"delegationDepth": -1}, {"delegationDepth": True}):
        with pytest.raises(InvalidRequest):
            team.update(task, metadata=wrong)


def test_a_lead_inside_a_run_is_an_agent(tmp_path: Path) -> None:
    place = Place(tmp_path)
    source = """
    inside = {name: os.environ[name] for name in ("HOME", "PATH", "INTERLOCK_HOME")}
    words = ["interlock", "--team", "crew", "--as", "lead", "task", "create", "Mine", "--verify", "touch owned"]
    for environment in (inside, {**inside, "INTERLOCK_MEMBER": "lead"}):
        found = subprocess.run(words, env=environment, capture_output=True, text=True)
        say(f"{found.returncode} {found.stderr}")
    """
    place.stage({"one": {"subject": "Look"}}, {"ada": place.program("ada", source)})
    place.drive()
    said = place.log("one")
    assert said.count("1 error: ") == 2, said
    assert [task.subject for task in place.team.tasks()] == ["Look"]


def test_what_stood_in_metadata_is_moved_unless_a_member_put_it_there(tmp_path: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(schema.DIRECTORY, old, ignore=lambda _, names: [name for name in names if name >= "006"])
    home = interlock.connect(str(tmp_path / "home"))
    place = Path(home.create_team("alpha").directory)
    home.team("alpha").spawn("ada")
    home.close()
    rows = {
        "001": ("human", '{"env": ["KEY"], "timeout": 9, "retries": 1, "limits": {"turns": 3}, "branch": "main"}'),
        "002": ("ada", '{"env": ["KEY"], "timeout": 9, "reviewRequired": false, "delegationDepth": 1, "x": 1}'),
        "003": ("human", '{"timeout": "next friday", "env": "KEY", "reviewRequired": false}'),
    }
    rebuilt(place / "ledger.db", old, rows)
    again = interlock.connect(str(tmp_path / "home"))
    try:
        found = {task.id[-3:]: task for task in again.team("alpha").tasks()}
        first, second, third = (found[number] for number in rows)
        assert (first.env, first.timeout, first.retries, first.limits) == (["KEY"], 9, 1, {"turns": 3})
        assert first.metadata == {"branch": "main"}
        assert (second.env, second.timeout, second.review_required) == (None, None, None)
        assert second.metadata == {"x": 1, "delegationDepth": 1}
        assert (third.timeout, third.env, third.metadata) == (None, None, {"reviewRequired": False})
    finally:
        again.close()


def rebuilt(ledger: Path, migrations: Path, rows: dict[str, tuple[str, str]]) -> None:
    """Put a ledger of the older schema in the place of `ledger`: its team and members, and these tasks."""
    new = sqlite3.connect(ledger)
    kept = {table: new.execute(f"SELECT * FROM {table}").fetchall() for table in ("team", "members")}
    new.close()
    for end in ("", "-wal", "-shm"):
        Path(f"{ledger}{end}").unlink(missing_ok=True)
    made = sqlite3.connect(ledger, isolation_level=None)
    schema.create_schema(made, str(migrations))
    for table, found in kept.items():
        width = len(made.execute(f"SELECT * FROM {table}").description)
        for row in found:
            made.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * width)})", row[:width])
    for number, (by, metadata) in rows.items():
        made.execute(
            "INSERT INTO tasks (id, subject, state, metadata, created_by, created_at, updated_at) "
            "VALUES (?, 'x', 'ready', ?, ?, '2026-11-21T00:00:00.000Z', '2026-11-21T00:00:00.000Z')",
            (f"TASK-2026-11-21-{number}", metadata, by),
        )
    made.close()
