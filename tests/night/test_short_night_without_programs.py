"""The short night with agents that are little programs of the tests' own: it runs wherever the tests run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.acting import recorded
from tests.night.short_night import FALSE, LIE, LIMIT, QUESTION, WORK, ShortNight
from tests.night.stage import player

pytestmark = pytest.mark.storm

PLAYER = Path(__file__).with_name("short_player.py")


@pytest.mark.timeout(600)
def test_a_short_night(tmp_path: Path) -> None:
    member = player(tmp_path, PLAYER, work=WORK, false=FALSE, lie=LIE, limit=LIMIT, question=QUESTION)
    with ShortNight(tmp_path, {"ada": member, "bob": member}) as night:
        code = night.pass_by(killed_when="in mid-turn")
        children = {one["child"] for one in recorded(tmp_path / "marks", "child", name="record")}
        assert children and children <= night.orphans, "nothing was left to be recovered, so this shows nothing"
        night.check(code)
        assert not any(night.user.iterdir()), "somebody wrote into the user's home"
