"""Validation Type Detector: by what a workflow says that it has succeeded (BMAD-1.1, FR13).

Precedence: a custom pattern, then `validation: <path>` (a checklist file), then verdicts, error counts, check boxes.
Almost every real file has some check boxes and the word PASS somewhere, so a lone verdict word, which may be prose,
decides only where nothing better is there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, fields_of
from interlock.workflow.entry import verdicts
from interlock.workflow.entry.custom_pattern import CustomPattern, InvalidPattern, register

CUSTOM, VERDICT, ERROR, CHECKLIST, UNKNOWN = "custom", "verdict-based", "error-based", "checklist-based", "unknown"

PAIRS = (("PASS", "FAIL"), ("PASSED", "FAILED"), ("APPROVED", "REJECTED"))
# `500 errors` is not `0 errors`, nor is `5.0 errors`.
NO_ERRORS = re.compile(
    r"(?<![\w.,-])(?:0|zero|no)\s+(?:\w+\s+)?(?:errors?|issues?|failures?|violations?|warnings?)\b", re.IGNORECASE
)
COUNTED = re.compile(
    r"(?<![\w.,-])(\d{1,3}(?:,\d{3}){1,3}|\d{1,9}|no|zero)\s+(?:\w+\s+)?(error|issue|failure|violation)s?\b"
    r"|\b(error|issue|failure|violation)s?(?:\s+(?:found|count))?\s*[:=]\s*\**(\d{1,9})\b",
    re.IGNORECASE,
)
BOX = re.compile(r"^[ \t>]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?\[([ xX])\](?![(\[:])", re.MULTILINE)
STATUS_BOX = re.compile(r"<status>((?:(?!<status>).)*?)</status>", re.DOTALL)
INNER_BOX = re.compile(r"\[([ xX])\]")


@dataclass(frozen=True, slots=True)
class ValidationType:
    """The type, the patterns that show it, and what a given output says by it (None: no output was given)."""

    validation_type: str
    patterns: tuple[str, ...] = ()
    checkbox_count: int = 0
    confidence: int = 0
    custom: CustomPattern | None = None
    result: str | None = None

    def as_dict(self) -> Json:
        """The shape that `interlock analyze validation` shows."""
        shown = fields_of(self, ("validation_type", "checkbox_count", "confidence", "result"))
        return {**shown, "patterns": list(self.patterns)}


def detect(settings: Mapping[str, Any], body: str, checklist: str | None = None) -> ValidationType | InvalidPattern:
    """The validation type of a workflow with these settings and that text.

    `checklist` is the text of the file that `validation:` names, None when it names none or is not there.
    """
    validation = settings.get("validation")
    custom = register(validation)
    if isinstance(custom, InvalidPattern):
        return custom
    boxes = checkboxes(body)
    if custom:
        patterns = (custom.success_pattern, custom.failure_pattern)
        return ValidationType(CUSTOM, patterns, len(boxes), 100, custom)
    if isinstance(validation, str) and validation.strip():
        # An absent checklist is still a checklist by declaration, but what it asks for is not known.
        count = len(checkboxes(checklist or ""))
        return ValidationType(CHECKLIST, (validation.strip(),), count, 95 if checklist is not None else 60)
    return _built_in(body, len(boxes))


def _built_in(body: str, boxes: int) -> ValidationType:
    choices, words, verdict = verdicts.choices(body), verdicts.words(body), verdicts.read(body)
    pairs = [f"{good}/{bad}" for good, bad in PAIRS if good in words and bad in words]
    errors = list(dict.fromkeys(re.sub(r"\s+", " ", found[0]) for found in NO_ERRORS.finditer(body)))
    alone = sorted(word for word in words if word not in verdicts.QUIET) or ([verdict.word] if verdict else [])
    ways = (
        (VERDICT, choices, 95),
        (VERDICT, pairs, 80),
        (ERROR, errors[:20], 90),
        (CHECKLIST, ["[ ]"] if boxes else [], 90 if boxes >= 3 else 70),
        (VERDICT, alone, 60),
    )
    shown = next((ValidationType(kind, tuple(found), boxes, sure) for kind, found, sure in ways if found), None)
    return shown or ValidationType(UNKNOWN)


def checkboxes(text: str) -> list[bool]:
    """Every check box of `text`, True where it is ticked: list items, and those within `<status>`."""
    found = [match[1] in "xX" for match in BOX.finditer(STATUS_BOX.sub("", text))]
    for status in STATUS_BOX.finditer(text):
        found += [match[1] in "xX" for match in INNER_BOX.finditer(status[1])]
    return found


def judge(detected: ValidationType, output: str) -> str:
    """What `output` says by that type: success, failure, partial or unknown."""
    if detected.custom:
        return detected.custom.result(output)
    if detected.validation_type == VERDICT:
        verdict = verdicts.read(output)
        return verdict.outcome if verdict else "unknown"
    if detected.validation_type == ERROR:
        counts: dict[str, int] = {}
        for found in COUNTED.finditer(output):
            number = (found[1] or found[4]).lower()
            counts[(found[2] or found[3]).lower()] = 0 if number in ("no", "zero") else int(number.replace(",", ""))
        return "unknown" if not counts else "failure" if any(counts.values()) else "success"
    if detected.validation_type == CHECKLIST:
        boxes = checkboxes(output)
        return "unknown" if not boxes else "success" if all(boxes) else "failure"
    return "unknown"
