"""Reading a package's files: bounded, tolerant of encodings, each at most once for one package.

Settings that authors write in YAML: a whole file, or the frontmatter of a Markdown file.

Reading never raises: what cannot be parsed is a `Fault` with its line, beside whatever could be read. Real packages
ship a few broken frontmatters, and one of them must not take the workflow down (BMAD-2a.6).
"""

from __future__ import annotations

import csv
import datetime
import io
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

from interlock.lazy_dataclass import dataclass

FENCE = "---"
SETTINGS_LIMIT = 1_000_000  # characters of YAML read; the largest real workflow.yaml has 9,000
DEPTH = 60  # levels of nesting; a real one has 6
REMEMBERED = 20_000  # characters of YAML whose values are remembered, of the last 500 texts


@dataclass(frozen=True)
class Fault:
    """Why settings could not be read; `line` counts from 1 in the file, `column` too."""

    message: str
    line: int
    column: int = 1

    def as_error(self) -> dict[str, Any]:
        """The shape in which it is shown."""
        return {
            "error": "config_parse_error",
            "message": f"Line {self.line}: {self.message}",
            "line": self.line,
            "details": self.message,
        }


@dataclass(frozen=True)
class FileSettings:
    """What an author set, and the text below it.

    `present` tells an empty frontmatter from none; `body_line` is the file's line on which `body` starts.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    body: str = ""
    body_line: int = 1
    present: bool = False
    fault: Fault | None = None


def read(text: str, name: str = "workflow.md") -> FileSettings:
    """The settings of a file with that `name`: all of a `.yaml`, the frontmatter of anything else."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if name.lower().endswith((".yaml", ".yml")):
        values, fault = parse(text)
        return FileSettings(values, "", 1, True, fault)
    lines = text.split("\n")
    if lines[0].rstrip() != FENCE:
        return FileSettings(body=text)
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in (FENCE, "..."):
            values, fault = parse("\n".join(lines[1:number]), first_line=2)
            return FileSettings(values, "\n".join(lines[number + 1 :]), number + 2, True, fault)
    if len(lines) > 1 and lines[1].partition(":")[1] and not lines[1].startswith((" ", "#")):
        fault = Fault("the frontmatter that starts here is never closed; end it with a line of three dashes", 1)
        return FileSettings(body=text, present=True, fault=fault)
    return FileSettings(body=text)  # a Markdown file that begins with a rule


def parse(text: str, first_line: int = 1, *, lenient: bool = False) -> tuple[dict[str, Any], Fault | None]:
    """`text` as a YAML mapping of plain values, and what was wrong with it. Dates become text.

    `lenient` lets a key be set twice (the first value stays).
    """
    if len(text) > SETTINGS_LIMIT:
        return {}, Fault(f"more than {SETTINGS_LIMIT:,} characters of settings; move the prose below them", first_line)
    if len(text) > REMEMBERED:
        return _parsed(text, first_line, lenient)
    values, fault = _remembered(text, first_line, lenient)
    return _plain(values), fault


def _parsed(text: str, first_line: int, lenient: bool) -> tuple[dict[str, Any], Fault | None]:
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    reader = YAML(typ="safe", pure=True)
    reader.max_depth = DEPTH
    reader.allow_duplicate_keys = lenient
    try:
        found = _plain(reader.load(text))
    except DuplicateKeyError as error:
        # A real step says the same thing twice, which is harmless; two different values are not.
        value, same, original = str(error.problem).partition(' with value "')[2].partition('" (original value: "')
        values, fault = parse(text, first_line, lenient=True)
        if fault or (same and value == original.rpartition('")')[0]):
            return values, fault
        return values, Fault(_problem(error), first_line + (error.problem_mark.line if error.problem_mark else 0))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = first_line + (mark.line if mark else 0)
        return {}, Fault(_problem(error), line, (mark.column + 1) if mark else 1)
    except YAMLError as error:
        return {}, Fault(str(error).splitlines()[0], first_line)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, AssertionError) as error:
        # The reader lets some of its own conversions escape: a thirteenth month, an integer of the wrong base.
        return {}, Fault(f"a value cannot be read: {error}", first_line)
    except RecursionError:
        return {}, Fault(f"nested deeper than {DEPTH} levels", first_line)
    if found is None:
        return {}, None
    if not isinstance(found, dict):
        kind = "a list" if isinstance(found, list) else f"one value ({str(found)[:40]!r})"
        return {}, Fault(f"settings must be `key: value` lines, not {kind}", first_line)
    return found, None


