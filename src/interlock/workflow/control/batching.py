"""How many continues run on before a checkpoint, by tier (BMAD-2b.6, FR12a, decision 32)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

UNKNOWN_TIER = 2
SIZES: tuple[int | None, ...] = (None, None, 5, 3, 1)


def batch_size(tier: int | None) -> int | None:
    """Continues before a checkpoint in that tier; None: no limit, it runs through. An unknown tier is 2."""
    return SIZES[UNKNOWN_TIER if tier is None else min(max(tier, 0), 4)]


@dataclass(frozen=True)
class Batch:
    """The continues since the last checkpoint, by the name of the step that each one finished."""

    steps: tuple[str, ...] = ()

    def add(self, step: str) -> Batch:
        """The batch with one more continue."""
        return Batch((*self.steps, step))

    def is_full(self, tier: int | None, size: int | None = None) -> bool:
        """Whether a checkpoint is due now; `size` overrides the tier's."""
        limit = batch_size(tier) if size is None else size
        return limit is not None and len(self.steps) >= limit


def summary(steps: Sequence[str]) -> str:
    """One line for the checkpoint after a batch."""
    if not steps:
        return "Nothing was done since the last checkpoint."
    if len(steps) == 1:
        return f"1 step done: {steps[0]}."
    return f"{len(steps)} steps done: {', '.join(steps)}."
