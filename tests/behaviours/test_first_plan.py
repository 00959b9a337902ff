"""`interlock init` writes a plan whose checks look at the work: its own preflight finds nothing in it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.behaviours.driving import Place
from tests.behaviours.repository import Repository
from tests.behaviours.test_isolation import interlock
from tests.behaviours.test_preflight import TEST, environment

PIP = "python3 -m venv .venv && .venv/bin/pip install"
PROJECT = '[project]\nname = "tally"\nversion = "1"\n'
LOCK = '[[package]]\nname = "pytest"\n\n[[package]]\nname = "ruff"\n'
RUFF = f"{PROJECT}[tool.ruff]\n"
BACKEND = """
import os, zipfile

def get_requires_for_build_editable(settings=None): return []

def build_editable(directory, settings=None, metadata=None):
    about = "tally-1.dist-info"
    files = {
        "tally.pth": os.path.abspath("src") + "\\n",
        f"{about}/METADATA": "Metadata-Version: 2.1\\nName: tally\\nVersion: 1\\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    names = [*files, f"{about}/RECORD"]
    with zipfile.ZipFile(os.path.join(directory, "tally-1-py3-none-any.whl"), "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
        wheel.writestr(f"{about}/RECORD", "".join(f"{name},,\\n" for name in names))
    return "tally-1-py3-none-any.whl"
"""


@pytest.fixture
def programs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory of PATH: git, a Python without tools, and what a test adds."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("git", "sh", "ls", "env", "rm", "make", "true", "cat", "test"):
        found = shutil.which(name)
        if found:
            (folder / name).symlink_to(found)
    program(folder, "python3", f'case "$*" in *find_spec*) exit 1;; esac\nexec {sys.executable} "$@"')
    program(folder, "claude", "exit 0")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def program(folder: Path, name: str, text: str = "exit 0") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def with_an_agent(text: str) -> str:
    """The plan with its comments taken away from the agent and the task for it."""
    head, task = text.split("  # notes:", 1)
    shown = "\n".join(f"  {line[4:]}" if line.startswith("  # ") else line for line in task.splitlines())
    return head.replace("  # bob:", "  bob:") + "  notes:" + shown + "\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("files", "tools", "setup", "check"),
    [
        ({"pyproject.toml": PROJECT}, [], f"{PIP} -e . pytest", ".venv/bin/pytest -q"),
        (
            {"pyproject.toml": f"{PROJECT}[project.optional-dependencies]\ntest = []\n", "requirements.txt": ""},
            [],
            f"{PIP} -r requirements.txt -e '.[test]' pytest",
            ".venv/bin/pytest -q",
        ),
        (
            {
                "pyproject.toml": PROJECT,
                "requirements.txt": "",
                "requirements/dev.txt": "-r tests.txt\ntox\nsphinx\n",
                "requirements/tests.txt": "pytest==9.0.2\n",
            },
            [],
            f"{PIP} -r requirements.txt -r requirements/tests.txt -e . pytest",
            ".venv/bin/pytest -q",
        ),
        (
            {"pyproject.toml": f'{PROJECT}[dependency-groups]\ndev = ["pytest>=8", "pytest-cov"]\n'},
            [],
            f"{PIP} -e . 'pytest>=8' pytest-cov pytest",
            ".venv/bin/pytest -q",
        ),
        ({"pyproject.toml": RUFF, "uv.lock": LOCK}, ["uv"], "uv sync", "uv run pytest -q"),
        ({"pyproject.toml": PROJECT, "uv.lock": ""}, ["uv"], "uv sync", "uv run python -m unittest discover -s tests"),
        (
            {"pyproject.toml": RUFF, "poetry.lock": LOCK},
            ["poetry"],
            "env -u VIRTUAL_ENV POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install",
            ".venv/bin/pytest -q",
        ),
        ({"pyproject.toml": PROJECT, "Makefile": "test:\n\t.venv/bin/pytest\n"}, [], None, "make test"),
    ],
)  # fmt: skip
def test_a_python_project_gets_an_environment_in_each_worktree(
    place: Place, programs: Path, files: dict[str, str], tools: list[str], setup: str | None, check: str
) -> None:
    ours = {".gitignore": ".venv/\n", "src/tally/__init__.py": "", "tests/test_tally.py": TEST}
    Repository(place.work).commit("project", **ours, **files)
    environment(place.work / ".venv", place.work / "src")
    program(place.work / ".venv" / "bin", "pytest")
    for tool in tools:
        program(programs, tool)
    clean(place, setup or f"{PIP} -e . pytest", check)


@pytest.mark.long
@pytest.mark.parametrize(
    ("lock", "tool", "setup"),
    [
        (None, "npm", "npm install --no-package-lock"),
        ("package-lock.json", "npm", "npm ci"),
        ("yarn.lock", "yarn", "yarn install --frozen-lockfile"),
        ("pnpm-lock.yaml", "pnpm", "pnpm install --frozen-lockfile"),
    ],
)
def test_a_javascript_project_gets_its_packages_in_each_worktree(
    place: Place, programs: Path, lock: str | None, tool: str, setup: str
) -> None:
    package = json.dumps({"scripts": {"test": "vitest"}, "devDependencies": {"vitest": "1"}})
    files = {"package.json": package, ".gitignore": "node_modules/\n", **({lock: ""} if lock else {})}
    Repository(place.work).commit("project", **files)
    program(programs, tool)
    clean(place, setup, f"{tool} run test")


@pytest.mark.long
@pytest.mark.parametrize(
    ("files", "tool", "check"),
    [
        ({"Cargo.toml": ""}, "cargo", "cargo test"),
        ({"go.mod": ""}, "go", "go test ./..."),
        ({"Makefile": "check:\n\ttrue\n"}, "make", "make check"),
        ({"pytest.ini": ""}, "pytest", "pytest -q"),
    ],
)
def test_what_needs_nothing_that_git_ignores_gets_no_setup(
    place: Place, programs: Path, files: dict[str, str], tool: str, check: str
) -> None:
    Repository(place.work).commit("project", **files)
    (programs / tool).unlink(missing_ok=True)
    program(programs, tool)
    clean(place, None, check)


@pytest.mark.parametrize(
    ("files", "missing"),
    [({"go.mod": ""}, "go"), ({"uv.lock": "", "pyproject.toml": ""}, "uv"), ({"package.json": "{}"}, "npm")],
)
def test_a_program_that_the_project_uses_and_nobody_installed_is_named(
    place: Place, programs: Path, files: dict[str, str], missing: str
) -> None:
    Repository(place.work).commit("project", **files)
    found = place.home.first_plan(str(place.work))
    assert found.missing == (missing,)
    plan = Path(found.files[1]).read_text()
    assert "found and not tried" in plan and "{agent: {command:" in plan


@pytest.mark.long
def test_an_active_environment_that_has_the_project_installed_from_the_checkout_is_not_used(
    place: Place, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {"pyproject.toml": PROJECT, "src/tally/__init__.py": "", "tests/test_tally.py": TEST}
    Repository(place.work).commit("project", **ours)
    environment(place.path / "active", place.work / "src")
    program(place.path / "active" / "bin", "pytest")
    monkeypatch.setenv("PATH", f"{place.path}/active/bin{os.pathsep}{programs}")
    clean(place, f"{PIP} -e . pytest", ".venv/bin/pytest -q")


@pytest.mark.long
def test_submodules_are_filled_in_each_worktree(place: Place, programs: Path) -> None:
    Repository(place.work).commit("project", **{".gitmodules": "", "pytest.ini": ""})
    program(programs, "pytest")
    fill = "git submodule update --init --recursive"
    clean(place, fill, "pytest -q")
    plan = place.work / "plan.yaml"
    plan.write_text(plan.read_text().replace("setup: ", "# "))
    said = interlock(place, "--json", "plan", "check", str(plan)).json
    assert f"submodules are empty in a worktree; `setup: {fill}` fills them" in said["notes"]


def clean(place: Place, setup: str | None, check: str) -> None:
    """`init` writes that setup and check, and `plan check` has nothing to say about it, nor with an agent in it."""
    assert interlock(place, "init", str(place.work)).code == 0
    plan = place.work / "plan.yaml"
    text = plan.read_text()
    assert (f"setup: {json.dumps(setup)} " in text) == (setup is not None)
    assert json.dumps(check) in text and json.dumps(f"test -s NOTES.md && {check}") in text
    for written in (text, with_an_agent(text)):
        plan.write_text(written)
        said = interlock(place, "--json", "plan", "check", str(plan)).json
        notes = [note for note in said["notes"] if not note.startswith("isolation: worktree, since")]
        assert (said["errors"], notes) == ([], [])


@pytest.mark.long
def test_a_broken_file_fails_the_check_of_the_plan_that_was_written(place: Place, programs: Path) -> None:
    project = Repository(place.work)
    backend = f'{PROJECT}[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    project.commit("project", **{
        ".gitignore": ".venv/\n", "src/tally/__init__.py": "", "tests/test_tally.py": TEST,
        "pyproject.toml": backend, "backend.py": BACKEND,
    })  # fmt: skip
    environment(place.work / ".venv", place.work / "src")
    assert interlock(place, "init", str(place.work)).code == 0
    check = ".venv/bin/python -m unittest discover -s tests"
    text = with_an_agent((place.work / "plan.yaml").read_text())
    assert f'verify: "test -s NOTES.md && {check}"' in text
    agent = place.program("agent", """
        with open("NOTES.md", "w") as file: file.write("notes")
        with open("src/tally/__init__.py", "w") as file: file.write("raise RuntimeError(1)")
    """)["agent"]  # fmt: skip
    text = text.replace("{agent: claude, permissions: workspace}", json.dumps({"agent": agent}))
    (place.work / "plan.yaml").write_text(text.replace("review: human", "retries: 0"))
    team = place.home.stage(str(place.work / "plan.yaml")).team
    place.home.team(team).configure({"stop_grace": 1.0})
    place.home.drive(team)
    states = {str(task.plan_key): task for task in place.home.team(team).tasks()}
    assert states["test"].state == "done", states["test"].output
    assert states["notes"].state == "deadletter" and "RuntimeError" in str(states["notes"].output)
    assert (place.work / "src" / "tally" / "__init__.py").read_text() == ""
