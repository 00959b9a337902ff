"""What a human chose at a menu before, and what fixed a failure (decision 28: remembered answers raise 60 to 85).

A choice is remembered by its label, for a menu of a workflow's step: letters change between versions, words stay.
Memory may be out of reach: then nothing is remembered, and the menu goes its ordinary way.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence

from interlock.memory import Memory, MemoryStore, MemoryUnavailable, shortened
from interlock.workflow.menu.options import Option

CHOICE, FIX = "menu_choice", "fix_pattern"
SIGNATURE_CHARS = 400


class DecisionMemory:
    """Of one project; `log` gets what went wrong (reason, operation)."""

    def __init__(self, memory: MemoryStore, project_id: str, log: Callable[[str, str], None] = lambda *_: None) -> None:
        self._memory = memory
        self._project = project_id
        self._log = log

    def remembered(self, skill: str, step: str, options: Sequence[Option]) -> str | None:
        """The key of the option that a human chose last at this menu of that step; null where none did, or it is not
        offered any more."""
        found = self._newest("", [f"type:{CHOICE}", _menu(skill, step, options)])
        label = _plain(found.content) if found else None
        return next((option.key for option in options if _plain(option.label) == label), None) if label else None

    def chose(self, skill: str, step: str, options: Sequence[Option], key: str, at: str) -> None:
        """Remember what a human chose, at that time (ISO 8601 UTC). Answers of the engine itself are never remembered:
        it would only agree with itself."""
        label = next((option.label for option in options if option.key == key), None)
        if label is not None:
            tags = (f"type:{CHOICE}", _menu(skill, step, options), f"workflow:{skill}"[:100], f"at:{at}")
            self._keep(Memory(f"At {step} of {skill}", label, 6, (), tags, self._project, at))

    def fix(self, failure: str) -> str | None:
        """What resolved that failure before."""
        found = self._newest("", [f"type:{FIX}", _failure(failure)])
        return found.content if found else None

    def learn(self, failure: str, fix: str, workflow_id: str = "") -> None:
        """Remember what resolved a failure."""
        title = f"Fix for: {shortened(' '.join(failure.split()), SIGNATURE_CHARS // 4)}"
        tags = (f"type:{FIX}", _failure(failure), f"workflow:{workflow_id}"[:100])
        self._keep(Memory(title, fix, 8, tuple(re.findall(r"\w{4,}", failure.lower())[:10]), tags, self._project))

    def _newest(self, query: str, tags: Sequence[str]) -> Memory | None:
        try:
            found = self._memory.recall(query, project_id=self._project, tags=tags, limit=1)
        except MemoryUnavailable as error:
            self._log(error.message, "recall")
            return None
        return found.memories[0] if found.memories else None

    def _keep(self, memory: Memory) -> None:
        try:
            self._memory.remember(memory)
        except MemoryUnavailable as error:
            self._log(error.message, "remember")


def _menu(skill: str, step: str, options: Sequence[Option]) -> str:
    """The tag that a menu of a step is known by."""
    labels = sorted(_plain(option.label) for option in options)
    return f"menu:{_hash(skill, step, *labels)}"


def _failure(text: str) -> str:
    """The tag that a failure is known by: its words, without numbers, paths and quotes, which change each time."""
    plain = re.sub(r"(?:/[\w.-]+)+|0x[0-9a-f]+|\d+|[\"'`].*?[\"'`]", "#", text.lower())
    return f"failure:{_hash(' '.join(plain.split())[:SIGNATURE_CHARS])}"


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


def _plain(label: str) -> str:
    return " ".join(re.findall(r"\w+", label.lower()))
