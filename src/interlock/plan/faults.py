"""What is wrong with a plan: the list that faults are gathered in, and the adapter that words pydantic's errors.

A place in a plan is a tuple of keys and positions, such as `("tasks", "lint", "blocked_by", 0)`.

YAML text as plain data, with the line of every piece beside it.

ruamel.yaml is loaded here, when a plan is really read. What aliases unfold to is bounded, so a small file cannot become
a large one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from interlock.errors import PlanError
from interlock.lazy_dataclass import dataclass
from interlock.plan.schema import (
    KEY_RULE,
    NAME_RULE,
    RESERVED,
    LimitsSection,
    MemberSection,
    PlanFile,
    Section,
    TaskSection,
    descriptions,
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

    def add(self, line: int | None, message: str, *, path: str | None = None, **more: int) -> None:
        """Note one fault, of another file where one is named; the same one at the same line counts once."""
        fault = {"path": path or self.path, "line": line, **more, "message": message}
        if fault not in self._found[-MOST_SHOWN:] and len(self._found) < MOST_FAULTS:
            self._found.append(fault)

    def __bool__(self) -> bool:
        return bool(self._found)

    def error(self) -> PlanError:
        """All of it as one error."""
        faults = sorted(self._found, key=lambda fault: (fault["path"], fault["line"] or 0))
        shown = []
        for fault in faults[:MOST_SHOWN]:
            place = [str(fault[part]) for part in ("line", "column") if fault.get(part) is not None]
            shown.append(f"  {':'.join([str(fault['path']), *place])}: {fault['message']}")
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


def meant(section: type[Section], name: str) -> str | None:
    """The key of that section that somebody may have meant with a name that is none."""
    names, plain = _names(section), name.lower().replace("-", "_")
    known = plain if plain in names else section.OTHER_NAMES.get(plain)
    return known or next(iter(get_close_matches(name, names, n=1)), None)


def _names(section: type[Section]) -> list[str]:
    return [field.alias or key for key, field in section.model_fields.items()]


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
            what = descriptions(section)[name]
            return f"{around} has no `{name}:` ({what[0].lower()}{what[1:].rstrip('.')})"
        known = meant(section, name)
        hint = f'Did you mean "{known}"?' if known else f"There are: {', '.join(_names(section))}"
        return f'unknown key "{short(name)}" in {around}. {hint}'
    if kind in ("model_type", "dict_type"):
        if place in (("members",), ("tasks",)):
            example = "name: {agent: shell}" if place[0] == "members" else "key: {subject: …, run: …}"
            return f"{where} must be a mapping such as `{example}`; this is {this}"
        return f"{where} must be a mapping of {', '.join(_names(section_at(place)))}; this is {this}"
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


MOST_PIECES = 100_000
DEEPEST = 30
TOO_DEEP = f"lists and mappings are nested too deeply; a plan needs no more than {DEEPEST} levels"
LONGEST_NUMBER = 50
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Foreign:
    """A scalar that is none of the kinds that plans know, such as a date or a number beyond all use."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True)
class YamlDocument:
    """The data of a file. `lines` has the line of every piece; `texts` what was written for those scalars that are no
    text; `empty` the places with nothing in them, which are faults and are left out of `data`."""

    data: Any = None
    lines: dict[Location, int] = field(default_factory=dict)
    texts: dict[Location, str] = field(default_factory=dict)
    empty: set[Location] = field(default_factory=set)

    def line(self, place: Location) -> int:
        """Where that place is, or the nearest around it that has a line."""
        while place not in self.lines:
            place = place[:-1]
        return self.lines[place]


class _Unreadable(Exception):
    """The file is not read to its end."""

    def __init__(self, line: int | None, message: str) -> None:
        self.line = line
        self.message = message


