"""Instructions written as `<step n="1" goal="…">`, in .xml, in .md, and within newer SKILL.md files.

Only the .xml files are well-formed, so tags are found in the text; nothing here depends on their balance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from interlock.workflow.package.step import Step

STEP = re.compile(r"<step\b((?:[^<>\"']++|\"[^\"]{0,500}+\"|'[^']{0,500}+')*+)>")
ATTRIBUTE = re.compile(r"(?<![\w-])([\w-]++)\s*+=\s*+(?:\"([^\"]*)\"|'([^']*)')")
TAG = re.compile(
    r"<(ask|template-output|check|invoke-workflow|invoke-task|goto)\b([^>]{0,2000})>(?:([^<]*)</\1>)?", re.DOTALL
)
SECTION = re.compile(
    r"^#{2,3}\s+(?:step\s+)?(\d{1,2}(?:\.\d{1,2}(?![\d.]))?)[.:)]?\s*[:\-–—]?\s*(.+)$", re.IGNORECASE | re.MULTILINE
)
CHAPTER = re.compile(r"^#{1,2}\s", re.MULTILINE)
MOST = 200


def steps_of(text: str, path: str) -> list[Step]:
    """The steps of an instructions file, in the order of their numbers. A step with `if`, `optional` or `repeat` says
    so."""
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
    return _in_order(steps, [one.attributes.get("n", "") for one in steps], ())


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
    # `## Activation` with steps 1 to 6 is done before `## Execution` with steps 0 to 5.
    levels = [match[0].startswith("###") for match in found]
    chapters = {
        place
        for place in range(1, len(found))
        if levels[place] and CHAPTER.search(text, found[place - 1].end(), found[place].start())
    }
    return _in_order(steps, [match[1] for match in found], chapters)


def _in_order(steps: list[Step], numbers: Sequence[str], chapters: Iterable[int]) -> list[Step]:
    """In exact numerical order (0.5 before 1), as the packages' own engine demands; within a chapter, and within a
    branch: one begins where a number comes again. What has no number stays behind its predecessor."""
    keys: list[tuple[int, tuple[int, ...]]] = []
    chapter, seen = 0, set[str]()
    last: tuple[int, ...] = ()
    for place, number in enumerate(numbers):
        if place in chapters or number in seen:
            chapter, last = chapter + 1, ()
            seen.clear()
        if re.fullmatch(r"\d{1,4}(?:\.\d{1,4})?", number):
            last = tuple(int(part) for part in number.split("."))
            seen.add(number)
        keys.append((chapter, last))
    return [step for _, step in sorted(zip(keys, steps, strict=True), key=lambda one: one[0])]


def attributes_of(text: str) -> Mapping[str, str]:
    """The attributes of a tag."""
    return {name: double or single for name, double, single in ATTRIBUTE.findall(text)}


def _identity(number: str, seen: set[int | str]) -> int | str:
    identity: int | str = int(number) if number.isdigit() else number or len(seen) + 1
    if identity not in seen:
        return identity
    return next(name for letter in range(1, MOST + 2) if (name := f"{identity}.{letter}") not in seen)
