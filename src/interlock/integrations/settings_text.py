"""Text of settings files: putting our entries in, and taking them out again.

What is put in is put in as pieces of text, so that order, indentation, line ends and comments of everything else stay.
Taking out removes the same pieces; where somebody has changed them, the entries are removed from the values instead,
and the file is written again, unless that would lose comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

MARK = "interlock join"
"""In the first and the last line of a block of ours, in files whose comments begin with `#`."""

_DECODER = json.JSONDecoder(strict=False)
_BLANK = re.compile(r"(?:\s|\ufeff|//[^\n]*|/\*.*?\*/)*", re.DOTALL)


class SettingsEntry(TypedDict):
    """An item of the list at `path` or, with `key`, a member of the object there. `sign` is a text in the command of
    ours, by which it is known when somebody has changed something else in it. `made`: what holds entries was missing,
    and goes with them once it is empty."""

    path: list[str]
    key: NotRequired[str]
    value: NotRequired[Any]
    sign: NotRequired[str]
    made: NotRequired[bool]


class Occupied(ValueError):
    """Something of somebody else is in the place of an entry of ours."""


class JsonNode:
    """A value in a JSON text: where it begins, its first child, and its members by name."""

    __slots__ = ("first", "members", "start", "value")

    def __init__(self, start: int, value: Any) -> None:
        self.start = start
        self.value = value
        self.first: int | None = None
        self.members: dict[str, JsonNode] = {}


def scan(text: str) -> JsonNode:
    """Parse a JSON text; comments and trailing commas are allowed.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        node, end = _value(text, _blank(text, 0))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if _blank(text, end) != len(text):
        raise ValueError(f"something follows the end of the JSON, at character {end}")
    return node


