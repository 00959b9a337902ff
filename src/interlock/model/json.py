"""JSON whose form is not ours to know: task metadata, event payloads, unknown fields of AOF messages."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

Json = dict[str, Any]


def fields_of(value: object, names: Iterable[str]) -> Json:
    """Those fields of `value`, in that order; `to=recipient` shows the field `recipient` as `to`."""
    return {name.partition("=")[0]: getattr(value, name.rpartition("=")[2]) for name in names}


def json_form(value: object) -> Any:
    """What stands for a value of ours in JSON: its `as_dict()`, else its fields; bytes as base64; for anything else its
    text."""
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode()
    if hasattr(value, "as_dict"):
        return value.as_dict()
    return fields_of(value, (one.name for one in fields(value))) if is_dataclass(value) else str(value)
