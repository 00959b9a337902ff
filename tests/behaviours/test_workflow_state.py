"""The state of a workflow run is a versioned row, its file a mirror: nothing is lost, and no late writer wins."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from interlock.core.unit_of_work import Principal
from interlock.errors import InvalidRequest, WorkflowNotFound
from interlock.model.workflow import WorkflowRow
from interlock.workflow.engine.ports import Asking, Superseded
from interlock.workflow.errors import StateConflict, StateUnreadable
from interlock.workflow.runs.desk import LedgerDesk
from interlock.workflow.runs.opening import store_of
from interlock.workflow.state import resume, step_tracking, workflow_state_manager
from interlock.workflow.state.document import COMPLETED, TERMINAL, Waiting, WorkflowState
from interlock.workflow.state.workflow_state_manager import read_row, state_path
from tests.behaviours.workflow_place import OUTPUT, SKILL, StatePlace


@pytest.fixture
def place(tmp_path: Path) -> Iterator[StatePlace]:
    found = StatePlace(tmp_path)
    yield found
    found.close()


@pytest.mark.req("BMAD-3.1.1", "BMAD-3.1.2", "BMAD-FR26", "BMAD-NFR7", "BMAD-NFR15")
def test_a_run_that_is_interrupted_at_step_three_of_five_is_all_there(place: StatePlace, tmp_path: Path) -> None:
    state = place.through(place.state(), 1, 2)
    state.menu_history.append({"step": 2, "selection": "C"})
    place.save(state)
    place.close()
    later = StatePlace(tmp_path)
    found = later.load()
    assert (found.current_step, found.completed_steps) == (3, [1, 2])
    assert found == state
    file = later.file(found)
    assert Path(state_path(found)) == later.project / OUTPUT / ".workflow-state" / f"{state.workflow_id}.json"
    assert (file["current_step"], file["completed_steps"], file["current_step_name"]) == (3, [1, 2], "Success")
    assert file["menu_history"] == [{"step": 2, "selection": "C"}]
    later.close()


def test_one_run_is_shown_without_reading_the_others(place: StatePlace, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 6):
        place.save(place.state(f"bmm-create-prd-{number}"))
    place.act(lambda act: place.states.save(act, _ended(place.load("bmm-create-prd-5"))))
    read: list[str] = []

    def counting(row: WorkflowRow) -> WorkflowState:
        read.append(row.id)
        return read_row(row)

    monkeypatch.setattr(workflow_state_manager, "read_row", counting)
    for number in (1, 5):
        assert place.team.workflow_run(f"bmm-create-prd-{number}")["workflow_id"] == f"bmm-create-prd-{number}"
    assert read == ["bmm-create-prd-1", "bmm-create-prd-5"]


def _ended(state: WorkflowState) -> WorkflowState:
    state.state, state.outcome = TERMINAL, COMPLETED
    return state


def test_the_file_has_the_mode_of_any_file_of_the_project(place: StatePlace) -> None:
    beside = place.project / "beside"
    beside.touch()
    state = place.save(place.state())
    assert stat.S_IMODE(os.stat(state_path(state)).st_mode) == stat.S_IMODE(beside.stat().st_mode)


def test_a_save_based_on_an_older_version_is_refused(place: StatePlace) -> None:
    first = place.save(place.state())
    other = place.load()
    place.save(first)
    other.error = "late"
    with pytest.raises(StateConflict) as refused:
        place.act(lambda act: place.states.save(act, other))
    assert refused.value.details["version"] == 2 and other.version == 1
    with pytest.raises(StateConflict):
        place.act(lambda act: place.states.save(act, place.state()))
    assert place.load() == first


def test_a_save_stands_or_falls_with_the_verb_it_is_part_of(place: StatePlace) -> None:
    state = place.save(place.state())

    def breaks(act: object) -> None:
        state.current_step = 4
        place.states.save(act, state)  # type: ignore[arg-type]
        raise RuntimeError

    with pytest.raises(RuntimeError):
        place.act(breaks)
    assert place.load().current_step is None
    assert place.file(state)["version"] == 1


def test_a_late_writer_of_the_file_does_not_bring_back_the_past(place: StatePlace) -> None:
    state = place.save(place.state())
    old = place.load()
    place.save(place.through(state, 1))
    assert place.states.mirror(old) == []
    assert place.file(state)["completed_steps"] == [1]


@pytest.mark.req("BMAD-E3.8", "BMAD-E3.7")
def test_a_completed_step_met_again_with_the_same_input_changes_nothing_and_writes_nothing(place: StatePlace) -> None:
    state = place.state()
    prompt = step_tracking.input_hash("step 1", "brief")
    step_tracking.begin(state, 1, "Init", "2026-11-21T03:35:13.000Z", input=prompt)
    step_tracking.complete(state, 1, "2026-11-21T03:35:14.500Z", output="o")
    place.save(state)
    before = os.stat(state_path(state))
    assert step_tracking.is_done(state, 1, prompt)
    assert not step_tracking.is_done(state, 1, step_tracking.input_hash("step 1", "another brief"))
    assert place.states.mirror(state) == []
    after = os.stat(state_path(state))
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("damage", [None, b"", b'{"workflow_id": "bmm', b"\xff\x00", b"{}", b"[]"])
def test_a_file_that_is_missing_or_damaged_is_written_anew_from_the_row(
    place: StatePlace, damage: bytes | None
) -> None:
    state = place.save(place.through(place.state(), 1, 2))
    path = Path(state_path(state))
    whole = path.read_bytes()
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    reason = place.states.rebuild(place.load())
    assert reason in ("missing", "damaged", "outdated") and path.read_bytes() == whole
    assert place.states.rebuild(place.load()) is None
    [event] = [one for one in place.team.events()[0] if one.type == "workflow.state_rebuilt"]
    assert event.payload["reason"] == reason


@pytest.mark.req("BMAD-3.1.4")
def test_a_file_that_cannot_be_written_is_tried_three_times_with_growing_pauses_and_then_warned_about(
    place: StatePlace,
) -> None:
    (place.project / OUTPUT).write_text("a file where a directory should be")
    state = place.state()
    place.act(lambda act: place.states.save(act, state))
    began = place.clock.monotonic()
    [warning] = place.states.mirror(state)
    assert "after 3 tries" in warning and "safe in the ledger" in warning
    assert place.clock.monotonic() - began == pytest.approx(0.1 + 0.2)
    assert place.load() == state, "the row stands"
    (place.project / OUTPUT).unlink()
    assert place.states.mirror(state) == [] and place.file(state)["version"] == 1


@pytest.mark.parametrize("folder", ["../elsewhere", "/tmp/elsewhere", "link/out"])
def test_nothing_is_written_outside_the_project(place: StatePlace, folder: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (place.project / "link").symlink_to(outside)
    state = place.state()
    state.plan.output_folder = folder
    place.act(lambda act: place.states.save(act, state))
    [warning] = place.states.mirror(state)
    assert "outside the project" in warning and list(outside.iterdir()) == []


@pytest.mark.parametrize("id", ["../x", ".hidden", "a/b", ""])
def test_an_id_that_is_no_file_name_names_no_file(place: StatePlace, id: str) -> None:
    with pytest.raises(InvalidRequest):
        state_path(place.state(id))


@pytest.mark.req("BMAD-3.1.3", "BMAD-3.2.1", "BMAD-FR27")
def test_the_same_workflow_invoked_again_is_offered_to_resume(place: StatePlace) -> None:
    place.save(place.through(place.state("old"), 1))
    ended = place.state("ended")
    ended.state, ended.outcome = TERMINAL, COMPLETED
    state = place.through(place.state("newer"), 1, 2, 3)
    place.save(state)
    place.save(ended)
    with place.workspace.look() as rows:
        found = resume.interrupted(place.states.list(rows, skill=SKILL, open_only=True), SKILL)
        assert resume.interrupted(place.states.list(rows), "/bmad:other") is None
    assert found is not None and found.workflow_id == "newer"
    offer = resume.offer(found, "h1")
    assert (offer.from_step, offer.advice, offer.options) == (4, "resume", ("resume", "start fresh"))
    assert "Resume from step 4 (Journeys)?" in offer.text and "3 of 5 steps done" in offer.text


@pytest.mark.req("BMAD-3.2.4")
def test_a_workflow_that_was_changed_meanwhile_is_better_started_afresh(place: StatePlace) -> None:
    offer = resume.offer(place.through(place.state(), 1, 2), "h2")
    assert (offer.advice, offer.options[0]) == ("start fresh", "start fresh")
    assert "version mismatch" in offer.text and "Starting fresh is advised" in offer.text


def test_a_state_of_a_newer_version_is_better_started_afresh(place: StatePlace) -> None:
    state = place.state()
    state.schema_version = 99
    assert "newer version of Interlock" in str(resume.offer(state, "h1").problem)


@pytest.mark.req("BMAD-3.2.5")
def test_what_goes_on_says_where_it_was_resumed(place: StatePlace) -> None:
    assert resume.offer(place.through(place.state(), 1, 2, 3), "h1").indicator == "▶ Resumed at step 4/5"


@pytest.mark.req("BMAD-3.2.3")
def test_a_damaged_state_says_what_is_lost_and_offers_to_start_afresh(place: StatePlace) -> None:
    state = place.save(place.through(place.state(), 1, 2))
    with place.workspace.ledger.transaction() as rows:
        row = rows.workflows.get(state.workflow_id)
        assert row is not None
        row.document["state"] = "NONSENSE"
        assert rows.workflows.replace(row, row.version)
    with pytest.raises(StateUnreadable) as found:
        place.load()
    assert found.value.details["lost"] == ["1", "2"]
    assert "Start afresh" in found.value.message and "steps 1, 2 were done" in found.value.message
    with place.workspace.look() as rows:
        assert place.states.list(rows) == []
        with pytest.raises(WorkflowNotFound):
            place.states.load(rows, "none")


@pytest.mark.req("BMAD-3.5.1", "BMAD-3.5.2", "BMAD-3.5.3", "BMAD-3.5.4", "BMAD-FR30")
def test_every_step_says_what_became_of_it_and_the_whole_how_far_it_is(place: StatePlace) -> None:
    state = place.state()
    step_tracking.begin(state, 1, "Init", "2026-11-21T03:00:00.000Z")
    step_tracking.complete(state, 1, "2026-11-21T03:02:00.000Z", files=["b.md", "a.md"])
    step_tracking.skip(state, 2, "Discovery")
    step_tracking.begin(state, 3, "Success", "2026-11-21T03:03:00.000Z")
    step_tracking.fail(state, 3, "2026-11-21T03:03:30.000Z", "no verdict")
    step_tracking.begin(state, 3, "Success", "2026-11-21T03:04:00.000Z")
    step_tracking.fail(state, 3, "2026-11-21T03:04:30.000Z", "no verdict again")
    shown = place.file(place.save(state))
    assert shown["steps"]["step_1"].items() >= {
        "status": "completed", "completed_at": "2026-11-21T03:02:00.000Z", "duration_ms": 120_000,
        "files": ["a.md", "b.md"],
    }.items()  # fmt: skip
    assert shown["steps"]["step_2"].items() >= {"status": "skipped", "reason": "optional"}.items()
    assert shown["steps"]["step_3"].items() >= {"status": "failed", "error": "no verdict again", "attempts": 2}.items()
    found = step_tracking.progress(state)
    assert found.as_dict() == {
        "completed_count": 2, "remaining_count": 3, "current_step": 3, "current_step_name": "Success",
        "progress_percent": 40, "eta_ms": 360_000,
        "completed_steps": [{"step": 1, "name": "Init"}, {"step": 2, "name": "Discovery"}],
        "remaining_steps": [{"step": 3, "name": "Success"}, {"step": 4, "name": ""}, {"step": 5, "name": ""}],
    }  # fmt: skip
    assert found.text == "[████░░░░░░] 40 % · 2/5 steps, at Success, about 6 min left"


def test_a_step_that_begins_again_is_no_longer_done(place: StatePlace) -> None:
    state = place.through(place.state(), 1, 2)
    record = step_tracking.begin(state, 1, "Init", "2026-11-21T03:00:00.000Z")
    assert (record.visit, record.status, state.completed_steps) == (2, "in_progress", [2])


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.behaviours.workflow_place import StatePlace
from interlock.workflow.state import files
where, root = sys.argv[1], Path(sys.argv[2])
place = StatePlace(root)
state = place.through(place.load(), 3)
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
if where == "before commit":
    def work(act):
        place.states.save(act, state); die()
    place.act(work)
elif where == "before the file":
    place.act(lambda act: place.states.save(act, state)); die()
elif where == "within the file":
    place.act(lambda act: place.states.save(act, state))
    files.os.rename = die
    place.states.mirror(state)
else:
    place.act(lambda act: place.states.save(act, state))
    place.states.mirror(state); die()
"""


