"""What a directory offers: agents on this machine, git, and commands that really run here to lint, test and build. And
whether a command would look at what lies in its worktree, or at the user's own checkout.

Where something is committed the commands are for worktrees, which hold what is committed and what `setup` and `copy`
put there: with the project's tools from an environment of each worktree's own, and the command that makes it. A path
into the user's checkout, or a Python environment that has the project installed from there, passes or fails with the
user's files, whatever was worked on. What a command's programs start themselves is not seen.

Looking runs nothing that the directory brings along: only `git` and Python's own search for a module.
"""

from __future__ import annotations

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator

from interlock.lazy_dataclass import dataclass
from interlock.model.names import PROGRAMS
from interlock.plan.python_project import (
    PROJECT,
    Tests,
    has,
    needs_installing,
    new_environment,
    python_setup,
    table,
    tests_of,
    text,
    toml,
)

TOOLS = frozenset("pytest ruff mypy flake8 pylint black isort tox nox coverage pyright".split())
"""Programs by which Python projects are checked, each a package of its name."""
SUBMODULES = "git submodule update --init --recursive"
"""Fills in a worktree what `git worktree add` leaves empty."""
_OPERATOR = re.compile(r"[();<>|&]+")
_SHELL_WORDS = frozenset("! { if then else elif do while until time exec env command".split())
_INSTALLED = ("*.pth", "*.egg-link", "__editable__*.py", "*.dist-info/direct_url.json")
"""Files of an environment that name the place which a project is imported or was installed from."""
_LARGEST = 1_000_000
_BEFORE, _AFTER = r"(?<![\w./~-])", r"(?![\w.-])"


def programs(command: str) -> list[str]:
    """The words of `command` that name programs, as far as that can be told without a shell."""
    words = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    words.whitespace_split = True
    found, first = [], True
    try:
        for word in words:
            if _OPERATOR.fullmatch(word):
                first = not word.startswith((">", "<"))
            elif first and not _assigns(word) and word not in _SHELL_WORDS:
                found.append(word)
                first = False
    except ValueError:
        return []
    return found


def _assigns(word: str) -> bool:
    name, sign, _ = word.partition("=")
    return bool(sign) and name.isidentifier()


def elsewhere(command: str, directory: str, *, top: str, search: str | None = None) -> str | None:
    """Why `command`, given in `directory`, would look at the checkout at `top`, in a sentence; null where nothing says
    so. `search` is its PATH."""
    here = checkout_of(directory) or os.path.realpath(directory)
    for where in dict.fromkeys((top, os.path.realpath(top))):
        for named in re.finditer(_BEFORE + re.escape(where) + _AFTER + r"[^\s'\"`;|&<>()]*", command):
            if here == top or not _below(named[0], here):
                return f"{named[0]} lies in your checkout."
    for word in programs(command):
        if here == top and "/" in word and not os.path.isabs(word):
            continue  # There is no worktree yet, and that is where this will be looked for.
        found = os.path.join(directory, word) if "/" in word else shutil.which(word, path=search)
        if found is None:
            continue
        for environment in _environments(os.path.abspath(found)):
            said = _installed_from(environment, top, here)
            if said is not None:
                return f"{word} runs in {environment}, which has this project installed from your checkout ({said})."
        own = os.path.realpath(os.path.dirname(os.path.abspath(found)))
        in_environment = os.path.exists(os.path.join(os.path.dirname(own), "pyvenv.cfg"))
        if _below(own, os.path.realpath(top)) and not _below(own, here) and not in_environment:
            return f"{word} is {found}, which lies in your checkout."
    return None


def remedy(program: str, directory: str) -> str:
    """What gives each worktree its own `program`, by what the project in `directory` uses."""
    name = os.path.basename(program)
    if "node_modules" in program.split("/"):
        return f"Give each worktree its own: `setup: {javascript_setup(directory)}`"
    if "vendor" in program.split("/") and has(directory, "composer.json"):
        return "Give each worktree its own: `setup: composer install`"
    tool, setup = python_setup(directory, *[name] if name in TOOLS else ())
    if tool == "uv":
        return f"Write `uv run {name}`, which makes an environment in each worktree"
    if tool == "poetry" or has(directory, *PROJECT, "requirements.txt"):
        return f"Give each worktree its own: `setup: {setup}`, and write `.venv/bin/{name}`"
    return "Write a path relative to `workdir`, and make in `setup` what git ignores"


