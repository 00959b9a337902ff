"""Validation Type Detector: by what a workflow says that it has succeeded (BMAD-1.1, 1.4, FR13, FR40).

Precedence: a custom pattern, then `validation: <path>` (a checklist file), then verdicts, error counts, check boxes.
Almost every real file has some check boxes and the word PASS somewhere, so a lone verdict word, which may be prose,
decides only where nothing better is there. An author's own success criteria (BMAD-1.4, FR40, decision 34):

    validation:
      type: custom
      success_pattern: "Quality Gate: PASSED"
      failure_pattern: "Quality Gate: FAILED"
      regex: false                              # literal text unless true

Only a mapping is read as one: `validation: <path>`, which every real workflow has, names a checklist.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.model.json import Json, fields_of
from interlock.workflow.entry import verdicts

LIMIT = 1000  # characters of one pattern
DEADLINE = 10  # seconds for one pattern over one output
FIELDS = ("success_pattern", "failure_pattern")


@dataclass(frozen=True, slots=True)
class CustomPattern:
    """Two patterns that a workflow's output is looked through for."""

    success_pattern: str
    failure_pattern: str
    regex: bool = False

    def result(self, output: str) -> str:
        """success, failure or unknown: what stands last in `output` counts, and failure where both end together.

        A regular expression that takes longer than `DEADLINE` says nothing.
        """
        good, bad = self._last(self.success_pattern, output), self._last(self.failure_pattern, output)
        if good is None and bad is None:
            return "unknown"
        if bad is None or (good is not None and good > bad):
            return "success"
        return "failure"

    def _last(self, pattern: str, output: str) -> tuple[int, int] | None:
        """Where the last match ends, and how long it is: of two that end together the longer one was meant."""
        if not self.regex:
            start = output.rfind(pattern)
            return (start + len(pattern), len(pattern)) if start >= 0 else None
        try:
            ran = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _SEARCH],
                input=json.dumps((pattern, output)).encode(),
                stdout=subprocess.PIPE,
                check=True,
                timeout=DEADLINE,
            )
        except subprocess.TimeoutExpired:
            return None
        found = json.loads(ran.stdout)
        return (found[0], found[1]) if found else None


@dataclass(frozen=True, slots=True)
class InvalidPattern:
    """Everything that is wrong with a definition."""

    failures: tuple[str, ...]

    def as_dict(self) -> Json:
        """The shape that `interlock analyze validation` shows."""
        return {
            "error": "invalid_pattern",
            "message": f"The custom validation pattern cannot be used: {'; '.join(self.failures)}.",
            "failures": list(self.failures),
        }


def register(definition: object) -> CustomPattern | InvalidPattern | None:
    """The pattern that the value of `validation:` defines; None when it defines none."""
    if not isinstance(definition, Mapping):
        return None
    if definition.get("type") != "custom":
        if not any(name in definition for name in FIELDS):
            return None
        return InvalidPattern((f"type must be custom, not {definition.get('type')!r}",))
    regex = definition.get("regex", False)
    failures = [] if isinstance(regex, bool) else [f"regex must be true or false, not {regex!r}"]
    failures += [f"{name} {wrong}" for name in FIELDS if (wrong := _wrong(definition.get(name), regex is True))]
    if not failures and definition[FIELDS[0]] == definition[FIELDS[1]]:
        failures.append("success_pattern and failure_pattern must differ")
    if failures:
        return InvalidPattern(tuple(failures))
    return CustomPattern(definition[FIELDS[0]], definition[FIELDS[1]], bool(regex))


def _wrong(value: object, regex: bool) -> str | None:
    """What is wrong with a pattern, None where it can be used."""
    if value is None:
        return "is required"
    if not isinstance(value, str):
        return f"must be text, not {value!r}"
    if not value.strip():
        return "must not be empty"
    if len(value) > LIMIT:
        return f"must have at most {LIMIT} characters"
    if not regex:
        return None
    try:
        with (
            warnings.catch_warnings()
        ):  # What future versions of Python may read differently is not ours to warn about.
            warnings.simplefilter("ignore")
            compiled = re.compile(value, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        return f"is not a regular expression: {error}"
    return "matches anything, since it matches the empty text" if compiled.match("") else None


# `re` holds the interpreter's lock while it matches, and an author's expression may backtrack for hours: it runs in a
# process of its own, which can be ended.
_SEARCH = """
import json, re, sys, warnings
warnings.simplefilter("ignore")
pattern, text = json.load(sys.stdin)
ends = ((found.end(), found.end() - found.start()) for found in re.compile(pattern, re.MULTILINE).finditer(text))
json.dump(max(ends, default=None), sys.stdout)
"""


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
