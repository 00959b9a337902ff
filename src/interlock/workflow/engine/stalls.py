"""Stalls and loops: work that repeats itself (BMAD-2b.10, 2b.12, FR19a–d, decision 31).

A stall is one validation whose result equals the one before it; a loop is a state of the controller that comes back
five times without a human in between. Stalls are handled first, so a loop is what no remedy has helped against.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.workflow.markdown import ANSI

LOOP_VISITS = 5
PARTY_ATTEMPTS = 2
FALLBACKS = ("memory_patterns", "heuristic_fixes", "template_fixes", "user_escalation")

# What differs between two runs that say the same: times, durations, the temporary directory of a test run, hashes.
VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d{1,2}:\d\d:\d\d(?:\.\d+)?\b"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|µs|s|sec|seconds)\b"), "<duration>"),
    (re.compile(r"/tmp/[\w./-]+"), "<path>"),
    (re.compile(r"\b(?:0x)?[0-9a-f]{7,64}\b", re.IGNORECASE), "<hash>"),
)
SPACE = re.compile(r"\s+")


def normalized(text: str) -> str:
    """`text` without what varies between equal runs: escapes, times, durations, white space."""
    text = ANSI.sub("", text)
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return SPACE.sub(" ", text).strip()


def output_hash(output: str) -> str:
    """SHA-256 (hex) of the normalised output."""
    return hashlib.sha256(normalized(output).encode("utf-8", "surrogatepass")).hexdigest()


def issue_hash(issues: Iterable[str | Mapping[str, Any]]) -> str:
    """SHA-256 (hex) of a set of issues: neither their order nor repetition counts."""
    one_each = sorted({_issue(issue) for issue in issues})
    return hashlib.sha256("\n".join(one_each).encode("utf-8", "surrogatepass")).hexdigest()


def validation_hash(output: str, issues: Iterable[str | Mapping[str, Any]] | None = None) -> str:
    """The hash two validations are compared by: of the issues where there are any, else of the output."""
    listed = list(issues or ())
    return issue_hash(listed) if listed else output_hash(output)


def _issue(issue: str | Mapping[str, Any]) -> str:
    if isinstance(issue, str):
        return normalized(issue).casefold()
    fields = {str(key): normalized(str(value)).casefold() for key, value in issue.items() if value is not None}
    return json.dumps(fields, sort_keys=True)


def is_stalled(previous: str | None, current: str) -> bool:
    """Whether two consecutive validations have the same hash."""
    return previous is not None and previous == current


def stall_response(attempts: int, current: str, failed_party: frozenset[str] = frozenset()) -> str:
    """What to do about a stall after `attempts` validations.

    `retry_with_memory` below two attempts, then `party_mode`, unless Party Mode has already failed on this very hash:
    then `escalate`.
    """
    if attempts < PARTY_ATTEMPTS:
        return "retry_with_memory"
    return "escalate" if current in failed_party else "party_mode"


@dataclass(frozen=True)
class Visits:
    """How often each state was seen since a human last answered."""

    counts: Mapping[str, int] = field(default_factory=dict)

    def visit(self, state: str, step: str, depth: int, output: str) -> Visits:
        """With one more visit of (controller state, step, menu depth, output)."""
        key = self.key(state, step, depth, output)
        return Visits({**self.counts, key: self.counts.get(key, 0) + 1})

    @staticmethod
    def key(state: str, step: str, depth: int, output: str) -> str:
        """The name of one state."""
        return f"{state}|{step}|{depth}|{output_hash(output)}"

    @property
    def looping(self) -> bool:
        """Whether some state was visited five times: `infinite_loop_detected`."""
        return max(self.counts.values(), default=0) >= LOOP_VISITS

    def answered(self) -> Visits:
        """After a human reply nothing counts any more."""
        return Visits()
