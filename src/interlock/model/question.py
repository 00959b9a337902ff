"""A question to a human: the one way Interlock waits for people (architecture, sixth decision)."""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.model.json import Json, fields_of

KINDS = ("clarification", "review", "menu", "checkpoint", "permission", "limit", "merge", "escalation")
GUARDED = frozenset({"permission", "checkpoint", "limit", "merge"})
"""Kinds that only a person may answer, on the page or at a terminal, and never from inside a run."""


SHOWN = "id task_id kind text options default context asked_at held".split()
EXCHANGE = [*SHOWN, "asked_by", "state", "answer", "answered_by", "answered_at"]


def reply_command(question_id: str, task_id: str, team: str | None = None) -> str:
    """The command line that answers that question and no other; with the team, wherever it is typed."""
    return f"interlock question reply {task_id} TEXT --question {question_id}" + (f" --team {team}" if team else "")


@dataclass(slots=True)
class Question:
    """One question about one task. `state` is open, answered or withdrawn.

    `held`: the session `session` lives and waits, and the answer continues its run `run`; parked otherwise. `key`, of
    the asker's choosing, makes asking again answer the same question. `reversible`: nobody minds when a time-out takes
    the default. `data` is what the asker needs to make sense of the answer.
    """

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
    key: str | None = None
    reversible: bool = False
    session: str | None = None
    run: int | None = None
    data: Json = field(default_factory=dict)
    answered_face: str | None = None
    answered_session: str | None = None
    reminded_at: str | None = None

    def as_dict(self) -> Json:
        """The contract's shape."""
        return fields_of(self, SHOWN)

    def exchange(self) -> Json:
        """The question and its answer, for the conversation of its task."""
        return fields_of(self, EXCHANGE)
