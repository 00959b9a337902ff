"""The published JSON Schema of a plan, made from the table of fields that the reader uses.

It says what a single place may hold. What places must agree on (names that exist, no circles, shell members for
`run`) is the reader's to check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.plan.fields import DURATION, LONGEST_DURATION, PLAN, PROGRAM_FORMS, RESERVED, Field


def json_schema() -> dict[str, Any]:
    """The schema, draft 2020-12; a new dict at each call."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Interlock plan",
        "description": "A team of agents and the tasks it is to carry out, run by `interlock run PLAN.yaml`.",
        **_mapping(PLAN),
    }


def _mapping(fields: Sequence[Field]) -> dict[str, Any]:
    required = [row.name for row in fields if row.required]
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {row.name: {"description": row.help, **_value(row)} for row in fields},
        **({"required": required} if required else {}),
    }


def _value(row: Field) -> dict[str, Any]:
    if row.kind in ("integer", "number"):
        return {"type": row.kind, **_bounds(row, "minimum", "maximum")}
    if row.kind == "truth":
        return {"type": "boolean"}
    if row.kind == "duration":
        number = {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_DURATION}
        return {"anyOf": [number, {"type": "string", "pattern": f"^{DURATION}$"}]}
    if row.kind == "verify":
        return {"anyOf": [_text(row), {"const": False}]}
    if row.kind == "texts":
        return {"type": "array", "items": _text(row), **_bounds(row, "minItems", "maxItems")}
    if row.kind == "agent":
        name = {"type": "string", "pattern": f"^{row.pattern}$", "not": {"enum": list(PROGRAM_FORMS)}}
        return {"anyOf": [name, *_PROGRAMS]}
    if row.kind == "mapping":
        return _mapping(row.fields)
    if row.kind == "named":
        return _named(row)
    return _text(row)


def _program(form: str, help: str) -> dict[str, Any]:
    words = {
        "description": help,
        "type": "array",
        "items": {"type": ["string", "number", "boolean"]},
        "minItems": 1,
        "maxItems": 1000,
    }
    return {"type": "object", "additionalProperties": False, "properties": {form: words}, "required": [form]}


_PROGRAMS = [
    _program("command", "The program and its arguments; the prompt comes on its standard input."),
    _program("acp", "A program that speaks the Agent Client Protocol on its standard input and output."),
]


def _text(row: Field) -> dict[str, Any]:
    if row.choices:
        return {"enum": list(row.choices)}
    schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": row.longest}
    if row.pattern:
        schema["pattern"] = f"^{row.pattern}$"
    return schema


def _named(row: Field) -> dict[str, Any]:
    names: dict[str, Any] = {"pattern": f"^{row.pattern}$"}
    if row.name == "members":
        names["not"] = {"enum": list(RESERVED)}
    each = _mapping(row.fields)
    if row.name == "tasks":
        each["anyOf"] = [{"required": ["subject"]}, {"required": ["run"]}]
    bounds = _bounds(row, "minProperties", "maxProperties")
    return {"type": "object", "propertyNames": names, "additionalProperties": each, **bounds}


def _bounds(row: Field, least: str, most: str) -> dict[str, Any]:
    found = {least: row.least, most: row.most}
    return {name: int(bound) for name, bound in found.items() if bound is not None}
