"""Bugs that we plant to see that they are found: each a patch of `src`, with the test that must fail for it.

A patch begins with `Why:`, which says in a line what is wrong then, and `Test:`, which names the test. It has one line
of context, so that it survives changes around it; one that does not apply any more is an error, never a success.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NEEDED = ("src", "tests", "bench", "scripts", "docs", "plugins", "examples", "pyproject.toml", "README.md")
"""What tests need of the repository."""
FAILED = 1
"""What pytest ends with where tests ran and failed; anything else proves nothing."""


@dataclass(slots=True, frozen=True)
class Planted:
    """One bug."""

    path: Path
    why: str
    test: str

    @property
    def name(self) -> str:
        return self.path.stem


class Unproven(AssertionError):
    """A patch does not apply, or its test does not find it."""


def planted() -> list[Planted]:
    """Every bug, by name."""
    return [_read(path) for path in sorted(Path(__file__).parent.glob("*.patch"))]


def _read(path: Path) -> Planted:
    found = re.match(r"Why: (.+)\nTest: (\S+)\n\n--- a/src/", path.read_text())
    if found is None:
        raise Unproven(f"{path.name} does not begin with Why: and Test:, an empty line, and a patch of src.")
    return Planted(path, found[1], found[2])


def todays(count: int) -> list[Planted]:
    """`count` of them, others for another state of the sources and the same for the same one."""
    every = planted()
    state = 0
    for path in sorted((ROOT / "src").rglob("*.py")):
        state = zlib.crc32(path.read_bytes(), state)
    return [every[(state + number) % len(every)] for number in range(min(count, len(every)))]


def apply(root: Path, bug: Planted, *how: str) -> str:
    """Apply its patch to the tree in `root`; what is wrong with it, empty where nothing is."""
    # Not by the repository that a copy may happen to lie in.
    outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    done = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", *how, str(bug.path)],
        cwd=root, env=outside, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stderr if done.returncode else ""


class Copy:
    """A copy of the repository, to plant bugs in one after the other."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "copy"
        self.root.mkdir()
        self._passing: set[str] = set()
        for name in NEEDED:
            if (source := ROOT / name).is_dir():
                shutil.copytree(source, self.root / name, symlinks=True)
            elif source.exists():
                shutil.copy2(source, self.root / name)

    def prove(self, bug: Planted) -> None:
        """Have its test pass without the bug, and fail with it.

        Raises:
            Unproven: it does not.
        """
        if bug.test not in self._passing:
            without, said = self._tested(bug)
            if without != 0:
                raise Unproven(f"{bug.test} ends with {without} without {bug.name}:\n{said}")
            self._passing.add(bug.test)
        if wrong := apply(self.root, bug):
            raise Unproven(f"{bug.path.name} does not apply any more, so make it again for today's sources:\n{wrong}")
        try:
            result, said = self._tested(bug)
        finally:
            apply(self.root, bug, "-R")
        if result != FAILED:
            raise Unproven(f"Not found: {bug.name} ({bug.why}) {bug.test} ended with {result}:\n{said}")

    def _tested(self, bug: Planted) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "", "-p", "no:cacheprovider", "-p", "no:xdist"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        done = subprocess.run(
            [*command, "--timeout", "300", bug.test], cwd=self.root, capture_output=True, text=True, check=False,
            env={**environment, "PYTHONPATH": str(self.root / "src")},
        )  # fmt: skip
        return done.returncode, done.stdout[-3000:] + done.stderr[-2000:]


def chosen(names: Sequence[str]) -> list[Planted]:
    """Those of these names, or every one.

    Raises:
        Unproven: there is none of such a name.
    """
    known = {bug.name: bug for bug in planted()}
    if unknown := set(names) - set(known):
        raise Unproven(f"There is no {', '.join(sorted(unknown))}. There are: {', '.join(known)}.")
    return [known[name] for name in names] or list(known.values())
