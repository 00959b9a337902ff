"""How the ledger keeps a run's state: a small row, and an entry for each thing that the run has collected. Pure.

A prompt writes the row and the entries that it changes, so it costs the same at the end of a long run as at its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count, groupby
from json import JSONEncoder, loads
from operator import attrgetter, itemgetter
from typing import Any

from interlock.model.json import Json
from interlock.model.workflow import WorkflowEntry

COLLECTED = (
    *("decisions", "checkpoints", "asked", "learned", "menu_history", "rollbacks", "subagents"),
    *("steps", "loops", "written", "step_names", "hooks/steps"),
)
"""Where entries belong in the document, beside the rounds of each examination; lists or mappings."""

Entries = dict[str, dict[str, tuple[int, Any]]]
"""The entries of a run by kind and key: the place of each among those of its kind, and its value."""

as_json = JSONEncoder(ensure_ascii=False).encode


def split(document: Json) -> tuple[Json, Json]:
    """Return a state's document without what it has collected, and that by kind; `document` is not changed."""
    rest, parts = dict(document), Json()
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


def read(entries: Iterable[WorkflowEntry]) -> Entries:
    """Return what the ledger holds."""
    found: Entries = {}
    for one in entries:
        found.setdefault(one.kind, {})[one.key] = one.n, loads(one.document)
    return found


def placed(before: Entries, parts: Mapping[str, Any]) -> Entries:
    """Return the entries of `parts`; those that were there before keep their places."""
    return {kind: _placed(before.get(kind, {}), found) for kind, found in parts.items()}


def changes(before: Entries, after: Entries) -> tuple[list[WorkflowEntry], list[tuple[str, str]]]:
    """Return the entries to be written, so that `before` becomes `after`, and what is to be removed."""
    written = [
        WorkflowEntry(kind, key, one[0], as_json(one[1]))
        for kind, found in after.items()
        for key, one in found.items()
        if before.get(kind, {}).get(key) != one
    ]
    return written, [(kind, key) for kind, found in before.items() for key in found if key not in after.get(kind, {})]


def whole(rest: Mapping[str, Any], entries: Iterable[WorkflowEntry]) -> Json:
    """Return the document that `split` took apart. What is damaged is left for its reader to notice."""
    document = dict(rest)
    for kind, found in groupby(entries, key=attrgetter("kind")):
        *way, name = kind.split("/")
        place: Any = document
        for one in way:
            place = place.get(one) if isinstance(place, dict) else None
        if isinstance(place, dict):
            values = [(one.key, loads(one.document)) for one in found]
            place[name] = dict(values) if isinstance(place.get(name), dict) else [value for _, value in values]
    return document


def _placed(before: Mapping[str, tuple[int, Any]], found: Any) -> dict[str, tuple[int, Any]]:
    if isinstance(found, dict):
        following = count(1 + max(before.values(), key=itemgetter(0), default=(0, None))[0])
        return {key: (before[key][0] if key in before else next(following), value) for key, value in found.items()}
    # A list grows at its end; one that is limited loses its first entries, and the others keep their numbers.
    first = min(before.values(), key=itemgetter(0), default=(1, None))[0]
    for n, value in before.values():
        if value == found[0]:
            first = n
            break
    return {str(n): (n, value) for n, value in enumerate(found, first)}
