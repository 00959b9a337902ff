"""Installs real agent programs for the tests from npm, each into `.agents/NAME` (ignored, never committed).

    python scripts/fetch_agents.py [NAME …]        claude and codex, or those named: claude codex gemini opencode,
                                               and conformance: the official suite for MCP servers

Their programs are then in `.agents/NAME/node_modules/.bin`. Needs node and npm; about ten seconds and 600 MB each.
What is there already is left as it is; remove `.agents` for newer ones.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WHERE = Path(__file__).resolve().parent.parent / ".agents"
# `@latest`, for npm would rather take an old version whose wish for a node it can fulfil. The programs are native; the
# ACP adapters are not, and there npm's choice is the one that runs.
PACKAGES = {
    "claude": ("@anthropic-ai/claude-code@latest", "@agentclientprotocol/claude-agent-acp"),
    "codex": ("@openai/codex", "@zed-industries/codex-acp"),
    "gemini": ("@google/gemini-cli",),
    "opencode": ("opencode-ai",),
    "conformance": ("node@22", "@modelcontextprotocol/conformance@0.2.0-alpha.12"),
}
ALWAYS = ("claude", "codex")
NODE = 20
SECONDS = 600


class NoNode(Exception):
    """This machine has no npm, or a node that is too old; nothing was tried."""


class FetchFailed(Exception):
    """It was tried and did not work: most often there is no network, or an install was refused."""


def is_there(name: str, directory: Path = WHERE) -> bool:
    """Whether the programs of `name` are installed already."""
    return (directory / name / "complete").exists()


def fetch(name: str, directory: Path = WHERE) -> Path:
    """The directory with the programs of `name`, installed when they are not there. Processes wait for each other.

    Raises:
        NoNode: there is no npm, or node is too old, and something is missing.
        FetchFailed: npm failed; nothing half-made stays.
    """
    directory.mkdir(parents=True, exist_ok=True)
    home = directory / name
    with _locked(directory / f".lock-{name}"):
        if not (home / "complete").exists():
            _require_node()
            shutil.rmtree(home, ignore_errors=True)
            _install(home, PACKAGES[name])
            (home / "complete").touch()
    return home / "node_modules" / ".bin"


def versions(name: str, directory: Path = WHERE) -> dict[str, str]:
    """Which versions are installed, by package."""
    found = {}
    for package in (re.sub("(?<=.)@.*", "", one) for one in PACKAGES[name]):
        about = directory / name / "node_modules" / package / "package.json"
        found[package] = json.loads(about.read_text(encoding="utf-8"))["version"]
    return found


def _install(home: Path, packages: tuple[str, ...]) -> None:
    home.mkdir(parents=True)
    (home / "package.json").write_text('{"private": true}')
    command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", *packages]
    try:
        ran = subprocess.run(
            command,
            cwd=home,
            env={**os.environ, "npm_config_update_notifier": "false"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FetchFailed(f"npm install {' '.join(packages)}: {error}") from error
    if ran.returncode:
        last = ran.stdout.decode("utf-8", "replace").strip().splitlines()[-3:]
        raise FetchFailed(f"npm install {' '.join(packages)} ended with {ran.returncode}: {' '.join(last)}")


def _require_node() -> None:
    if not shutil.which("npm") or not shutil.which("node"):
        raise NoNode("needs node and npm, which this machine does not have")
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=30).stdout
    found = re.match(r"v(\d+)", said)
    if not found or int(found[1]) < NODE:
        raise NoNode(f"needs node {NODE} or newer, not {said.strip()}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(names: list[str]) -> int:
    """Fetch them; 1 when one could not be."""
    failed = 0
    for name in names or ALWAYS:
        try:
            where = fetch(name)
        except (NoNode, FetchFailed) as error:
            print(f"{name} could not be installed: {error}", file=sys.stderr)
            failed = 1
        else:
            print(f"{name}: {', '.join(' '.join(one) for one in versions(name).items())} in {where}")
    return failed


if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - set(PACKAGES)
    if unknown:
        sys.exit(f"There are {', '.join(PACKAGES)}, no {', '.join(sorted(unknown))}.")
    sys.exit(main(sys.argv[1:]))
