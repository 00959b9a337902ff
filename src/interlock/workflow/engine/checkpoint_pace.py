"""How many continues run on before a checkpoint, by tier (BMAD-2b.6, FR12a, decision 32), and how much that shows: the
surer the engine, the less (BMAD-2b.7, FR12b).
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.lazy_dataclass import dataclass
from interlock.workflow.engine.confidence_calculator import NO_SIGNAL
from interlock.workflow.entry.tier_suggester import tier_of

SIZES: tuple[int | None, ...] = (None, None, 5, 3, 1)


def batch_size(tier: int | None) -> int | None:
    """Continues before a checkpoint in that tier; None: no limit, it runs through. An unknown tier is 2."""
    return SIZES[tier_of(tier)]


def is_full(steps: Sequence[str], tier: int | None, size: int | None = None) -> bool:
    """Whether a checkpoint is due after so many continues; `size` overrides the tier's."""
    limit = batch_size(tier) if size is None else size
    return limit is not None and len(steps) >= limit


def summary(steps: Sequence[str]) -> str:
    """One line for the checkpoint after a batch."""
    if not steps:
        return "Nothing was done since the last checkpoint."
    if len(steps) == 1:
        return f"1 step done: {steps[0]}."
    return f"{len(steps)} steps done: {', '.join(steps)}."


MINIMAL, SUMMARY, FULL = "minimal", "summary", "full_audit_trail"


@dataclass(frozen=True)
class DoneOperation:
    """One thing done since the last checkpoint; `decision` says that it was a choice between ways."""

    title: str
    detail: str = ""
    decision: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """What is shown (`text`), what can be unfolded (`details`, always everything), and how it is confirmed."""

    format: str
    text: str
    details: str
    options: tuple[str, ...]
    explicit_approval: bool


def format_for(confidence: float) -> str:
    """minimal from 80, summary from 50, else full_audit_trail."""
    return MINIMAL if confidence >= 80 else SUMMARY if confidence >= 50 else FULL


def present(
    confidence: float | None, title: str, operations: Sequence[DoneOperation], unmeasured: Sequence[str] = ()
) -> Checkpoint:
    """A checkpoint about `operations` in the format that `confidence` (0–100) asks for; null: nothing was measured.

    `unmeasured` are the steps that no signal says anything about. The calculator's default counts for their format,
    which shows everything; people are told that there is no evidence, not a number that looks like one.
    """
    lines = [f"{one.title}: {one.detail}" if one.detail else one.title for one in operations]
    log = "\n".join(f"{number}. {line}" for number, line in enumerate(lines, 1)) or "Nothing was done."
    count = f"{len(operations)} operation{'' if len(operations) == 1 else 's'}, {_sure(confidence, unmeasured)}"
    kind = format_for(NO_SIGNAL if confidence is None or unmeasured else confidence)
    if kind == MINIMAL:
        return Checkpoint(kind, f"{title}\n{count}.", log, ("confirm",), False)
    if kind == SUMMARY:
        decisions = [one.title for one in operations if one.decision] or [one.title for one in operations]
        listed = "\n".join(f"- {decision}" for decision in decisions)
        return Checkpoint(kind, f"{title}\n{count}. Key decisions:\n{listed}", log, ("confirm", "details"), False)
    return Checkpoint(kind, f"{title}\n{count}. Everything that was done:\n{log}", log, ("approve", "reject"), True)


def _sure(confidence: float | None, unmeasured: Sequence[str]) -> str:
    if confidence is None:
        return "no evidence of how far to trust the result (nothing was measured)"
    without = f", no evidence for {', '.join(unmeasured)}" if unmeasured else ""
    return f"confidence {confidence:g} %{without}"
