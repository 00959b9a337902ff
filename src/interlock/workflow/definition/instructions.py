"""Instructions written as `<step n="1" goal="…">`, in .xml, in .md, and within newer SKILL.md files.

Only the .xml files are well-formed, so tags are found in the text; nothing here depends on their balance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from interlock.workflow.definition.step import Step

STEP = re.compile(r"<step\b((?:[^<>\"']++|\"[^\"]{0,500}+\"|'[^']{0,500}+')*+)>")
ATTRIBUTE = re.compile(r"(?<![\w-])([\w-]++)\s*+=\s*+(?:\"([^\"]*)\"|'([^']*)')")
TAG = re.compile(
    r"<(ask|template-output|check|invoke-workflow|invoke-task|goto)\b([^>]{0,2000})>(?:([^<]*)</\1>)?", re.DOTALL
)
SECTION = re.compile(r"^#{2,3}\s+(?:step\s+)?(\d{1,2})[.:)]?\s*[:\-–—]?\s*(.+)$", re.IGNORECASE | re.MULTILINE)
MOST = 200


@dataclass(frozen=True)
class Asked:
    """A question within a step: what the agent is told to ask."""

    text: str
    condition: str = ""


def steps_of(text: str, path: str) -> list[Step]:
    """The steps of an instructions file, in its order. A step with `if`, `optional` or `repeat` says so."""
    found = list(STEP.finditer(text))[:MOST]
    if not found:
        return []
    steps = []
    seen: set[int | str] = set()
    for match, end in zip(found, [*(one.start() for one in found[1:]), len(text)], strict=True):
        attributes = attributes_of(match[1])
        # The same number stands in the branches of some files; the second is another step all the same.
        number = _identity(attributes.get("n", ""), seen)
        seen.add(number)
        title = attributes.get("goal") or attributes.get("title") or f"Step {number}"
        optional = attributes.get("optional") == "true" or "if" in attributes
        line = text.count("\n", 0, match.start()) + 1
        steps.append(Step(number, title, path, text[match.end() : end], {}, None, line, optional, attributes))
    return steps


def sections_of(text: str, path: str, first_line: int = 1) -> list[Step]:
    """The numbered headings of a text, as steps, where it has no step tags: `### Step 1: Load`, `## 1. Load`."""
    found = list(SECTION.finditer(text))[:MOST]
    if not found:
        return []
    steps: list[Step] = []
    seen: set[int | str] = set()
    for match, end in zip(found, [*(one.start() for one in found[1:]), len(text)], strict=True):
        number = _identity(match[1], seen)
        seen.add(number)
        line = first_line + text.count("\n", 0, match.start())
        steps.append(Step(number, match[2].strip(" *"), path, text[match.end() : end], {}, None, line))
    return steps


def attributes_of(text: str) -> Mapping[str, str]:
    """The attributes of a tag."""
    return {name: double or single for name, double, single in ATTRIBUTE.findall(text)}


def asked(step: Step) -> list[Asked]:
    """What a step tells the agent to ask a human."""
    return [
        Asked(found[3].strip(), attributes_of(found[2]).get("if", ""))
        for found in TAG.finditer(step.text)
        if found[1] == "ask" and found[3] and found[3].strip()
    ]


def outputs(step: Step) -> list[str]:
    """The sections of the document that a step writes."""
    return [found[3].strip() for found in TAG.finditer(step.text) if found[1] == "template-output" and found[3]]


def _identity(number: str, seen: set[int | str]) -> int | str:
    identity: int | str = int(number) if number.isdigit() else number or len(seen) + 1
    if identity not in seen:
        return identity
    return next(name for letter in range(1, MOST + 2) if (name := f"{identity}.{letter}") not in seen)