def _blank(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    return found.end() if found else place


def _value(text: str, place: int) -> tuple[JsonNode, int]:
    opening = text[place : place + 1]
    if opening not in ("{", "["):
        value, end = _DECODER.raw_decode(text, place)
        return JsonNode(place, value), end
    node = JsonNode(place, {} if opening == "{" else [])
    closing = "}" if opening == "{" else "]"
    place = _blank(text, place + 1)
    while text[place : place + 1] != closing:
        began, key = place, None
        node.first = place if node.first is None else node.first
        if opening == "{":
            key, place = _DECODER.raw_decode(text, place)
            place = _blank(text, place)
            if not isinstance(key, str) or text[place : place + 1] != ":":
                raise ValueError(f"a name and a colon belong at character {began}")
            place = _blank(text, place + 1)
        child, place = _value(text, place)
        if key is None:
            node.value.append(child.value)
        else:
            node.value[key] = child.value
            node.members[key] = child
        place = _blank(text, place)
        if text[place : place + 1] == ",":
            place = _blank(text, place + 1)
        elif text[place : place + 1] != closing:
            raise ValueError(f"a comma or {closing} belongs at character {place}")
    return node, place + 1


def insert(text: str, entries: Sequence[SettingsEntry]) -> tuple[str, list[SettingsEntry], list[str]]:
    """Put entries into a JSON text; the text, and what `take_out` needs: the entries and the pieces, the last first.

    Raises:
        Occupied: there is a member of that name, or no list or object where one belongs.
        ValueError: it is not a JSON object.
    """
    undo: list[SettingsEntry] = []
    pieces: list[str] = []
    if not text.strip("\ufeff \t\r\n"):
        text += "{}\n"
    for entry in entries:
        root = node = scan(text)
        if not isinstance(root.value, dict):
            raise ValueError("it must hold one JSON object")
        path, depth = entry["path"], 0
        while depth < len(path) and path[depth] in node.members:
            node, depth = node.members[path[depth]], depth + 1
        key, missing = entry.get("key"), path[depth:]
        if not isinstance(node.value, dict if missing or key is not None else list):
            kind = "an object" if missing or key is not None else "a list"
            raise Occupied(f"`{'.'.join(path[:depth])}` is not {kind}")
        value = entry["value"]
        if not missing and key is not None and key in node.value:
            raise Occupied(f"`{'.'.join([*path, key])}` is there already")
        if missing:
            value = [value] if key is None else {key: value}
            for name in reversed(missing[1:]):
                value = {name: value}
            key = missing[0]
        piece = _piece(text, root, node, key, value)
        text = text[: node.start + 1] + piece + text[node.start + 1 :]
        made: list[SettingsEntry] = [{"path": path[:length], "made": True} for length in range(len(path), depth, -1)]
        undo = [entry, *made, *undo]
        pieces.insert(0, piece)
    return text, undo, pieces


def _piece(text: str, root: JsonNode, holder: JsonNode, key: str | None, value: Any) -> str:
    """The text of a new first child of `holder`, set as its neighbours are."""
    name = "" if key is None else json.dumps(key, ensure_ascii=False) + ": "
    before = text[holder.start : holder.first]
    if "\n" not in before and (holder.first is not None or holder is not root):
        return name + json.dumps(value, ensure_ascii=False) + (", " if holder.first is not None else "")
    newline = "\r\n" if "\r\n" in text else "\n"
    line = before.rpartition("\n")[2]
    indent = line if holder.first is not None and (not line or line.isspace()) else "  "
    unit = text[: root.first].rpartition("\n")[2] if root.first is not None else "  "
    written = json.dumps(value, ensure_ascii=False, indent=unit if unit.isspace() else "  ").split("\n")
    comma = "," if holder.first is not None else "" if "\n" in before else newline
    return newline + indent + name + (newline + indent).join(written) + comma


def take_out(text: str, entries: Sequence[SettingsEntry], pieces: Sequence[str] = ()) -> str:
    """A JSON text without these entries, and without what was made to hold them and is empty now.

    Raises:
        ValueError: it is not JSON any more, or has comments and edited entries of ours.
    """
    value = scan(text).value
    wanted = json.loads(json.dumps(value))
    for entry in entries:
        _remove(wanted, entry)
    if wanted == value:
        return text
    left = text
    for piece in pieces:
        if left.count(piece) == 1:
            left = left.replace(piece, "")
    try:
        if scan(left).value == wanted:
            return left
    except ValueError:
        pass
    try:
        if pieces:
            json.loads(text.removeprefix("\ufeff"), strict=False)
    except ValueError:
        raise ValueError("our entries were edited, and writing it again would lose its comments") from None
    indent = re.search(r"\n([ \t]+)", text)
    return json.dumps(wanted, ensure_ascii=False, indent=indent[1] if indent else None) + "\n"


def _remove(value: Any, entry: SettingsEntry) -> None:
    parents = []
    for name in entry["path"]:
        if not isinstance(value, dict) or name not in value:
            return
        parents.append(value)
        value = value[name]
    if entry.get("made"):
        if value in ({}, []):
            del parents[-1][entry["path"][-1]]
        return
    sign, key = entry.get("sign"), entry.get("key")
    if key is not None:
        if isinstance(value, dict) and key in value and _is_ours(value[key], entry):
            del value[key]
        return
    for place, item in enumerate(value if isinstance(value, list) else ()):
        if _is_ours(item, entry):
            del value[place]
            return
    for group in value if sign is not None and isinstance(value, list) else ():
        hooks = group.get("hooks") if isinstance(group, dict) else None
        if isinstance(hooks, list):  # Somebody added theirs to the group that holds ours.
            hooks[:] = [hook for hook in hooks if not _signed(hook, sign)]


def _is_ours(value: Any, entry: SettingsEntry) -> bool:
    """Whether a value is what was written, or it all the same though somebody changed, say, a time limit."""
    sign = entry.get("sign")
    if value == entry["value"] or sign is None or not isinstance(value, dict):
        return bool(value == entry["value"])
    hooks = value.get("hooks")
    if isinstance(hooks, list):
        return bool(hooks) and all(_signed(hook, sign) for hook in hooks)
    return "key" in entry and _signed(value, sign)


def _signed(value: Any, sign: str | None) -> bool:
    return isinstance(value, dict) and str(sign) in json.dumps([value.get("command"), value.get("args")])


def block(text: str, lines: str) -> str:
    """What to append to a text with `#` comments, so that it ends in these lines."""
    end = "" if not text or text.endswith("\n") else "\n"
    return f"{end}# >>> {MARK}; `interlock leave` takes this out\n{lines}# <<< {MARK}\n"


def take_block(text: str, inserted: str) -> str:
    """A text without the block that was put in, or, where somebody changed it, without its marked lines."""
    if inserted in text:
        before, _, after = text.partition(inserted)
        return before + ("\n" if after and inserted.startswith("\n") else "") + after
    pattern = rf"^#[^\n]*>>> {MARK}[^\n]*\n.*?^#[^\n]*<<< {MARK}[^\n]*\n?"
    return re.sub(pattern, "", text, count=1, flags=re.DOTALL | re.MULTILINE)
