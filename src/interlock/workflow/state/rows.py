"""How the ledger keeps a run's state: a small row, and an entry for each thing that the run has collected. Pure.

A prompt writes the row and the entries that it changes, so it costs the same at the end of a long run as at its start.

A checkpoint's entry holds its snapshot of the state as what differs from the one after it, the newest from the state
itself: whole, each would repeat the history before it. A snapshot that cannot be read is null, which a rollback refuses
as damaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from json import JSONEncoder, loads
from typing import Any

from interlock.model.json import Json
from interlock.model.workflow import WorkflowEntry

COLLECTED = (
    *("decisions", "checkpoints", "asked", "learned", "menu_history", "rollbacks", "subagents"),
    *("steps", "loops", "written", "step_names", "hooks/steps"),
)
"""Where entries belong in the document, beside the rounds of each examination; lists or mappings."""

_as_json = JSONEncoder(ensure_ascii=False).encode


def split(document: Json) -> tuple[Json, Json]:
    """Return a state's document without what it has collected, and that by kind; `document` is not changed."""
    rest, parts = packed(document), Json()
    rounds = (f"examinations/{name}/rounds" for name in document.get("examinations", ()))
    for kind in (*COLLECTED[:-1], *(COLLECTED[-1:] if "hooks" in document else ()), *rounds):
        *way, name = kind.split("/")
        place = rest
        for one in way:  # copied on the way: the document is the caller's
            place[one] = dict(place[one])
            place = place[one]
        if place.get(name):
            parts[kind], place[name] = place[name], type(place[name])()
    return rest, parts


def changes(
    known: Iterable[WorkflowEntry], parts: Mapping[str, Any]
) -> tuple[list[WorkflowEntry], set[tuple[str, str]]]:
    """Return the entries to be written, so that `known` become those of `parts`, and what is to be removed."""
    old = {kind: list(entries) for kind, entries in groupby(known, key=lambda one: one.kind)}
    before = {(one.kind, one.key): one for entries in old.values() for one in entries}
    after = {
        (one.kind, one.key): one for kind, found in parts.items() for one in _entries(kind, found, old.get(kind, []))
    }
    return [one for key, one in after.items() if before.get(key) != one], before.keys() - after.keys()


def whole(rest: Mapping[str, Any], entries: Iterable[WorkflowEntry]) -> Json:
    """Return the document that `split` took apart. What is damaged is left for its reader to notice."""
    document = dict(rest)
    for kind, found in groupby(entries, key=lambda one: one.kind):
        *way, name = kind.split("/")
        place: Any = document
        for one in way:
            place = place.get(one) if isinstance(place, dict) else None
        if isinstance(place, dict):
            values = [(one.key, loads(one.document)) for one in found]
            place[name] = dict(values) if isinstance(place.get(name), dict) else [value for _, value in values]
    return unpacked(document)


def _entries(kind: str, found: Any, old: Sequence[WorkflowEntry]) -> Iterator[WorkflowEntry]:
    following = old[-1].n + 1 if old else 1
    if isinstance(found, dict):
        places = {one.key: one.n for one in old}
        for key, value in found.items():
            if key not in places:
                places[key], following = following, following + 1
            yield WorkflowEntry(kind, key, places[key], _as_json(value))
        return
    # A list grows at its end; one that is limited loses its first entries, and the others keep their numbers.
    texts = [_as_json(value) for value in found]
    first = next((one.n for one in old if one.document == texts[0]), old[0].n if old else 1)
    for n, text in enumerate(texts, first):
        yield WorkflowEntry(kind, str(n), n, text)


SNAPSHOT = "state_snapshot"
PACKED = "differs_from_the_next"
"""Marks a packed snapshot; its value is by field how to get there: `is`, `set` and `gone`, or `front` and `then`."""


def packed(document: Mapping[str, Any]) -> Json:
    """A state's document as its row holds it."""
    found: list[Any] = []
    after: Mapping[str, Any] | None = document
    for one in reversed(document["checkpoints"]):
        snapshot = one.get(SNAPSHOT)
        if after is not None and isinstance(snapshot, Mapping):
            ways = {name: way for name, value in snapshot.items() if (way := _way(value, after.get(name))) is not None}
            one = {**one, SNAPSHOT: {PACKED: ways, "fields": list(snapshot)}}
        found.append(one)
        after = snapshot if isinstance(snapshot, Mapping) else None
    return {**document, "checkpoints": found[::-1]}


def unpacked(document: Mapping[str, Any]) -> Json:
    """The reverse. Whatever is damaged is left for whoever reads the document to notice."""
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


def _way(value: Any, after: Any) -> Json | None:
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
