"""Which class of model does a piece of work (FR23a, story 5.7). Pure.

Work is weighed by its complexity, the project's tier and its kind. Little goes to the fast model, much to the one that
thinks deepest, the rest to the one between. Writing code is never left to the smallest, whatever the tier, and code
that is complex goes to the largest. `max_model` caps it all. Haiku, Sonnet and Opus are classes: what an agent program
calls them its profile says (`models`); a program that knows none works with its own default.
"""

from __future__ import annotations

from collections.abc import Mapping

from interlock.lazy_dataclass import dataclass
from interlock.settings import MODEL_CLASSES
from interlock.workflow.agents.assignment import IMPLEMENTATION, VALIDATION
from interlock.workflow.entry.tier_suggester import tier_of

CLASSES = HAIKU, SONNET, OPUS = MODEL_CLASSES

COMPLEXITIES = ("simple", "standard", "complex")
LIGHT, HEAVY = 1, 4  # up to, and from, which weight the smallest and the largest are chosen


@dataclass(frozen=True, slots=True)
class Model:
    """A class of model with the reason. `wanted` is what it would have been without `max_model`; `name` what the
    program calls it, None for the program's own default."""

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
    band = tier_of(tier)
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
    """The class that a program's model belongs to, where its name tells; None otherwise."""
    if name is None:
        return None
    mapped = next((cls for cls, known in models.items() if known.casefold() == name.casefold()), None)
    return mapped or next((cls for cls in CLASSES if cls in name.casefold()), None)
