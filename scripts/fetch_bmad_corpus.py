"""Fetches real workflow packages for the tests, one of each generation, into `.cache/bmad` (ignored, never committed).

    python scripts/fetch_bmad_corpus.py [DIRECTORY]

For every version there are then `src-VERSION` (the package as published, checked against its hash) and `proj-VERSION`
(an empty project in which its own installer has run). Needs node and npm; about a minute. The packages are under the
MIT licence, © 2025 BMad Code, LLC.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache" / "bmad"
PACKAGE = "bmad-method"
NODE = (20, 19)  # older ones cannot `require` a module that the installers need
SECONDS = 300

FIRST, SECOND, THIRD = "6.0.0-alpha.22", "6.0.4", "6.12.0"
HASHES = {
    FIRST: "FORndPB8P7acpVqCbGJhuDPJoGpetdGLOnP+e+CRI2ALFaThkEsp0RZjFLhL9wNOG3ARziQyz0ugr+nQJz1rRg==",
    SECOND: "lsBc2K2aUIaEstRJDxF2B7OxUREEomo7pKWFAHtCk8T/VUgm7cLpWFkOBE1C6UIHhnSsTF9gFfz1JGRvH9GPrA==",
    THIRD: "gbbHo32TxCPwo4Yy70kqykFRwN5UdYqfnDKTsKAsF9m5qtLeoiCgEawj/LuzLBHLrYA0WTOyL/XWtXpgyDonMQ==",
}
OPTIONS = ("--yes", "--directory", ".", "--modules", "bmm", "--tools", "claude-code")


class NoNode(Exception):
    """This machine has no npm, or a node that is too old; nothing was tried."""


class FetchFailed(Exception):
    """It was tried and did not work: most often there is no network."""


def fetch(directory: Path = CACHE) -> Path:
    """The directory with all versions; those that are missing are fetched. Processes wait for each other.

    Raises:
        NoNode: there is no npm, or node is too old, and something is missing.
        FetchFailed: npm or an installer failed; what was complete stays.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if all(_complete(directory, version) for version in HASHES):
        return directory
    with _locked(directory / ".lock"):
        for version in HASHES:
            if not _complete(directory, version):
                _require_node()
                _fetch_one(directory, version)
    return directory


def _complete(directory: Path, version: str) -> bool:
    return (directory / f"src-{version}").is_dir() and (directory / f"proj-{version}").is_dir()


def _fetch_one(directory: Path, version: str) -> None:
    """Everything is made beside its place and moved there whole, so that an interruption leaves nothing half-made."""
    work = directory / f"work-{version}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    archive = _pack(work, version)
    with tarfile.open(archive) as tar:
        # The archive is the one whose hash is above; early 3.11 knows no filter.
        tar.extractall(work / "unpacked", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # type: ignore[arg-type]
    _run(["npm", "init", "-y"], work)
    _run(["npm", "install", f"./{archive.name}", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], work)
    project = work / "project"
    project.mkdir()
    _install(work / "node_modules" / PACKAGE, project, version)
    for made, name in ((work / "unpacked" / "package", f"src-{version}"), (project, f"proj-{version}")):
        shutil.rmtree(directory / name, ignore_errors=True)
        made.rename(directory / name)
    shutil.rmtree(work)


def _pack(work: Path, version: str) -> Path:
    _run(["npm", "pack", f"{PACKAGE}@{version}", "--loglevel=error"], work)
    archive = next(work.glob("*.tgz"))
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != HASHES[version]:
        raise FetchFailed(f"{archive.name} is not the file that the tests were written for: sha512 is {found}")
    return archive


def _install(package: Path, project: Path, version: str) -> None:
    if version == FIRST:
        # Its installer only asks; everything is answered with the default, and with all its modules.
        command = ["node", "-r", str(HERE / "answer_installer.cjs"), str(package / "tools/cli/bmad-cli.js"), "install"]
    elif version == SECOND:
        command = ["node", str(package / "tools/cli/bmad-cli.js"), "install", *OPTIONS]
    else:
        command = ["node", str(package / "tools/installer/bmad-cli.js"), "install", *OPTIONS]
        command += ["--shims", "--user-name", "Tester"]
    _run(command, project, {"INSTALLER_PACKAGE": str(package)})
    if not (project / "_bmad" / "_config").is_dir():
        raise FetchFailed(f"the installer of {version} ended without installing anything")


def _run(command: list[str], directory: Path, extra: dict[str, str] | None = None) -> None:
    try:
        ran = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, **(extra or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FetchFailed(f"{' '.join(command[:3])}: {error}") from error
    if ran.returncode:
        last = ran.stdout.decode("utf-8", "replace").strip().splitlines()[-3:]
        raise FetchFailed(f"{' '.join(command[:3])} ended with {ran.returncode}: {' '.join(last)}")


def _require_node() -> None:
    if not shutil.which("npm") or not shutil.which("node"):
        raise NoNode("needs node and npm, which this machine does not have")
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=30).stdout
    found = re.match(r"v(\d+)\.(\d+)", said)
    if not found or (int(found[1]), int(found[2])) < NODE:
        raise NoNode(f"needs node {NODE[0]}.{NODE[1]} or newer, not {said.strip()}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        print(fetch(Path(sys.argv[1]) if sys.argv[1:] else CACHE))
    except (NoNode, FetchFailed) as error:
        sys.exit(f"The packages could not be fetched: {error}")
