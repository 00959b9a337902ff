"""What can be learned of a person's wishes, as values: a choice in a situation, and what was said or seen about it.

A *situation* is what asked for a choice, known again by its words and never by letters or numbers, which change
between versions: a menu by the labels of its options, a question by its text, a failure by the step it was in. A choice
is known by its label for the same reason.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json

NEGATIVE, POSITIVE, PREFERENCE = "negative_pattern", "positive_pattern", "explicit_preference"
KINDS = (NEGATIVE, POSITIVE, PREFERENCE)
EXPLICIT, IMPLICIT = "explicit", "implicit"
MENU, QUESTION, FIX = "menu", "question", "fix"
LABEL = 80  # characters of a label that it is known by


@dataclass(frozen=True)
class Pattern:
    """A choice in a situation of a step. `situation` and `choice` are what they are known by, `said` is the choice as a
    person reads it, `step_name` the step's title."""

    kind: str
    skill: str
    step: str
    situation: str
    choice: str
    said: str = ""
    step_name: str = ""

    def as_dict(self) -> Json:
        """All fields."""
        return asdict(self)

    @classmethod
    def of(cls, given: object) -> Pattern | None:
        """What `as_dict` gave; null where it is none."""
        if not isinstance(given, Mapping) or not {"kind", "skill", "step", "situation", "choice"} <= set(given):
            return None
        return cls(**{name: str(given.get(name, "")) for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class Feedback:
    """What a person said (`explicit`), or did (`implicit`), about a choice; `pattern` is null for a preference in
    words. `at` is ISO 8601 UTC. Feedback of the same `id` replaces what came before it."""

    kind: str
    text: str
    pattern: Pattern | None = None
    source: str = EXPLICIT
    at: str = ""

    @property
    def id(self) -> str:
        """What it is listed and forgotten by."""
        if self.pattern is None:
            return f"F-{_hash(plain(self.text))[:8]}"
        return f"F-{_hash(self.source, self.pattern.situation, self.pattern.choice)[:8]}"

    def as_dict(self) -> Json:
        """All fields."""
        pattern = self.pattern.as_dict() if self.pattern is not None else None
        whole = {"id": self.id, "kind": self.kind, "text": self.text}
        return {**whole, "pattern": pattern, "source": self.source, "at": self.at}

    @classmethod
    def of(cls, given: object) -> Feedback | None:
        """What `as_dict` gave; null where it is none."""
        if not isinstance(given, Mapping) or given.get("kind") not in KINDS:
            return None
        words = {name: str(given.get(name) or "") for name in ("kind", "text", "source", "at")}
        return cls(words["kind"], words["text"], Pattern.of(given.get("pattern")), words["source"], words["at"])


@dataclass(frozen=True)
class Choice:
    """What a human chose at a menu. `offered` are the labels of its options, `recommended` the one that was recommended
    to them, `type` the kind of decision that the recommendation was."""

    skill: str
    step: str
    situation: str
    chosen: str
    offered: tuple[str, ...] = ()
    recommended: str | None = None
    type: str = ""
    at: str = ""

    @property
    def id(self) -> str:
        """What all choices at this menu are listed and forgotten by."""
        return choice_id(self.situation)


@dataclass(frozen=True)
class Forgotten:
    """What is not to count any more: everything of that `id` up to `at`."""

    id: str
    at: str


@dataclass(frozen=True)
class Learned:
    """Everything that is known of a project's wishes, oldest first."""

    feedback: tuple[Feedback, ...] = ()
    choices: tuple[Choice, ...] = ()
    forgotten: tuple[Forgotten, ...] = field(default=())


def menu_situation(skill: str, step: str, labels: Sequence[str]) -> str:
    """What a menu of a step is known by."""
    return f"menu:{_hash(skill, step, *sorted(map(plain, labels)))}"


def question_situation(skill: str, step: str, text: str) -> str:
    """What a question of a step is known by."""
    return f"question:{_hash(skill, step, plain(text))}"


def fix_situation(skill: str, step: str) -> str:
    """What the failures of a step are known by."""
    return f"fix:{_hash(skill, step)}"


def choice_id(situation: str) -> str:
    """The id of what was chosen in a situation."""
    return f"C-{_hash(situation)[:8]}"


def type_id(skill: str, type: str) -> str:
    """The id of what is taken without asking, since it was accepted so often."""
    return f"T-{_hash(skill, type)[:8]}"


def plain(label: str) -> str:
    """A label by its words alone."""
    return " ".join(re.findall(r"\w+", label.lower()))[:LABEL]


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]
