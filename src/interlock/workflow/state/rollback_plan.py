"""What a rollback would do: which checkpoint is meant, and what becomes of each file (BMAD-3.7, FR61, decision 35).

Reads and decides; nothing is changed here. A file is restored without asking when it is as the run last left it; what
anybody else has changed since is listed and asked about.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import field

from interlock.errors import CheckpointNotFound
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.model.workflow import NOT_THE_RUNS
from interlock.workflow.errors import RollbackRefused
from interlock.workflow.state.checkpoints import BEGUN, MOST, SNAPSHOT, restored
from interlock.workflow.state.document import CheckpointRow, StepId, WorkflowState, step_key
from interlock.workflow.state.snapshots import Snapshots, sha_of

EVERYTHING = "*"
CHANGED = "changed since the run last wrote it"
UNCOVERED = "no copy of it was kept then"

_UNDO = re.compile(r"(?:please\s+)?(?:redo|undo\s+(?:the\s+|that\s+|last\s+)*roll\s?back)\W*", re.IGNORECASE)
_TO = re.compile(
    r"(?:please\s+)?(?:roll(?:ing)?\s?back|go\s+back|undo)\s+(?:back\s+)?to\s+(?:before\s+)?(?:step\s+|checkpoint\s+)?"
    r"(?P<step>cp-\d+|\d+[a-z]?)\W*",
    re.IGNORECASE,
)
_LIST = re.compile(r"(?:please\s+)?(?:undo|roll\s?back)\W*", re.IGNORECASE)


@dataclass(frozen=True)
class Wish:
    """What a message asks for. `kind` is `list` (show the checkpoints), `to` (roll back to `step`) or `undo` (undo the
    last rollback)."""

    kind: str
    step: StepId | None = None


@dataclass(frozen=True)
class Change:
    """One file. `have` and `want` are the ids of its contents, null where there is no file. `why`: the reason to ask
    first; null for the run's own. `possible`: whether it can be restored at all."""

    path: str
    have: str | None
    want: str | None = None
    mode: int | None = None
    why: str | None = None
    possible: bool = True


@dataclass
class Preview:
    """What a rollback would do; with `--dry-run` it is all that is shown."""

    workflow_id: str
    checkpoint: CheckpointRow
    changes: list[Change]
    steps: list[StepId]
    included: Collection[str] = field(default_factory=tuple)

    @property
    def chosen(self) -> list[Change]:
        """The files that are put back: the run's own, and those that were asked about and agreed to."""
        return [one for one in self.changes if one.possible and (one.why is None or self._agreed(one.path))]

    @property
    def asked(self) -> list[Change]:
        """The files that stay as they are unless somebody agrees."""
        return [one for one in self.changes if not one.possible or (one.why is not None and not self._agreed(one.path))]

    def _agreed(self, path: str) -> bool:
        return path in self.included or EVERYTHING in self.included

    def as_dict(self) -> Json:
        """The shape every face shows."""
        return {
            "workflow_id": self.workflow_id,
            "checkpoint": shown(self.checkpoint),
            "restored": [one.path for one in self.chosen if one.want is not None],
            "removed": [one.path for one in self.chosen if one.want is None],
            "asked": [{"path": one.path, "why": one.why, "possible": one.possible} for one in self.asked],
            "rolled_back": list(self.steps),
        }

    @property
    def text(self) -> str:
        """For people, and what is confirmed (BMAD-3.7.2)."""
        point = self.checkpoint
        lines = [f"Back to before step {point['step_id']} ({point['step_name']}), as of {point['timestamp']}."]
        if self.steps:
            lines.append(f"Rolled back: step{'s' * (len(self.steps) > 1)} {', '.join(map(str, self.steps))}.")
        for title, paths in (
            ("Restored", [one.path for one in self.chosen if one.want is not None]),
            ("Removed (a copy is kept)", [one.path for one in self.chosen if one.want is None]),
            ("Left as they are, unless you agree", [f"{one.path}: {one.why}" for one in self.asked]),
        ):
            if paths:
                lines += [f"{title}:", *(f"  {path}" for path in paths)]
        if not self.changes:
            lines.append("No file differs.")
        return "\n".join(lines)


def understood(text: str) -> Wish | None:
    """What a message asks for; null where it is about something else."""
    word = text.strip()
    if _UNDO.fullmatch(word):
        return Wish("undo")
    found = _TO.fullmatch(word)
    if found:
        step = found["step"].lower()
        return Wish("to", int(step) if step.isdigit() else step)
    return Wish("list") if _LIST.fullmatch(word) else None


def shown(checkpoint: CheckpointRow) -> Json:
    """A checkpoint without its snapshot."""
    names = ("id", "step_id", "step_name", "timestamp", "reason", "can_rollback", "why_not")
    return {name: checkpoint.get(name) for name in names}


def available(state: WorkflowState) -> list[Json]:
    """The checkpoints with step names and times, the newest first (BMAD-3.7.1)."""
    return [shown(one) for one in reversed(state.checkpoints)]