def javascript_setup(directory: str) -> str:
    """The command that installs in a worktree what the JavaScript project in `directory` needs, and changes no file
    that git tracks."""
    locks = {
        "pnpm-lock.yaml": "pnpm install --frozen-lockfile",
        "yarn.lock": "yarn install --frozen-lockfile",
        "package-lock.json": "npm ci",
    }
    return next((line for lock, line in locks.items() if has(directory, lock)), "npm install --no-package-lock")


def checkout_of(directory: str) -> str | None:
    """The top of the checkout that `directory` lies in, without asking git; null outside any."""
    where = os.path.realpath(directory)
    while not _is_git(os.path.join(where, ".git")):
        above = os.path.dirname(where)
        if above == where:
            return None
        where = above
    return where


def _is_git(path: str) -> bool:
    """Whether git would take it up: not an empty directory, such as a killed sandbox of Codex leaves in `/tmp`."""
    return os.path.lexists(os.path.join(path, "HEAD") if os.path.isdir(path) else path)


def _below(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def _environments(program: str) -> Iterator[str]:
    """The Python environments that a program belongs to: by its place, and by the interpreter of its first line."""
    places = [os.path.dirname(program), os.path.dirname(os.path.realpath(program))]
    try:
        with open(program, "rb") as file:
            first = file.readline(4096)
    except OSError:
        first = b""
    if first.startswith(b"#!"):
        words = os.fsdecode(first[2:]).split()
        places += [os.path.dirname(words[0])] if words else []
    for place in dict.fromkeys(places):
        above = os.path.dirname(os.path.realpath(place))
        if glob.glob(os.path.join(glob.escape(above), "lib", "python3*")):
            yield above


def _installed_from(environment: str, top: str, here: str) -> str | None:
    """The file by which `environment` has something installed from the checkout at `top`, and not from `here`."""
    names = [re.escape(where) for where in dict.fromkeys((top, os.path.realpath(top)))]
    inside = re.compile(_BEFORE.replace("/", "") + f"({'|'.join(names)})" + _AFTER + r"[^\s'\"]*")
    lib = os.path.join(glob.escape(environment), "lib", "python3*", "*-packages")
    for pattern in _INSTALLED:
        for file in sorted(glob.glob(os.path.join(lib, pattern))):
            try:
                with open(file, encoding="utf-8", errors="replace") as opened:
                    text = opened.read(_LARGEST)
            except OSError:
                continue
            if any(here == top or not _below(found[0], here) for found in inside.finditer(text)):
                return os.path.basename(file) if "dist-info" not in file else os.path.basename(os.path.dirname(file))
    return None


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
    is_committed: bool = False
    language: str | None = None
    lint_command: str | None = None
    test_command: str | None = None
    build_command: str | None = None
    setup: str | None = None
    missing: tuple[str, ...] = ()
    """Programs that the project uses and this machine does not have."""


@dataclass(frozen=True, slots=True)
class _Commands:
    language: str | None = None
    lint: str | None = None
    test: str | None = None
    build: str | None = None
    setup: str | None = None
    missing: str | None = None


def inspect(directory: str) -> Findings:
    """Look at `directory`; what cannot be read there is as good as absent."""
    directory = os.path.abspath(directory)
    is_git = _succeeds(["git", "rev-parse", "--is-inside-work-tree"], directory, says="true")
    committed = is_git and _succeeds(["git", "rev-parse", "--verify", "--quiet", "HEAD:./"], directory)
    kinds = [
        _python(directory, committed),
        _javascript(directory, committed),
        _rust(directory),
        _go(directory),
        *_java(directory),
    ]
    # What a Makefile starts is not known: it is left out where that may need what its worktrees are without.
    makefile = next((name for name in ("GNUmakefile", "makefile", "Makefile") if has(directory, name)), None)
    own = any(kind.setup and kind.test for kind in kinds)
    if makefile and shutil.which("make") and (not own or ".venv/" in text(directory, makefile)):
        kinds.insert(0, _make(text(directory, makefile)))
    parts = [SUBMODULES] if committed and has(directory, ".gitmodules") else []
    return Findings(
        directory=directory,
        name=team_name(os.path.basename(directory)),
        agents=tuple(agent for agent in PROGRAMS if shutil.which(agent)),
        is_git=is_git,
        has_commits=is_git and _succeeds(["git", "rev-parse", "--verify", "--quiet", "HEAD"], directory),
        is_committed=committed,
        language=next((kind.language for kind in kinds if kind.language), None),
        lint_command=next((kind.lint for kind in kinds if kind.lint), None),
        test_command=next((kind.test for kind in kinds if kind.test), None),
        build_command=next((kind.build for kind in kinds if kind.build), None),
        setup=" && ".join([*parts, *(kind.setup for kind in kinds if kind.setup)]) or None,
        missing=tuple(kind.missing for kind in kinds if kind.missing),
    )


def team_name(directory: str) -> str:
    """A valid team name as near to a directory's name as may be; `team` where nothing of it is left."""
    plain = re.sub(r"[^a-z0-9_]+", "-", directory.lower()).strip("-_")
    return plain[:50].rstrip("-_") or "team"


def _make(makefile: str) -> _Commands:
    targets = set(re.findall(r"^(test|check|lint|build)\s*:(?![:=])", makefile, re.MULTILINE))
    test = next((target for target in ("test", "check") if target in targets), None)
    return _Commands(
        lint="make lint" if "lint" in targets else None,
        test=f"make {test}" if test else None,
        build="make build" if "build" in targets else None,
    )


def _python(directory: str, committed: bool) -> _Commands:
    tests = tests_of(directory)
    marks = (*PROJECT, "pytest.ini", "requirements.txt", "tox.ini", "noxfile.py")
    if tests is None and not has(directory, *marks):
        return _Commands()
    uses_ruff = "ruff" in table(toml(directory, "pyproject.toml"), "tool") or has(directory, "ruff.toml", ".ruff.toml")
    found = {"ruff": start} if uses_ruff and (start := _python_tool(directory, "ruff")) else {}
    tool = _tool_for(tests, directory, found) if tests else None
    setup = _python_environment(directory, tool, found, uses_ruff) if committed else None
    start, arguments = found.get(tool or ""), tests.arguments if tests else ""
    if tool == "pytest":
        arguments = "-q"
    lint = f"{found['ruff']} check ." if "ruff" in found else None
    lacks = next((one for one in ("uv", "poetry") if has(directory, f"{one}.lock")), None)
    missing = lacks if lacks is not None and not shutil.which(lacks) else None
    return _Commands("python", lint, f"{start} {arguments}" if start else None, setup=setup, missing=missing)


def _tool_for(tests: Tests, directory: str, found: dict[str, str]) -> str:
    """The program that starts the tests, noted in `found` where it is here. Where pytest is, it runs any tests."""
    locked = has(directory, "uv.lock", "poetry.lock")
    there = not locked or any('\nname = "pytest"\n' in text(directory, f"{one}.lock") for one in ("uv", "poetry"))
    usable = tests.tool == "pytest" or (tests.tool == "unittest" and there)
    if usable and (start := _python_tool(directory, "pytest")):
        found["pytest"] = start
        return "pytest"
    if tests.tool == "unittest":
        found |= {"python": python} if (python := _python_program(directory)) else {}
        return "python"
    found |= {tests.tool: start} if (start := _python_tool(directory, tests.tool)) else {}
    return tests.tool


def _python_environment(directory: str, tool: str | None, found: dict[str, str], uses_ruff: bool) -> str | None:
    """The command that makes an environment in a worktree, where it needs one of its own: the project is installed, or
    a program is missing, or would run in another environment that has the project installed from the checkout. The
    programs are then those of it."""
    wanted = [tool] if tool else ["ruff"] if uses_ruff else []
    manager, setup = python_setup(directory, here=True)
    if manager != "pip":
        locked = text(directory, f"{manager}.lock")
        found.clear()
        for one in wanted:
            with_it = "" if one == "python" or f'\nname = "{one}"\n' in locked else f"--with {one} "
            if manager == "uv" and (one == tool or not with_it):
                found[one] = f"uv run {with_it}{one}"
            elif manager == "poetry" and not with_it:
                found[one] = f".venv/bin/{one}"
        return setup
    top, search = checkout_of(directory), os.environ.get("PATH", os.defpath)
    own = has(directory, ".venv/pyvenv.cfg", "venv/pyvenv.cfg")
    astray = any(top and elsewhere(one, directory, top=top, search=search) for one in found.values())
    if not (own or astray or (tool is not None and (tool not in found or needs_installing(directory)))):
        return None
    found.update({one: f".venv/bin/{one}" for one in wanted})
    if tool in ("tox", "nox"):  # They make environments of their own for the project.
        return new_environment(*wanted, here=True)
    return python_setup(directory, *(one for one in wanted if one != "python"), here=True)[1]


def _python_program(directory: str) -> str | None:
    if os.access(os.path.join(directory, ".venv", "bin", "python"), os.X_OK):
        return ".venv/bin/python"
    return next((name for name in ("python3", "python") if shutil.which(name)), None)


def _python_tool(directory: str, tool: str) -> str | None:
    """How to start a tool: from the project's own environment, as a module, or from PATH. A module of pytest's has the
    project on its search path."""
    if os.access(os.path.join(directory, ".venv", "bin", tool), os.X_OK):
        return f".venv/bin/{tool}"
    search = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({tool!r}) is None)"
    for python in ("python3", "python"):
        # -I keeps the directory off the search path, so nothing in it is imported.
        if shutil.which(python) and _succeeds([python, "-I", "-c", search], directory):
            return f"{python} -m {tool}"
    return tool if shutil.which(tool) else None


