"""Storms of kills: a small one each time, long ones with `make storm`."""

from __future__ import annotations

import os

import pytest

from tests.crash.harness import storm
from tests.crash.migrating import migrations

PROVEN = ("CORE-FR-001", "CORE-FR-002", "CORE-SC.1", "CORE-EC.3", "CORE-EC.5")


@pytest.mark.long
@pytest.mark.req(*PROVEN)
@pytest.mark.parametrize(("kills", "postgres"), [(40, False), (15, True)], ids=["sqlite", "postgres"])
def test_nothing_acknowledged_is_lost_when_processes_are_killed(kills: int, postgres: bool) -> None:
    assert storm(kills, seed=1, postgres=postgres) == []


@pytest.mark.req("CORE-FR-002", "CORE-EC.5")
def test_a_migration_is_whole_or_not_at_all_when_processes_are_killed() -> None:
    assert migrations(kills=8, seed=1) == []


@pytest.mark.storm
@pytest.mark.req(*PROVEN)
@pytest.mark.parametrize("postgres", [False, True], ids=["sqlite", "postgres"])
def test_nothing_is_lost_in_a_long_storm(dose: float, postgres: bool) -> None:
    kills = max(40, int((200 if postgres else 600) * dose))
    assert storm(kills, seed=int.from_bytes(os.urandom(3), "big"), postgres=postgres) == []


@pytest.mark.storm
def test_migrations_survive_a_long_storm(dose: float) -> None:
    assert migrations(kills=max(10, int(150 * dose)), seed=int.from_bytes(os.urandom(3), "big")) == []
