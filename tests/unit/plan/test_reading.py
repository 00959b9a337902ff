"""A plan file is read whole or refused with every fault and its line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.errors import PlanError
from interlock.model.plan import PlanLimits, digest
from interlock.plan import reading
from interlock.plan.faults import MOST_PIECES
from interlock.plan.schema import MemberSection, PlanFile, TaskSection

SOUND = """\
team: release-check
workdir: ..
parallel: 3
retries: 1
verify: git diff --check
env: [HOME_URL]
limits: {turns: 10, cost_usd: 2.5, time: 1h30m}
members:
  ada: {agent: shell}
  bob: {agent: claude, model: sonnet, permissions: ask, env: [CLAUDE_KEY]}
  cy: {agent: {command: [python3, agent.py, 7]}}
tasks:
  lint:  {run: ruff check src}
  test:  {subject: Run the unit tests, run: pytest -q tests/unit, blocked_by: [lint], verify: false, timeout: 10m}
  notes:
    subject: Write release notes
    body: |
      Read the log and write it.
    assignee: bob
    verify: test -s NOTES.md
    review: cy
    blocked_by: [test]
    priority: high
    retries: 0
    timeout: 90
"""


def faults(text: str, path: str = "plans/small.yaml") -> list[tuple[int | None, str]]:
    return [(fault["line"], fault["message"]) for fault in reading.faults_of(text, path)]


def only_fault(text: str) -> tuple[int | None, str]:
    found = faults(text)
    assert len(found) == 1, found
    return found[0]


def with_tasks(tasks: str) -> str:
    return f"members:\n  ada: {{agent: shell}}\n  bob: {{agent: claude}}\ntasks:\n{tasks}"


def test_a_sound_plan_comes_back_with_every_field() -> None:
    plan = reading.parse(SOUND, "/projects/tool/plans/release.yaml")
    assert (plan.team, plan.workdir, plan.parallel, plan.isolation) == ("release-check", "/projects/tool", 3, None)
    assert plan.path == "/projects/tool/plans/release.yaml"
    assert plan.limits == PlanLimits(turns=10, cost_usd=2.5, time=5400.0)
    assert (plan.members["ada"].agent, plan.members["bob"].agent) == ("shell", "claude")
    assert plan.members["bob"].model == "sonnet" and plan.members["bob"].permissions == "ask"
    assert plan.members["cy"].agent == "command" and plan.members["cy"].command == ("python3", "agent.py", "7")
    notes = plan.tasks["notes"]
    assert notes.body == "Read the log and write it.\n" and notes.review == "cy" and notes.blocked_by == ("test",)
    assert (notes.priority, notes.retries, notes.timeout, notes.line) == ("high", 0, 90.0, 15)


def test_tasks_take_the_plans_defaults_unless_they_say_otherwise() -> None:
    tasks = reading.parse(SOUND, "p.yaml").tasks
    assert tasks["lint"].verify == "git diff --check" and tasks["lint"].retries == 1
    assert tasks["lint"].env == ("HOME_URL",)
    assert tasks["test"].verify is None
    assert tasks["notes"].verify == "test -s NOTES.md" and tasks["notes"].retries == 0


def test_a_task_with_a_command_may_leave_its_subject_to_the_command() -> None:
    assert reading.parse(SOUND, "p.yaml").tasks["lint"].subject == "ruff check src"


def test_a_team_without_a_name_is_called_after_the_file() -> None:
    assert reading.parse(with_tasks("  a: {run: ls}"), "plans/nightly.yaml").team == "nightly"
    line, message = faults(with_tasks("  a: {run: ls}"), "plans/My Plan.yaml")[0]
    assert line == 1 and "alphanumeric" in message


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("  a: {run: ls}\n  b: {run: ls, blocked-by: [a]}", 6, 'Did you mean "blocked_by"?'),
        ("  a: {run: ls}\n  b: {run: ls, depends_on: [a]}", 6, 'Did you mean "blocked_by"?'),
        ("  a:\n    run: ls\n    zzzz: 1", 7, "There are: subject, body, run"),
        ("  a: {run: ls}\n  a: {run: ls}", 6, 'duplicate task "a" (first on line 5)'),
        ("  a:\n    run: ls\n    run: pwd", 7, "duplicate key"),
        ("  build: {run: ls}\n  b: {run: ls, blocked_by: [biuld]}", 6, 'Did you mean "build"?'),
        ("  a: {run: ls, blocked_by: [b]}\n  b: {run: ls, blocked_by: [a]}", 6, "a -> b -> a"),
        ("  a: {run: ls, blocked_by: [a]}", 5, "a -> a"),
        ("  a: {run: ls, assignee: adda}", 5, 'Did you mean "ada"?'),
        ("  a: {run: ls, assignee: bob}", 5, "Assign it to ada"),
        ("  a: {subject: x, assignee: ada}", 5, "needs an agent; ada is a shell member. Assign it to bob"),
        ("  a: {subject: x, review: bobb}", 5, 'Did you mean "bob"?'),
        ("  a: {subject: x, assignee: bob, review: bob}", 5, "its own assignee"),
        ("  a: {subject: x, review: bob}", 5, "the only member that can do"),
        ("  a: {run: x, review: ada}", 5, "cannot review"),
        ("  a: {body: x}", 5, "has no subject"),
        ("  a: {run: true}", 5, 'quote it: "true"'),
        ("  a: {run: 3}", 5, "not the number 3"),
        ("  a: {run: [ls]}", 5, "not a list"),
        ("  a: {run: }", 5, "is empty"),
        ("  a: {run: '  '}", 5, "is blank"),
        ('  a: {run: "ls\\0"}', 5, "control character U+0000"),
        ('  a: {run: "ls\\ud800"}', 5, "control character U+D800"),
        ("  a: ls", 5, "must be a mapping"),
        ("  a: {run: ls, blocked_by: b}", 5, "write [b]"),
        ("  a: {run: ls, blocked_by: [1]}", 5, "a list of texts"),
        ("  a: {run: ls, retries: -1}", 5, "at least 0"),
        ("  a: {run: ls, retries: 1.5}", 5, "a whole number"),
        ("  a: {run: ls, timeout: 10 minutes}", 5, "such as 30s"),
        ("  a: {run: ls, timeout: 0}", 5, "more than nothing"),
        ("  a: {run: ls, timeout: .inf}", 5, "such as 30s"),
        ("  a: {run: ls, priority: hihg}", 5, 'Did you mean "high"?'),
        ("  a: {run: ls, verify: true}", 5, "must be text"),
        ("  a: {run: ls, env: [A-B]}", 5, "environment variable"),
        (f"  a: {{subject: {'x' * 201}}}", 5, "201 characters long; 200"),
        (f"  a: {{subject: x, body: {'x' * 10_001}}}", 5, "10,001 characters"),
        ('  a: {subject: "x\\ny"}', 5, "one line"),
        ("  '003': {run: ls}", 5, "at least one letter"),
        ("  TASK-2026-01-01-001: {run: ls}", 5, "no TASK-"),
        ("  ? [x]\n  : {run: ls}", 5, "must be a name, not a list"),
        ("  a: &x {run: ls}\n  b: {<<: *x}", 6, "no merge keys"),
        ("  a: !!python/object:os.system {run: ls}\n  b: {run: !foo ls}", 6, "must be text"),
    ],
)
def test_a_fault_in_a_task_is_named_with_its_line(text: str, line: int, part: str) -> None:
    found = faults(with_tasks(text))
    assert any(at == line and part in message for at, message in found), found


@pytest.mark.parametrize(
    ("member", "part"),
    [
        ("lead: {agent: shell}", "reserved"),
        ("human: {agent: shell}", "reserved"),
        ("Ada: {agent: shell}", "alphanumeric"),
        (f"{'a' * 51}: {{agent: shell}}", "1 to 50"),
        ("ada: {}", "has no `agent:`"),
        ("ada: shell", "must be a mapping"),
        ("ada: {agent: command}", "must say which"),
        ("ada: {agent: {command: ls}}", "{command: [program"),
        ("ada: {agent: {command: []}}", "{command: [program"),
        ("ada: {agent: {command: ['']}}", "is blank"),
        ("ada: {agent: {command: [ls], args: [x]}}", "{command: [program"),
        ("ada: {agent: Big Agent}", "{command: [program"),
        ("ada: {agent: shell, permissions: all}", "must be one of"),
        ("ada: {agent: shell, role: x}", 'Did you mean "type"?'),
    ],
)
def test_a_fault_in_a_member_is_named_with_its_line(member: str, part: str) -> None:
    found = faults(f"members:\n  # a comment\n  {member}\ntasks:\n  a: {{run: ls}}")
    assert any(line == 3 and part in message for line, message in found), found


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret", "a/../../b", ".git/config", "sub/.git/x"])
def test_a_copied_file_lies_below_the_working_directory(path: str) -> None:
    line, message = only_fault(f"isolation: worktree\ncopy: [.env, {path}]\n" + with_tasks("  a: {run: ls}"))
    assert line == 2 and path in message and "below workdir" in message


def test_worktrees_bring_a_setup_and_copies() -> None:
    text = "isolation: worktree\nsetup: npm ci\ncopy: [.env, conf/local.ini]\n" + with_tasks("  a: {run: ls}")
    plan = reading.parse(text, "plan.yaml")
    assert (plan.isolation, plan.setup, plan.copy) == ("worktree", "npm ci", (".env", "conf/local.ini"))


@pytest.mark.parametrize(
    ("head", "part"),
    [
        ("team: My Team", "alphanumeric"),
        ("parallel: 0", "at least 1"),
        ("parallel: many", "a whole number"),
        ("isolation: container", "one of: none, worktree"),
        ("limits: {cost: 3}", "cost_usd"),
        ("limits: 3", "must be a mapping"),
        ("concurrency: 3", 'Did you mean "parallel"?'),
    ],
)
def test_a_fault_at_the_top_is_named_with_its_line(head: str, part: str) -> None:
    line, message = only_fault(f"# first\n{head}\n" + with_tasks("  a: {run: ls}"))
    assert line == 2 and part in message


@pytest.mark.parametrize("head", ["setup: make", "copy: [.env]"])
def test_what_prepares_worktrees_is_a_fault_where_the_plan_wants_none(head: str) -> None:
    line, message = only_fault(f"isolation: none\n{head}\n" + with_tasks("  a: {run: ls}"))
    assert line == 2 and "Add `isolation: worktree`" in message


def test_a_plan_needs_members_and_tasks() -> None:
    assert [message for _, message in faults("team: x")] == [
        "the plan has no `members:` (who does the tasks, by name)",
        "the plan has no `tasks:` (what is to be done, by key)",
    ]
    assert [line for line, _ in faults("members: {}\ntasks: {}")] == [1, 2]
    assert "empty" in only_fault("")[1] and "empty" in only_fault("# only a comment\n")[1]
    assert "a plan is a mapping" in only_fault("- a")[1]


def test_a_command_without_a_shell_member_and_a_prompt_without_an_agent_are_refused() -> None:
    agents_only = "members: {bob: {agent: claude}}\ntasks: {a: {run: ls}}"
    shell_only = "members: {ada: {agent: shell}}\ntasks: {a: {subject: Think}}"
    assert "needs a shell member, and there is none" in only_fault(agents_only)[1]
    assert "needs an agent, and there is none" in only_fault(shell_only)[1]


def test_all_faults_are_reported_at_once_in_the_order_of_their_lines() -> None:
    text = "parallel: 0\nmembers:\n  ada: {agent: shell}\ntasks:\n  a: {rum: ls}\n  b: {run: ls, blocked_by: [c]}\n"
    with pytest.raises(PlanError) as caught:
        reading.parse(text, "small.yaml")
    lines = [fault["line"] for fault in caught.value.details["errors"]]
    assert lines == [1, 5, 6]
    assert caught.value.message.startswith("small.yaml has 3 errors:\n")
    assert "\n  small.yaml:6: " in caught.value.message
    assert all(fault["path"] == "small.yaml" for fault in caught.value.details["errors"])


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a: [", 1, 5),
        ("members:\n\t- x", 2, 1),
        ("a: 1\n---\nb: 2", 2, 1),
        ("a: b: c", 1, 5),
        ("a: *x", 1, 4),
        ("a\x00", 1, 2),
    ],
)
def test_text_that_is_not_yaml_is_refused_with_line_and_column(text: str, line: int, column: int) -> None:
    fault = reading.faults_of(text, "p.yaml")[0]
    assert (fault["line"], fault["column"]) == (line, column)
    assert "not YAML" in fault["message"]


def test_aliases_are_shared_until_they_unfold_to_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_PIECES == 100_000  # which take seconds to read
    monkeypatch.setattr("interlock.plan.faults.MOST_PIECES", 5_000)
    shared = with_tasks("  a: &same {run: ls}\n  b: *same")
    assert reading.parse(shared, "p.yaml").tasks["b"].run == "ls"
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
    assert "unfolds to more than" in only_fault(bomb)[1]
    assert "has more than 5,000 pieces" in only_fault("a: [" + "1," * 6_000 + "]")[1]
    assert "is inside what it names" in only_fault("a: &a [*a]")[1]
    assert "nested too deeply" in only_fault("[" * 1000)[1]
    assert "nested too deeply" in faults("a: " + "[" * 60 + "]" * 60)[0][1]


def test_a_file_is_refused_when_it_is_missing_too_large_a_directory_or_not_utf_8(tmp_path: Path) -> None:
    def refusal(path: Path) -> dict[str, Any]:
        with pytest.raises(PlanError) as caught:
            reading.load(str(path))
        found: dict[str, Any] = caught.value.details["errors"][0]
        return found

    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (reading.LARGEST + 1))
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"team: x\n# caf\xe9\n")
    assert "no such file" in refusal(tmp_path / "none.yaml")["message"]
    assert "larger than" in refusal(large)["message"]
    assert "cannot be read" in refusal(tmp_path)["message"]
    assert refusal(latin)["line"] == 2


def test_a_loaded_plan_works_in_a_directory_that_exists(tmp_path: Path) -> None:
    plan = tmp_path / "p.yaml"
    plan.write_text("﻿workdir: sub\n" + with_tasks("  a: {run: ls}"), encoding="utf-8")
    with pytest.raises(PlanError, match="there is no directory"):
        reading.load(str(plan))
    (tmp_path / "sub").mkdir()
    assert reading.load(str(plan)).workdir == str(tmp_path / "sub")


def test_the_digest_follows_the_content_and_nothing_else() -> None:
    tasks = reading.parse(with_tasks("  a: {run: ls}\n  b: {run: ls}\n  c: {run: ls, verify: pwd}"), "p.yaml").tasks
    assert digest(tasks["a"]) == digest(tasks["b"]) != digest(tasks["c"])


def test_yaml_is_loaded_only_when_a_plan_is_read() -> None:
    code = "import sys, interlock.plan.reading, interlock.plan.schema; print(any('ruamel' in m for m in sys.modules))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert ran.stdout.strip() == "False"


_WORDS = st.sampled_from(
    [*PlanFile.model_fields, *MemberSection.model_fields, *TaskSection.model_fields,
     "ada", "shell", "ls", "{", "}", "[", "]", ": ", "\n", "\n  ", "- ", "&a", "*a", "!!x", "'", '"', "|", "\t", "1"]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(_WORDS, max_size=40).map(" ".join)))
def test_whatever_the_text_only_a_plan_error_comes_out(text: str) -> None:
    try:
        reading.parse(text, "p.yaml")
    except PlanError as error:
        assert error.details["errors"]  # noqa: PT017 - no error at all is as good


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(SOUND) - 1), st.integers(0, 30), st.text(alphabet="{}[]:,&*!|>'\"-?# \nab1", max_size=4))
def test_a_damaged_plan_is_read_or_refused_with_lines_inside_the_file(at: int, cut: int, put: str) -> None:
    text = SOUND[:at] + put + SOUND[at + cut :]
    for fault in reading.faults_of(text, "p.yaml"):
        assert fault["line"] is None or 1 <= fault["line"] <= text.count("\n") + 2
