#!/usr/bin/env python3
"""Take out of a project's settings what `interlock join` put in.

`interlock join` lays this file, with a record and the files as they were, into `.interlock/join` of the project. There
it works without Interlock, with nothing but Python:

    python3 .interlock/join/leave.py

A file that is as `join` wrote it gets its old bytes back, or goes where there was none. From one that somebody edited
since, only the entries of `join` are taken; the rest stays as it is. By hand: `original/` holds the old files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from typing import Any

RECORD = os.path.join(".interlock", "join")
"""Where a project keeps what `join` did, from its own directory."""
MARK = "interlock join"
"""What stands in the first and the last line of a block of ours, in files that know comments."""

_DECODER = json.JSONDecoder(strict=False)
_BLANK = re.compile(r"(?:\s|\ufeff|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


class Node:
    """A value in a JSON text, and where it stands. `children` are (key or null, where the child begins, child)."""

    __slots__ = ("children", "end", "start", "value")

    def __init__(self, start: int, value: Any) -> None:
        self.start = start
        self.end = start
        self.value = value
        self.children: list[tuple[str | None, int, Node]] = []

    def child(self, key: str) -> Node | None:
        """The member of that name; of several the last, as JSON has it."""
        return next((node for name, _, node in reversed(self.children) if name == key), None)


def scan(text: str) -> Node:
    """The value of a JSON text; comments and trailing commas are allowed.

    Raises:
        ValueError: it is not one.
    """
    node, end = _value(text, blank(text, 0))
    if blank(text, end) != len(text):
        raise ValueError(f"something follows the end of the JSON, at character {end}")
    return node


def blank(text: str, place: int) -> int:
    """Where, from `place` on, the next thing stands that is neither blank nor comment."""
    found = _BLANK.match(text, place)
    return found.end() if found else place


def _value(text: str, place: int) -> tuple[Node, int]:
    opening = text[place : place + 1]
    if opening not in ("{", "["):
        value, end = _DECODER.raw_decode(text, place)
        node = Node(place, value)
        node.end = end
        return node, end
    node = Node(place, {} if opening == "{" else [])
    closing = "}" if opening == "{" else "]"
    place = blank(text, place + 1)
    while text[place : place + 1] != closing:
        began, key = place, None
        if opening == "{":
            key, place = _DECODER.raw_decode(text, place)
            place = blank(text, place)
            if not isinstance(key, str) or text[place : place + 1] != ":":
                raise ValueError(f"a name and a colon belong at character {began}")
            place = blank(text, place + 1)
        child, place = _value(text, place)
        node.children.append((key, began, child))
        if key is None:
            node.value.append(child.value)
        else:
            node.value[key] = child.value
        place = blank(text, place)
        if text[place : place + 1] == ",":
            place = blank(text, place + 1)
        elif text[place : place + 1] != closing:
            raise ValueError(f"a comma or {closing} belongs at character {place}")
    node.end = place + 1
    return node, node.end


def find(root: Node, path: list[str]) -> Node | None:
    """The value at that path of names."""
    node: Node | None = root
    for key in path:
        node = node.child(key) if node is not None else None
    return node


def take_out(text: str, entries: list[dict[str, Any]]) -> str:
    """A JSON text without these entries, and without what was made to hold them and is empty now.

    Raises:
        ValueError: it is no JSON any more.
    """
    for entry in entries:
        root = scan(text)
        holder = find(root, entry["path"])
        if holder is None:
            continue
        if "made" in entry:
            parent = find(root, entry["path"][:-1])
            if parent is not None and holder.value in ({}, []):
                text = _cut(text, parent, next(i for i, one in enumerate(parent.children) if one[2] is holder))
        else:
            text = _take_one(text, holder, entry)
    return text


def _take_one(text: str, holder: Node, entry: dict[str, Any]) -> str:
    for number, (key, _, child) in enumerate(holder.children):
        if key == entry.get("key") and (child.value == entry["value"] or _ours(child.value, entry)):
            return _cut(text, holder, number)
    if "sign" in entry:  # Somebody added theirs to the group that holds ours.
        for _, _, group in holder.children:
            hooks = group.child("hooks")
            for number, (_, _, hook) in enumerate(hooks.children if hooks is not None else ()):
                if hooks is not None and _signed(hook.value, entry["sign"]):
                    return _cut(text, hooks, number)
    return text


def _ours(value: Any, entry: dict[str, Any]) -> bool:
    """Whether a value that differs from what was written is it all the same: somebody changed a time limit."""
    sign = entry.get("sign")
    if sign is None or not isinstance(value, dict):
        return False
    hooks = value.get("hooks")
    if isinstance(hooks, list):
        return bool(hooks) and all(_signed(hook, sign) for hook in hooks)
    return "key" in entry and _signed(value, sign)


def _signed(value: Any, sign: str) -> bool:
    return isinstance(value, dict) and sign in json.dumps([value.get("command"), value.get("args")])


def _cut(text: str, holder: Node, number: int) -> str:
    """`text` without the child of that number, and without one comma; comments around it stay."""
    _, start, child = holder.children[number]
    if number > 0:
        before = holder.children[number - 1][2].end
        return text[:before] + _comments(text[before:start]) + text[child.end :]
    if len(holder.children) > 1:
        after = holder.children[1][1]
        return text[:start] + _comments(text[child.end : after]) + text[after:]
    after = blank(text, child.end)
    after = after + 1 if text[after : after + 1] == "," else child.end
    left, right = text[holder.start + 1 : start], text[after : holder.end - 1]
    inside = "" if not (left + right).strip() else left.rstrip() + right
    return text[: holder.start + 1] + inside + text[holder.end - 1 :]


def _comments(between: str) -> str:
    """What stands between two children, without the comma; nothing where there is no comment in it."""
    return between.replace(",", "", 1).rstrip() if _COMMENT.search(between) else ""


def take_block(text: str, inserted: str) -> str:
    """A text without the block that was put in, or, where somebody changed it, without its marked lines."""
    if inserted in text:
        before, _, after = text.partition(inserted)
        return before + ("\n" if after and inserted.startswith("\n") else "") + after
    pattern = rf"^#[^\n]*>>> {MARK}[^\n]*\n.*?^#[^\n]*<<< {MARK}[^\n]*\n?"
    return re.sub(pattern, "", text, count=1, flags=re.DOTALL | re.MULTILINE)


def without(data: bytes, file: dict[str, Any], original: bytes | None) -> bytes | None:
    """What a file is to hold once our entries are out of it; null where it is to go.

    Raises:
        ValueError: it cannot be read any more.
    """
    lost = original is None and file["original"] is not None
    if hashlib.sha256(data).hexdigest() == file["sha256"] and not lost:
        return original
    text = data.decode("utf-8")
    before = None if original is None else original.decode("utf-8")
    if file["kind"] == "json":
        left = take_out(text, file["entries"])
        nothing = scan(left).value == {}
        same = before is not None and scan(left).value == (scan(before).value if before.strip() else {})
    else:
        left = take_block(text, file["inserted"])
        nothing = not left.strip()
        same = before is not None and left.rstrip() == before.rstrip()
    if nothing and file["original"] is None:
        return None
    return original if same else left.encode("utf-8")


def write(path: str, data: bytes, mode: int | None) -> None:
    """Put `data` at `path` in one step.

    Raises:
        OSError: the file system refuses; the file is as it was.
    """
    unfinished = f"{path}.{os.getpid()}.tmp"
    try:
        with open(unfinished, "wb") as file:
            file.write(data)
        if mode is not None:
            os.chmod(unfinished, mode)
        os.replace(unfinished, path)
    except OSError:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
        raise


def read(path: str) -> bytes | None:
    """The content of a file; null where there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def original_of(project: str, file: dict[str, Any]) -> bytes | None:
    """What the file held before `join`; null where there was none, or the copy is lost."""
    return None if file["original"] is None else read(os.path.join(project, RECORD, file["original"]))


