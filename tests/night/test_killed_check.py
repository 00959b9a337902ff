"""A runner that is killed while the agent's own process runs the check of its work."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.night.stage import Night, player

PLAYER = Path(__file__).with_name("long_player.py")


@pytest.mark.long
def test_a_check_that_ends_with_its_run_is_run_again_and_costs_nothing(tmp_path: Path) -> None:
    member = player(tmp_path, PLAYER, tasks={"one": {"text": "", "misfortunes": []}}, impossible=None, crossed=[])
    begun = tmp_path / "marks" / "begun"
    verify = f"test -e parts/one.py || exit 1; test -e {begun} || {{ touch {begun}; sleep 3600; }}"
    plan = {
        "members": {"ada": member},
        "tasks": {"one": {"subject": "one: the first", "verify": f"sh -c {shlex.quote(verify)}"}},
    }
    with Night(tmp_path, {}, plan) as night:
        night.kill_when(begun.exists)
        assert night.run() == 0, night.told()
        task = night.task("one")
        assert (task.state, task.rounds, task.failures, night.team.questions()) == ("done", 0, 0, []), night.told()
        checks = [one.payload for one in night.team.events()[0] if one.type == "verify.finished"]
        assert [one["passed"] for one in checks] == [True], checks
