"""Running a plan again: what it asks for, held against the tasks that came of it before. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches

from interlock.errors import InvalidRequest, InvalidTransition
from interlock.lazy_dataclass import dataclass
from interlock.model.plan import Plan, PlanTask, digest, in_order

#: Nobody has begun: the task may be changed or taken away without asking.
OPEN = frozenset({"backlog", "ready"})
#: Over, one way or another: doing it again harms no run.
OVER = frozenset({"done", "deadletter", "cancelled"})
#: The task counts as if it had never been.
GONE = "deleted"


@dataclass(frozen=True, slots=True)
class ExistingTask:
    """A task of an earlier run of the plan: its key, its id and state in the ledger, and the digest it had."""

    key: str
    task_id: str
    state: str
    digest: str


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task of the plan and the one that it meets in the ledger."""

    task: PlanTask
    existing: ExistingTask


@dataclass(frozen=True, slots=True)
class PlanChanges:
    """What is to be done about each task. No key is in two lists; all but `removed_*` are in an order to create in.

    `new`: create. `updated`: not begun and changed, so update. `unchanged`: leave. `changed_started`: begun or over,
    and changed since: ask. `removed_open`: not begun and no longer in the plan: cancel. `removed_started`: begun or
    done and no longer in the plan: ask. `redo`: over, and asked for again.
    """

    new: list[PlanTask]
    updated: list[TaskChange]
    unchanged: list[TaskChange]
    changed_started: list[TaskChange]
    removed_started: list[ExistingTask]
    removed_open: list[ExistingTask]
    redo: list[TaskChange]


def compare(plan: Plan, existing: Mapping[str, ExistingTask], redo: Collection[str] = ()) -> PlanChanges:
    """Hold `plan` against the `existing` tasks, by key. `redo` names keys whose task is to be done again.

    Done stays done, also when the plan says something else now; that is reported. A key of `redo` that was never
    begun needs no redoing and is treated like any other.

    Raises:
        InvalidRequest: `redo` names a key that the plan has not.
        InvalidTransition: `redo` names a task that is under way.
    """
    again = _redoable(plan, existing, redo)
    changes = PlanChanges([], [], [], [], [], [], [])
    for key in in_order({key: task.blocked_by for key, task in plan.tasks.items()}):
        task = plan.tasks[key]
        before = existing.get(key)
        if before is None or before.state == GONE:
            changes.new.append(task)
            continue
        change = TaskChange(task, before)
        if key in again:
            changes.redo.append(change)
        elif before.digest in (digest(task), digest(task, data=True)):
            changes.unchanged.append(change)
        elif before.state in OPEN:
            changes.updated.append(change)
        else:
            changes.changed_started.append(change)
    for key, before in existing.items():
        if key in plan.tasks or before.state in (GONE, "cancelled"):
            continue
        (changes.removed_open if before.state in OPEN else changes.removed_started).append(before)
    return changes


def _redoable(plan: Plan, existing: Mapping[str, ExistingTask], redo: Collection[str]) -> set[str]:
    """The keys of `redo` whose task is over."""
    found: set[str] = set()
    for key in redo:
        if key not in plan.tasks:
            near = get_close_matches(key, plan.tasks, n=1)
            hint = f'Did you mean "{near[0]}"?' if near else f"There are: {', '.join(list(plan.tasks)[:20])}"
            raise InvalidRequest(f'--redo: the plan has no task "{key}". {hint}', field="redo", value=key)
        before = existing.get(key)
        if before is None or before.state == GONE or before.state in OPEN:
            continue
        if before.state not in OVER:
            instead = f"Wait until it has ended, or `interlock task cancel {key}` first"
            state = "in review" if before.state == "review" else before.state.replace("-", " ")
            message = f'--redo: task "{key}" is {state}. {instead}'
            raise InvalidTransition(message, state=before.state, task_id=before.task_id)
        found.add(key)
    return found
