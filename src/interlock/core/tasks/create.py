"""Creating tasks, and checking the fields that creating and editing share.

What steers a task (`CONTROLS`) are its own fields, which plans, people and a lead outside every run set. Its metadata
is data: a worker that could name a check, a command or a variable would have the runner execute and reveal what the
worker's own permissions never allowed. Of `metadata` only two names of AOF count; they are columns, shown there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from interlock.core.mailbox import notify
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import UnitOfWork, unknown_member
from interlock.errors import Forbidden, InvalidRequest, MemberNotFound, TaskLimit
from interlock.model.json import Json
from interlock.model.names import HUMAN, check_labels, check_metadata, check_text, check_variables
from interlock.model.task import AOF, PRIORITIES, TYPES, Task, TaskSpec, metadata_faults, task_fields
from interlock.model.text import count

FIELDS = {field.column: field for field in task_fields().values()}
"""The fields that may be set, by their columns."""
CONTROLS = tuple(column for column, field in FIELDS.items() if field.control)
COMMAND_LIMIT = 10_000


def allow_controls(act: UnitOfWork, names: list[str]) -> None:
    """Check that the actor may set the controls `names`.

    Raises:
        Forbidden: it is a member, or a lead inside a run.
    """
    if names and not act.commands:
        name = "run" if names[0] == "command" else names[0]
        raise Forbidden(
            f"{act.name} may not set {name}: what is executed comes from a plan, a person or a lead outside every run. "
            f"Leave {name} out and ask {'a person' if act.leads else 'the lead'} to add it.",
            field=name,
        )


def check_control(name: str, value: Any) -> Any:
    """`value` of the control `name`, checked; null stands for none.

    Raises:
        InvalidRequest: it is of the wrong type or out of bounds.
    """
    if value is None:
        return None
    field, found = FIELDS[name], value
    least, most = field.bounds
    if field.kind is str:
        return check_text(value, name, limit=COMMAND_LIMIT, required=True)
    if field.kind == list[str]:
        must = f"a list of at most {field.most} texts"
        fits = isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
        fits, found = fits and len(value) <= (field.most or len(value)), list(value) if fits else None
        if fits and name == "env":
            check_variables(value)
    elif field.kind in (int, float):
        must = f"a {'whole ' if field.kind is int else ''}number from {least}{'' if most is None else f' to {most}'}"
        fits = _amount(value, least, most) and (field.kind is float or isinstance(value, int))
    else:
        must = f"an object of numbers for {', '.join(field.choices)}"
        fits = hasattr(value, "items") and all(one in field.choices and _amount(of) for one, of in value.items())
        found = dict(value) if fits else None
    if not fits:
        raise InvalidRequest(f"{name} must be {must}.", field=name)
    return None if found in ([], {}) else found


def metadata_columns(act: UnitOfWork, metadata: Any, task: Task | None = None) -> Json:
    """The columns that hold `metadata` of `task`, or of one that is to be created: its data and AOF's own names.

    Raises:
        InvalidRequest: it is no object, holds a control, or a value of the wrong type.
        Forbidden: it would change what AOF reads, and the actor may not.
    """
    for fault in metadata_faults({} if metadata is None else metadata):
        raise fault
    data = {} if metadata is None else check_metadata(metadata)
    found: Json = {}
    for name, (column, _) in AOF.items():
        if name not in data:
            continue
        value = data.pop(name)
        if value != (getattr(task, column) if task is not None else None) and not act.commands:
            raise Forbidden(
                f"{name} is set by plans, people and the protocol. Leave it out and ask the lead.",
                field=f"metadata.{name}",
            )
        found[column] = value
    return {"metadata": data, **found}


def _amount(value: Any, least: float = 0, most: float | None = None) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return least <= value < float("inf") and (most is None or value <= most)


BLOCKER_LIMIT = 1000


def create(
    act: UnitOfWork,
    subject: str,
    *,
    group_id: str | None = None,
    project_id: str | None = None,
    plan_key: str | None = None,
    plan_digest: str | None = None,
    **given: Unpack[TaskSpec],
) -> Task:
    """Create a task: `ready` when nothing blocks it, else `backlog`.

    `blocked_by` names tasks by id, suffix or plan key.

    Raises:
        Forbidden: a member, or a lead inside a run, sets what is executed (see `CONTROLS`).
        InvalidRequest: a field is of the wrong type, too long or names a choice that does not exist.
        TaskNotFound: a blocker or parent does not exist.
        MemberNotFound: the assignee or reviewer does not exist.
        TaskLimit: `task_limit` tasks are open.
    """
    names = task_fields()
    fields: Json = {names[name].column if name in names else name: value for name, value in given.items()}
    assignee, parent_id = fields.pop("assignee", None), fields.pop("parent_id", None)
    blocked_by = fields.pop("blocked_by", None) or ()
    fields = {name: field.default for name, field in FIELDS.items() if not field.fixed} | fields
    fields = check_fields(act, subject=subject, **fields)
    allow_controls(act, [name for name in CONTROLS if fields[name] is not None])
    blockers = _blockers(act, blocked_by)
    limit = act.settings.get("task_limit")
    day = act.at[:10]
    number, open_tasks = act.rows.team.number_task(day)
    if open_tasks > limit:
        message = f"The team has {count(open_tasks - 1, 'open task')}, and may have {limit}. Finish, cancel or delete "
        raise TaskLimit(message + "some, or raise the setting task_limit.", limit=limit, setting="task_limit")
    open_blockers = sum(1 for blocker in blockers if blocker.state != "done")
    task = Task(
        n=0,
        id=f"TASK-{day}-{number:03d}",
        state="backlog" if open_blockers else "ready",
        assignee=None if assignee is None else member_named(act, assignee),
        parent_id=None if parent_id is None else find(act.rows, parent_id).id,
        group_id=group_id, project_id=project_id, plan_key=plan_key, plan_digest=plan_digest, owner=None, reserved=None,
        run=0, session=None, failures=0, rounds=0, open_blockers=open_blockers, soft=False, rank=0, not_before=None,
        output=None, context=None, findings=None, evidence=[], verifying=None,
        created_by=act.name, created_at=act.at, updated_at=act.at, claimed_at=None, completed_at=None,
        **fields,
    )  # fmt: skip
    act.rows.tasks.insert(task)
    if group_id is not None:
        act.rows.groups.added(group_id, task.id, task.state, act.at)
    for blocker in blockers:
        act.rows.graph.add(blocker.id, task.id, act.name)
    act.event("task.created", task.id, state=task.state, blocked_by=[blocker.id for blocker in blockers])
    act.topics.add("tasks")
    if task.assignee is not None:
        notify(act, task.assignee, f"{task.id} is yours: {task.subject}", type="task_assignment", summary=task.subject)
    return task


def check_fields(act: UnitOfWork, task: Task | None = None, **fields: Any) -> Json:
    """Those of a task's editable fields that are given, checked; `task` is the one that is to be changed.

    Raises:
        InvalidRequest, MemberNotFound: as `create`.
    """
    checked = dict(fields)
    if "subject" in fields:
        limit = act.settings.get("subject_chars")
        checked["subject"] = check_text(
            fields["subject"], "subject", limit=limit, required=True, setting="subject_chars"
        )
        if checked["subject"].splitlines() != [checked["subject"]]:
            raise InvalidRequest("subject must be one line; put the rest into the body.", field="subject")
    if "body" in fields:
        limit = act.settings.get("body_chars")
        checked["body"] = check_text(fields["body"], "body", limit=limit, setting="body_chars")
    for name in CONTROLS:
        if name in fields:
            checked[name] = check_control(name, fields[name])
    if "labels" in fields:
        checked["labels"] = check_labels(check_control("labels", fields["labels"]))
    _choice(fields, "type", TYPES)
    if "priority" in fields:
        if fields["priority"] is None:
            checked["priority"] = "normal"
        else:
            _choice(fields, "priority", PRIORITIES)
    if fields.get("review") not in (None, "none", HUMAN):
        checked["review"] = member_named(act, fields["review"])
    if "metadata" in fields:
        checked.update(metadata_columns(act, fields["metadata"], task))
    return checked


def member_named(act: UnitOfWork, name: str) -> str:
    """The name of a member, or `human`.

    Raises:
        MemberNotFound: nobody of that name.
    """
    if name == HUMAN:
        return HUMAN
    found = act.rows.team.address(name) if isinstance(name, str) else None
    if found is None:
        error: MemberNotFound = unknown_member(act.rows, str(name)[:100])
        raise error
    return found[0]


def _blockers(act: UnitOfWork, references: Sequence[str]) -> list[Task]:
    if isinstance(references, str) or len(references) > BLOCKER_LIMIT:
        raise InvalidRequest(f"blocked_by must be a list of at most {BLOCKER_LIMIT} task ids.", field="blocked_by")
    found = {task.id: task for task in (find(act.rows, reference) for reference in references)}
    for task in found.values():
        if task.state == "deleted":
            raise InvalidRequest(f"{task.id} was deleted and would block for ever.", field="blocked_by")
    return list(found.values())


def _choice(fields: Json, name: str, choices: tuple[str, ...]) -> None:
    if fields.get(name) is not None and fields[name] not in choices:
        raise InvalidRequest(f"{name} must be one of: {', '.join(choices)}.", field=name)
