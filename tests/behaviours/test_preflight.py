"""A check must look at the work: what would prove the wrong tree, or cannot start, is named before anything starts."""

from __future__ import annotations

import json
import re
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import AgentError, PlanError, WorktreeRefused
from tests.behaviours.driving import SHELL, Place
from tests.behaviours.repository import Repository, stage

BREAK = "echo 'raise RuntimeError(1)' > src/tally/__init__.py"
TEST = "import unittest\nimport tally\n\n\nclass Test(unittest.TestCase):\n    def test(self):\n"
TEST += "        self.assertTrue(tally)\n"


@pytest.fixture
def project(place: Place) -> Repository:
    """A project as everybody has it: a src layout, and an environment beside it with an editable install."""
    found = Repository(place.work)
    found.commit("project", **{
        "src/tally/__init__.py": "", "tests/test_tally.py": TEST, ".gitignore": ".venv/\nnode_modules/\n",
        "pyproject.toml": '[project]\nname = "tally"\nversion = "1"\n',
    })  # fmt: skip
    environment(place.work / ".venv", place.work / "src")
    return found


def environment(where: Path, source: Path) -> None:
    """A virtual environment that has the project in `source` installed as `pip install -e` does."""
    venv.create(where, symlinks=True)
    (packages,) = where.glob("lib/python3*/site-packages")
    (packages / "__editable__.tally-1.pth").write_text(f"{source}\n")


def refused(place: Place, tasks: dict[str, Any], **more: Any) -> list[str]:
    """The faults of a plan that is refused, without anything made."""
    with pytest.raises(PlanError) as caught:
        stage(place, tasks, **more)
    assert place.home.teams() == []
    return [fault["message"] for fault in caught.value.details["errors"]]


def test_an_absolute_path_into_the_users_checkout_is_a_fault_of_the_plan(place: Place, project: Repository) -> None:
    python = place.work / ".venv" / "bin" / "python"
    (fault,) = refused(place, {"break": {"run": BREAK, "verify": f"{python} -m unittest discover -s tests"}})
    assert fault.startswith("verify would not look at the work in a worktree:") and str(python) in fault
    assert "`setup: python3 -m venv .venv && .venv/bin/pip install -e .`" in fault and ".venv/bin/python" in fault


def test_an_environment_elsewhere_with_the_project_installed_from_the_checkout_is_a_fault(
    place: Place, project: Repository
) -> None:
    environment(place.path / "environment", place.work / "src")
    python = place.path / "environment" / "bin" / "python"
    (fault,) = refused(place, {"break": {"run": BREAK, "verify": f"{python} -m unittest discover -s tests"}})
    assert "has this project installed from your checkout (__editable__.tally-1.pth)" in fault


@pytest.mark.parametrize(
    ("files", "program", "remedy"),
    [
        ({}, ".venv/bin/python", "`setup: python3 -m venv .venv && .venv/bin/pip install -e .`"),
        ({}, ".venv/bin/pytest", "`setup: python3 -m venv .venv && .venv/bin/pip install -e . pytest`, and write"),
        ({"uv.lock": ""}, ".venv/bin/python", "`uv run python`"),
        ({"poetry.lock": ""}, ".venv/bin/python", "poetry install"),
        ({"package.json": "{}", "yarn.lock": ""}, "node_modules/.bin/jest", "`setup: yarn install --frozen-lockfile`"),
        ({"package-lock.json": "{}"}, "node_modules/.bin/jest", "`setup: npm ci`"),
        ({"package.json": "{}"}, "node_modules/.bin/jest", "`setup: npm install --no-package-lock`"),
    ],
)
def test_a_program_that_git_ignores_is_named_with_the_remedy_of_its_tool(
    place: Place, project: Repository, files: dict[str, str], program: str, remedy: str
) -> None:
    if files:
        project.commit("tool", **files)
    tool = place.work / program
    if not tool.exists():
        tool.parent.mkdir(parents=True, exist_ok=True)
        tool.write_text("#!/bin/sh\n")
    (fault,) = refused(place, {"one": {"run": f"CI=1 {program} tests && echo fine"}})
    assert f"{program} exists in your checkout only" in fault and remedy in fault


def test_a_check_that_would_run_in_the_users_environment_verifies_nothing_and_asks(
    place: Place, project: Repository
) -> None:
    verify = ".venv/bin/python -m unittest discover -s tests"
    stage(place, {"break": {"run": BREAK, "verify": verify}}, setup=f"ln -s {place.work}/.venv .venv")
    place.drive()
    task = place.task("break")
    assert task.state == "review" and not any(row.get("passed") for row in task.evidence)
    (need,) = place.needs("review")
    assert "installed from your checkout" in need.text
    assert "raise" not in project.show("interlock/crew", "src/tally/__init__.py")