def _javascript(directory: str, committed: bool) -> _Commands:
    if not has(directory, "package.json"):
        return _Commands()
    try:
        package = json.loads(text(directory, "package.json"))
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
    if not shutil.which(program):
        return _Commands("javascript", missing=program)
    if not installed or not isinstance(scripts, dict):
        return _Commands("javascript")

    def command(name: str) -> str | None:
        script = scripts.get(name)
        real = isinstance(script, str) and script.strip() and "no test specified" not in script
        return f"{program} run {name}" if real else None

    return _Commands("javascript", command("lint"), command("test"), command("build"), setup)


def _rust(directory: str) -> _Commands:
    if not has(directory, "Cargo.toml"):
        return _Commands()
    if not shutil.which("cargo"):
        return _Commands("rust", missing="cargo")
    return _Commands("rust", "cargo clippy" if shutil.which("cargo-clippy") else None, "cargo test", "cargo build")


def _java(directory: str) -> Iterator[_Commands]:
    for marks, wrapper, program, test, build in (
        (("pom.xml",), "./mvnw", "mvn", "-q -B test", "-q -B -DskipTests package"),
        (("build.gradle", "build.gradle.kts"), "./gradlew", "gradle", "-q test", "-q assemble"),
    ):
        if has(directory, *marks):
            own = os.access(os.path.join(directory, wrapper), os.X_OK)
            start = wrapper if own else program if shutil.which(program) else None
            lacks = None if start else program
            yield _Commands("java", None, start and f"{start} {test}", start and f"{start} {build}", missing=lacks)


def _go(directory: str) -> _Commands:
    if not has(directory, "go.mod"):
        return _Commands()
    if not shutil.which("go"):
        return _Commands("go", missing="go")
    return _Commands("go", "go vet ./...", "go test ./...", "go build ./...")


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
