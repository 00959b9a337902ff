"""`interlock init` proposes a plan that the reader accepts and whose commands run where it was written."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import interlock
from interlock.errors import AgentError, InvalidRequest
from interlock.model.plan import Plan, in_order
from interlock.plan import reading
from interlock.plan.detecting import Findings, checkout_of, inspect, team_name
from interlock.plan.initial import PLAN_FILE, TEAM_FILE, initialise, write_plan
from interlock.plan.schema import NAME


@pytest.fixture
def programs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with git, the usual tools, and whatever a test adds."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("git", "make", "ls", "du", "sh", "true", "echo"):
        found = shutil.which(name)
        if found:
            (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    return folder


def add(programs: Path, *names: str) -> None:
    for name in names:
        (programs / name).write_text("#!/bin/sh\nexit 0\n")
        (programs / name).chmod(0o755)


def repository(directory: Path, commit: bool) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=directory, check=True, capture_output=True)

    git("init", "-q")
    if commit:
        git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")


def written(directory: Path) -> Plan:
    _, plan = initialise(str(directory)).files
    return reading.load(plan)


def run_all(plan: Plan) -> None:
    for key in in_order({key: task.blocked_by for key, task in plan.tasks.items()}):
        command = plan.tasks[key].run
        assert command
        subprocess.run(["sh", "-c", command], cwd=plan.workdir, check=True, capture_output=True)


@pytest.mark.parametrize(
    "name", ["My Project (2)!", "été", "...", "x" * 80, "-a-", "übung_1", "a: b # c", "UPPER", "lead"]
)
def test_any_directory_gets_a_plan_that_runs(name: str, tmp_path: Path, programs: Path) -> None:
    directory = tmp_path / name
    directory.mkdir()
    plan = written(directory)
    assert re.fullmatch(NAME, plan.team)
    assert 2 <= len(plan.tasks) <= 4
    run_all(plan)
    assert f'team = "{plan.team}"' in (directory / TEAM_FILE).read_text()


def test_a_team_is_named_after_its_directory() -> None:
    assert team_name("My Project (2)!") == "my-project-2"
    assert team_name("...") == "team"


@pytest.mark.parametrize("commit", [False, True])
def test_a_repository_gets_commands_that_work_with_and_without_commits(
    commit: bool, tmp_path: Path, programs: Path
) -> None:
    repository(tmp_path, commit)
    plan = written(tmp_path)
    assert ("latest" in plan.tasks, "look" in plan.tasks) == (commit, not commit)
    assert plan.isolation == ("worktree" if commit else None)
    run_all(plan)


def test_make_targets_are_used_in_order(tmp_path: Path, programs: Path) -> None:
    (tmp_path / "Makefile").write_text("test := no\nlint:\n\t@true\n\ncheck: lint\n\t@true\nbuild:\n\t@true\n")
    plan = written(tmp_path)
    assert [task.run for task in plan.tasks.values()] == ["ls", "make lint", "make check", "make build"]
    assert plan.tasks["build"].blocked_by == ("test",)
    run_all(plan)


def test_a_python_tool_is_used_only_when_it_can_be_started(tmp_path: Path, programs: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\n[tool.pytest.ini_options]\n")
    found = inspect(str(tmp_path))
    assert (found.language, found.lint_command, found.test_command) == ("python", None, None)
    add(programs, "ruff", "pytest")
    found = inspect(str(tmp_path))
    assert (found.lint_command, found.test_command) == ("ruff check .", "pytest -q")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    add(tmp_path / ".venv/bin", "pytest")
    assert inspect(str(tmp_path)).test_command == ".venv/bin/pytest -q"


def test_tests_written_for_unittest_need_only_python(tmp_path: Path, programs: Path) -> None:
    python = programs / "python3"
    python.write_text('#!/bin/sh\ncase "$*" in *find_spec*) exit 1;; esac\nexit 0\n')
    python.chmod(0o755)
    (tmp_path / "setup.py").write_text("")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_one.py").write_text("import unittest\n")
    assert inspect(str(tmp_path)).test_command == "python3 -m unittest discover -s tests"


STYLE = "import unittest\n"
PLAIN = "def test_one():\n    pass\n"


@pytest.mark.parametrize(
    ("files", "test", "setup"),
    [
        ({"test_shape.py": STYLE, "shape.py": ""}, "python3 -m unittest discover", None),
        ({"checks/shape_test.py": STYLE}, "python3 -m unittest discover -s checks -p '*_test.py'", None),
        ({"setup.py": "", "shape/tests/__init__.py": "", "shape/__init__.py": "", "shape/tests/test_a.py": STYLE},
         ".venv/bin/python -m unittest discover -s shape/tests -t .", "-e ."),
        ({"src/shape.py": "", "tests/test_a.py": PLAIN, "pyproject.toml": "[build-system]\n"},
         ".venv/bin/pytest -q", "-e . pytest"),
        ({"tests/test_a.py": PLAIN, "tox.ini": "[testenv]\ndeps =\n    pytest>=7\n    -r{toxinidir}/more.txt\n",
          "more.txt": "", "setup.py": ""}, ".venv/bin/pytest -q", "-e . 'pytest>=7' -rmore.txt pytest"),
        ({"tests/test_a.py": PLAIN, "pyproject.toml": "[dependency-groups]\n"
          'all = ["x"]\ntest = ["freezegun", {include-group = "all"}]\ndev = ["sphinx"]\n'},
         ".venv/bin/pytest -q", "-e . freezegun x pytest"),
        ({"setup.py": "", "tox.ini": "[testenv]\ncommands = ./check\n"}, ".venv/bin/tox -q -e py", "tox"),
        ({"setup.py": "", "noxfile.py": "@nox.session(python='3.12')\ndef tests(session): ...\n"},
         ".venv/bin/nox -s tests", "nox"),
        ({"pyproject.toml": "[tool.poetry]\nname = 'x'\n[tool.poetry.group.test.dependencies]\npython = '^3'\n"
          "responses = '^1'\n", "poetry.lock": "", "tests/test_a.py": PLAIN},
         ".venv/bin/pytest -q", "-e . responses pytest"),
        ({"setup.py": "", "Makefile": "test:\n\tpytest\n", "tests/test_a.py": PLAIN},
         ".venv/bin/pytest -q", "-e . pytest"),
    ],
)  # fmt: skip
def test_a_python_project_is_tested_as_it_says_with_what_it_says_in_each_worktree(
    files: dict[str, str], test: str, setup: str | None, tmp_path: Path, programs: Path
) -> None:
    (programs / "python3").write_text('#!/bin/sh\ncase "$*" in *find_spec*) exit 1;; esac\nexit 0\n')
    (programs / "python3").chmod(0o755)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    repository(tmp_path, commit=True)
    found = inspect(str(tmp_path))
    assert (found.language, found.test_command) == ("python", test)
    assert found.setup == (setup and f"python3 -m venv .venv && .venv/bin/pip install {setup}")


@pytest.mark.parametrize(
    ("package", "installed", "test"),
    [
        ('{"scripts": {"test": "node t.js"}}', False, "npm run test"),
        ('{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}', False, None),
        ('{"scripts": {"test": "vitest"}, "devDependencies": {"vitest": "1"}}', False, None),
        ('{"scripts": {"test": "vitest"}, "devDependencies": {"vitest": "1"}}', True, "npm run test"),
        ("[1]", False, None),
        ("{", False, None),
    ],
)
def test_a_script_of_a_package_is_used_when_it_would_run(
    package: str, installed: bool, test: str | None, tmp_path: Path, programs: Path
) -> None:
    add(programs, "npm")
    (tmp_path / "package.json").write_text(package)
    if installed:
        (tmp_path / "node_modules").mkdir()
    found = inspect(str(tmp_path))
    assert (found.language, found.test_command) == ("javascript", test)


@pytest.mark.parametrize(
    ("mark", "program", "test"),
    [
        ("Cargo.toml", "cargo", "cargo test"),
        ("go.mod", "go", "go test ./..."),
        ("pom.xml", "mvn", "mvn -q -B test"),
        ("build.gradle.kts", "gradle", "gradle -q test"),
    ],
)
def test_other_languages_are_known_by_their_files(
    mark: str, program: str, test: str, tmp_path: Path, programs: Path
) -> None:
    (tmp_path / mark).write_text("")
    assert inspect(str(tmp_path)).test_command is None
    add(programs, program)
    assert inspect(str(tmp_path)).test_command == test
    assert reading.faults_of(write_plan(inspect(str(tmp_path))), "plan.yaml") == []


def test_agents_found_are_proposed_and_uncommenting_them_gives_a_sound_plan(tmp_path: Path, programs: Path) -> None:
    add(programs, "codex", "gemini")
    found = inspect(str(tmp_path))
    assert found.agents == ("codex", "gemini")
    text = write_plan(found)
    assert "Found on this machine: codex, gemini." in text
    lines = []
    uncommenting = False
    for line in text.splitlines():
        if line.startswith("  # bob:"):
            line = line.replace("# ", "", 1)
        uncommenting = uncommenting or line == "  # notes:"
        lines.append("  " + line[4:] if uncommenting else line)
    plan = reading.parse("\n".join(lines), str(tmp_path / "plan.yaml"))
    assert plan.members["bob"].agent == "codex"
    assert plan.tasks["notes"].assignee == "bob"
    assert plan.tasks["notes"].blocked_by == ("size",)


def test_with_an_agent_the_plan_gives_it_a_task_and_an_unknown_one_leaves_nothing(
    tmp_path: Path, programs: Path
) -> None:
    plan = reading.load(initialise(str(tmp_path), '{"command": ["./agent"]}').files[1])
    assert plan.members["bob"].command == ("./agent",) and plan.tasks["notes"].verify == "test -s NOTES.md"
    (tmp_path / "sub").mkdir()
    with interlock.connect(tmp_path / "home") as home, pytest.raises(AgentError, match="Unknown agent 'clod'"):
        home.first_plan(str(tmp_path / "sub"), "clod")
    with interlock.connect(tmp_path / "home") as home, pytest.raises(InvalidRequest, match="takes no task in words"):
        home.first_plan(str(tmp_path / "sub"), "shell")
    assert os.listdir(tmp_path / "sub") == []


def test_nothing_that_is_there_is_overwritten(tmp_path: Path, programs: Path) -> None:
    (tmp_path / PLAN_FILE).symlink_to(tmp_path / "nowhere")
    with pytest.raises(InvalidRequest, match=r"plan\.yaml already exists"):
        initialise(str(tmp_path))
    assert os.listdir(tmp_path) == [PLAN_FILE]
    with pytest.raises(InvalidRequest, match="There is no directory"):
        initialise(str(tmp_path / "none"))


def test_broken_project_files_are_as_good_as_absent(tmp_path: Path, programs: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"\xff[[")
    (tmp_path / "Makefile").write_bytes(b"\x00\xff:\n")
    assert inspect(str(tmp_path)) == Findings(directory=str(tmp_path), name=team_name(tmp_path.name), language="python")


def test_a_check_that_fails_is_not_tried_again_and_again(tmp_path: Path, programs: Path) -> None:
    (tmp_path / "Makefile").write_text("test:\n\t@exit 1\n")
    plan = written(tmp_path)
    assert plan.tasks["test"].retries == 0 and plan.tasks["look"].retries is None


def test_a_checkout_is_what_git_takes_up(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "work").mkdir()
    assert checkout_of(str(tmp_path / "work")) is None, "the empty directory that a killed sandbox leaves"
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert checkout_of(str(tmp_path / "work")) == str(tmp_path)
    (tmp_path / "work" / ".git").write_text(f"gitdir: {tmp_path}/.git\n")
    assert checkout_of(str(tmp_path / "work")) == str(tmp_path / "work")
