"""Installs the real Forgetful and Serena for the tests from PyPI, each into `.agents/NAME` (ignored, never committed).

    python scripts/fetch_memory_servers.py [NAME …]        forgetful and serena, or the one that is named

Their programs are then in `.agents/NAME/bin`. Forgetful needs Python 3.12 or newer, which is looked for; both take
about a minute and 400 MB each. What is there already is left as it is.

Forgetful counts tokens by a table that it would download; one of the packages on PyPI ships it, so it is taken from
there into `.agents/forgetful/tokens`. Where Python's own SQLite takes no extensions it gets one that does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

WHERE = Path(__file__).resolve().parent.parent / ".agents"
PACKAGES = {"forgetful": ("forgetful-ai", "pysqlite3-binary"), "serena": ("serena-agent",)}
OLDEST = {"forgetful": (3, 12), "serena": (3, 11)}
TOKENS = "litellm/litellm_core_utils/tokenizers/9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
EXTENSIONS = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension"
REPLACED = "import sys, pysqlite3, pysqlite3.dbapi2; sys.modules['sqlite3'] = pysqlite3; "
REPLACED += "sys.modules['sqlite3.dbapi2'] = pysqlite3.dbapi2\n"
SECONDS = 900


class FetchFailed(Exception):
    """It was tried and did not work: most often there is no network, or no Python that is new enough."""


def fetch(name: str, directory: Path = WHERE) -> Path:
    """The directory with the programs of `name`, installed when they are not there.

    Raises:
        FetchFailed: they could not be; nothing half-made stays.
    """
    home = directory / name
    if not (home / "complete").exists():
        python = next(_pythons(OLDEST[name]), None)
        if python is None:
            raise FetchFailed(f"needs Python {'.'.join(map(str, OLDEST[name]))} or newer, which is not here")
        shutil.rmtree(home, ignore_errors=True)
        _run([python, "-m", "venv", str(home)])
        pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q"]
        _run([*pip, "install", *PACKAGES[name]])
        if name == "forgetful":
            _complete(home, pip)
        (home / "complete").touch()
    return home / "bin"


def _complete(home: Path, pip: Sequence[str]) -> None:
    """What Forgetful needs beside its packages."""
    if subprocess.run([pip[0], "-c", EXTENSIONS], capture_output=True, timeout=60).returncode:
        packages = next((home / "lib").glob("python*/site-packages"))
        (packages / "zz_sqlite_with_extensions.pth").write_text(REPLACED)
    with tempfile.TemporaryDirectory() as folder:
        _run([*pip, "download", "--no-deps", "-d", folder, "litellm"])
        (home / "tokens").mkdir()
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            (home / "tokens" / Path(TOKENS).name).write_bytes(wheel.read(TOKENS))


def _pythons(oldest: tuple[int, int]) -> Iterator[str]:
    """Interpreters of that age or younger that run."""
    names = [f"python3.{minor}" for minor in range(14, 10, -1)]
    installed = sorted((Path.home() / ".pyenv" / "versions").glob("3.*/bin/python"), reverse=True)
    for candidate in (sys.executable, *(shutil.which(name) for name in names), *map(str, installed)):
        check = f"import sys, venv; sys.exit(sys.version_info < {oldest})"
        if candidate and subprocess.run([candidate, "-c", check], capture_output=True, timeout=60).returncode == 0:
            yield candidate


def _run(command: Sequence[str]) -> None:
    try:
        ran = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS,
            env={**os.environ, "PYTHONPATH": ""},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FetchFailed(f"{' '.join(command)}: {error}") from error
    if ran.returncode:
        last = ran.stdout.decode("utf-8", "replace").strip().splitlines()[-3:]
        raise FetchFailed(f"{' '.join(command)} ended with {ran.returncode}: {' '.join(last)}")


def main(names: list[str]) -> int:
    """Fetch them; 1 when one could not be."""
    failed = 0
    for name in names or list(PACKAGES):
        try:
            print(f"{name}: {fetch(name)}")
        except (FetchFailed, OSError, KeyError, StopIteration) as error:
            print(f"{name} could not be installed: {error}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - set(PACKAGES)
    if unknown:
        sys.exit(f"There are {', '.join(PACKAGES)}, no {', '.join(sorted(unknown))}.")
    sys.exit(main(sys.argv[1:]))
