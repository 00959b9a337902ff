"""The short night with agents that are little programs of the tests' own: it runs wherever the tests run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agents.acting import PROGRAM
from tests.night.night import FALSE, LIE, LIMIT, QUESTION, WORK, Night

PLAYER = Path(__file__).with_name("player.py")


def player(path: Path) -> dict[str, Any]:
    """A member of that profile, which stands in the user's own `agents.toml`."""
    script = {
        "work": WORK, "false": FALSE, "lie": LIE, "limit": LIMIT, "question": QUESTION, "marks": str(path / "marks"),
        "sessions": str(path / "marks" / "sessions"), "record": str(path / "marks" / "record.jsonl"),
    }  # fmt: skip
    (path / "night.json").write_text(json.dumps(script))
    argv = [sys.executable, str(PROGRAM), str(PLAYER), str(path / "night.json")]
    (path / "home").mkdir()
    (path / "home" / "agents.toml").write_text(
        f"[player]\nacp = {json.dumps(argv)}\n[[player.limits]]\npattern = 'usage limit'\nafter = 900\n"
    )
    return {"agent": "player"}


@pytest.mark.timeout(240)
def test_a_short_night(tmp_path: Path) -> None:
    member = player(tmp_path)
    with Night(tmp_path, {"ada": member, "bob": member}) as night:
        code = night.pass_by(killed_when="in mid-turn")
        assert night.orphans, "nothing was left to be recovered, so this shows nothing"
        night.check(code)
        assert not any(night.user.iterdir()), "somebody wrote into the user's home"