def listed(state: WorkflowState) -> str:
    """`available` for people."""
    if not state.checkpoints:
        return f"{state.workflow_id} has no checkpoint yet: there is nothing to roll back to."
    lines = ["Checkpoints, the newest first; say `rollback to step N`:"]
    for one in available(state):
        no = "" if one["can_rollback"] else f" (not available: {one['why_not']})"
        lines.append(f"  step {one['step_id']}  {one['step_name']}  {one['timestamp']}  {one['reason']}{no}")
    return "\n".join(lines)


def choose(state: WorkflowState, wanted: StepId) -> CheckpointRow:
    """The checkpoint of a step (the newest one from before it was begun), or the one of that id.

    Raises:
        CheckpointNotFound: it was pruned, or the step was never begun; `nearest` is the one that comes closest.
        RollbackRefused: it cannot be rolled back to; `alternatives` lists those that can.
    """
    named = [one for one in state.checkpoints if str(wanted) in (str(one["id"]), str(one["step_id"]))]
    # Before the step, not before a later fix within it.
    first = [one for one in named if not str(one["reason"]).startswith("before a fix")] or named
    if not first:
        raise _missing(state, wanted)
    usable = [one for one in first if one["can_rollback"]]
    if not usable:
        others = [shown(one) for one in reversed(state.checkpoints) if one["can_rollback"]]
        offer = "; ".join(f"step {one['step_id']} ({one['step_name']}, {one['timestamp']})" for one in others[:3])
        raise RollbackRefused(
            f"Rolling back to step {wanted} is not available: {first[-1]['why_not'] or 'it was marked so'}. "
            + (f"Available are: {offer}." if others else "No other checkpoint is available either."),
            step=wanted,
            reason=first[-1]["why_not"],
            alternatives=others,
        )
    return usable[-1]


def preview(state: WorkflowState, checkpoint: CheckpointRow, *, include: Collection[str] = ()) -> Preview:
    """What rolling back to `checkpoint` would do. `include`: files that were asked about and agreed to; `*` for all.

    Raises:
        RollbackRefused: the checkpoint is damaged, or files of it are missing; nothing was changed.
        StorageError, InvalidRequest: the files cannot be looked at.
    """
    try:
        changes = _changes(state, checkpoint)
        after = restored(state, checkpoint)
    except (ValueError, KeyError) as error:
        raise RollbackRefused(
            f"The checkpoint of step {checkpoint.get('step_id')} cannot be used: {error}. Nothing was changed; choose "
            "another one, or fix the files by hand.",
            reason=str(error),
            alternatives=[shown(one) for one in reversed(state.checkpoints) if one is not checkpoint],
        ) from error
    steps = [
        record.id
        for key, record in state.steps.items()
        if record.status in BEGUN and after.steps[key].status == "rolled_back"
    ]
    return Preview(state.workflow_id, checkpoint, changes, steps, include)


def _changes(state: WorkflowState, checkpoint: CheckpointRow) -> list[Change]:
    kept_by = checkpoint["files"]
    if kept_by.get("kind") != SNAPSHOT:
        raise ValueError("an earlier version of Interlock kept its files, in a form that this one does not read")
    snapshots = Snapshots(state.plan.project, state.plan.output_folder, state.workflow_id)
    manifest = snapshots.manifest(kept_by["commit"])
    paths, whole = snapshots.paths()
    changes, left_out = [], set(manifest.left_out)
    for path in sorted(({*paths, *manifest.entries} - left_out) | {*state.written}):
        entry, have = manifest.entries.get(path), sha_of(state.plan.project, path)
        if have == (entry.sha if entry else None):
            continue
        everywhere = (manifest.whole and whole) or snapshots.in_output(path)
        covered = entry is not None or (everywhere and path not in left_out and snapshots.covers(path))
        why = UNCOVERED if not covered else NOT_THE_RUNS if path not in state.written else None
        if why is None and state.written[path] != (have or ""):
            why = CHANGED
        changes.append(Change(path, have, entry.sha if entry else None, entry.mode if entry else None, why, covered))
    # What cannot be put back is known before anything is touched.
    for _ in snapshots.contents(one.want for one in changes if one.want is not None):
        continue
    return changes


def _missing(state: WorkflowState, wanted: StepId) -> CheckpointNotFound:
    record = state.steps.get(step_key(wanted))
    points: Sequence[CheckpointRow] = [one for one in state.checkpoints if one["can_rollback"]]
    advice = ""
    if record is None or record.visit == 0:
        why = f"Step {wanted} was never begun, so there is nothing to go back to."
        nearest = points[-1] if points else None
    elif record.status == "rolled_back":
        why = (
            f"Step {wanted} ({record.name}) was rolled back, and its checkpoint with it; it has not begun again since."
        )
        nearest = points[-1] if points else None
    else:
        why = (
            f"The checkpoint of step {wanted} ({record.name}) was pruned due to age: the {MOST} most recent ones are "
            "kept."
        )
        nearest = points[0] if points else None
        advice = " If the earlier state is critical, recreate it by hand from your own copies or version control."
    offer = ""
    if nearest is not None:
        offer = f" The nearest available is step {nearest['step_id']} ({nearest['step_name']}, {nearest['timestamp']})."
    return CheckpointNotFound(
        why + offer + advice, step=wanted, nearest=shown(nearest) if nearest else None, available=available(state)
    )
