"""The published schema is a schema, and it and the reader agree."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from ruamel.yaml import YAML

from interlock.plan import reading
from interlock.plan.schema import json_schema
from interlock.wiring import connect

HEAD: dict[str, Any] = {"members": {"ada": {"agent": "shell"}, "bob": {"agent": "claude"}}}


def valid(plan: Any) -> bool:
    return bool(Draft202012Validator(json_schema()).is_valid(plan))


def test_it_is_a_schema_of_the_draft_it_names() -> None:
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize(
    "text",
    [
        "members: {ada: {agent: shell}}\ntasks: {a: {run: ls}}",
        "members: {ada: {agent: shell}}\ntasks: {a: {run: ls, verify: false, timeout: 1h30m}}",
        "members: {ada: {agent: {command: [prog, 1, true]}}}\ntasks: {a: {subject: x, timeout: 5}}",
        "members: {ada: {agent: shell}}\ntasks: {a: {body: x}}",
        "members: {lead: {agent: shell}}\ntasks: {a: {run: ls}}",
        "members: {Ada: {agent: shell}}\ntasks: {a: {run: ls}}",
        "members: {ada: {agent: command}}\ntasks: {a: {run: ls}}",
        "members: {ada: {agent: shell}}\ntasks: {'003': {run: ls}}",
        "members: {ada: {agent: shell}}\ntasks: {a: {run: ls, timeout: soon}}",
        "members: {ada: {agent: shell}}\ntasks: {a: {run: ls, timeout: ''}}",
        "members: {ada: {agent: shell}}\ntasks: {a: {run: ls, retries: -1}}",
        "members: {ada: {agent: shell}}\ntasks: {a: {run: ls, priority: urgent}}",
        "members: {ada: {agent: shell}}\ntasks: {a: {run: ls, extra: 1}}",
        "members: {ada: {agent: shell, env: [A-B]}}\ntasks: {a: {run: ls}}",
        "members: {}\ntasks: {a: {run: ls}}",
        "team: My Team\nmembers: {ada: {agent: shell}}\ntasks: {a: {run: ls}}",
        "parallel: 0\nmembers: {ada: {agent: shell}}\ntasks: {a: {run: ls}}",
        "limits: {turns: 3, time: 1h}\nmembers: {ada: {agent: shell}}\ntasks: {a: {run: ls}}",
        "limits: {money: 3}\nmembers: {ada: {agent: shell}}\ntasks: {a: {run: ls}}",
    ],
)
def test_schema_and_reader_accept_and_refuse_the_same(text: str) -> None:
    assert valid(YAML(typ="safe", pure=True).load(text)) == (reading.faults_of(text, "p.yaml") == [])


def test_every_row_of_the_table_is_described_in_the_schema() -> None:
    schema = json_schema()
    assert len(schema["$defs"]) == 3
    for part in (schema, *schema["$defs"].values()):
        assert part["additionalProperties"] is False
        assert all(row["description"] for row in part["properties"].values())


ROOT = Path(__file__).parents[3]
PLANS = [*sorted((ROOT / "examples").glob("*.yaml")), ROOT / "src/interlock/demo/plan.yaml"]


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.name)
def test_every_plan_that_we_ship_is_sound_and_fits_the_schema(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert reading.faults_of(text, str(path)) == []
    Draft202012Validator(json_schema()).validate(YAML(typ="safe", pure=True).load(text))


def test_the_examples_are_there() -> None:
    assert {path.stem for path in PLANS} >= {"release-check", "feature", "plan"}


def test_the_contracts_own_plan_is_sound() -> None:
    contract = """\
team: release-check
workdir: .
parallel: 3                          # isolation: worktree, setup, copy
members:
  ada: {agent: shell}                # shell runs a task's `run`
  bob: {agent: claude, model: sonnet, permissions: ask}      # ask, workspace, read-only, unattended
tasks:
  lint:  {subject: Lint the sources, run: ruff check src}
  test:  {subject: Run the unit tests, run: pytest -q tests/unit, blocked_by: [lint]}
  notes: {subject: Write release notes, body: "Read the log since the last tag and write …", assignee: bob, verify: test -s NOTES.md, review: human, blocked_by: [test]}
"""  # noqa: E501
    assert reading.faults_of(contract, "p.yaml") == []
    assert valid(YAML(typ="safe", pure=True).load(contract))


@pytest.mark.parametrize("path", PLANS[:-1], ids=lambda path: path.name)
def test_every_example_can_be_staged_where_its_agents_are_installed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("claude-agent-acp", "codex-acp"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    home = connect(str(tmp_path / "home"))
    home.stage(str(path), dry_run=True)
    home.close()
    reading.load(str(path))
