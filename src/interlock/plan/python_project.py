"""How the tests of a Python project are started, and what has to be installed for them. Nothing of it is run."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from typing import Any

from interlock.lazy_dataclass import dataclass

PROJECT = ("pyproject.toml", "setup.py", "setup.cfg")
_TESTING = ("test", "tests", "testing", "dev")
"""What projects call the extras and groups that their tests need, the narrowest first."""
_REQUIREMENTS = tuple(
    pattern.format(name)
    for name in _TESTING
    for pattern in (
        "requirements-{}.txt", "requirements_{}.txt", "{}-requirements.txt", "requirements/{}.txt",
        "{}/requirements.txt",
    )
)  # fmt: skip
"""Files with what the tests need, the narrowest first."""
_PLAIN_TESTS = re.compile(r"^(?:[ \t]*(?:import|from) pytest\b|(?:async )?def test\w*\(|class Test\w*:)", re.MULTILINE)
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(?:\[[\w,.-]+\])?\s*(?:[<>=!~][^#;]*)?")
_NOX_SESSION = re.compile(r"^@nox\.session[^\n]*\n(?:@[^\n]*\n)*def (tests?|unit|pytest|unittest)\(", re.MULTILINE)
_DEEPEST, _MOST_FOLDERS, _MOST_FILES = 4, 1_000, 40
_BYTES = 4_194_304  # of a lock file, too


@dataclass(frozen=True, slots=True)
class Tests:
    """What a project's tests are written for: `tool` is pytest, unittest, tox or nox. `sure`: the project says so, and
    it is not only that pytest could run them, too. `arguments` follow the program."""

    tool: str
    arguments: str
    sure: bool = True


def has(directory: str, *names: str) -> bool:
    return any(os.path.exists(os.path.join(directory, name)) for name in names)


def text(directory: str, name: str) -> str:
    """The beginning of a file, as far as it can be read."""
    try:
        with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as file:
            return file.read(_BYTES)
    except OSError:
        return ""


def toml(directory: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text(directory, name))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def table(of: object, *names: str) -> dict[str, Any]:
    """The table at that place in a TOML document; empty where there is none."""
    for name in names:
        of = of.get(name) if isinstance(of, dict) else None
    return of if isinstance(of, dict) else {}


def ini(directory: str, name: str) -> configparser.RawConfigParser:
    read = configparser.RawConfigParser(strict=False)
    try:
        read.read_string(text(directory, name))
    except configparser.Error:
        read = configparser.RawConfigParser()
    return read


def tests_of(directory: str) -> Tests | None:
    """How the tests of the project in `directory` are started; None where there seem to be none."""
    tools = table(toml(directory, "pyproject.toml"), "tool")
    configured = (
        "pytest" in tools
        or has(directory, "pytest.ini", "conftest.py")
        or ini(directory, "setup.cfg").has_section("tool:pytest")
        or ini(directory, "tox.ini").has_section("pytest")
    )
    files = list(_test_files(directory))
    read = [text(directory, name) for name in files]
    if configured or any(_PLAIN_TESTS.search(one) for one in read):
        return Tests("pytest", "-q")
    if any("unittest" in one for one in read):
        return Tests("unittest", _discovery(directory, files), sure=False)
    if files:
        return Tests("pytest", "-q", sure=False)
    if ini(directory, "tox.ini").has_section("testenv") or "tox" in tools:
        return Tests("tox", "-q -e py")
    session = _NOX_SESSION.search(text(directory, "noxfile.py"))
    return Tests("nox", f"-s {session[1]}") if session else None


def _test_files(directory: str) -> Iterator[str]:
    """Files of tests below `directory`, relative to it: the first of them, and none in an environment."""
    found = 0
    for visited, (folder, folders, files) in enumerate(os.walk(directory)):
        inside = os.path.relpath(folder, directory)
        deep = 0 if inside == "." else inside.count(os.sep) + 1
        folders[:] = [
            name for name in sorted(folders)
            if not name.startswith((".", "_")) and name not in ("node_modules", "build", "dist", "vendor")
            and deep < _DEEPEST and not os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
        ]  # fmt: skip
        for name in sorted(files):
            if name.endswith(".py") and (name.startswith("test") or name.endswith("_test.py")):
                yield os.path.normpath(os.path.join(inside, name))
                found += 1
        if found >= _MOST_FILES or visited >= _MOST_FOLDERS:
            return


def _discovery(directory: str, files: list[str]) -> str:
    """The arguments by which unittest finds those files, and imports them as what they are."""
    start = os.path.commonpath([os.path.dirname(name) for name in files])
    top = start
    while top and os.path.exists(os.path.join(directory, top, "__init__.py")):
        top = os.path.dirname(top)
    words = ["-m unittest discover"]
    words += [f"-s {shlex.quote(start)}"] if start else []
    words += [f"-t {shlex.quote(top or '.')}"] if top != start else []
    named = [os.path.basename(name) for name in files]
    words += ["-p '*_test.py'"] if not any(name.startswith("test") for name in named) else []
    return " ".join(words)


def python_setup(directory: str, *tools: str, here: bool = False) -> tuple[str, str]:
    """What manages the environment of the Python project in `directory` (uv, poetry or pip), and the command that makes
    one in a worktree, with what its tests need; with pip, these tools are added. `here`: with what this machine has."""
    extras, more = _for_tests(directory)
    if has(directory, "uv.lock") and (shutil.which("uv") or not here):
        return "uv", " ".join(["uv sync", *(f"--extra {name}" for name in extras)])
    if has(directory, "poetry.lock") and (shutil.which("poetry") or not here):
        # It would install into an environment that happens to be active.
        install = "env -u VIRTUAL_ENV POETRY_VIRTUALENVS_IN_PROJECT=1 poetry install"
        return "poetry", " ".join([install, *(f"--extras {name}" for name in extras)])
    own = [name for name in _REQUIREMENTS if has(directory, name)]
    files = [*(["requirements.txt"] if has(directory, "requirements.txt") else []), *own[:1]]
    itself = ["-e", f".[{','.join(extras)}]" if extras else "."] if has(directory, *PROJECT) else []
    wanted = [*(word for name in files for word in ("-r", name)), *itself, *more]
    wanted += [tool for tool in tools if tool not in wanted]
    return "pip", new_environment(*wanted, here=here)


def new_environment(*wanted: str, here: bool = False) -> str:
    """The command that makes `.venv` in the current directory with those requirements; by uv, which needs a second for
    it, where this machine has it and `here` is set."""
    if here and shutil.which("uv"):
        return "uv venv" + (f" && uv pip install {shlex.join(wanted)}" if wanted else "")
    return "python3 -m venv .venv" + (f" && .venv/bin/pip install {shlex.join(wanted)}" if wanted else "")


def needs_installing(directory: str) -> bool:
    """Whether the project's tests may need more than its files as they are: it is built, or depends on something."""
    if has(directory, "setup.py", "src", "requirements.txt", "uv.lock", "poetry.lock"):
        return True
    project = toml(directory, "pyproject.toml")
    about = table(project, "project")
    parts = (project.get("build-system"), table(project, "tool", "poetry"), about.get("dependencies"),
             about.get("dynamic"), table(project, "dependency-groups"))  # fmt: skip
    return any(parts) or any(_for_tests(directory)) or ini(directory, "setup.cfg").has_section("options")


