"""YAML text as plain data, with the line of every piece beside it.

ruamel.yaml is loaded here, when a plan is really read. What aliases unfold to is bounded, so a small file cannot become
a large one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from interlock.plan.faults import Faults, Location, named
from interlock.plan.schema import short

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
