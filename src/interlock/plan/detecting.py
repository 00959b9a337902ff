"""What a directory offers: agents on this machine, git, and commands that really run here to lint, test and build.

Where something is committed they are for worktrees, which hold nothing that git ignores: with the project's tools from
an environment of each worktree's own, and the command that makes it.

Looking runs nothing that the directory brings along: only `git` and Python's own search for a module.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from typing import Any

from interlock.plan.surroundings import checkout_of, elsewhere, javascript_setup, python_setup

#: Agent programs that people have, in the order in which they are proposed.
AGENTS = ("claude", "codex", "gemini", "opencode")
_LARGEST = 4_194_304  # of a lock file, too
_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Findings:
    """What `inspect` saw. Commands are null where none was found that would run. They run in `directory`; with `setup`,
    in worktrees that it was run in."""

    directory: str
    name: str
    agents: tuple[str, ...] = ()
    is_git: bool = False
    has_commits: bool = False
    language: str | None = None
    lint_command: str | None = None
    test_command: str | None = None
    build_command: str | None = None
    setup: str | None = None


@dataclass(frozen=True, slots=True)
class _Commands:
    language: str | None = None
    lint: str | None = None
    test: str | None = None
    build: str | None = None
    setup: str | None = None


def inspect(directory: str) -> Findings:
    """Look at `directory`; what cannot be read there is as good as absent."""
    directory = os.path.abspath(directory)
    is_git = _succeeds(["git", "rev-parse", "--is-inside-work-tree"], directory, says="true")
    committed = is_git and _succeeds(["git", "rev-parse", "--verify", "--quiet", "HEAD:./"], directory)
    kinds = [
        _make(directory),
        _python(directory, committed),
        _javascript(directory, committed),
        _rust(directory),
        _go(directory),
    ]
    return Findings(
        directory=directory,
        name=team_name(os.path.basename(directory)),
        agents=tuple(agent for agent in AGENTS if shutil.which(agent)),
        is_git=is_git,
        has_commits=is_git and _succeeds(["git", "rev-parse", "--verify", "--quiet", "HEAD"], directory),
        language=next((kind.language for kind in kinds if kind.language), None),
        lint_command=next((kind.lint for kind in kinds if kind.lint), None),
        test_command=next((kind.test for kind in kinds if kind.test), None),
        build_command=next((kind.build for kind in kinds if kind.build), None),
        setup=" && ".join(kind.setup for kind in kinds if kind.setup) or None,
    )


def team_name(directory: str) -> str:
    """A valid team name as near to a directory's name as may be; `team` where nothing of it is left."""
    plain = re.sub(r"[^a-z0-9_]+", "-", directory.lower()).strip("-_")
    return plain[:50].rstrip("-_") or "team"


def _make(directory: str) -> _Commands:
    name = next((name for name in ("GNUmakefile", "makefile", "Makefile") if _has(directory, name)), None)
    if name is None or not shutil.which("make"):
        return _Commands()
    targets = set(re.findall(r"^(test|check|lint|build)\s*:(?![:=])", _text(directory, name), re.MULTILINE))
    test = next((target for target in ("test", "check") if target in targets), None)
    return _Commands(
        lint="make lint" if "lint" in targets else None,
        test=f"make {test}" if test else None,
        build="make build" if "build" in targets else None,
    )


def _python(directory: str, committed: bool) -> _Commands:
    project = _toml(directory, "pyproject.toml")
    marks = ("pyproject.toml", "setup.py", "setup.cfg", "pytest.ini", "requirements.txt")
    if not any(_has(directory, mark) for mark in marks):
        return _Commands()
    tools = project.get("tool", {}) if isinstance(project.get("tool"), dict) else {}
    tests = next((name for name in ("tests", "test") if os.path.isdir(os.path.join(directory, name))), None)
    files = [name for name in _names(directory, tests) if re.fullmatch(r"test_.*\.py", name)] if tests else []
    uses_ruff = "ruff" in tools or _has(directory, "ruff.toml") or _has(directory, ".ruff.toml")
    uses_pytest = bool(files) or "pytest" in tools or _has(directory, "pytest.ini")
    wanted = [tool for tool, used in (("ruff", uses_ruff), ("pytest", uses_pytest)) if used]
    found = {tool: start for tool in wanted if (start := _python_tool(directory, tool))}
    uses_unittest = any("unittest" in _text(directory, os.path.join(tests or "", name)) for name in files[:20])
    python = _python_program(directory) if uses_unittest else None
    found |= {"python": python} if python else {}
    setup = _python_environment(directory, wanted, found) if committed else None
    lint, test = found.get("ruff"), found.get("pytest")
    command = f"{test} -q" if test else None
    if test is None and "python" in found:
        command = f"{found['python']} -m unittest discover -s {tests}"
    return _Commands("python", lint and f"{lint} check .", command, setup=setup)