def give_back(project: str, file: dict[str, Any]) -> str:
    """Take our entries out of one file of the record; what was done, in a word.

    Raises:
        ValueError: the file cannot be read any more. OSError: the file system refuses.
    """
    path = os.path.join(project, file["path"])
    data = read(path)
    if data is None:
        return "gone"
    original = original_of(project, file)
    left = without(data, file, original)
    if left is None:
        os.unlink(path)
        for directory in file["directories"]:
            if not os.listdir(os.path.join(project, directory)):
                os.rmdir(os.path.join(project, directory))
        return "removed"
    if left != data:
        write(path, left, os.stat(path).st_mode & 0o7777)
    return "restored" if left == original else "entries taken out" if left != data else "nothing of ours in it"


def load(project: str) -> dict[str, Any]:
    """The record of a project: by program, what was put where; empty where nothing was.

    Raises:
        ValueError: it cannot be read.
    """
    data = read(os.path.join(project, RECORD, "record.json"))
    programs = {} if data is None else json.loads(data)["programs"]
    if not isinstance(programs, dict):
        raise ValueError("no programs in it")
    return programs


def leave(project: str, programs: list[str] | None = None) -> list[tuple[str, str, str]]:
    """Give the files of these programs back, or of all; (program, path, what was done).

    What cannot be given back stays in the record, so that it can be tried again.

    Raises:
        ValueError: the record cannot be read. OSError: the file system refuses.
    """
    record = load(project)
    done = []
    # The last that came goes first: its files may stand on those of the one before.
    for program in [one for one in reversed(list(record)) if programs is None or one in programs]:
        kept: list[dict[str, Any]] = []
        for file in reversed(record[program]["files"]):
            try:
                what = give_back(project, file)
            except ValueError as error:
                what = f"left as it is, since it cannot be read ({error}); take out the entries of interlock by hand"
                kept.insert(0, file)
            else:
                _forget(project, record, program, file)
            done.append((program, file["path"], what))
        if kept:
            record[program]["files"] = kept
        else:
            del record[program]
    save(project, record)
    return done


