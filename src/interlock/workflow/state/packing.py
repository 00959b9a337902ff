"""How the row of a run holds the snapshots of its checkpoints: each as what differs from the one after it, the newest
from the state itself. Whole, they are ten copies of the state's history, written again with every prompt.

A row from before this has whole ones, which are read as they are. What cannot be read is null, which a rollback refuses
as damaged. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SNAPSHOT = "state_snapshot"
PACKED = "differs_from_the_next"
"""Marks a packed snapshot; its value is by field how to get there: `is`, `set` and `gone`, or `front` and `then`."""


def packed(document: Mapping[str, Any]) -> dict[str, Any]:
    """A state's document as its row holds it."""
    found: list[Any] = []
    after: Mapping[str, Any] | None = document
    for one in reversed(document["checkpoints"]):
        snapshot = one.get(SNAPSHOT)
        found.append(
            one if after is None or not isinstance(snapshot, Mapping) else _with(one, _packed(snapshot, after))
        )
        after = snapshot if isinstance(snapshot, Mapping) else None
    return {**document, "checkpoints": found[::-1]}


def unpacked(document: Mapping[str, Any]) -> dict[str, Any]:
    """The reverse. Whatever is damaged is left for whoever reads the document to notice."""
    checkpoints = document.get("checkpoints")
    if not isinstance(checkpoints, list):
        return dict(document)
    found: list[Any] = []
    after: Mapping[str, Any] | None = document
    for one in reversed(checkpoints):
        snapshot = one.get(SNAPSHOT) if isinstance(one, Mapping) else None
        if isinstance(snapshot, Mapping) and PACKED in snapshot:
            snapshot = None if after is None else _unpacked(snapshot, after)
            one = _with(one, snapshot)
        found.append(one)
        after = snapshot if isinstance(snapshot, Mapping) else None
    return {**document, "checkpoints": found[::-1]}


def _with(checkpoint: Mapping[str, Any], snapshot: Any) -> dict[str, Any]:
    return {**checkpoint, SNAPSHOT: snapshot}


def _packed(snapshot: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    ways = {name: way for name, value in snapshot.items() if (way := _way(value, after.get(name))) is not None}
    return {PACKED: ways, "fields": list(snapshot)}


def _unpacked(short: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        ways = short[PACKED]
        return {name: _value(ways.get(name, {}), after.get(name)) for name in short["fields"]}
    except (TypeError, AttributeError, KeyError):
        return None


def _way(value: Any, after: Any) -> dict[str, Any] | None:
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


def _value(way: Mapping[str, Any], after: Any) -> Any:
    """Nothing of it is shared with the later value: the state's goes on changing."""
    if "is" in way:
        return way["is"]
    if "set" in way:
        others = {key: _copy(one) for key, one in after.items() if key not in way["set"]}
        found = {key: way["set"].get(key, others.get(key)) for key in after if key not in way["gone"]}
        return {**found, **way["set"]}
    if "then" in way:
        return [*way["front"], *_copy(after[: way["then"]])]
    return _copy(after)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_copy(one) for one in value]
    return value
