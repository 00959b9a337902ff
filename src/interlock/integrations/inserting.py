"""Putting entries into the text of a settings file. Everything else in it stays as it is: order, indentation, line
ends, comments. What was put in is answered as entries that `restore.take_out` understands."""

from __future__ import annotations

import json
import re
from typing import Any

from interlock.integrations.restore import MARK, Node, blank, find, scan

_TRAILING = re.compile(r"[ \t]*(//[^\n\r]*|/\*[^\n\r]*?\*/)?")


class Occupied(ValueError):
    """Something of somebody else stands where an entry of ours belongs."""


def insert(text: str, entries: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Put entries into a JSON text: `{"path", "value"}` is an item of the list there, with `"key"` a member of the
    object there. Answers the text and the entries to take out again, the last first.

    Raises:
        Occupied: there is a member of that name, or no list or object where one belongs.
        ValueError: it is no JSON object.
    """
    undo: list[dict[str, Any]] = []
    if not text.strip("\ufeff \t\r\n"):
        text += "{}\n"
    for entry in entries:
        text, made = _insert(text, entry)
        undo = [entry, *({"path": path, "made": True} for path in reversed(made)), *undo]
    return text, undo


def block(text: str, lines: str) -> str:
    """What to append to a text that knows comments by `#`, so that it ends in these lines."""
    end = "" if not text or text.endswith("\n") else "\n"
    return f"{end}# >>> {MARK}; `interlock leave` takes this out\n{lines}# <<< {MARK}\n"


def _insert(text: str, entry: dict[str, Any]) -> tuple[str, list[list[str]]]:
    root = scan(text)
    if not isinstance(root.value, dict):
        raise ValueError("it must hold one JSON object")
    path = entry["path"]
    depth = next((length for length in range(len(path), -1, -1) if find(root, path[:length]) is not None), 0)
    holder = find(root, path[:depth])
    assert holder is not None
    wanted = list if depth == len(path) and "key" not in entry else dict
    if not isinstance(holder.value, wanted):
        kind = "a list" if wanted is list else "an object"
        raise Occupied(f"`{'.'.join(path[:depth])}` is not {kind}")
    value, key = entry["value"], entry.get("key")
    if depth == len(path):
        if key is not None and key in holder.value:
            raise Occupied(f"`{'.'.join([*path, key])}` is there already")
        return _place(text, root, holder, key, value), []
    value = [value] if key is None else {key: value}
    for name in reversed(path[depth + 1 :]):
        value = {name: value}
    made = [path[:length] for length in range(depth + 1, len(path) + 1)]
    return _place(text, root, holder, path[depth], value), made


def _place(text: str, root: Node, holder: Node, key: str | None, value: Any) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _unit(text, root)
    own = _indent(text, holder.start)
    inside = text[holder.start + 1 : holder.end - 1]
    if holder.children:
        first, last = holder.children[0][1], holder.children[-1][2].end
        if "\n" not in text[holder.start : first]:
            return text[:last] + _comma(text, last) + " " + _written(key, value, None) + _after_comma(text, last)
        written = _written(key, value, unit, text[_line(text, first) : first], newline)
        comma = _comma(text, last)
        rest = _after_comma(text, last)
        note = _TRAILING.match(rest)
        kept = rest[: note.end()] if note is not None and note[1] else ""
        return text[:last] + comma + kept + newline + written + rest[len(kept) :]
    if "\n" not in text.strip() and holder is not root:
        return text[: holder.start + 1] + _written(key, value, None) + text[holder.end - 1 :]
    written = _written(key, value, unit, own + unit, newline)
    return text[: holder.start + 1] + inside.rstrip() + newline + written + newline + own + text[holder.end - 1 :]


def _comma(text: str, last: int) -> str:
    """The comma after the last child, with what stands before one that is there already."""
    place = blank(text, last)
    return text[last : place + 1] if text[place : place + 1] == "," else ","


def _after_comma(text: str, last: int) -> str:
    place = blank(text, last)
    return text[place + 1 :] if text[place : place + 1] == "," else text[last:]


def _written(key: str | None, value: Any, unit: str | None, indent: str = "", newline: str = "\n") -> str:
    name = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    if unit is None:
        return name + json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=unit).split("\n")
    return indent + name + (newline + indent).join(lines)


def _unit(text: str, root: Node) -> str:
    """By how much each level is set in, as the root's first member shows."""
    if not root.children or "\n" not in text[root.start : root.children[0][1]]:
        return "  "
    first = root.children[0][1]
    return text[_line(text, first) : first] if text[_line(text, first) : first].isspace() else "  "


def _indent(text: str, place: int) -> str:
    line = text[_line(text, place) : place]
    return line[: len(line) - len(line.lstrip())]


def _line(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1
