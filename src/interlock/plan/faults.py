"""What is wrong with a plan: the list that faults are gathered in, and the adapter that words pydantic's errors.

A place in a plan is a tuple of keys and positions, such as `("tasks", "lint", "blocked_by", 0)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from interlock.errors import PlanError
from interlock.plan.schema import (
    KEY_RULE,
    NAME_RULE,
    RESERVED,
    LimitsSection,
    MemberSection,
    PlanFile,
    Section,
    TaskSection,
    nearest,
    short,
)

Location = tuple[str | int, ...]
MOST_SHOWN = 20
MOST_FAULTS = 500


class Faults:
    """Everything that is wrong with one plan, in the order of its lines."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._found: list[dict[str, Any]] = []

    def add(self, line: int | None, message: str, **more: int) -> None:
        """Note one fault; the same one at the same line counts once."""
        fault = {"path": self.path, "line": line, **more, "message": message}
        if fault not in self._found[-MOST_SHOWN:] and len(self._found) < MOST_FAULTS:
            self._found.append(fault)

    def __bool__(self) -> bool:
        return bool(self._found)

    def error(self) -> PlanError:
        """All of it as one error."""
        faults = sorted(self._found, key=lambda fault: fault["line"] or 0)
        shown = []
        for fault in faults[:MOST_SHOWN]:
            place = [str(fault[part]) for part in ("line", "column") if fault.get(part) is not None]
            shown.append(f"  {':'.join([self.path, *place])}: {fault['message']}")
        if len(faults) > MOST_SHOWN:
            shown.append(f"  and {len(faults) - MOST_SHOWN} more")
        count = "1 error" if len(faults) == 1 else f"{len(faults)} errors"
        return PlanError("\n".join([f"{self.path} has {count}:", *shown]), errors=faults)


def named(place: Location) -> str:
    """What a place is called in messages: `retries of task "lint"`."""
    if not place:
        return "the plan"
    if len(place) <= 2 and place[0] in ("members", "tasks"):
        return str(place[0]) if len(place) == 1 else f'{str(place[0])[:-1]} "{short(str(place[1]))}"'
    if isinstance(place[-1], int):
        return named(place[:-1])
    return f"{short(place[-1])} of {named(place[:-1])}"


def described(value: object, written: str | None = None) -> str:
    """What a value is, for a message: `a list`, `the number 3`. `written` is how a scalar stands in the file."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a mapping"
    if value is None:
        return "nothing"
    shown = str(value if written is None else written)
    shown = shown if len(shown) <= 40 else shown[:39] + "…"
    if isinstance(value, bool):
        return f"the truth value {shown}"
    return f"the number {shown}" if isinstance(value, (int, float)) else f"{shown!r}"


def section_at(place: Location) -> type[Section]:
    """The model that judges the mapping at that place."""
    if place and place[-1] == "limits":
        return LimitsSection
    if len(place) == 2:
        return MemberSection if place[0] == "members" else TaskSection
    return PlanFile


def worded(error: ValidationError, texts: Mapping[Location, str]) -> Iterator[tuple[Location, str, bool]]:
    """Pydantic's errors as (place, message, whether it is an unknown key).

    Args:
        texts: what was written for scalars that are not text.
    """
    for one in error.errors(include_url=False):
        place = one["loc"]
        if place[-1] == "[key]":
            yield place, _key_words(place, one["input"]), False
            continue
        message = _words(one["type"], place, one["input"], one.get("ctx", {}), one["msg"], texts.get(place))
        yield place, message, one["type"] == "extra_forbidden"


def _key_words(place: Location, name: str) -> str:
    if name in RESERVED:
        return f'"{name}" is reserved; call that member something else'
    what = f"member name: {NAME_RULE}" if place[0] == "members" else f"task key: {KEY_RULE}"
    return f'"{short(name)}" is not a valid {what}'


def _words(
    kind: str, place: Location, value: Any, context: Mapping[str, Any], message: str, written: str | None
) -> str:
    """One of pydantic's errors as a sentence."""
    where, this = named(place), described(value, written)
    if kind == "plan":
        item = isinstance(place[-1], int)
        return f'"{short(value)}" in {where} {message}' if item else f"{where} {message}"
    if kind in ("extra_forbidden", "missing"):
        section, name, around = section_at(place[:-1]), str(place[-1]), named(place[:-1])
        if kind == "missing":
            return f"{around} has no `{name}:`. {section.model_fields[name].description}"
        names = [field.alias or key for key, field in section.model_fields.items()]
        plain = name.lower().replace("-", "_")
        meant = plain if plain in names else section.OTHER_NAMES.get(plain)
        hint = f' Did you mean "{meant}"?' if meant else nearest(name, names) or f" There are: {', '.join(names)}"
        return f'unknown key "{short(name)}" in {around}.{hint}'
    if kind in ("model_type", "dict_type"):
        if place in (("members",), ("tasks",)):
            example = "name: {agent: shell}" if place[0] == "members" else "key: {subject: …, run: …}"
            return f"{where} must be a mapping such as `{example}`; this is {this}"
        names = [field.alias or key for key, field in section_at(place).model_fields.items()]
        return f"{where} must be a mapping of {', '.join(names)}; this is {this}"
    if kind == "too_short":
        return f"a plan needs at least one {str(place[0])[:-1]}"
    if kind == "too_long":
        most = context["max_length"]
        return f"{where} has {len(value):,} entries; {most:,} are allowed"
    if kind == "list_type":
        return f"{where} must be a list, not {this}{f'; write [{short(value)}]' if isinstance(value, str) else ''}"
    if kind in ("greater_than_equal", "less_than_equal"):
        least = kind == "greater_than_equal"
        return f"{where} must be at {'least' if least else 'most'} {context['ge' if least else 'le']:g}, not {value}"
    if kind == "agent":
        return f"{where} must be {message}; this is {this}"
    if kind == "string_type" and isinstance(place[-1], int):
        return f"{where} must be a list of texts; this is {this}"
    if kind == "string_type":
        quote = "" if isinstance(value, (list, dict)) else f'; if you mean the text, quote it: "{short(written or "")}"'
        return f"{where} must be text, not {this}{quote}"
    kinds = {
        "int_type": "a whole number", "int_from_float": "a whole number", "float_type": "a number",
        "bool_type": "true or false", "duration": message,
    }  # fmt: skip
    return f"{where} must be {kinds.get(kind, message)}, not {this}"
