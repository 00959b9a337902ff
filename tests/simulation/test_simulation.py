"""Seeded histories of a whole team, in virtual time over a real ledger: whatever happens, the same things hold.

`python -m tests.simulation --seed N` plays one again and tells every step.
"""

from __future__ import annotations

import pytest

from interlock.processes import table
from tests.simulation.story import play

SEEDS = 30
STORM = 600
ON_POSTGRES = 2
AT_ONCE = 50


def replayed(seed: int, *, postgres: bool = False) -> None:
    """Play a seed; where it fails, say how to play it again."""
    try:
        play(seed, postgres=postgres)
    except Exception as error:
        error.add_note(f"replay it: python -m tests.simulation --seed {seed}{' --postgres' * postgres}")
        raise


@pytest.mark.req("AOF-principles", "AOF-61.14", "AOF-X.01")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_team_at_work_keeps_its_ledger_sound_and_leaves_no_task_behind(seed: int) -> None:
    replayed(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(ON_POSTGRES))
def test_so_does_one_on_a_server(seed: int) -> None:
    replayed(seed, postgres=True)


@pytest.mark.storm
def test_so_do_many_on_a_server(dose: float) -> None:
    for seed in range(ON_POSTGRES, ON_POSTGRES + max(1, round(AT_ONCE * dose))):
        replayed(seed, postgres=True)


def test_a_seed_is_one_history_on_both() -> None:
    here: list[str] = []
    there: list[str] = []
    play(8, here.append, steps=80, disks=False)
    play(8, there.append, steps=80, postgres=True)
    assert here == there


@pytest.mark.storm
@pytest.mark.parametrize("hundredth", range(SEEDS, SEEDS + STORM, AT_ONCE))
def test_so_do_hundreds_of_teams(hundredth: int, dose: float) -> None:
    for seed in range(hundredth, hundredth + max(1, round(AT_ONCE * dose))):
        replayed(seed)


def test_a_seed_is_one_history() -> None:
    first: list[str] = []
    second: list[str] = []
    play(7, first.append)
    play(7, second.append)
    assert first == second


def test_a_seed_knows_nothing_of_the_processes_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(*given: object) -> None:
        raise AssertionError("the machine's own processes were looked at")

    monkeypatch.setattr(table, "rows", looked)
    monkeypatch.setattr(table, "marked", looked)
    play(2)
