"""The row of a run is written with every prompt: its checkpoints must not make it grow with the run's history."""

from __future__ import annotations

import copy
import json
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.core.unit_of_work import UnitOfWork
from interlock.model.json import Json
from interlock.workflow.errors import StateUnreadable
from interlock.workflow.state import schema_1, step_tracking
from interlock.workflow.state.checkpoint_keeper import CheckpointKeeper
from interlock.workflow.state.checkpoints import KEPT
from interlock.workflow.state.checkpoints import kept as kept_state
from interlock.workflow.state.document import RUNNING, WorkflowState
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


def kept(place: StatePlace) -> dict[tuple[Any, ...], str]:
    """Every row that the ledger has of workflows, by its key."""
    connection = sqlite3.connect(f"{place.team.directory}/ledger.db")
    try:
        entries = connection.execute("SELECT workflow_id, kind, key, n, document FROM workflow_entries").fetchall()
        runs = connection.execute("SELECT id, state, version, document FROM workflows").fetchall()
    finally:
        connection.close()
    return {one[:3]: str(one) for one in entries} | {one[:1]: str(one) for one in runs}


def step(place: StatePlace, state: WorkflowState, number: int) -> int:
    """One step with all that a run collects in it, saved four times; the bytes of the rows that were written."""
    keeper, bytes_written = CheckpointKeeper(), 0

    def save() -> None:
        nonlocal bytes_written
        before = kept(place)
        place.save(state)
        bytes_written += sum(len(text) for key, text in kept(place).items() if before.get(key) != text)

    step_tracking.begin(state, number, f"Step {number:02d}", AT, input="0" * 64)
    keeper.create(state, step=number, reason=f"before step {number:02d}", at=AT)
    save()
    for part in ("a", "b"):
        state.decisions_made += 1
        decision = {"seq": f"{state.decisions_made:04d}", "at": AT, "step": number, "choice": part, "why": "why " * 80}
        state.decisions = [*state.decisions, decision][-40:]
        state.asked.append({"key": f"{number:02d}:{part}", "step": number, "visit": 1, "text": "Which? " * 40})
        rounds = state.examinations.setdefault("code_review", {"rounds": []})["rounds"]
        rounds.append({"round": f"{len(rounds):03d}", "verdict": "approve", "findings": ["a finding " * 20]})
        save()
    state.asked[-1]["answer"] = "the first"
    state.learned.append({"kind": "decided", "text": "SQLite " * 50, "at": AT, "step": number})
    state.written[f"_bmad-output/{number:02d}.md"] = "a" * 40
    step_tracking.complete(state, number, AT, files=[f"_bmad-output/{number:02d}.md"])
    state.steps[f"step_{number}"].summary = "What came of it. " * 15
    save()
    return bytes_written


def test_a_step_writes_as_much_at_the_end_of_a_long_run_as_at_its_start(place: StatePlace) -> None:
    state = place.state(steps=31)
    written = {number: step(place, state, number) for number in range(1, 32)}
    # What grows is the list of the ids of the steps done, and that a limited history drops an entry for each new one.
    assert abs(written[30] - written[3]) < 4 * len(str(state.completed_steps)) + 400, written
    assert written[30] < 1.05 * written[3] + 400, written
    assert len(kept(place)) > 200, "and it is all there"
    assert place.load().as_dict() == state.as_dict()


def test_the_checkpoints_of_a_long_run_take_no_more_room_than_those_of_a_short_one(place: StatePlace) -> None:
    def room() -> int:
        return sum(len(text) for key, text in kept(place).items() if key[1:2] == ("checkpoints",))

    state = place.state(steps=50)
    through(place, state, 1, 15)
    early = room()
    through(place, state, 16, 50)
    assert room() < 1.5 * early
    assert place.load().as_dict() == state.as_dict(), "and they come back whole"


