"""Pieces of a plan file turned into values, by the rows of the field table. Whatever does not fit becomes a fault."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from interlock.plan.fields import AGENT_RULE, DURATION, LONGEST_DURATION, PROGRAM_FORMS, RESERVED, Field
from interlock.plan.nodes import Faults, Node

_MEANT = {"text": "text", "line": "text", "verify": "text", "integer": "a whole number", "number": "a number"}
_MANY_ARGUMENTS = 1000


@dataclass(slots=True)
class Entry:
    """What stood in one mapping: sound values by key, and the line of every known key, sound or not.

    With an `unknown` key in it, what seems to be missing may just be misspelt.
    """

    line: int
    unknown: bool = False
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of that key, or `default` where it is absent or was at fault."""
        return self.values.get(name, default)

    def line_of(self, name: str) -> int:
        """Where that key stands, or else where the mapping begins."""
        return self.lines.get(name, self.line)

    def faulty(self, name: str) -> bool:
        """The key is there, but its value was refused: what depends on it cannot be judged."""
        return name in self.lines and name not in self.values


def nearest(word: str, names: Iterable[str]) -> str:
    """` Did you mean "x"?` with a space in front, or nothing when no name is near."""
    near = get_close_matches(word, list(names), n=1)
    return f' Did you mean "{near[0]}"?' if near else ""


def fits(pattern: str, text: str) -> bool:
    """The whole of `text` follows `pattern`."""
    return re.fullmatch(pattern, text) is not None


def seconds(text: str) -> float | None:
    """The length in seconds of a time such as `30s`, `10m`, `1h` or `1h30m`; null when it is none."""
    if not fits(DURATION, text):
        return None
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([0-9.]+)([hms])", text))


