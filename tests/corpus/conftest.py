"""Real workflow packages, one of each generation, as `make programs` installed them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.workflow.package import packages
from interlock.workflow.package import workflow as workflows
from interlock.workflow.package.packages import Package
from interlock.workflow.package.workflow import Workflow
from scripts.pinned import FIRST, GENERATIONS
from tests import pinned

SECONDS = 900  # of a test: some run every workflow of a package


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.npm)
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.timeout(SECONDS))


@dataclass(frozen=True)
class Corpus:
    """The packages, each in a directory of its own."""

    homes: dict[str, Path]

    def project(self, version: str) -> Path:
        """A project in which that version is installed."""
        return self.homes[version] / "project"

    def copy(self, version: str, to: Path) -> Path:
        """A project of one's own in which that version is installed. By `cp`: there are a thousand files in one."""
        to.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", str(self.project(version)), str(to)], check=True)
        return to

    def source(self, version: str) -> Path:
        """The package as it was published."""
        return self.homes[version] / "node_modules/bmad-method"

    def step_files(self, version: str) -> Iterator[Path]:
        """Every numbered step file of an installed version."""
        for path in sorted((self.project(version) / "_bmad").rglob("*.md")):
            if path.name.startswith(("step-", "e-", "v-")) and any(letter.isdigit() for letter in path.name[:8]):
                yield path


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    return Corpus({version: pinned.home(f"bmad-{version}") for version in GENERATIONS})


@pytest.fixture(scope="session")
def first(corpus: Corpus) -> Package:
    """The first generation: the one that the specification is about."""
    return packages.load(str(corpus.project(FIRST)))


@pytest.fixture(scope="session")
def installed(corpus: Corpus) -> list[Package]:
    """All three generations."""
    return [packages.load(str(corpus.project(version))) for version in GENERATIONS]


@pytest.fixture(scope="session")
def definitions(first: Package) -> list[Workflow]:
    """Every workflow of the first generation, read."""
    return [workflows.read(first, skill) for skill in first.of_type("workflows")]