def _for_tests(directory: str) -> tuple[list[str], list[str]]:
    """The extras of a Python project that its tests need, and further requirements of theirs, wherever it says so."""
    project = toml(directory, "pyproject.toml")
    extras = table(project, "project", "optional-dependencies") or table(project, "tool", "poetry", "extras")
    declared = [*extras, *_options(ini(directory, "setup.cfg"), "options.extras_require")]
    for name in re.findall(
        r"""["']?(\w+)["']?\s*[:=]\s*\[""", text(directory, "setup.py").partition("extras_require")[2]
    ):
        declared.append(name)
    found = [name for name in _TESTING if name in declared][:1]
    groups = table(project, "dependency-groups")
    groups |= table(project, "tool", "pdm", "dev-dependencies")
    for name in ("hatch-test", "test", "tests", "default"):
        hatch = table(project, "tool", "hatch", "envs", name)
        wanted = hatch.get("dependencies") or hatch.get("extra-dependencies")
        groups |= {name: wanted} if wanted and name not in groups else {}
    poetry = table(project, "tool", "poetry")
    old = {"dev": {"dependencies": poetry.get("dev-dependencies")}} if "dev-dependencies" in poetry else {}
    for name, group in (old | table(poetry, "group")).items():
        groups |= {name: list(table(group, "dependencies"))} if name not in groups else {}
    named = next((name for name in (*_TESTING, "hatch-test", "default") if groups.get(name)), None)
    more = list(_unfolded(groups, named, set())) if named else []
    if not found and not more and not has(directory, *_REQUIREMENTS):
        more = list(_of_tox(directory))
    return found, list(dict.fromkeys(one for one in more if one != "python"))


def _options(read: configparser.RawConfigParser, section: str) -> list[str]:
    return read.options(section) if read.has_section(section) else []


def _unfolded(groups: dict[str, Any], name: object, seen: set[object]) -> Iterator[str]:
    """The requirements of a group, with those of the groups that it includes."""
    if name in seen or not isinstance(name, str):
        return
    seen.add(name)
    wanted = groups.get(name)
    for one in wanted if isinstance(wanted, list) else ():
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            yield from _unfolded(groups, one.get("include-group"), seen)


def _of_tox(directory: str) -> Iterator[str]:
    """What the plain environment of `tox.ini` installs, as arguments for pip."""
    read = ini(directory, "tox.ini")
    lines = read.get("testenv", "deps", fallback="").splitlines()
    for line in (one.strip() for one in lines):
        file = re.fullmatch(r"-r\s*(?:\{toxinidir\}/)?(\S+)", line)
        if file and has(directory, file[1]):
            yield f"-r{file[1]}"
        elif _REQUIREMENT.fullmatch(line):
            yield line.strip()
