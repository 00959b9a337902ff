"""A piece of work for a subagent of a run, and what comes back (epic 5).

Which class of model a piece of work gets: Haiku, Sonnet or Opus (FR23a, story 5.7). Pure rules.

Work is weighed: its complexity, the project's tier and its kind. Little goes to the fast model, much to the one that
thinks deepest, the rest to the one between. Writing code is never left to the smallest, whatever the tier, and code
that is complex goes to the largest. `max_model` caps it all.

The three names are classes. What an agent program calls them its profile says (`models`); a program that knows none
works with its own default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from interlock.settings import MODEL_CLASSES

VALIDATION, CODE_REVIEW, CREATIVE, ANALYSIS, IMPLEMENTATION = (
    *("validation", "code_review", "creative"),
    *("analysis", "implementation"),
)
KINDS = (VALIDATION, CODE_REVIEW, CREATIVE, ANALYSIS, IMPLEMENTATION)
HIGH, NORMAL, LOW = "high", "normal", "low"
PRIORITIES = (HIGH, NORMAL, LOW)


@dataclass(frozen=True)
class Assignment:
    """Work for one subagent, which knows nothing but `prompt`: what others found is not in it, so that it judges by
    itself.

    `label` names it among the others of its run ("08a", "reviewer-security", "winston"); `kind` is what it is routed
    and its model chosen by; `complexity` is simple, standard or complex. `writes`: whether it may change files.
    `time_limit` is for its whole work, in seconds; 0 for none but the session's own. `agent_id` resumes a subagent that
    was tracked before. `role` names who is to do it, where its kind and label do not say (see `routing`). A
    prompt that begins with "You are" says itself who is asked; before any other one the dispatcher puts who it is.
    """

    label: str
    prompt: str
    kind: str = ANALYSIS
    complexity: Literal["simple", "standard", "complex"] = "standard"
    priority: str = NORMAL
    writes: bool = False
    time_limit: float = 0.0
    model: str | None = None
    agent_id: str | None = None
    role: str | None = None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """What a subagent said. `completed` is the only status with a usable `text`; `detail` says why it is another one.
    `agent_id` is what it can be resumed by, null where its program cannot."""

    label: str
    status: Literal["completed", "failed", "timeout", "cancelled", "preempted", "capacity"]
    text: str = ""
    agent_id: str | None = None
    model: str | None = None
    detail: str | None = None
    seconds: float = 0.0
    retry_at: float | None = None


CLASSES = HAIKU, SONNET, OPUS = MODEL_CLASSES

COMPLEXITIES = ("simple", "standard", "complex")
UNKNOWN_TIER = 2  # decision 32
LIGHT, HEAVY = 1, 4  # up to, and from, which weight the smallest and the largest are chosen


@dataclass(frozen=True)
class Model:
    """A class of model with the reason. `wanted` is what it would have been without `max_model`; `name` what the
    program calls it, null for the program's own default."""

    cls: str
    why: str
    wanted: str
    name: str | None = None

    @property
    def signal(self) -> float:
        """The optional fifth signal of the confidence calculator, 0 to 100: how far a result may be trusted for the
        model it came from. A model below what the work called for is trusted less."""
        short = CLASSES.index(self.wanted) - CLASSES.index(self.cls)
        return max(0.0, (70.0, 85.0, 100.0)[CLASSES.index(self.cls)] - 25.0 * short)


def select(
    kind: str,
    complexity: str = "standard",
    tier: int | None = None,
    max_model: str | None = None,
    models: Mapping[str, str] | None = None,
) -> Model:
    """The model for work of that kind. `models` are the program's names of the classes."""
    band = tier if tier is not None else UNKNOWN_TIER
    weight = COMPLEXITIES.index(complexity) if complexity in COMPLEXITIES else 1
    weight += 0 if band <= 1 else 1 if band == 2 else 2
    weight += kind != VALIDATION
    wanted = HAIKU if weight <= LIGHT else SONNET if weight < HEAVY else OPUS
    why = f"{complexity} {kind} at tier {band}"
    if kind == IMPLEMENTATION:
        shifted = OPUS if complexity == "complex" else max(wanted, SONNET, key=CLASSES.index)
        why += ", which writes code" if shifted != wanted else ""
        wanted = shifted
    chosen = wanted
    if max_model in CLASSES and CLASSES.index(max_model) < CLASSES.index(wanted):
        chosen, why = max_model, f"{why}; no larger than max_model"
    return Model(chosen, why, wanted, (models or {}).get(chosen))


def class_of(name: str | None, models: Mapping[str, str]) -> str | None:
    """The class that a program's model belongs to, where its name tells; null otherwise."""
    if name is None:
        return None
    mapped = next((cls for cls, known in models.items() if known.casefold() == name.casefold()), None)
    return mapped or next((cls for cls in CLASSES if cls in name.casefold()), None)
