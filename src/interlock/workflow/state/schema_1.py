"""Reads the states of workflow runs that Interlock 0.1 wrote. Pure.

There a checkpoint held its snapshot of the state itself, as what differed from the one after it, the newest from the
state; now it lies in the checkpoint's commit (`snapshots`). A snapshot that cannot be read is null, which a rollback
refuses as damaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from interlock.model.json import Json

VERSION = 1
SNAPSHOT = "state_snapshot"
PACKED = "differs_from_the_next"
"""Marks a packed snapshot; its value is by field how to get there: `is`, `set` and `gone`, or `front` and `then`."""


def read(document: Mapping[str, Any]) -> Json:
    """A state's document with its snapshots whole. Whatever is damaged is left for whoever reads the document to
    notice."""
    checkpoints = document.get("checkpoints")
    if not isinstance(checkpoints, list):
        return dict(document)
    found: list[Any] = []
    after: Mapping[str, Any] | None = document
    for one in reversed(checkpoints):
        snapshot = one.get(SNAPSHOT) if isinstance(one, Mapping) else None
        if isinstance(snapshot, Mapping) and PACKED in snapshot:
            try:
                ways, names = snapshot[PACKED], snapshot["fields"]
                whole = {name: _value(ways.get(name, {}), after.get(name)) for name in names} if after else None
            except (TypeError, AttributeError, KeyError):
                whole = None
            snapshot, one = whole, {**one, SNAPSHOT: whole}
        found.append(one)
        after = snapshot if isinstance(snapshot, Mapping) else None
    return {**document, "checkpoints": found[::-1]}


def _value(way: Mapping[str, Any], after: Any) -> Any:
    """Nothing of it is shared with the later value: the state's goes on changing."""
    if "is" in way:
        return way["is"]
    if "set" in way:
        found = {key: way["set"].get(key, deepcopy(one)) for key, one in after.items() if key not in way["gone"]}
        return {**found, **way["set"]}
    if "then" in way:
        return [*way["front"], *deepcopy(after[: way["then"]])]
    return deepcopy(after)
