"""What a project's own `.gitignore` leaves out: enough of its rules to tell the author's code from what tools made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

RULES = 500  # read of one file
RANGE = re.compile(r"[A-Za-z0-9]-[A-Za-z0-9]")


@dataclass(frozen=True)
class Rule:
    """One line of a `.gitignore`, for paths below the directory that holds it."""

    below: str
    pattern: re.Pattern[str]
    keep: bool
    directories_only: bool

    def matches(self, path: str, directory: bool) -> bool:
        """Whether it speaks about `path`, which is written from the project's root with slashes."""
        if self.directories_only and not directory:
            return False
        if self.below and not path.startswith(self.below):
            return False
        return self.pattern.fullmatch(path[len(self.below) :]) is not None


def rules(text: str, below: str = "") -> list[Rule]:
    """The rules of one file; `below` is its directory, "" or ending with a slash."""
    return [rule for line in text.splitlines()[:RULES] if (rule := _rule(line, below))]


def ignored(path: str, directory: bool, known: Sequence[Rule]) -> bool:
    """Whether `path` is left out. The last rule that matches decides."""
    for rule in reversed(known):
        if rule.matches(path, directory):
            return not rule.keep
    return False


def _rule(line: str, below: str) -> Rule | None:
    line = line.rstrip("\r")
    line = line if line.endswith("\\ ") else line.rstrip(" ")
    if not line or line.startswith("#") or len(line) > 200:
        return None
    keep = line.startswith("!")
    line = line[1:] if keep else line
    directories_only = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    anchored = "/" in line
    pattern = "".join(_translate(line.lstrip("/")))
    return Rule(below, re.compile(pattern if anchored else f"(?:.*/)?{pattern}"), keep, directories_only)


def _translate(glob: str) -> Iterable[str]:
    position = 0
    while position < len(glob):
        if glob.startswith("**/", position):
            yield "(?:.*/)?"
            position += 3
        elif glob.startswith("**", position):
            yield ".*"
            position += 2
        elif glob[position] == "*":
            yield "[^/]*"
            position += 1
        elif glob[position] == "?":
            yield "[^/]"
            position += 1
        elif glob[position] == "[" and (end := glob.find("]", position + 2)) > 0:
            yield _class(glob[position + 1 : end])
            position = end + 1
        else:
            yield re.escape(glob[position + 1] if glob[position] == "\\" and glob[position + 1 :] else glob[position])
            position += 2 if glob[position] == "\\" and glob[position + 1 :] else 1


def _class(inside: str) -> str:
    """A bracketed class; only ranges between letters or digits are ranges, everything else stands for itself."""
    negated = inside[0] in "!^"
    characters = inside[1:] if negated else inside
    ranges = [one for one in RANGE.findall(characters) if one[0] <= one[2]]
    literal = RANGE.sub("", characters)
    members = "".join([*ranges, *(re.escape(one) for one in literal)])
    if not members:
        return re.escape(f"[{inside}]")
    return f"[{'^' if negated else ''}{members}]"
