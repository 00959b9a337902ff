"""The row of a run is written with every prompt: its checkpoints must not make it grow with the run's history."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.workflow.state import snapshots as packing
from interlock.workflow.state import step_tracking
from interlock.workflow.state.checkpoints import KEPT
from interlock.workflow.state.document import WorkflowState
from tests.behaviours.workflow_place import AT, StatePlace
from tests.workflow.stage import SKILL


@pytest.fixture
def place(tmp_path: Path) -> Iterator[StatePlace]:
    found = StatePlace(tmp_path)
    yield found
    found.close()


def row(place: StatePlace, state: WorkflowState) -> dict[str, Any]:
    with place.workspace.look() as rows:
        found = rows.workflows.get(state.workflow_id)
    assert found is not None
    return found.document


def through(place: StatePlace, state: WorkflowState, first: int, last: int) -> None:
    from interlock.workflow.state.rollback import CheckpointKeeper

    keeper = CheckpointKeeper()
    for step in range(first, last + 1):
        step_tracking.begin(state, step, f"Step {step}", AT, input="0" * 64)
        keeper.create(state, step=step, reason=f"before step {step}", at=AT)
        state.menu_history.append({"timestamp": AT, "menu_id": f"{step}:apc", "selection": "C", "confidence": 90})
        state.menu_history = state.menu_history[-15:]
        step_tracking.complete(state, step, AT, files=[f"_bmad-output/{step}.md"])
        record = state.step(step)
        assert record is not None
        record.summary = "What came of it. " * 15
        place.save(state)


def test_the_checkpoints_of_a_long_run_take_no_more_room_than_those_of_a_short_one(place: StatePlace) -> None:
    state = place.state(steps=50)
    through(place, state, 1, 15)
    early = len(json.dumps(row(place, state)["checkpoints"]))
    through(place, state, 16, 50)
    late, whole = row(place, state), state.as_dict()
    assert len(json.dumps(late["checkpoints"])) < 1.5 * early
    # Measured: 43 KB instead of 322 KB, and a quarter of the time for the row, a third for the file.
    assert len(json.dumps(late)) < len(json.dumps(whole)) / 3
    assert place.file(state) == late
    assert place.load().as_dict() == whole, "and they come back whole"


def test_what_goes_on_after_a_load_changes_no_snapshot(place: StatePlace) -> None:
    state = place.state(steps=20)
    through(place, state, 1, 5)
    loaded = place.load()
    before = copy.deepcopy(loaded.checkpoints)
    loaded.completed_steps.append(99)
    loaded.steps["step_1"].files.append("later.md")
    loaded.menu_history[0]["selection"] = "X"
    loaded.documents.append("later.md")
    assert loaded.checkpoints == before
    place.save(loaded)
    assert place.load().checkpoints == before


def test_a_row_from_before_is_read_as_it_is() -> None:
    state = WorkflowState("w", SKILL).as_dict()
    state["checkpoints"] = [{"id": "cp-1", "step_id": 1, "state_snapshot": {"completed_steps": []}}, {"id": "cp-2"}, 7]
    assert packing.unpacked(state) == state
    assert packing.unpacked({"checkpoints": None}) == {"checkpoints": None}


@pytest.mark.parametrize(
    "damage", [{"differs_from_the_next": 7}, {"differs_from_the_next": {}, "fields": ["steps"]}, 7]
)
def test_a_damaged_one_spoils_those_before_it_and_raises_nothing(damage: Any) -> None:
    document = WorkflowState("w", SKILL, completed_steps=[1, 2]).as_dict()
    document["checkpoints"] = [
        {"id": f"cp-{number}", "state_snapshot": {"completed_steps": list(range(number)), "batch": []}}
        for number in (1, 2)
    ]
    kept = packing.packed(document)
    del document["steps"]
    kept["checkpoints"][1]["state_snapshot"] = damage
    del kept["steps"]
    first, second = packing.unpacked(kept)["checkpoints"]
    assert not isinstance(second["state_snapshot"], dict) or not second["state_snapshot"].get("completed_steps")
    assert first["state_snapshot"] is None or first["state_snapshot"]["completed_steps"] != [0, 1]


RECORDS = st.dictionaries(st.sampled_from("abcd"), st.dictionaries(st.sampled_from("xy"), st.integers(0, 2)))
ENTRIES = st.lists(st.integers(0, 3) | st.dictionaries(st.sampled_from("xy"), st.integers(0, 2)), max_size=5)
FIELDS = st.fixed_dictionaries(
    {"state": st.sampled_from(["RUNNING", "FAILED"]), "current_step": st.none() | st.integers(1, 3) | st.booleans()},
    optional={name: RECORDS if name in ("steps", "recovery") else ENTRIES for name in KEPT[2:]},
)


@given(now=FIELDS, snapshots=st.lists(st.none() | FIELDS, max_size=4))
@settings(deadline=None)
def test_whatever_snapshots_hold_they_come_back_as_they_were(now: dict[str, Any], snapshots: list[Any]) -> None:
    document = {**now, "checkpoints": [{"id": number, "state_snapshot": one} for number, one in enumerate(snapshots)]}
    before = json.dumps(document)
    kept = json.loads(json.dumps(packing.packed(document)))
    assert json.dumps(document) == before, "the state is not touched"
    back = packing.unpacked(kept)
    assert back == document
    for one, other in zip(back["checkpoints"], document["checkpoints"], strict=True):
        for name, value in (other["state_snapshot"] or {}).items():
            assert not isinstance(value, dict) or list(one["state_snapshot"][name]) == list(value), "their order too"
