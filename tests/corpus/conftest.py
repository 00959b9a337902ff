"""Real workflow packages, one of each generation, fetched by `scripts/fetch_bmad_corpus.py` when they are missing.

Where CI is set a failing fetch fails the tests; elsewhere, and where there is no node, they are skipped with a reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.workflow.package import packages
from interlock.workflow.package import workflow as workflows
from interlock.workflow.package.packages import Package
from interlock.workflow.package.workflow import Workflow
from scripts import fetch_bmad_corpus as fetcher

FETCHING = 900  # seconds that the first test may take


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.npm)
            item.add_marker(pytest.mark.timeout(FETCHING))


@dataclass(frozen=True)
class Corpus:
    """The directory with the packages."""

    directory: Path

    def project(self, version: str) -> Path:
        """A project in which that version is installed."""
        return self.directory / f"proj-{version}"

    def source(self, version: str) -> Path:
        """The package as it was published."""
        return self.directory / f"src-{version}"

    def step_files(self, version: str) -> Iterator[Path]:
        """Every numbered step file of an installed version."""
        for path in sorted((self.project(version) / "_bmad").rglob("*.md")):
            if path.name.startswith(("step-", "e-", "v-")) and any(letter.isdigit() for letter in path.name[:8]):
                yield path


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    try:
        return Corpus(fetcher.fetch())
    except fetcher.NoNode as error:
        pytest.skip(str(error))
    except fetcher.FetchFailed as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the packages could not be fetched: {error}")


@pytest.fixture(scope="session")
def first(corpus: Corpus) -> Package:
    """The first generation: the one that the specification is about."""
    return packages.load(str(corpus.project(fetcher.FIRST)))


@pytest.fixture(scope="session")
def installed(corpus: Corpus) -> list[Package]:
    """All three generations."""
    return [packages.load(str(corpus.project(version))) for version in fetcher.HASHES]


@pytest.fixture(scope="session")
def definitions(first: Package) -> list[Workflow]:
    """Every workflow of the first generation, read."""
    return [workflows.read(first, skill) for skill in first.of_type("workflows")]