def _python_environment(directory: str, wanted: list[str], found: dict[str, str]) -> str | None:
    """The command that makes an environment in a worktree, where it needs one of its own: the project has one, or a
    program would run in another that has it installed from the checkout. The programs are then those of it."""
    manager, setup = python_setup(directory)
    if manager != "pip":
        locked = _text(directory, f"{manager}.lock")
        there = shutil.which(manager) is not None
        names = [*(found.keys() & {"python"}), *(one for one in wanted if f'\nname = "{one}"\n' in locked)]
        found.clear()
        found.update({name: f"uv run {name}" if manager == "uv" else f".venv/bin/{name}" for name in names if there})
        return setup if there else None
    top, search = checkout_of(directory), os.environ.get("PATH", os.defpath)
    own = any(_has(directory, name) for name in (".venv/pyvenv.cfg", "venv/pyvenv.cfg"))
    if not own and not any(top and elsewhere(one, directory, top=top, search=search) for one in found.values()):
        return None
    found.update({name: f".venv/bin/{name}" for name in found})
    return python_setup(directory, *(name for name in found if name != "python"))[1]


def _python_program(directory: str) -> str | None:
    if os.access(os.path.join(directory, ".venv", "bin", "python"), os.X_OK):
        return ".venv/bin/python"
    return next((name for name in ("python3", "python") if shutil.which(name)), None)


def _python_tool(directory: str, tool: str) -> str | None:
    """How to start a tool: from the project's own environment, from PATH, or as a module."""
    if os.access(os.path.join(directory, ".venv", "bin", tool), os.X_OK):
        return f".venv/bin/{tool}"
    if shutil.which(tool):
        return tool
    search = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({tool!r}) is None)"
    for python in ("python3", "python"):
        # -I keeps the directory off the search path, so nothing in it is imported.
        if shutil.which(python) and _succeeds([python, "-I", "-c", search], directory):
            return f"{python} -m {tool}"
    return None


def _javascript(directory: str, committed: bool) -> _Commands:
    if not _has(directory, "package.json"):
        return _Commands()
    try:
        package = json.loads(_text(directory, "package.json"))
    except (ValueError, RecursionError):
        return _Commands("javascript")
    if not isinstance(package, dict):
        return _Commands("javascript")
    install = javascript_setup(directory)
    program = install.partition(" ")[0]
    needs = bool(package.get("dependencies") or package.get("devDependencies"))
    setup = install if needs and committed else None
    installed = not needs or setup or os.path.isdir(os.path.join(directory, "node_modules"))
    scripts = package.get("scripts")
    if not shutil.which(program) or not installed or not isinstance(scripts, dict):
        return _Commands("javascript")

    def command(name: str) -> str | None:
        script = scripts.get(name)
        real = isinstance(script, str) and script.strip() and "no test specified" not in script
        return f"{program} run {name}" if real else None

    return _Commands("javascript", command("lint"), command("test"), command("build"), setup)


def _rust(directory: str) -> _Commands:
    if not _has(directory, "Cargo.toml"):
        return _Commands()
    if not shutil.which("cargo"):
        return _Commands("rust")
    return _Commands("rust", "cargo clippy" if shutil.which("cargo-clippy") else None, "cargo test", "cargo build")


def _go(directory: str) -> _Commands:
    if not _has(directory, "go.mod"):
        return _Commands()
    if not shutil.which("go"):
        return _Commands("go")
    return _Commands("go", "go vet ./...", "go test ./...", "go build ./...")


def _has(directory: str, name: str) -> bool:
    return os.path.isfile(os.path.join(directory, name))


def _names(directory: str, folder: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(directory, folder)))
    except OSError:
        return []


def _text(directory: str, name: str) -> str:
    """The beginning of a file, as far as it can be read."""
    try:
        with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as file:
            return file.read(_LARGEST)
    except OSError:
        return ""


def _toml(directory: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(directory, name))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _succeeds(command: list[str], directory: str, says: str | None = None) -> bool:
    """The command ends well, in good time, and (with `says`) prints just that."""
    try:
        ran = subprocess.run(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return ran.returncode == 0 and (says is None or ran.stdout.strip() == says)
