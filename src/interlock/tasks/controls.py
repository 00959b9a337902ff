"""What steers a task: fields of its own, which plans, people and a lead outside every run set. Its metadata is data.

A worker that could name a check, a command or a variable would have the runner execute and reveal what the worker's own
permissions never allowed. Of `metadata` only two names of AOF count; they are columns, shown there.
"""

from __future__ import annotations

from typing import Any

from interlock.errors import Forbidden, InvalidRequest
from interlock.model.names import check_metadata, check_text
from interlock.model.task import AOF, MEASURES, Task
from interlock.sessions import Act

CONTROLS = ("verify", "command", "env", "timeout", "retries", "limits")
"""Fields of a task that say what is executed, with which variables, and how far it may go."""
RESERVED = frozenset(("env", "timeout", "retries", "limits", "run", "verify", "workflow"))
"""Names that metadata must not hold, lest somebody believes that they do something there."""

COMMAND_LIMIT = 10_000
ENV_LIMIT = 100


def allow(act: Act, names: list[str]) -> None:
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


def check(name: str, value: Any) -> Any:
    """`value` of the control `name`, checked; null stands for none.

    Raises:
        InvalidRequest: it is of the wrong type or out of bounds.
    """
    if value is None:
        return None
    if name in ("verify", "command"):
        return check_text(value, name, limit=COMMAND_LIMIT, required=True)
    if name == "env":
        texts = isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
        if texts and len(value) <= ENV_LIMIT:
            return list(value) or None
        raise InvalidRequest(f"env must be a list of at most {ENV_LIMIT} names of variables.", field=name)
    if name == "retries":
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1000:
            return value
        raise InvalidRequest("retries must be a whole number from 0 to 1000.", field=name)
    if name == "timeout":
        if _amount(value):
            return value
        raise InvalidRequest("timeout must be a number of seconds.", field=name)
    if hasattr(value, "items") and all(one in MEASURES and _amount(limit) for one, limit in value.items()):
        return dict(value) or None
    raise InvalidRequest(f"limits must be an object of numbers for {', '.join(MEASURES)}.", field=name)


def columns(act: Act, metadata: Any, task: Task | None = None) -> dict[str, Any]:
    """The columns that hold `metadata` of `task`, or of one that is to be created: its data and AOF's own names.

    Raises:
        InvalidRequest: it is no object, holds a control, or a value of the wrong type.
        Forbidden: it would change what AOF reads, and the actor may not.
    """
    data = check_metadata(metadata)
    reserved = sorted(RESERVED & data.keys())
    if reserved:
        raise InvalidRequest(
            f"metadata is data and must not hold {reserved[0]}: set the task's own field instead.",
            field=f"metadata.{reserved[0]}",
        )
    found: dict[str, Any] = {}
    for name, (column, kind) in AOF.items():
        if name not in data:
            continue
        value = data.pop(name)
        if value is not None and (type(value) is not kind or value < 0):  # type: ignore[operator]
            what = "true or false" if kind is bool else "a whole number of at least 0"
            raise InvalidRequest(f"{name} must be {what}.", field=f"metadata.{name}")
        if value != (getattr(task, column) if task is not None else None) and not act.commands:
            raise Forbidden(
                f"{name} is set by plans, people and the protocol. Leave it out and ask the lead.",
                field=f"metadata.{name}",
            )
        found[column] = value
    return {"metadata": data, **found}


def _amount(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")
