"""Seeded histories of a whole team, in virtual time over a real ledger: whatever happens, the same things hold.

`python -m tests.simulation --seed N` plays one again and tells every step.
"""

from __future__ import annotations

import pytest

from tests.simulation.story import play

SEEDS = 30
STORM = 600
AT_ONCE = 50


def replayed(seed: int) -> None:
    """Play a seed; where it fails, say how to play it again."""
    try:
        play(seed)
    except Exception as error:
        error.add_note(f"replay it: python -m tests.simulation --seed {seed}")
        raise


@pytest.mark.req("AOF-principles", "AOF-61.14", "AOF-X.01")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_team_at_work_keeps_its_ledger_sound_and_leaves_no_task_behind(seed: int) -> None:
    replayed(seed)


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
