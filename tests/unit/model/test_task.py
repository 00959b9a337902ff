"""One machine, three vocabularies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interlock.errors import InvalidRequest
from interlock.model.task import FINAL, HELD, MOVES, STATES, STATUS, states_named


def test_every_state_has_a_status_and_every_move_leads_to_a_state() -> None:
    assert set(STATUS) == set(STATES)
    assert {target for onward in MOVES.values() for target in onward} <= set(STATES)
    assert {"done", "cancelled", "deleted"} == FINAL
    assert not any(state in onward for state, onward in MOVES.items()), "no state leads to itself"


def test_what_is_held_is_in_progress_to_members() -> None:
    assert {state for state, status in STATUS.items() if status == "in_progress"} == HELD


def test_a_filter_takes_a_state_or_a_status() -> None:
    assert states_named("pending") == {"backlog", "ready"}
    assert states_named("ready") == {"ready"}
    assert states_named("completed") == {"done"}
    with pytest.raises(InvalidRequest, match="pending"):
        states_named("finished")


def test_every_move_that_the_source_makes_is_in_the_table() -> None:
    source = "\n".join(path.read_text() for path in Path(__file__).parents[3].glob("src/interlock/**/*.py"))
    named = set(re.findall(r'\bmove\(\s*act, \w+, "([a-z-]+)"', source))
    assert named and named <= set(STATES)