_remembered = lru_cache(500)(_parsed)
"""A run reads its package and settings at every turn, and nearly always finds what it found before."""


def line_of(text: str, keys: Sequence[str | int], name: str = "workflow.md") -> int:
    """The line of a file, from 1, on which the setting stands that `keys` lead to; of the nearest one above it where
    there is none of that name."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    first = 1
    if not name.lower().endswith((".yaml", ".yml")):
        end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() in (FENCE, "...")), len(lines))
        lines, first = lines[1:end], 2
    try:
        node = YAML(typ="safe", pure=True).compose("\n".join(lines))
    except (YAMLError, ValueError, RecursionError):
        return first
    line = first
    for key in keys:
        value: Any = getattr(node, "value", None)
        if isinstance(key, int):
            node = value[key] if isinstance(value, list) and key < len(value) else None
        else:
            pairs = [one for one in value if isinstance(one, tuple)] if isinstance(value, list) else []
            found = next((one for one in pairs if str(one[0].value) == str(key)), None)
            line = first + found[0].start_mark.line if found else line
            node = found[1] if found else None
        if node is None:
            return line
        line = line if isinstance(key, str) else first + node.start_mark.line
    return line


def told(error: Exception) -> str:
    """Why a file cannot be read, and where it is not YAML on which line."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}: {_problem(error)}" if mark else str(error).splitlines()[0].removesuffix(".")


def _problem(error: Any) -> str:
    parts = [str(part).strip() for part in (error.context, error.problem) if part]
    return ", ".join(dict.fromkeys(parts)) or "not valid YAML"


def _plain(value: Any, depth: int = 0) -> Any:
    """Only what JSON knows. An alias that leads back to itself ends here, as nesting."""
    if depth > DEPTH:
        raise RecursionError
    if isinstance(value, dict):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, depth + 1) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    return str(value)


LIMIT = 2_000_000  # bytes of one file; the largest real one has 90,000


class Files:
    """The files below one directory, kept once they were read. Paths are absolute or relative to it."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self._texts: dict[str, str | None] = {}
        self._settings: dict[str, FileSettings] = {}

    def path(self, path: str) -> str:
        """The absolute path, without `..`."""
        return os.path.normpath(os.path.join(self.root, path))

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return os.path.isfile(self.path(path))

    def text(self, path: str) -> str | None:
        """The text of a file; None where there is none, it cannot be read, or it is far too large."""
        whole = self.path(path)
        if whole not in self._texts:
            self._texts[whole] = _read(whole)
        return self._texts[whole]

    def settings(self, path: str) -> FileSettings:
        """The settings of a file; an absent one has none."""
        whole = self.path(path)
        if whole not in self._settings:
            self._settings[whole] = read(self.text(whole) or "", os.path.basename(whole))
        return self._settings[whole]

    def rows(self, path: str) -> list[dict[str, str]]:
        """The rows of a CSV file with a heading; rows that lack columns are left out."""
        text = self.text(path)
        if not text:
            return []
        try:
            return [
                {str(key): value for key, value in row.items() if isinstance(value, str)}
                for row in csv.DictReader(io.StringIO(text, newline=""))
                if None not in row.values()
            ]
        except csv.Error:
            return []

    def toml(self, path: str) -> Mapping[str, Any]:
        """The tables of a TOML file; an absent or broken one has none."""
        try:
            return tomllib.loads(self.text(path) or "")
        except tomllib.TOMLDecodeError:
            return {}


def _read(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            content = file.read(LIMIT + 1)
    except OSError:
        return None
    if len(content) > LIMIT:
        return None
    return content.decode("utf-8-sig", "replace")
