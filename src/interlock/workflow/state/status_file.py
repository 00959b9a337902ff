"""The status files that workflows keep: `bmm-workflow-status.yaml` and `sprint-status.yaml` (decision 38).

Reading flattens what is tracked to `key: status`. Writing changes one status where it stands: comments, order, quotes
and everything else stay as they are, byte for byte. A write is a double compare-and-swap (BMAD-3.3.4): the file must
be what was read, and the status what the writer expects; when the second fails the first is not kept, and what fails
for a concurrent writer is tried again, three times.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from interlock.errors import ConfigParseError, NotFound
from interlock.lazy_dataclass import dataclass
from interlock.workflow.errors import StateConflict
from interlock.workflow.package import files as package_files
from interlock.workflow.package.variables import DEFAULT_OUTPUT
from interlock.workflow.state import files

NAMES = ("bmm-workflow-status.yaml", "sprint-status.yaml")
FOLDERS = ("planning_artifacts", "output_folder", "implementation_artifacts", "sprint_artifacts")
TRACKED = ("development_status", "workflow_status")
IDS = ("id", "name", "workflow", "key")
BYTES = 2_000_000
PLAIN = re.compile(r"[A-Za-z0-9_./(][A-Za-z0-9_./()+-]*(?: [A-Za-z0-9_./()+-]+)*")
"""Statuses that need no quotes: words and file paths."""
SPECIAL = frozenset(("true", "false", "yes", "no", "on", "off", "null", "~"))


@dataclass(frozen=True)
class Place:
    """Where a status stands: its line and column, from 0."""

    status: str
    line: int
    column: int


def paths(project: str, config: Mapping[str, Any]) -> list[str]:
    """Every place where a project's config may put a status file, whether or not one is there; absolute."""
    root = os.path.realpath(project)
    folders = []
    for name in FOLDERS:
        value = config.get(name, DEFAULT_OUTPUT if name == "output_folder" else None)
        if isinstance(value, str) and value:
            for word in ("{project-root}", "{project_root}"):
                value = value.replace(word, root)
            value = value.replace("{output_folder}", str(config.get("output_folder", DEFAULT_OUTPUT)))
            folders.append(os.path.normpath(os.path.join(root, value.replace("{project-root}", root))))
    return [os.path.join(folder, name) for folder in dict.fromkeys(folders) for name in NAMES]


def read(path: str) -> dict[str, str] | None:
    """The statuses of a file; null where there is none, or it cannot be read just now (half written, say)."""
    data = files.get(path)
    if data is None or len(data) > BYTES:
        return None
    try:
        return statuses(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, ConfigParseError):
        return None


def statuses(text: str, *, unset: bool = False) -> dict[str, str]:
    """The statuses of a file's text, in their order; with `unset` also the keys without one, as "".

    Raises:
        ConfigParseError: it is not YAML.
    """
    return {key: place.status for key, place in _places(text, unset).items()}


def changed(text: str, key: str, status: str) -> str:
    """`text` with another status for `key`, and nothing else changed.

    Raises:
        ConfigParseError: it is not YAML, or cannot be written to line by line.
        NotFound: there is no such key.
    """
    place = _places(text).get(key)
    if place is None:
        raise NotFound(f"No status {key!r} in this file; nothing was written.", key=key)
    lines = text.splitlines(keepends=True)
    old = lines[place.line]
    lines[place.line] = old[: place.column] + _scalar(status) + _after_scalar(old[place.column :])
    after = "".join(lines)
    expected = {**statuses(text), key: status}
    if statuses(after) != expected:
        raise ConfigParseError(f"The status {key!r} is written in a way that cannot be changed in place.", key=key)
    return after


def write(
    path: str, key: str, status: str, *, expected: str, between: Callable[[], None] = lambda: None
) -> dict[str, str]:
    """Set a status that now is `expected`; the statuses as they are then. `between` is called after each reading.

    Raises:
        StateConflict: the status is another, or the file changed at each of three tries; nothing was written.
        ConfigParseError, NotFound, StorageError: see `changed` and `files.put`.
    """

    def with_it(text: str) -> str:
        now = statuses(text).get(key)
        if now is not None and now != expected:
            raise StateConflict(
                f"{key} is {now!r}, not {expected!r}: somebody has changed it. Read it again; nothing was written.",
                key=key,
                status=now,
            )
        return changed(text, key, status)

    # First swap: the file is still what was read. Second: it then holds the status that was meant.
    files.change(path, with_it, stands=lambda: (read(path) or {}).get(key) == status, between=between)
    return read(path) or {}


def _places(text: str, unset: bool = False) -> dict[str, Place]:
    reader = YAML(typ="rt", pure=True)
    reader.preserve_quotes = True
    try:
        whole = reader.load(text)
    except (YAMLError, ValueError, RecursionError) as error:
        raise ConfigParseError(f"The status file is not YAML: {package_files.told(error)}.") from error
    found: dict[str, Place] = {}
    if isinstance(whole, Mapping):
        for name in TRACKED:
            found |= dict(_walk(whole.get(name), unset))
    return found


def _walk(node: Any, unset: bool, depth: int = 0) -> Iterator[tuple[str, Place]]:
    """`key: status`, groups of them, or a list of items with an id and a status."""
    if depth > 4:
        return
    if isinstance(node, list):
        for item in node:
            if isinstance(item, Mapping):
                key = next((str(item[name]) for name in IDS if name in item), None)
                if key is not None and "status" in item:
                    yield key, _place(item, "status")
                else:
                    yield from _walk(item, unset, depth + 1)
    elif isinstance(node, Mapping):
        for key, value in node.items():
            if isinstance(value, Mapping) and "status" in value and not isinstance(value["status"], (Mapping, list)):
                yield str(key), _place(value, "status")
            elif isinstance(value, (Mapping, list)):
                yield from _walk(value, unset, depth + 1)
            elif value is not None or unset:
                yield str(key), _place(node, key)


def _place(node: Any, key: Any) -> Place:
    line, column = node.lc.value(key)
    return Place("" if node[key] is None else str(node[key]), line, column)


QUOTED = re.compile(r"""\A(?:'(?:[^']|'')*+'|"(?:[^"\\]|\\.)*+")""", re.DOTALL)
AFTER = re.compile(r"(?<!\s)(?:\s++#|\s*+[,}\]]|[^\S\r\n]*+[\r\n])")


def _after_scalar(rest: str) -> str:
    """What comes after the scalar that `rest` of a line begins with."""
    if rest[:1] in "'\"":
        found = QUOTED.match(rest)
        return rest[found.end() :] if found else ""
    after = AFTER.search(rest)
    return rest[after.start() :] if after else ""


def _scalar(status: str) -> str:
    if PLAIN.fullmatch(status) and status.lower() not in SPECIAL and not re.fullmatch(r"[\d.eE+-]+", status):
        return status
    return '"' + status.replace("\\", "\\\\").replace('"', '\\"') + '"'
