"""What becomes of each step of a run, and how far it is (BMAD-3.5, FR30).

Pure: functions from a state, a step and a moment to what the state then says. Times are ISO 8601 UTC.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict

from interlock.clock import seconds
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow.state.document import DONE, StepId, StepRecord, WorkflowState, step_key

ERROR_LIMIT = 2000


def input_hash(*parts: str) -> str:
    """The hash by which the same input of a step is known again."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return whole.hexdigest()


def is_done(state: WorkflowState, step: StepId, input: str | None = None) -> bool:
    """Whether a step was completed, with that `input_hash` where one is given: it is then skipped, and nothing is
    written (NFR11, BMAD-E3.8)."""
    record = state.step(step)
    return record is not None and record.status in DONE and input in (None, record.input_hash)


def begin(state: WorkflowState, step: StepId, name: str, at: str, *, input: str | None = None) -> StepRecord:
    """A step begins, or begins again: the run is now at it."""
    record = state.steps.setdefault(step_key(step), StepRecord(step, name))
    record.name = name or record.name
    record.status, record.started_at, record.input_hash = "in_progress", at, input or record.input_hash
    record.completed_at = record.duration_ms = record.error = record.reason = None
    record.visit += 1
    record.attempts += 1
    state.current_step = step
    if step in state.completed_steps:
        state.completed_steps.remove(step)
    return record


def complete(
    state: WorkflowState, step: StepId, at: str, *, output: str | None = None, files: Iterable[str] = ()
) -> StepRecord:
    """A step was completed; `output` is its `output_hash`, `files` what it wrote."""
    record = state.steps[step_key(step)]
    record.status, record.completed_at, record.error = "completed", at, None
    record.duration_ms = _elapsed(record.started_at, at)
    record.output_hash = output or record.output_hash
    record.files = sorted({*record.files, *files})
    if step not in state.completed_steps:
        state.completed_steps.append(step)
    return record


def fail(state: WorkflowState, step: StepId, at: str, error: str) -> StepRecord:
    """A step failed; `attempts` says how often it was begun."""
    record = state.steps[step_key(step)]
    record.status, record.error = "failed", error[:ERROR_LIMIT]
    record.duration_ms = _elapsed(record.started_at, at)
    return record


def reopen(state: WorkflowState, step: StepId) -> None:
    """A step that was done, and those done since, are to be done once more."""
    if step not in state.completed_steps:
        return
    place = state.completed_steps.index(step)
    for one in state.completed_steps[place:]:
        state.steps[step_key(one)].status = "pending"
    del state.completed_steps[place:]


def skip(state: WorkflowState, step: StepId, name: str, reason: str = "optional") -> StepRecord:
    """A step is not executed; it counts as done."""
    record = state.steps.setdefault(step_key(step), StepRecord(step, name))
    record.status, record.reason = "skipped", reason
    if step not in state.completed_steps:
        state.completed_steps.append(step)
    return record


@dataclass(frozen=True)
class Progress:
    """How far a run is. `eta_ms` is what the remaining steps take if they take as long as the completed ones did on
    average; null before the first. Waiting for a human is in neither. The steps are (id, title); the one at hand is
    among the remaining ones."""

    completed_count: int
    remaining_count: int
    current_step: StepId | None
    current_step_name: str | None
    progress_percent: int
    eta_ms: int | None
    completed_steps: tuple[tuple[StepId, str], ...] = ()
    remaining_steps: tuple[tuple[StepId, str], ...] = ()

    @property
    def text(self) -> str:
        """For people: a bar, the counts and the step."""
        bar = "█" * (self.progress_percent // 10)
        counts = f"{self.completed_count}/{self.completed_count + self.remaining_count} steps"
        at = f", at {self.current_step_name}" if self.current_step_name else ""
        left = f", about {max(1, round(self.eta_ms / 60_000))} min left" if self.eta_ms else ""
        return f"[{bar:░<10}] {self.progress_percent} % · {counts}{at}{left}"

    def as_dict(self) -> Json:
        """The shape every face shows."""
        return asdict(self) | {
            name: [{"step": id, "name": title} for id, title in getattr(self, name)]
            for name in ("completed_steps", "remaining_steps")
        }


def progress(state: WorkflowState) -> Progress:
    """How far a run is (BMAD-3.5.4)."""
    durations = [
        record.duration_ms
        for record in state.steps.values()
        if record.status == "completed" and record.duration_ms is not None
    ]
    left = state.remaining_count
    return Progress(
        len(state.completed_steps),
        left,
        state.current_step,
        state.current_step_name,
        state.progress_percent,
        round(sum(durations) / len(durations) * left) if durations and left else None,
        tuple((one, state.name_of(one)) for one in state.completed_steps),
        tuple((one, state.name_of(one)) for one in state.remaining_steps),
    )


def _elapsed(began: str | None, ended: str) -> int | None:
    try:
        return None if began is None else max(0, round((seconds(ended) - seconds(began)) * 1000))
    except ValueError:
        return None
