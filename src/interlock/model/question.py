"""A question to a human: the one way Interlock waits for people (architecture, sixth decision)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

KINDS = ("clarification", "review", "menu", "checkpoint", "permission", "limit", "merge", "escalation")


@dataclass(slots=True)
class Question:
    """One question about one task. `state` is open, answered or withdrawn."""

    id: str
    task_id: str
    kind: str
    text: str
    options: list[str]
    default: str | None
    context: str | None
    asked_at: str
    asked_by: str
    held: bool
    state: str
    answer: str | None
    answered_by: str | None
    answered_at: str | None

    def as_dict(self) -> dict[str, Any]:
        """The contract's shape."""
        return {
            "id": self.id,
            "task_id": self.task_id,
            "kind": self.kind,
            "text": self.text,
            "options": list(self.options),
            "default": self.default,
            "context": self.context,
            "asked_at": self.asked_at,
            "held": self.held,
        }