class Reader:
    """Reads mappings by a table of fields; `faults` gathers what is wrong."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def entry(self, node: Node, fields: Sequence[Field], where: str) -> Entry:
        """The fields of the mapping `node`; `where` names it in messages, as in `task "lint"`."""
        entry = Entry(node.line)
        if node.kind != "mapping":
            names = ", ".join(row.name for row in fields)
            self._faults.add(node.line, f"{where} must be a mapping of {names}; this is {node.described}")
            return entry
        by_name = {row.name: row for row in fields}
        for name, key, value in self._pairs(node, where):
            row = by_name.get(name)
            if row is None:
                entry.unknown = True
                self._faults.add(key.line, f'unknown key "{_short(name)}" in {where}.{_hint(name, fields)}')
                continue
            entry.lines[name] = key.line
            sound = self.value(value, row, f"{row.name} of {where}", key.line)
            if sound is not None:
                entry.values[name] = sound
        for row in fields:
            if row.required and row.name not in entry.lines:
                self._faults.add(node.line, f"{where} has no {row.name}. {row.help}")
        return entry

    def value(self, node: Node, row: Field, where: str, line: int) -> Any:
        """The value of `row` in `node`, or null with the reason among the faults."""
        if node.kind == "empty":
            self._faults.add(line, f"{where} is empty: give it a value or remove the line")
            return None
        if row.kind in ("text", "line", "verify"):
            return self._text(node, row, where)
        if row.kind == "truth":
            if node.kind != "boolean":
                self._faults.add(node.line, f"{where} must be true or false, not {node.described}")
                return None
            return node.text.lower() == "true"
        if row.kind in ("integer", "number"):
            return self._number(node, row, where)
        if row.kind == "duration":
            return self._duration(node, where)
        if row.kind == "texts":
            return self._texts(node, row, where)
        if row.kind == "agent":
            return self._agent(node, row, where)
        if row.kind == "mapping":
            return self.entry(node, row.fields, where)
        return self._named(node, row)

    def _pairs(self, node: Node, where: str) -> Iterable[tuple[str, Node, Node]]:
        first: dict[str, int] = {}
        for key, value in node.pairs:
            if key.kind in ("list", "mapping"):
                self._faults.add(key.line, f"a key of {where} must be a name, not {key.described}")
            elif key.text == "<<":
                self._faults.add(key.line, f'"<<" in {where}: plans have no merge keys; write the fields out')
            elif key.text in first:
                again = f'"{_short(key.text)}" stands twice in {where}, first in line {first[key.text]}; keep one'
                self._faults.add(key.line, again)
            else:
                first[key.text] = key.line
                yield key.text, key, value

    def _text(self, node: Node, row: Field, where: str) -> str | bool | None:
        if row.kind == "verify" and node.kind == "boolean" and node.text.lower() == "false":
            return False
        if node.kind != "text":
            quote = "" if node.kind in ("list", "mapping") else f'; if it is meant so, write "{_short(node.text)}"'
            self._faults.add(node.line, f"{where} must be text, not {node.described}{quote}")
            return None
        complaint = _complaint(node.text, row)
        if complaint:
            self._faults.add(node.line, f"{where} {complaint}")
            return None
        return node.text

    def _number(self, node: Node, row: Field, where: str) -> int | float | None:
        number = _parsed(node) if node.kind in ("integer", "number") else None
        if number is None or (row.kind == "integer" and not isinstance(number, int)):
            self._faults.add(node.line, f"{where} must be {_MEANT[row.kind]}, not {node.described}")
            return None
        if row.least is not None and number < row.least:
            self._faults.add(node.line, f"{where} must be at least {row.least:g}, not {_short(node.text)}")
            return None
        if row.most is not None and number > row.most:
            self._faults.add(node.line, f"{where} must be at most {row.most:g}, not {_short(node.text)}")
            return None
        return number

    def _duration(self, node: Node, where: str) -> float | None:
        length: float | None = None
        if node.kind in ("integer", "number"):
            length = _parsed(node)
        elif node.kind == "text" and len(node.text) < 50:
            length = seconds(node.text)
        if length is None:
            example = "a time such as 30s, 10m or 1h, or a number of seconds"
            self._faults.add(node.line, f"{where} must be {example}, not {node.described}")
            return None
        if not 0 < length <= LONGEST_DURATION:
            self._faults.add(node.line, f"{where} must be more than nothing and at most 720h, not {_short(node.text)}")
            return None
        return float(length)

    def _texts(self, node: Node, row: Field, where: str) -> tuple[str, ...] | None:
        if node.kind != "list":
            hint = f"; write [{_short(node.text)}]" if node.kind == "text" else ""
            self._faults.add(node.line, f"{where} must be a list, not {node.described}{hint}")
            return None
        if row.most is not None and len(node.items) > row.most:
            self._faults.add(node.line, f"{where} has {len(node.items)} entries; {row.most:g} are allowed")
            return None
        found: list[str] = []
        for item in node.items:
            if item.kind != "text":
                self._faults.add(item.line, f"{where} must be a list of texts; this is {item.described}")
                continue
            complaint = _complaint(item.text, row)
            if complaint:
                self._faults.add(item.line, f'"{_short(item.text)}" in {where} {complaint}')
            elif item.text not in found:
                found.append(item.text)
        return tuple(found)

    def _agent(self, node: Node, row: Field, where: str) -> str | tuple[str, tuple[str, ...]] | None:
        """A name, or how a program is spoken to with the program and its arguments."""
        if node.kind == "mapping":
            pairs = [(name, value) for name, _, value in self._pairs(node, where)]
            if len(pairs) == 1 and pairs[0][0] in PROGRAM_FORMS and pairs[0][1].kind == "list" and pairs[0][1].items:
                words = self._command(pairs[0][1], where)
                return None if words is None else (pairs[0][0], words)
        elif node.kind == "text":
            if node.text in PROGRAM_FORMS:
                self._faults.add(node.line, f"{where} must say which: {{{node.text}: [program, argument, ...]}}")
                return None
            if fits(row.pattern or "", node.text):
                return node.text
        self._faults.add(node.line, f"{where} must be {AGENT_RULE}; this is {node.described}")
        return None

    def _command(self, words: Node, where: str) -> tuple[str, ...] | None:
        rule = Field("command", "text", "")
        if len(words.items) > _MANY_ARGUMENTS:
            self._faults.add(words.line, f"the command in {where} has more than {_MANY_ARGUMENTS} words")
            return None
        for place, word in enumerate(words.items):
            if word.kind in ("list", "mapping", "empty"):
                self._faults.add(word.line, f"the command in {where} is a list of words; this is {word.described}")
                return None
            complaint = _complaint(word.text, rule) if word.text or place == 0 else None
            if complaint:
                self._faults.add(word.line, f"a word of the command in {where} {complaint}")
                return None
        return tuple(word.text for word in words.items)

    def _named(self, node: Node, row: Field) -> dict[str, Entry] | None:
        one = row.name.removesuffix("s")
        if node.kind != "mapping":
            example = "name: {agent: shell}" if one == "member" else "key: {subject: …, run: …}"
            self._faults.add(node.line, f"{row.name} must be a mapping such as `{example}`; this is {node.described}")
            return None
        if not node.pairs:
            self._faults.add(node.line, f"a plan needs at least one {one}")
            return None
        if row.most is not None and len(node.pairs) > row.most:
            self._faults.add(node.line, f"{len(node.pairs)} {row.name}; {row.most:g} are allowed in one plan")
            return None
        found: dict[str, Entry] = {}
        for name, key, value in self._pairs(node, row.name):
            if not fits(row.pattern or "", name):
                what = "name" if one == "member" else "key"
                self._faults.add(key.line, f'"{_short(name)}" is no {what} for a {one}: {row.rule}')
            elif one == "member" and name in RESERVED:
                self._faults.add(key.line, f'"{name}" is reserved; call that member something else')
            entry = self.entry(_at(value, key.line), row.fields, f'{one} "{_short(name)}"')
            entry.line = key.line
            found[name] = entry
        return found


def _at(node: Node, line: int) -> Node:
    """The same piece, standing where its key does, so that what is missing from it is reported there."""
    return Node(node.kind, line, node.text, node.items, node.pairs, node.pieces)


def _complaint(text: str, row: Field) -> str | None:
    """Why `text` cannot stand for `row`, as the end of a sentence; null when it can."""
    if not text.strip():
        return "is blank: give it a value or remove it"
    if len(text) > row.longest:
        return f"is {len(text):,} characters long; {row.longest:,} are allowed"
    for character in text:
        if character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cs"):
            return f"contains the control character U+{ord(character):04X}; remove it"
    if row.kind != "text" and row.kind != "verify" and "\n" in text:
        return "must be one line"
    if row.choices and text not in row.choices:
        return f'must be one of: {", ".join(row.choices)}; not "{_short(text)}".{nearest(text, row.choices)}'
    if row.pattern and not fits(row.pattern, text):
        return f'must be {row.rule}; not "{_short(text)}"'
    return None


def _parsed(node: Node) -> int | float | None:
    """The number as written, or null for one that is none in practice (`.inf`, `.nan`, thousands of digits)."""
    written = node.text.replace("_", "")
    if len(written) > 50:
        return None
    try:
        number = int(written, 10 if written.lstrip("+-").isdigit() else 0) if node.kind == "integer" else float(written)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _hint(name: str, fields: Sequence[Field]) -> str:
    """What an unknown key was probably meant to be, or else what there is."""
    plain = name.lower().replace("-", "_")
    for row in fields:
        if plain == row.name or plain in row.other_names:
            return f' Did you mean "{row.name}"?'
    return nearest(name, [row.name for row in fields]) or f" There are: {', '.join(row.name for row in fields)}"
