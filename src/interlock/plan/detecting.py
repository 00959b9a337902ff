"""What a directory offers: agents on this machine, git, and commands that really run here to lint, test and build.

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

#: Agent programs that people have, in the order in which they are proposed.
AGENTS = ("claude", "codex", "gemini", "opencode")
_LARGEST = 262_144
_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Findings:
    """What `inspect` saw. Commands are null where none was found that would run; they run in `directory`."""

    directory: str
    name: str
    agents: tuple[str, ...] = ()
    is_git: bool = False
    has_commits: bool = False
    language: str | None = None
    lint_command: str | None = None
    test_command: str | None = None
    build_command: str | None = None


@dataclass(frozen=True, slots=True)
class _Commands:
    language: str | None = None
    lint: str | None = None
    test: str | None = None
    build: str | None = None


def inspect(directory: str) -> Findings:
    """Look at `directory`; what cannot be read there is as good as absent."""
    directory = os.path.abspath(directory)
    is_git = _succeeds(["git", "rev-parse", "--is-inside-work-tree"], directory, says="true")
    kinds = [look(directory) for look in (_make, _python, _javascript, _rust, _go)]
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


def _python(directory: str) -> _Commands:
    project = _toml(directory, "pyproject.toml")
    marks = ("pyproject.toml", "setup.py", "setup.cfg", "pytest.ini")
    if not any(_has(directory, mark) for mark in marks):
        return _Commands()
    tools = project.get("tool", {}) if isinstance(project.get("tool"), dict) else {}
    uses_ruff = "ruff" in tools or _has(directory, "ruff.toml") or _has(directory, ".ruff.toml")
    ruff = _python_tool(directory, "ruff") if uses_ruff else None
    return _Commands(language="python", lint=f"{ruff} check ." if ruff else None, test=_python_test(directory, tools))


def _python_test(directory: str, tools: dict[str, Any]) -> str | None:
    tests = next((name for name in ("tests", "test") if os.path.isdir(os.path.join(directory, name))), None)
    files = [name for name in _names(directory, tests) if re.fullmatch(r"test_.*\.py", name)] if tests else []
    if files or "pytest" in tools or _has(directory, "pytest.ini"):
        pytest = _python_tool(directory, "pytest")
        if pytest:
            return f"{pytest} -q"
    uses_unittest = any("unittest" in _text(directory, os.path.join(tests or "", name)) for name in files[:20])
    python = _python_program(directory)
    return f"{python} -m unittest discover -s {tests}" if uses_unittest and python else None


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


def _javascript(directory: str) -> _Commands:
    if not _has(directory, "package.json"):
        return _Commands()
    try:
        package = json.loads(_text(directory, "package.json"))
    except (ValueError, RecursionError):
        return _Commands("javascript")
    if not isinstance(package, dict):
        return _Commands("javascript")
    locks = (("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("package-lock.json", "npm"))
    program = next((program for lock, program in locks if _has(directory, lock)), "npm")
    needs = bool(package.get("dependencies") or package.get("devDependencies"))
    installed = not needs or os.path.isdir(os.path.join(directory, "node_modules"))
    scripts = package.get("scripts")
    if not shutil.which(program) or not installed or not isinstance(scripts, dict):
        return _Commands("javascript")

    def command(name: str) -> str | None:
        script = scripts.get(name)
        real = isinstance(script, str) and script.strip() and "no test specified" not in script
        return f"{program} run {name}" if real else None

    return _Commands("javascript", command("lint"), command("test"), command("build"))


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
