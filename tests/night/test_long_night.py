"""A long night of scripted agents, see `long_night.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.night.long_night import QUESTION, TASKS, LongNight
from tests.night.stage import Night, player

PLAYER = Path(__file__).with_name("long_player.py")
MEMBERS = ("ada", "bob", "cem", "dot")
FEWEST, RUNNER_DEATHS = 12, 3


@pytest.mark.storm
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.timeout(1500)
def test_a_long_night(tmp_path: Path, seed: int, dose: float) -> None:
    work = LongNight(seed, max(FEWEST, int(TASKS * dose)))
    script = {one.key: {"text": one.text, "misfortunes": one.misfortunes} for one in work.works}
    said = {"impossible": work.impossible, "crossed": sorted(work.crossed), "question": QUESTION}
    member = player(tmp_path, PLAYER, tasks=script, **said)
    with Night(tmp_path, work.files(), work.plan(dict.fromkeys(MEMBERS, member))) as night:
        for death in range(RUNNER_DEATHS):
            at = len(work.possible) * (death + 1) // (RUNNER_DEATHS + 1)
            night.kill_when(lambda at=at: len(night.done()) >= at, 600)  # type: ignore[misc]
        work.check(night, night.run(900))