@pytest.mark.parametrize("where", ["before commit", "before the file", "within the file", "after the file"])
@pytest.mark.req("BMAD-E3.1")
def test_a_kill_between_row_and_file_loses_nothing(tmp_path: Path, where: str) -> None:
    place = StatePlace(tmp_path)
    place.save(place.through(place.state(), 1, 2))
    place.close()
    path = os.pathsep.join(one for one in sys.path if one)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, where, str(tmp_path)], env={**os.environ, "PYTHONPATH": path}, timeout=100,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    later = StatePlace(tmp_path)
    found = later.load()
    expected = [1, 2] if where == "before commit" else [1, 2, 3]
    assert found.completed_steps == expected
    later.states.rebuild(found)
    assert later.file(found)["completed_steps"] == expected
    leftover = [one.name for one in Path(state_path(found)).parent.iterdir() if one.suffix == ".tmp"]
    assert len(leftover) == (where == "within the file"), "the file itself is whole, whatever lies beside it"
    later.close()


class StoreMachine(RuleBasedStateMachine):
    """Several holders load, change and save one run; the row is always the last save that was allowed."""

    held: Bundle[WorkflowState] = Bundle("held")

    @initialize(target=held)
    def begin(self) -> WorkflowState:
        import tempfile

        self.directory = tempfile.TemporaryDirectory()
        self.place = StatePlace(Path(self.directory.name))
        self.truth = self.place.save(self.place.state()).as_dict()
        return self.place.load()

    def teardown(self) -> None:
        if hasattr(self, "place"):
            self.place.close()
            self.directory.cleanup()

    @rule(target=held)
    def load(self) -> WorkflowState:
        return self.place.load()

    @rule(state=held, text=st.text(max_size=20), mirror=st.booleans())
    def save(self, state: WorkflowState, text: str, mirror: bool) -> None:
        state.error = text
        fresh = state.version == self.truth["version"]
        try:
            self.place.act(lambda act: self.place.states.save(act, state))
        except StateConflict:
            assert not fresh
        else:
            assert fresh
            self.truth = state.as_dict()
        if mirror:
            assert self.place.states.mirror(state) == []
            assert self.place.file(state) == json.loads(json.dumps(self.truth))

    @rule(state=held, data=st.binary(max_size=30))
    def damage(self, state: WorkflowState, data: bytes) -> None:
        Path(state_path(state)).write_bytes(data)
        self.place.states.rebuild(self.place.load())
        assert self.place.file(state)["version"] == self.truth["version"]

    @invariant()
    def row_is_truth(self) -> None:
        if hasattr(self, "truth"):
            assert self.place.load().as_dict() == self.truth


