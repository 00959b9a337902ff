"""How far it is from nothing to a first verified task: real packages from PyPI and npm, with their own tests.

For each, in an empty directory: unpack, `git init`, commit, and then what a person does: `interlock init`, `interlock
run`. The agent is a program that writes a file, so what is measured is the way there, not a model. Prints a line each:
commands, lines of `plan.yaml` that differ from what `init` wrote, seconds, and the evidence. A package whose tests fail
is LOST, and its line says how they ended.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PACKAGES = (
    "pypi:humanize==4.9.0", "pypi:inflection==0.5.1", "pypi:iniconfig==2.3.1", "pypi:itsdangerous==2.2.0",
    "pypi:python-slugify==9.2.0", "pypi:tabulate==0.10.0", "pypi:toolz==1.2.0", "npm:concat-map@0.0.2",
    "npm:deep-is@0.1.4", "npm:left-pad@1.3.0",
)  # fmt: skip
AGENT = "import pathlib; pathlib.Path('NOTES.md').write_text('How it is tested.\\n')"
SOONEST = 300.0
"""Seconds that a person has for all of it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One package: how far it came. `edits` are the lines of the plan that are not as `init` wrote them; `tests` and
    `first` the evidence of the tests, and of the agent's task; `within` is how many seconds it had."""

    package: str
    commands: int
    edits: int
    seconds: float
    test: str | None
    setup: str | None
    tests: str
    first: str
    said: str
    within: float

    @property
    def arrived(self) -> bool:
        return self.tests == "exit code 0" and self.first.startswith("verified") and self.seconds <= self.within

    def line(self) -> str:
        mark = "ok  " if self.arrived else "LOST"
        way = f"{self.commands} commands  {self.edits} edits {self.seconds:6.1f} s"
        return f"{mark} {self.package:<28} {way}  {self.tests}; {self.first}"


def fetch(package: str, into: Path) -> Path:
    """The unpacked source of a package. Raises CalledProcessError if it cannot be had."""
    registry, _, name = package.partition(":")
    into.mkdir()
    if registry == "pypi":
        plain = name.partition("==")[0]
        get = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", plain, "-d", str(into), name]
    else:
        get = ["npm", "pack", "--silent", "--pack-destination", str(into), name]
    subprocess.run(get, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    archive = next(file for file in into.iterdir() if file.name.endswith((".tar.gz", ".tgz")))
    with tarfile.open(archive) as opened:
        opened.extractall(into / "source", filter="data")
    return next((into / "source").iterdir())


def measure(package: str, scratch: Path, within: float) -> Measured:
    """Take one package from its source to a first verified task."""
    project = fetch(package, scratch / package.replace(":", "-").replace("/", "-"))
    ignored = project / ".gitignore"
    ignored.write_text(f"{ignored.read_text() if ignored.exists() else ''}\nnode_modules/\n.venv/\n__pycache__/\n")
    who = ["git", "-c", "user.name=first", "-c", "user.email=first@example.org"]
    published = (
        [*who, "commit", "-q", "-m", "As published"],
        ["git", "tag", package.replace("==", "@").partition("@")[2]],
    )
    for command in (["git", "init", "-q"], ["git", "add", "-A"], *published):
        subprocess.run(command, cwd=project, check=True, capture_output=True)
    home = {**os.environ, "INTERLOCK_HOME": str(scratch / "home")}
    for name in ("VIRTUAL_ENV", "PYTHONPATH", "INTERLOCK_TEAM", "INTERLOCK_MEMBER", "INTERLOCK_SESSION"):
        home.pop(name, None)

    def interlock(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "interlock", "--json", *words]
        return subprocess.run(command, cwd=project, env=home, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    started = time.monotonic()
    found = interlock("init", "--agent", json.dumps([sys.executable, "-c", AGENT]))
    plan = _lines(project / "plan.yaml")
    ran = interlock("run", "plan.yaml", "--unattended") if found.returncode == 0 else found
    seconds = time.monotonic() - started
    written = json.loads(found.stdout) if found.returncode == 0 else {}
    report = json.loads(ran.stdout)["report"] if ran is not found and ran.stdout else {"done": [], "failed": []}
    proof = {task["key"]: task["proof"] for task in report["done"]}
    proof |= {task["key"]: f"failed ({task['reason']})" for task in report["failed"]}
    return Measured(
        package, 2, _edits(plan, _lines(project / "plan.yaml")), seconds, written.get("test"), written.get("setup"),
        proof.get("test", "no tests were run"), proof.get("notes", "not reached"),
        f"{ran.stderr[-2000:]}\n{json.dumps(report['failed'])[-4000:]}", within,
    )  # fmt: skip


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _edits(before: list[str], after: list[str]) -> int:
    return sum(line.startswith(("+ ", "- ")) for line in difflib.ndiff(before, after))


def main() -> int:
    """Measure the packages that are named, or all of `PACKAGES`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", default=PACKAGES, help="pypi:NAME==VERSION or npm:NAME@VERSION")
    parser.add_argument("-v", "--verbose", action="store_true", help="what was found, and why it was lost")
    parser.add_argument("--within", type=float, default=SOONEST, help="seconds that one may take (default: a person's)")
    asked = parser.parse_args()
    arrived, edits = [], 0
    for package in asked.packages:
        with tempfile.TemporaryDirectory(prefix="interlock-first-") as scratch:
            one = measure(package, Path(scratch), asked.within)
        print(one.line(), flush=True)
        if asked.verbose:
            print(f"       setup: {one.setup}\n       tests: {one.test}")
            print("" if one.arrived else one.said)
        arrived.append(one.arrived)
        edits += one.edits
    print(
        f"{sum(arrived)} of {len(arrived)} reached a first verified task by `interlock init` and `interlock run`; "
        f"{edits} edits of plan.yaml"
    )
    return 0 if all(arrived) else 1


if __name__ == "__main__":
    sys.exit(main())
