"""Storms of kills: small ones each time, long ones with `make storm`."""

from __future__ import annotations

import pytest

from tests.crash.harness import storm
from tests.crash.migrating import migrations

PROVEN = ("CORE-FR-001", "CORE-FR-002", "CORE-SC.1", "CORE-EC.3", "CORE-EC.5")


@pytest.mark.storm
@pytest.mark.dosed
@pytest.mark.req(*PROVEN)
@pytest.mark.parametrize(("few", "many", "postgres"), [(24, 600, False), (12, 200, True)], ids=["sqlite", "postgres"])
def test_nothing_acknowledged_is_lost_when_processes_are_killed(
    few: int, many: int, postgres: bool, dose: float, seed: int
) -> None:
    assert storm(max(few, int(many * dose)), seed=seed, postgres=postgres) == []


@pytest.mark.npm
@pytest.mark.storm
@pytest.mark.dosed
@pytest.mark.timeout(900)
def test_agent_programs_are_among_those_killed(dose: float, seed: int) -> None:
    assert storm(max(24, int(300 * dose)), seed=seed, agents=True) == []


@pytest.mark.req("CORE-FR-002", "CORE-EC.5")
def test_a_migration_is_whole_or_not_at_all_when_processes_are_killed() -> None:
    assert migrations(kills=8, seed=1) == []


@pytest.mark.storm
def test_migrations_survive_a_long_storm(dose: float, seed: int) -> None:
    assert migrations(kills=max(10, int(150 * dose)), seed=seed) == []
