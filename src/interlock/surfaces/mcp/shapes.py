"""Results as the specification spells them: camelCase keys (`blockedBy`, `claimedAt`) over the values of the port."""

from __future__ import annotations

from typing import Any

from interlock.model.task import Task

VERBATIM = frozenset({"metadata", "settings", "counts", "task_counts", "answers"})
"""Fields whose keys are data: what somebody attached, names of settings, states, names of members."""

ALWAYS_LISTED = (
    "id", "subject", "state", "status", "owner", "assignee", "type", "priority", "blocked_by", "blocks", "warnings",
    "created_at", "updated_at", "claimed_at", "completed_at",
)  # fmt: skip
NEVER_LISTED = ("body", "output", "context", "evidence", "metadata", "run")


def camel(value: Any) -> Any:
    """`value` with the keys of its dictionaries in camelCase, as deep as it goes."""
    if isinstance(value, dict):
        return {_camel_key(key): item if key in VERBATIM else camel(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [camel(item) for item in value]
    return value


def brief(task: Task) -> dict[str, Any]:
    """A task in a list: without its long texts, and without fields that are empty for most tasks."""
    return {
        name: value
        for name, value in task.as_dict().items()
        if name in ALWAYS_LISTED or (name not in NEVER_LISTED and value not in (None, [], {}, 0))
    }


def _camel_key(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word.capitalize() for word in rest) if first else key
