"""Workflow Entry Wrapper: which workflow a message asks for (BMAD-2a.1, FR1).

Three generations of packages write the same thing in three ways:

    /bmad:bmm:workflows:dev-story        module, type and name
    /bmad-bmm-dev-story                  the same, flat; agents are /bmad-agent-bmm-dev
    /bmad-dev-story                      a skill; its module is known to the manifest only

A message invokes at most one workflow: the first that is written as a word of its own. Within code, a quotation or
backticks an invocation is only mentioned; a template (`/bmad:bmm:workflows:{{next}}`) is none at all.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from interlock.workflow import markdown

TYPES = ("workflows", "agents", "tasks", "tools")
MODULES = ("core", "bmm", "bmb", "bmgd", "cis", "gds", "tea")
EXAMPLES = (
    "/bmad:bmm:workflows:dev-story",
    "/bmad:core:workflows:brainstorming",
    "/bmad:bmm:agents:dev",
    "/bmad-bmm-dev-story",
)

COLON = re.compile(r"(?<![^\s(\[\"'])/bmad:(\S*)", re.IGNORECASE)
FLAT = re.compile(r"(?<![^\s(\[\"'])/bmad-([a-z0-9][a-z0-9-]*+)(?![\w/:{]|\.\w)", re.IGNORECASE)
MODULE = re.compile(r"[a-z][a-z0-9_-]*")
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
TRAILING = ".,;:!?)]\"'*_"


@dataclass(frozen=True)
class Invocation:
    """A workflow, agent, task or tool that was asked for. `module` is None where only the manifest knows it."""

    module: str | None
    type: str
    name: str
    text: str
    arguments: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The shape that `interlock analyze skill` shows."""
        return {
            "detected": True,
            "module": self.module,
            "type": self.type,
            "name": self.name,
            "arguments": self.arguments,
        }


@dataclass(frozen=True)
class Malformed:
    """Something that begins like an invocation and is none."""

    text: str
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """The shape that `interlock analyze skill` shows."""
        return {
            "detected": False,
            "error": "invalid_skill_path",
            "message": f"{self.text!r} {self.reason}. Write it like {EXAMPLES[0]}.",
            "examples": list(EXAMPLES),
        }


def detect(message: str, names: Collection[tuple[str, str, str]] = ()) -> Invocation | Malformed | None:
    """The invocation in `message`, if there is one.

    `names` are the (module, type, name) that are installed; with them a name may contain spaces ("Meal Prep &
    Nutrition Plan"), and the longest that fits is taken.
    """
    # Blanks before all that is said are nobody's code block.
    message = message.strip()
    said = _blanked(message)
    colon, flat = _first_real(COLON, said), FLAT.search(said)
    if colon and not (flat and flat.start() < colon.start()):
        return _colon(message, colon, names)
    return _flat(message, flat) if flat else None


def _blanked(message: str) -> str:
    """The message with the same length, and blanks for what it only shows."""
    shown = []
    for raw, line in zip(message.splitlines(keepends=True), _kinds(message), strict=False):
        shown.append(raw if line == markdown.TEXT else " " * len(raw))
    blank = "".join(shown)
    parts, done = [], 0
    for start, end, _ in markdown.code_spans(blank):
        parts += [blank[done:start], " " * (end - start)]
        done = end
    return "".join([*parts, blank[done:]])


def _kinds(message: str) -> list[str]:
    # Cut at the very line ends by which the message is cut above, so that the two lists run side by side.
    return [line.kind for line in markdown.lines("\n".join(message.splitlines()))]


def _first_real(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The first match that is not a template's placeholder."""
    return next((found for found in pattern.finditer(text) if not re.search(r"[{}<>*]", found[1])), None)


def _colon(message: str, found: re.Match[str], names: Collection[tuple[str, str, str]]) -> Invocation | Malformed:
    start, rest = found.start(), message[found.start(1) :]
    path = found[1].rstrip(TRAILING)
    shown = f"/bmad:{path}"
    parts = path.split(":")
    if len(parts) != 3:
        return Malformed(shown, "does not have the three parts module, type and name")
    module, kind, name = parts[0].lower(), parts[1].lower(), parts[2]
    if not MODULE.fullmatch(module):
        return Malformed(shown, f"has no module name in its first part ({parts[0]!r})")
    if kind not in TYPES:
        return Malformed(shown, f"has {parts[1]!r} where one of {', '.join(TYPES)} must stand")
    if not NAME.fullmatch(name):
        return Malformed(shown, f"has no name in its last part ({name!r})")
    lead = len(parts[0]) + len(parts[1]) + 2
    after = rest[lead:]
    fits = [one for known, type_, one in names if (known, type_) == (module, kind) and _starts_with_name(after, one)]
    name = max(fits, key=len, default=name)
    end = found.start(1) + lead + len(name)
    return Invocation(module, kind, name, message[start:end], _arguments(message, end))


def _starts_with_name(text: str, name: str) -> bool:
    return text.startswith(name) and (len(text) == len(name) or not re.match(r"[\w-]", text[len(name)]))


def _flat(message: str, found: re.Match[str]) -> Invocation:
    words = found[1].lower().rstrip("-").split("-")
    kind, module = "workflows", None
    if words[0] == "agent" and len(words) > 1:
        kind, words = "agents", words[1:]
    if words[0] in MODULES and len(words) > 1:
        module, words = words[0], words[1:]
    end = found.end()
    return Invocation(module, kind, "-".join(words), message[found.start() : end], _arguments(message, end))


def _arguments(message: str, end: int) -> str:
    return message[end:].lstrip(TRAILING).strip()
