"""How much a human checkpoint shows: the surer the engine, the less (BMAD-2b.7, FR12b)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MINIMAL, SUMMARY, FULL = "minimal", "summary", "full_audit_trail"


@dataclass(frozen=True)
class Operation:
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


def present(confidence: float, title: str, operations: Sequence[Operation]) -> Checkpoint:
    """A checkpoint about `operations` in the format that `confidence` (0–100) asks for."""
    log = "\n".join(f"{number}. {_line(one)}" for number, one in enumerate(operations, 1)) or "Nothing was done."
    count = f"{len(operations)} operation{'' if len(operations) == 1 else 's'}, confidence {confidence:g} %"
    kind = format_for(confidence)
    if kind == MINIMAL:
        return Checkpoint(kind, f"{title}\n{count}.", log, ("confirm",), False)
    if kind == SUMMARY:
        decisions = [one.title for one in operations if one.decision] or [one.title for one in operations]
        listed = "\n".join(f"- {decision}" for decision in decisions)
        return Checkpoint(kind, f"{title}\n{count}. Key decisions:\n{listed}", log, ("confirm", "details"), False)
    return Checkpoint(kind, f"{title}\n{count}. Everything that was done:\n{log}", log, ("approve", "reject"), True)


def _line(operation: Operation) -> str:
    return f"{operation.title}: {operation.detail}" if operation.detail else operation.title