def read_yaml(text: str, faults: Faults) -> YamlDocument | None:
    """The document in `text`, or None with the reason added to `faults`."""
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import Composer
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    class BoundedComposer(Composer):
        """Gives up early on a file of countless small pieces, which would take long to compose."""

        pieces = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.pieces += 1
            if self.pieces > MOST_PIECES:
                message = f"the plan has more than {MOST_PIECES:,} pieces; divide the work into several plans"
                raise _Unreadable(None, message)
            return super().compose_node(parent, index)

    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = BoundedComposer
    document = YamlDocument()
    try:
        root = yaml.compose(text)
        if root is not None:
            document.data = _Conversion(document, faults).convert(root, ())
        return document
    except _Unreadable as error:
        faults.add(error.line, error.message)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(str(part) for part in (error.context, error.problem) if part)
        place = {"column": mark.column + 1} if mark else {}
        faults.add(mark.line + 1 if mark else None, f"this is not YAML: {said}", **place)
    except YAMLError as error:
        position = getattr(error, "position", 0)
        before = text[:position] if isinstance(position, int) else ""
        column = len(before) - (before.rfind("\n") + 1) + 1
        faults.add(before.count("\n") + 1, "this is not YAML: invalid character", column=column)
    except RecursionError:
        faults.add(1, TOO_DEEP)
    except (ValueError, OverflowError, AssertionError) as error:
        # ruamel.yaml lets a few malformed escapes and numbers through to Python's own conversions.
        faults.add(None, f"this is not YAML: {error}. Look for an escape such as \\U........ in a quoted text")
    return None


class _Conversion:
    """One walk over ruamel's tree; what an alias names is walked once for each alias."""

    def __init__(self, document: YamlDocument, faults: Faults) -> None:
        self._document = document
        self._faults = faults
        self._pieces = 0
        self._open: list[int] = []

    def convert(self, node: Any, place: Location) -> Any:
        line = node.start_mark.line + 1
        self._document.lines.setdefault(place, line)
        self._pieces += 1
        if self._pieces > MOST_PIECES:
            raise _Unreadable(1, f"with its aliases the plan unfolds to more than {MOST_PIECES:,} pieces")
        if isinstance(node.value, str):
            return self._scalar(node, place)
        if id(node) in self._open:
            raise _Unreadable(line, f"the alias *{node.anchor} is inside what it names; write it out")
        if len(self._open) > DEEPEST:
            raise _Unreadable(line, TOO_DEEP)
        self._open.append(id(node))
        if str(node.tag) == _TAG + "map" or (node.value and isinstance(node.value[0], tuple)):
            value: Any = self._mapping(node, place)
        else:
            value = [self.convert(item, (*place, index)) for index, item in enumerate(node.value)]
        self._open.pop()
        return value

    def _mapping(self, node: Any, place: Location) -> dict[str, Any]:
        found: dict[str, Any] = {}
        lines = self._document.lines
        for key, value in node.value:
            line, name = key.start_mark.line + 1, key.value
            inside = (*place, name) if isinstance(name, str) else place
            if not isinstance(name, str):
                kind = "mapping" if str(key.tag) == _TAG + "map" else "list"
                self._faults.add(line, f"a key of {named(place)} must be a name, not a {kind}")
            elif name == "<<":
                self._faults.add(line, f'"<<" in {named(place)}: plans have no merge keys; write the fields out')
            elif inside in lines:
                what = (
                    named(inside) if place in (("members",), ("tasks",)) else f'key "{short(name)}" in {named(place)}'
                )
                self._faults.add(line, f"duplicate {what} (first on line {lines[inside]})")
            else:
                lines[inside] = line
                found[name] = self.convert(value, inside)
                if str(value.tag) == _TAG + "null" and place not in (("members",), ("tasks",)):
                    del found[name]
                    self._document.empty.add(inside)
                    self._faults.add(line, f"{named(inside)} is empty: give it a value or remove the line")
        return found

    def _scalar(self, node: Any, place: Location) -> Any:
        text, kind = node.value, str(node.tag).removeprefix(_TAG)
        if kind == "str":
            return text
        self._document.texts[place] = text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        if kind in ("int", "float") and len(text) <= LONGEST_NUMBER:
            written = text.replace("_", "")
            try:
                if kind == "int":
                    return int(written, 10 if written.lstrip("+-").isdigit() else 0)
                if math.isfinite(number := float(written)):
                    return number
            except ValueError:
                pass
        return Foreign(text)