@pytest.mark.req("BMAD-FR26", "BMAD-NFR7")
def test_the_runs_of_a_ledger_from_before_are_all_there_and_go_on(tmp_path: Path) -> None:
    """The file holds what the version before wrote for an open run and a finished one, and what it showed of them."""
    place = StatePlace(tmp_path)
    text = (Path(__file__).parent / "ledgers" / "before-007.json").read_text(encoding="utf-8")
    before = json.loads(text.replace("@project@", str(place.project)))
    ledger = f"{place.team.directory}/ledger.db"
    place.close()
    connection = sqlite3.connect(ledger)
    for undone in (  # what migrations 007 to 010 will make
        "ALTER TABLE team DROP COLUMN landed", "DROP TABLE changes",
        "DROP TABLE workflow_entries", "DROP TABLE workers", "DROP INDEX tasks_labels", "DROP INDEX tasks_ready",
        "ALTER TABLE tasks DROP COLUMN labels", "CREATE INDEX tasks_ready ON tasks (n)",
    ):  # fmt: skip
        connection.execute(undone)
    for one in before:
        values = [json.dumps(one["row"][name]) if name == "document" else one["row"][name] for name in one["row"]]
        marks = ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO workflows ({', '.join(one['row'])}) VALUES ({marks})", values)
    columns = [row[1] for row in connection.execute("PRAGMA table_info(workflows)")]
    damaged = f"INSERT INTO workflows ({', '.join(columns[1:])}) SELECT 'bmm-damaged-3', "
    replaced = {"document": "json_set(document, '$.workflow_id', 'bmm-damaged-3', '$.steps', 7)", "outcome": "NULL"}
    rest = ", ".join(replaced.get(name, name) for name in columns[2:])
    connection.execute(f"{damaged}{rest} FROM workflows WHERE id = 'bmm-create-prd-1'")
    connection.execute("PRAGMA user_version = 6")
    connection.commit()
    connection.close()

    later = StatePlace(tmp_path)
    for one in before:
        found = later.load(one["row"]["id"])
        assert found.as_dict() == {**one["shown"], "version": found.version, "schema_version": 2}
    with pytest.raises(StateUnreadable):
        later.load("bmm-damaged-3")
    rest_of_it = row(later, later.load())
    assert not any(rest_of_it[name] for name in ("decisions", "checkpoints", "asked", "learned", "steps", "written"))
    assert not rest_of_it["examinations"]["code_review"]["rounds"]
    state = later.load()
    step_tracking.complete(state, 3, AT)
    state.state, state.waiting = RUNNING, None
    later.save(state)
    step(later, state, 4)
    found = later.load()
    assert (found.completed_steps, found.as_dict()) == ([1, 2, 3, 4], state.as_dict())
    assert [one["step_id"] for one in found.checkpoints] == [1, 2, 3, 4]
    assert kept_state(found, found.checkpoints[2])["completed_steps"] == [1, 2]
    assert kept_state(found, found.checkpoints[3])["completed_steps"] == [1, 2, 3]
    assert [len(one["state_snapshot"] or ()) for one in found.checkpoints] == [len(KEPT)] * 3 + [1]
    later.close()


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


def test_what_is_changed_deep_inside_after_a_save_is_written_by_the_next(place: StatePlace) -> None:
    state = place.state(steps=20)
    state.asked = [{"key": "1", "data": {"options": [{"key": "C"}]}}]
    state.examinations = {"code_review": {"rounds": [{"findings": [{"status": "open"}]}]}}
    place.save(state)
    state.asked[0]["data"]["options"][0]["key"] = "X"
    state.examinations["code_review"]["rounds"][0]["findings"][0]["status"] = "fixed"
    place.save(state)
    assert place.load().as_dict() == state.as_dict()


def test_a_save_that_was_undone_is_written_whole_by_the_next(place: StatePlace) -> None:
    state = place.state(steps=20)
    through(place, state, 1, 2)
    before = state.version
    state.asked = [{"key": "1", "text": "Which?"}]

    def undone(act: UnitOfWork) -> None:
        place.states.save(act, state)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        place.act(undone)
    state.version = before  # as the run's desk does
    place.save(state)
    assert place.load().as_dict() == state.as_dict() and state.asked


def test_a_row_from_before_is_read_as_it_is() -> None:
    state = WorkflowState("w", SKILL).as_dict()
    state["checkpoints"] = [{"id": "cp-1", "step_id": 1, "state_snapshot": {"completed_steps": []}}, {"id": "cp-2"}, 7]
    assert schema_1.read(state) == state
    assert schema_1.read({"checkpoints": None}) == {"checkpoints": None}


