"""Which of the files that a task has changed its check reads as its own.

A check is its command, the script or the tests that the command names, and what its runner reads besides: test files,
configuration, and modules that Python would take for the runner's. Known are the usual runners, by the names that they
look for; the patterns of `protect` in a plan come on top. A new test beside earlier ones is no offence. A new file
that is read before any test, or that the command names, is the check's own like a changed one.

Pure functions of names; nothing is opened.
"""

from __future__ import annotations

import posixpath
import shlex
import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from interlock.gitwork.changes import ChangedPath, shown
from interlock.lazy_dataclass import dataclass

PLAIN = frozenset(
    "test [ [[ grep egrep fgrep rg true false : cat diff cmp ls wc head tail cd echo printf sed awk sort uniq find "
    "stat jq tr cut sleep exit export set sha256sum md5sum file tar gzip unzip mkdir touch rm cp mv git".split()
)
"""Programs that look at files and run none."""
BEFORE_COMMANDS = frozenset(
    "! { } if then else elif fi do done while until time exec env command nice nohup timeout xvfb-run run bundle "
    "uv uvx poetry pdm hatch pipenv rye npx pnpx bunx dlx".split()
)
"""Words that come before the program that counts, as do options and numbers; `run` as in `uv run`."""
SHELLS = frozenset("sh bash dash zsh ksh".split())
INTERPRETERS = SHELLS | frozenset("node ruby perl php deno bun tsx ts-node lua Rscript source .".split())
TEST_RUNNERS = frozenset("pytest py.test unittest vitest jest mocha ava rspec bats phpunit nose2 ward prove".split())
SCRIPTS = (".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".bats")

TEST_PLACES = frozenset("test tests spec specs __tests__ __snapshots__ testdata e2e".split())
TEST_ENDINGS = tuple(f"{mark}{word}" for mark in "_-." for word in ("test", "tests", "spec", "specs"))
JVM_ENDINGS = ("Test", "Tests", "Spec", "TestCase")
JVM = (".java", ".kt", ".scala", ".groovy", ".cs", ".php", ".swift")

PYTHON = frozenset(
    "conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml tox.ini setup.cfg pyproject.toml noxfile.py "
    ".coveragerc sitecustomize.py usercustomize.py ruff.toml .ruff.toml mypy.ini .mypy.ini .flake8 .pylintrc".split()
)
MAKE = frozenset("Makefile makefile GNUmakefile justfile Justfile .justfile Taskfile.yml Taskfile.yaml".split())
SCRIPTED = frozenset("package.json .npmrc".split())
SCRIPTED_STEMS = tuple(
    "jest.config. jest.setup. vitest.config. vitest.setup. vitest.workspace. vite.config. babel.config. .babelrc "
    ".mocharc karma.conf. playwright.config. cypress.config. ava.config. eslint.config. .eslintrc".split()
)
OTHERS = frozenset(".rspec Rakefile phpunit.xml phpunit.xml.dist nextest.toml".split())
KINDS = {
    "python": ("python", "pytest", "py.test", "tox", "nox", "coverage", "unittest", "nose2", "ward", "pypy"),
    "script": ("node", "npm", "yarn", "pnpm", "bun", "deno", "vitest", "jest", "mocha", "ava", "tsx", "ts-node"),
    "other": ("go", "cargo", "rspec", "phpunit", "rake", "mvn", "gradle", "dotnet", "swift"),
}
"""What programs are known by, by the kind of files that they read."""
SHADOWED = (sys.stdlib_module_names | {"pytest", "_pytest", "pluggy", "iniconfig", "coverage", "nose2"}) - {"test"}
"""Modules that a runner of tests imports, or may."""


@dataclass(frozen=True, slots=True)
class CheckFiles:
    """`own`: the changes to what the check reads as its own; `beside`: new tests, which the earlier check did not
    have."""

    own: tuple[ChangedPath, ...] = ()
    beside: tuple[ChangedPath, ...] = ()

    @property
    def paths(self) -> list[str]:
        return [shown(one.path) for one in self.own]


def of(command: str, changes: Iterable[ChangedPath], protect: Sequence[str] = (), within: str = "") -> CheckFiles:
    """Tell what `command` reads as its own among `changes`.

    Args:
        protect: patterns or directories that are its own as well, relative to `within`.
        within: the directory that the command runs in, relative to the top of the repository; empty for the top.
    """
    calls, within = _calls(command), within.rstrip("/")
    kinds = _kinds({posixpath.basename(words[0]) for words in calls})
    named, places = _named(calls, within)
    own, beside = list[ChangedPath](), list[ChangedPath]()
    for change in changes:
        path = change.path
        first = not (change.added and change.empty) and _read_first(path, kinds, places | {within, ""})
        if path in named or first or _protected(path, protect, within):
            own.append(change)
        elif kinds and is_test(path):
            (beside if change.added else own).append(change)
    return CheckFiles(tuple(own), tuple(beside))


def is_test(path: str) -> bool:
    """Whether a file is a test, or lies among them, by its name."""
    *above, name = path.split("/")
    stem, suffix = posixpath.splitext(name)
    return (
        not TEST_PLACES.isdisjoint(above)
        or name.startswith(("test_", "test-"))
        or stem in ("test", "tests")
        or stem.endswith(TEST_ENDINGS)
        or (suffix in JVM and stem.endswith(JVM_ENDINGS))
        or suffix in (".bats", ".snap")
    )


def _kinds(programs: set[str]) -> set[str]:
    """The kinds of files that these programs read as theirs; a script or `make` may start any other."""
    found = set[str]()
    for program in programs - PLAIN:
        known = {kind for kind, names in KINDS.items() if program.startswith(names)}
        found |= known or {*KINDS, "make"}
    return found


def _read_first(path: str, kinds: set[str], places: set[str]) -> bool:
    """Whether a runner of these kinds reads it before any test."""
    *above, name = path.split("/")
    if name in MAKE or name.endswith(".mk"):
        return "make" in kinds
    if name in SCRIPTED or name.startswith(SCRIPTED_STEMS):
        return "script" in kinds
    if name in OTHERS or above[-1:] == [".cargo"]:
        return "other" in kinds
    package = name == "__init__.py" and not TEST_PLACES.isdisjoint(above)
    return "python" in kinds and (package or name in PYTHON or _shadows(path, places))


def _shadows(path: str, places: set[str]) -> bool:
    """Whether Python, which looks in `places` and beside tests first, would import it instead of a module that a
    runner needs."""
    parts = path.split("/")
    if not path.endswith((".py", ".so", ".pyc")):
        return False
    for depth, part in enumerate(parts):
        above = "/".join(parts[:depth])
        found = part.partition(".")[0] if depth == len(parts) - 1 else part
        if found in SHADOWED and (above in places or not TEST_PLACES.isdisjoint(parts[max(0, depth - 1) : depth])):
            return True
    return False


def _protected(path: str, patterns: Sequence[str], within: str) -> bool:
    here = posixpath.relpath(path, within or ".")
    return any(
        here == one.rstrip("/") or here.startswith(one.rstrip("/") + "/") or fnmatchcase(here, one) for one in patterns
    )


def _calls(command: str) -> list[list[str]]:
    """The simple commands of a command line, each from its program on; what a shell is told with `-c` is one more."""
    words = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    words.whitespace_split = True
    found: list[list[str]] = [[]]
    try:
        for word in words:
            if word and not word.strip("();<>|&"):
                found.append([])
            elif found[-1] or not _precedes(word):
                found[-1].append(word)
    except ValueError:  # No shell would read it either.
        return [command.split()] if command.strip() else []
    calls = [call for call in found if call]
    for call in list(calls):
        if posixpath.basename(call[0]) in SHELLS and "-c" in call[1:-1]:
            calls.remove(call)
            calls += _calls(call[call.index("-c") + 1])
    return calls


def _precedes(word: str) -> bool:
    name, sign, _ = word.partition("=")
    return word in BEFORE_COMMANDS or word[:1] in "-0123456789" or (bool(sign) and name.isidentifier())


def _named(calls: Sequence[Sequence[str]], within: str) -> tuple[set[str], set[str]]:
    """The files that a command line names as what is run, and the directories that it names or runs something in;
    relative to the top."""
    here, files, places = within or ".", set[str](), set[str]()

    def at(word: str) -> str:
        return posixpath.normpath(posixpath.join(here, word))

    for program, *words in calls:
        if program == "cd" and words:
            here = at(words[0])
            places.add(here)
            continue
        run = _run_by(posixpath.basename(program), words)
        own = [program] if "/" in program or program.endswith(SCRIPTS) else []
        for word in (*own, *run):
            files.add(at(word.partition("::")[0]))
            files |= {at(one) for one in _module_files(word)}
        places |= {posixpath.dirname(one) for one in files}
        places |= {at(word) for word in words if not word.startswith("-")}
    return files, places - {"."}


def _run_by(program: str, words: list[str]) -> list[str]:
    """The words after a program that name what it runs: a script, a module, tests."""
    operands = [word for word in words if not word.startswith("-")]
    if program in TEST_RUNNERS or (program == "node" and "--test" in words):
        return operands
    if program.startswith(("python", "pypy")):
        if "-c" in words:
            return []
        if "-m" in words[:-1]:
            module, rest = words[words.index("-m") + 1], words[words.index("-m") + 2 :]
            return _run_by(module, rest) if module in (*TEST_RUNNERS, "coverage") else [module]
        return operands[:1]
    if program == "coverage":
        return _run_by("python", words[1:])
    return operands[:1] if program in INTERPRETERS else []


def _module_files(word: str) -> list[str]:
    """The files that a dotted name may stand for, such as `tests.test_a.TestA`."""
    parts = word.split(".")
    if not all(part.isidentifier() for part in parts):
        return []
    names = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return [f"{name}{ending}" for name in names for ending in (".py", "/__main__.py")]
