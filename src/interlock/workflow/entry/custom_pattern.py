"""An author's own success criteria (BMAD-1.4, FR40, decision 34).

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

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json

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