def _forget(project: str, record: dict[str, Any], program: str, file: dict[str, Any]) -> None:
    """What another program found in the same file is not the file as it was: it held our block."""
    for other in record:
        for one in record[other]["files"]:
            if other != program and one["path"] == file["path"] and file["kind"] == "block" and one["original"]:
                kept = os.path.join(project, RECORD, one["original"])
                data = read(kept)
                if data is not None:
                    write(kept, data.replace(file["inserted"].encode("utf-8"), b"", 1), None)


def save(project: str, record: dict[str, Any]) -> None:
    """Write the record; without a program in it, remove it with all that belongs to it.

    Raises:
        OSError: the file system refuses.
    """
    directory = os.path.join(project, RECORD)
    if record:
        text = json.dumps({"version": 1, "programs": record}, indent=2, ensure_ascii=False) + "\n"
        write(os.path.join(directory, "record.json"), text.encode("utf-8"), 0o600)
        return
    for folder, folders, names in os.walk(directory, topdown=False):
        for name in names:
            os.unlink(os.path.join(folder, name))
        for name in folders:
            os.rmdir(os.path.join(folder, name))
    if os.path.isdir(directory):
        os.rmdir(directory)
        above = os.path.dirname(directory)
        if not os.listdir(above):
            os.rmdir(above)


def main() -> None:
    """What `python3 .interlock/join/leave.py [PROGRAM …]` does."""
    project = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for program, path, what in leave(project, sys.argv[1:] or None):
        print(f"{program}: {path}: {what}")


if __name__ == "__main__":
    main()
