"""Eight clients at once: what they were told is judged, when nothing fails, and when everything below them does."""

from __future__ import annotations

import pytest

from tests.history.faults import KINDS, POOLER
from tests.history.harness import storm

OPERATIONS = 100_000
"""Of a whole storm, over all kinds of ledger together."""


@pytest.mark.long
def test_a_calm_team_is_told_the_truth() -> None:
    """Also the judge of planted bugs (`make mutants`), so it is short and has everything in it."""
    report = storm(operations=700, seconds=200, seed=1, where="calm")
    assert report.problems == [] and report.outcomes["done"] > 300, report


@pytest.mark.storm
@pytest.mark.dosed
@pytest.mark.parametrize("where", KINDS)
def test_a_team_is_told_the_truth_whatever_fails(where: str, dose: float, seed: int) -> None:
    if where == "pgbouncer" and POOLER is None:
        pytest.skip("pgbouncer is not installed")
    report = storm(round(OPERATIONS * dose / len(KINDS)), seconds=250 * dose, seed=seed, where=where)
    print(report)
    assert report.problems == []