def test_with_an_environment_of_the_worktree_what_is_broken_fails(place: Place, project: Repository) -> None:
    setup = (
        f"{sys.executable} -m venv --without-pip .venv && "
        "for one in .venv/lib/python3*/site-packages; do echo $PWD/src > $one/tally.pth; done"
    )
    verify = ".venv/bin/python -m unittest discover -s tests"
    tasks = {
        "break": {"run": BREAK, "verify": verify, "retries": 0},
        "well": {"run": "echo 'TALLY = 1' > src/tally/__init__.py", "verify": verify},
    }
    stage(place, tasks, {"ada": SHELL, "bob": SHELL}, setup=setup)
    place.drive()
    assert place.states() == {"break": "deadletter", "well": "done"}
    assert "RuntimeError" in str(place.task("break").output)


def test_what_cannot_start_is_a_fault_at_its_line(place: Place) -> None:
    (place.path / "plan.yaml").write_text(
        "team: crew\n"
        "workdir: work\n"
        "members:\n"
        "  ada: {agent: shell, env: [INTERLOCK_TOKEN]}\n"
        "tasks:\n"
        "  quote:\n"
        "    run: echo fine\n"
        '    verify: echo "never closed\n'
        "  spelt:\n"
        "    run: echo fine\n"
        "    verify: no-such-program --quiet\n"
    )
    with pytest.raises(PlanError) as caught:
        place.home.stage(str(place.path / "plan.yaml"))
    member, quote, spelt = caught.value.details["errors"]
    assert (member["line"], quote["line"], spelt["line"]) == (4, 8, 11)
    assert (
        "INTERLOCK_" in member["message"]
        and "quote" in quote["message"]
        and "'no-such-program' was not found" in spelt["message"]
    )


FAULTY = """\
team: crew
workdir: work
{top}
members:
  ada: {{agent: shell}}
  bob: {{agent: nonesuch}}
tasks:
  a: {{run: ls, blocked_by: [nowhere]}}
  b:
    run: ls
    verify: no-such-program --all
    blocked_by: [c]
  c:
    run: ls
    verify: test -f 'x
    blocked_by: [b]
    retries: many
  d: {{run: ls, verify: [ls]}}
"""
ALWAYS = [
    (6, "Unknown agent 'nonesuch'"), (8, 'waits for "nowhere"'), (15, "has a quote"), (16, "dependency cycle: b -> c"),
    (17, "must be a whole number"), (18, "verify of task"),
]  # fmt: skip
NOT_FOUND = (11, "'no-such-program' was not found")


@pytest.mark.parametrize(
    ("top", "more"),
    [
        ("parallel: 2", [NOT_FOUND]),
        ("paralel: 2", [(3, 'Did you mean "parallel"?'), NOT_FOUND]),
        ("isolation: worktree", [(3, "is not in a git repository"), NOT_FOUND]),
        # What a setup would make is not known: these may be, or are, one that cannot be read.
        ("setpu: make", [(3, 'Did you mean "setup"?')]),
        ("foo: make", [(3, 'unknown key "foo"')]),
        ("setup:", [(3, "setup of the plan is empty")]),
        ("verify: also-not-there", [NOT_FOUND]),
    ],
)
def test_faults_of_every_kind_are_told_in_one_go_and_none_that_follows_from_another(
    place: Place, top: str, more: list[tuple[int, str]]
) -> None:
    plan = place.path / "plan.yaml"
    plan.write_text(FAULTY.format(top=top))
    with pytest.raises(PlanError) as caught:
        place.home.check_plan(str(plan))
    found = [(fault["line"], fault["message"]) for fault in caught.value.details["errors"]]
    wanted = sorted([*ALWAYS, *more])
    if top.startswith("verify"):  # It is that of tasks a, which says none itself.
        wanted = sorted([*wanted, (3, "'also-not-there' was not found")])
    assert [line for line, _ in found] == [line for line, _ in wanted], found
    assert all(text in message for (_, text), (_, message) in zip(wanted, found, strict=True)), found
    assert {fault["path"] for fault in caught.value.details["errors"]} == {str(plan)}
    with pytest.raises(PlanError, match=re.escape(caught.value.message)):
        place.home.stage(str(plan))
    assert place.home.teams() == []


def test_a_fault_that_stands_alone_keeps_its_kind(place: Place) -> None:
    stand_alone = {"tasks": {"a": {"run": "ls"}}, "members": {"ada": SHELL}, "workdir": "work"}
    without = {"members": {"ada": SHELL, "bob": {"agent": "nonesuch"}}}
    for more, kind in ((without, AgentError), ({"isolation": "worktree"}, WorktreeRefused)):
        plan = place.path / "plan.yaml"
        plan.write_text(json.dumps({**stand_alone, **more}))
        with pytest.raises(kind):
            place.home.check_plan(str(plan))