@pytest.mark.parametrize(
    "damage", [{"differs_from_the_next": 7}, {"differs_from_the_next": {}, "fields": ["steps"]}, 7]
)
def test_a_damaged_one_spoils_those_before_it_and_raises_nothing(damage: Any) -> None:
    document = WorkflowState("w", SKILL, completed_steps=[1, 2]).as_dict()
    document["checkpoints"] = [
        {"id": f"cp-{number}", "state_snapshot": {"completed_steps": list(range(number)), "batch": []}}
        for number in (1, 2)
    ]
    kept = packed(document)
    del document["steps"]
    kept["checkpoints"][1]["state_snapshot"] = damage
    del kept["steps"]
    first, second = schema_1.read(kept)["checkpoints"]
    assert not isinstance(second["state_snapshot"], dict) or not second["state_snapshot"].get("completed_steps")
    assert first["state_snapshot"] is None or first["state_snapshot"]["completed_steps"] != [0, 1]


def packed(document: Mapping[str, Any]) -> Json:
    """A state's document as the row of schema 1 held it."""
    found: list[Any] = []
    after: Mapping[str, Any] | None = document
    for one in reversed(document["checkpoints"]):
        snapshot = one.get("state_snapshot")
        if after is not None and isinstance(snapshot, Mapping):
            ways = {
                name: way for name, value in snapshot.items() if (way := way_of(value, after.get(name))) is not None
            }
            one = {**one, "state_snapshot": {"differs_from_the_next": ways, "fields": list(snapshot)}}
        found.append(one)
        after = snapshot if isinstance(snapshot, Mapping) else None
    return {**document, "checkpoints": found[::-1]}


def way_of(value: Any, after: Any) -> Json | None:
    """How to get from the later value of a field to the earlier one; null where they are the same."""
    if value == after and type(value) is type(after):
        return None
    if isinstance(value, dict) and isinstance(after, dict):
        new = [key for key in value if key not in after]
        if list(value) == [*(key for key in after if key in value), *new]:  # else another order, which is kept too
            return {
                "set": {key: one for key, one in value.items() if key not in after or after[key] != one},
                "gone": [key for key in after if key not in value],
            }
    if isinstance(value, list) and isinstance(after, list):
        # A list grows at its end, and one that is limited loses its first entries meanwhile.
        for front in range(len(value)):
            then = len(value) - front
            if value[front:] == after[:then]:
                return {"front": value[:front], "then": then}
    return {"is": value}


RECORDS = st.dictionaries(st.sampled_from("abcd"), st.dictionaries(st.sampled_from("xy"), st.integers(0, 2)))
ENTRIES = st.lists(st.integers(0, 3) | st.dictionaries(st.sampled_from("xy"), st.integers(0, 2)), max_size=5)
FIELDS = st.fixed_dictionaries(
    {"state": st.sampled_from(["RUNNING", "FAILED"]), "current_step": st.none() | st.integers(1, 3) | st.booleans()},
    optional={
        name: RECORDS if name in ("steps", "recovery") else ENTRIES for name in sorted(KEPT - {"state", "current_step"})
    },
)


@given(now=FIELDS, snapshots=st.lists(st.none() | FIELDS, max_size=4))
@settings(deadline=None)
def test_whatever_snapshots_hold_they_come_back_as_they_were(now: dict[str, Any], snapshots: list[Any]) -> None:
    document = {**now, "checkpoints": [{"id": number, "state_snapshot": one} for number, one in enumerate(snapshots)]}
    before = json.dumps(document)
    kept = json.loads(json.dumps(packed(document)))
    assert json.dumps(document) == before, "the state is not touched"
    back = schema_1.read(kept)
    assert back == document
    for one, other in zip(back["checkpoints"], document["checkpoints"], strict=True):
        for name, value in (other["state_snapshot"] or {}).items():
            assert not isinstance(value, dict) or list(one["state_snapshot"][name]) == list(value), "their order too"
