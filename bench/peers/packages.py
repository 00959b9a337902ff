"""Which releases of others are raced; each is installed into `.cache/peers`, and says so before it downloads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).resolve().parent.parent.parent / ".cache" / "peers"
SECONDS = 900


@dataclass(frozen=True, slots=True)
class Package:
    """One release. `registry` is PyPI or npm, `needs` the program without which it does not run."""

    title: str
    registry: str
    requirement: str
    megabytes: int
    needs: str = ""

    @property
    def version(self) -> str:
        """The pinned version."""
        return self.requirement.replace("==", "@").rpartition("@")[2]


PACKAGES = {
    "clawteam": Package("ClawTeam", "PyPI", "clawteam==0.2.0", 63),
    "backlog": Package("Backlog.md", "npm", "backlog.md@1.52.0", 97, "npm"),
    "switchboard": Package("Switchboard", "PyPI", "agent-switchboard[server]==2.6.0", 90),
    "cao": Package("CAO", "PyPI", "cli-agent-orchestrator==2.5.4", 283, "tmux"),
    "procrastinate": Package("procrastinate", "PyPI", "procrastinate==3.10.0", 37),
}


class NotInstalled(Exception):
    """A release could not be installed; says why in a line."""


def install(name: str, cache: Path = CACHE) -> Path:
    """The directory with the programs of `name`, installed where it is not there yet.

    Raises:
        NotInstalled: it could not be; nothing half-made stays.
    """
    package = PACKAGES[name]
    if package.needs and not shutil.which(package.needs):
        raise NotInstalled(f"needs {package.needs}, which is not on this machine")
    if not is_there(name, cache):
        home = cache / f"{name}-{package.version}"
        print(
            f"downloading {package.requirement} from {package.registry} into {home} ({package.megabytes} MB) ...",
            file=sys.stderr,
        )
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        if package.registry == "npm":
            (home / "package.json").write_text('{"private": true}')
            _run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", package.requirement], home)
        else:
            _run([sys.executable, "-m", "venv", str(home)], home)
            pip = [str(home / "bin" / "python"), "-m", "pip", "-q", "--disable-pip-version-check", "install"]
            _run([*pip, package.requirement], home)
        (home / "complete").touch()
    return programs(name, cache)


def is_there(name: str, cache: Path = CACHE) -> bool:
    """Whether it is installed already."""
    return (cache / f"{name}-{PACKAGES[name].version}" / "complete").exists()


def programs(name: str, cache: Path = CACHE) -> Path:
    """Where the programs of an installed release are."""
    package = PACKAGES[name]
    return cache / f"{name}-{package.version}" / ("node_modules/.bin" if package.registry == "npm" else "bin")


def modules(name: str, cache: Path = CACHE) -> Path:
    """Where the modules of an installed Python package are."""
    return next((programs(name, cache).parent / "lib").glob("python*/site-packages"))


def _run(command: Sequence[str], home: Path) -> None:
    try:
        ran = subprocess.run(
            command, cwd=home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=SECONDS, env={**os.environ, "PYTHONPATH": "", "npm_config_update_notifier": "false"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{command[0]}: {type(error).__name__}") from error
    if ran.returncode:
        lines = ran.stdout.decode("utf-8", "replace").strip().splitlines()
        raise NotInstalled(f"{Path(command[0]).name} ended with {ran.returncode}: {' '.join(lines[-1:])[:200]}")
