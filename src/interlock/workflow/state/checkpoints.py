"""Checkpoints of a run: its state and its files, before a step begins and before a fix is tried (BMAD-3.6, FR60, FR62).

What a checkpoint holds, where its files are kept, and how a state goes back to it; `checkpoint_keeper` makes them.
One is `{id, step_id, step_name, timestamp, reason, can_rollback, why_not, state_snapshot, files}`; the newest ten are
kept. `files` names the commit that keeps them (`snapshots`). The output documents list them in their frontmatter.

Checkpoints in the frontmatter of a run's output documents (BMAD-3.6.4, FR62); never in a step file (decision 35).

Only the key `checkpoints` is written. Every other line stays as it is, byte for byte: comments, order, unknown keys,
the way `stepsCompleted` is written, line ends. Pure: from text to text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from interlock.workflow.package.files import FENCE, parse
from interlock.workflow.state import files
from interlock.workflow.state.document import RUNNING, WorkflowState, step_key
from interlock.workflow.state.snapshots import Manifest, Snapshots, current, sha_of

KEY = "checkpoints"


def with_checkpoints(text: str, checkpoints: Iterable[Mapping[str, Any]] | None) -> str | None:
    """`text` with these checkpoints in its frontmatter, which is made where there is none, or with None without any;
    null where its frontmatter cannot be read, or not be written to line by line: such a document is left alone."""
    end = "\r\n" if "\r\n" in text else "\n"
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    lines = text.removeprefix(mark).split(end)
    block = []
    for one in checkpoints or ():
        # No longer than FR62 asks for; the whole snapshot is in the ledger.
        snapshot = one.get("state_snapshot")
        done = snapshot.get("completed_steps") if isinstance(snapshot, Mapping) else []
        shown = ", ".join(f"{name}: {json.dumps(one.get(name))}" for name in ("step_id", "timestamp", "can_rollback"))
        block.append(f"  - {{{shown}, state_snapshot: {{completed_steps: {json.dumps(done)}}}}}")
    block = [] if checkpoints is None else [f"{KEY}:", *block] if block else [f"{KEY}: []"]
    if lines[0].rstrip() != FENCE:
        return text if checkpoints is None else mark + end.join([FENCE, *block, FENCE, "", *lines])
    close = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() in (FENCE, "...")), None)
    if close is None:
        return None
    before, fault = parse("\n".join(lines[1:close]), 2)
    if fault is not None:
        return None
    settings = _replaced(lines[1:close], block)
    after, fault = parse("\n".join(settings), 2)
    others = {name: value for name, value in before.items() if name != KEY}
    if fault is not None or {name: value for name, value in after.items() if name != KEY} != others:
        return None  # A mapping in one line, or something else that lines cannot be put into.
    if checkpoints is None and not settings and lines[1:close]:
        return mark + end.join(lines[close + 1 + (lines[close + 1 : close + 2] == [""]) :])
    return mark + end.join([lines[0], *settings, *lines[close:]])


def checkpoints_of(text: str) -> list[Any]:
    """The checkpoints a document's frontmatter lists."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != FENCE:
        return []
    close = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() in (FENCE, "...")), 0)
    found = parse("\n".join(lines[1:close]), 2)[0].get(KEY)
    return found if isinstance(found, list) else []


def _replaced(lines: Sequence[str], block: Sequence[str]) -> list[str]:
    """The settings with our block in the place of the old one, or at the end."""
    start = next((n for n, line in enumerate(lines) if line.startswith((f"{KEY}:", f'"{KEY}":'))), None)
    if start is None:
        return [*lines, *block]
    stop = start + 1
    while stop < len(lines) and lines[stop].startswith((" ", "\t", "-")):
        stop += 1
    return [*lines[:start], *block, *lines[stop:]]


MOST = 10
KEPT = (
    *("state", "current_step", "completed_steps", "plan_of_steps", "steps", "menu_history", "menu_stack", "batch"),
    *("recovery", "triggers", "documents"),
)
"""What of a state a checkpoint keeps. Not what was asked of the run, what humans answered, or what happened since."""
BEGUN = frozenset({"in_progress", "completed", "failed", "skipped"})
DOCUMENTS = (".md", ".markdown")
SNAPSHOT = "snapshot"
"""How the files of a checkpoint are kept; earlier versions had `files` and `git`, which are not read any more."""


def manifest_of(snapshots: Snapshots, checkpoint: Mapping[str, Any] | None) -> Manifest | None:
    """What was kept with a checkpoint; null where that is nothing, or damaged."""
    kept_by = checkpoint["files"] if checkpoint else {}
    if kept_by.get("kind") != SNAPSHOT:
        return None
    try:
        return snapshots.manifest(kept_by["commit"])
    except ValueError:
        return None


def kept(state: WorkflowState) -> dict[str, Any]:
    """What a checkpoint keeps of a state."""
    whole = state.as_dict()
    return {name: whole[name] for name in KEPT}


def number_of(checkpoint: Mapping[str, Any]) -> int:
    """The number of a checkpoint, from its id."""
    _, _, number = str(checkpoint.get("id", "")).rpartition("-")
    return int(number) if number.isdigit() else 0


def restored(state: WorkflowState, checkpoint: Mapping[str, Any]) -> WorkflowState:
    """The state as it was at that checkpoint, for the run to go on from (BMAD-3.7.3, BMAD-3.7.6).

    Steps that had begun since are `rolled_back`. How often a step was begun is not taken back: what was asked in a
    visit that is undone must not answer a question of the next.

    Raises:
        ValueError: the snapshot is damaged.
    """
    snapshot = checkpoint.get("state_snapshot")
    if not isinstance(snapshot, Mapping) or not isinstance(snapshot.get("completed_steps"), list):
        raise ValueError("its snapshot of the state is damaged")
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
    found.checkpoints = [one for one in state.checkpoints if number_of(one) <= number_of(checkpoint)]
    found.current_step = checkpoint["step_id"]
    found.error = found.timeout_error = found.waiting = found.sent = found.agent_session = None
    found.error_details, found.visits, found.transcript = {}, {}, []
    return found


def credit(state: WorkflowState, before: Mapping[str, Any] | None, manifest: Manifest | None) -> None:
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
        found = current(state.plan.project, path)
        before, old = files.sha(data), manifest.entries.get(path) if manifest else None
        files.put(whole, text.encode(), found.mode if found else None)
        if state.written.get(path, old.sha if old else before) == before:
            state.written[path] = files.sha(text.encode())
