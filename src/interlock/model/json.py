"""JSON whose form is not ours to know: task metadata, event payloads, unknown fields of AOF messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


def fields_of(value: object, names: Iterable[str]) -> Json:
    """Those fields of `value`, in that order; `to=recipient` shows the field `recipient` as `to`."""
    return {name.partition("=")[0]: getattr(value, name.rpartition("=")[2]) for name in names}