TestStoreMachine = pytest.mark.once(StoreMachine.TestCase)
TestStoreMachine.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_a_question_whose_save_fails_is_not_asked_and_can_be_asked_again(place: StatePlace) -> None:
    place.team.spawn("ada")
    task = place.team.claim(place.team.create_task("Write the brief").id, by="ada")
    caller = Principal("ada", str(task.session), run=task.run)
    desk = LedgerDesk(place.workspace, caller, task.id, store_of(place.workspace), "s", "l")
    state = place.save(place.state())
    state.waiting = Waiting("step-1", "menu", "Which?")
    asking = Asking("step-1", "menu", "Which?", ("A", "B"))
    current, state.version = state.version, state.version - 1
    with pytest.raises(Superseded):
        anyio.run(desk.save, state, (), asking)
    assert (state.version, state.waiting.question_id) == (current - 1, None) and place.team.questions() == []
    state.version = current
    asked = anyio.run(desk.save, state, (), asking)
    assert asked == state.waiting.question_id and [one.id for one in place.team.questions()] == [asked]


def test_a_run_that_has_not_begun_is_not_resumed_at_a_step(place: StatePlace) -> None:
    """B12: it said "Resumed at step 1/0"."""
    state = place.state(steps=0)
    assert resume.offer(state).indicator == "▶ Resumed before its first step"
