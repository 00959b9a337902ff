"""Checkpoints of a run: its state and its files, before a step begins and before a fix is tried (BMAD-3.6, FR60, FR62).

What a checkpoint holds, where its files are kept, and how a state goes back to it; `checkpoint_keeper` makes them.
One is `{id, step_id, step_name, timestamp, reason, can_rollback, why_not, state_snapshot, files}`; the newest ten are
kept. `files` names the commit that keeps state and files (`snapshots`). The output documents list the checkpoints in
their frontmatter (`checkpoint_list`).
"""

from __future__ import annotations

import stat
from collections.abc import Mapping

from interlock.model.json import Json
from interlock.workflow.state import files
from interlock.workflow.state.checkpoint_list import with_checkpoints
from interlock.workflow.state.document import RUNNING, CheckpointRow, WorkflowState, step_key
from interlock.workflow.state.snapshots import Manifest, Snapshots, regular, sha_of

MOST = 10
KEPT = frozenset(
    "state current_step completed_steps plan_of_steps steps menu_history menu_stack batch recovery triggers "
    "documents".split()
)
"""What of a state a checkpoint keeps. Not what was asked of the run, what humans answered, or what happened since."""
BEGUN = frozenset({"in_progress", "completed", "failed", "skipped"})
DOCUMENTS = (".md", ".markdown")
SNAPSHOT = "snapshot"
"""How the files of a checkpoint are kept; earlier versions had `files` and `git`, which are not read any more."""


def manifest_of(snapshots: Snapshots, checkpoint: CheckpointRow | None) -> Manifest | None:
    """What was kept with a checkpoint; null where that is nothing, or damaged."""
    kept_by = checkpoint["files"] if checkpoint else {}
    if kept_by.get("kind") != SNAPSHOT:
        return None
    try:
        return snapshots.manifest(kept_by["commit"])
    except ValueError:
        return None


def kept(state: WorkflowState, checkpoint: CheckpointRow) -> Json:
    """What a checkpoint has kept of its run's state.

    Raises:
        ValueError: it is gone or damaged.
    """
    found = checkpoint.get("state_snapshot")
    if not isinstance(found, Mapping):
        raise ValueError("its snapshot of the state is damaged")
    if len(found) == 1:  # schema 1 kept all of it here
        snapshots = Snapshots(state.plan.project, state.plan.output_folder, state.workflow_id)
        found = snapshots.state(checkpoint["files"].get("commit", ""))
    if not isinstance(found.get("completed_steps"), list):
        raise ValueError("its snapshot of the state is damaged")
    return dict(found)


def number_of(id: str) -> int:
    """The number of a checkpoint, from its id."""
    _, _, number = id.rpartition("-")
    return int(number) if number.isdigit() else 0


def restored(state: WorkflowState, checkpoint: CheckpointRow) -> WorkflowState:
    """The state as it was at that checkpoint, for the run to go on from (BMAD-3.7.3, BMAD-3.7.6).

    Steps that had begun since are `rolled_back`. How often a step was begun is not taken back: what was asked in a
    visit that is undone must not answer a question of the next.

    Raises:
        ValueError: the snapshot is gone or damaged.
    """
    snapshot = kept(state, checkpoint)
    found = WorkflowState.from_dict({**state.as_dict(), **snapshot, "outcome": None, "state": RUNNING})
    here = step_key(checkpoint["step_id"])
    found.completed_steps = [one for one in found.completed_steps if step_key(one) != here]
    done = {step_key(one) for one in found.completed_steps}
    for key, record in WorkflowState.from_dict(state.as_dict()).steps.items():
        if key not in done and record.status in BEGUN:
            record.status, record.completed_at, record.duration_ms, record.error = "rolled_back", None, None, None
            found.steps[key] = record
        if key in found.steps:
            found.steps[key].visit, found.steps[key].attempts = record.visit, record.attempts
    found.checkpoints = [one for one in state.checkpoints if number_of(one["id"]) <= number_of(checkpoint["id"])]
    found.current_step = checkpoint["step_id"]
    found.error = found.timeout_error = found.waiting = found.sent = found.agent_session = None
    found.error_details, found.visits, found.transcript = {}, {}, []
    return found


def credit(state: WorkflowState, before: CheckpointRow | None, manifest: Manifest | None) -> None:
    """Note what the step since the last checkpoint has left, as the run's: the files that it named, or, where its agent
    does not tell, the run's documents."""
    if before is None or manifest is None:
        return
    record = state.step(before["step_id"])
    named = record.files if record and record.files else state.documents
    for path in named:
        now, old = sha_of(state.plan.project, path), manifest.entries.get(path)
        if now != (old.sha if old else None):
            state.written[path] = now or ""


def show(state: WorkflowState, manifest: Manifest | None, *, listed: bool = True) -> None:
    """List the checkpoints in the run's documents, or remove the list. What somebody else has changed since stays
    known as such."""
    for path in state.documents:
        if not path.endswith(DOCUMENTS):
            continue
        whole = files.inside(state.plan.project, path)
        data = files.get(whole)
        if data is None:
            continue
        try:
            text = with_checkpoints(data.decode(), state.checkpoints if listed else None)
        except UnicodeDecodeError:
            continue
        if text is None or text.encode() == data or files.get(whole) != data:
            continue  # Left alone, as it should be, or somebody is writing to it just now.
        found = regular(whole)
        before, old = files.sha(data), manifest.entries.get(path) if manifest else None
        files.put(whole, text.encode(), stat.S_IMODE(found.st_mode) if found else None)
        if state.written.get(path, old.sha if old else before) == before:
            state.written[path] = files.sha(text.encode())
