"""A question to a human: the one way Interlock waits for people (architecture, sixth decision). And to members: whether
one may stop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, fields_of

APPROVE = "approve"
CHANGES = "changes: …"
"""What questions about finished work offer: it is good, or goes back to its author with what replaces the `…`."""
KINDS = ("clarification", "review", "menu", "checkpoint", "permission", "limit", "merge", "escalation")
GUARDED = frozenset({"permission", "checkpoint", "limit", "merge"})
"""Kinds that only a person may answer, on the page or at a terminal, and never from inside a run."""

FAILED = " failed permanently: "
"""In the question that a task which failed asks, between its name and the reason."""
RETRY_OR_CANCEL = "Retry or cancel?"
CHOICES = re.compile(r"[\w |-]{1,60}")
"""Short answers, separated, that can stand between quotation marks in a command line."""

SHOWN = "id task_id kind text options default context asked_at held".split()
EXCHANGE = [*SHOWN, "asked_by", "state", "answer", "answered_by", "answered_at"]


def reply_command(question_id: str, task_id: str, team: str | None = None, *, choices: Sequence[str] = ()) -> str:
    """The command line that answers that question and no other, with its `choices` where they are short; with the team,
    wherever it is typed. Copied as it stands, it chooses nothing."""
    text = "|".join(choices)
    shown = f"'{text}'" if len(choices) > 1 and CHOICES.fullmatch(text) else "TEXT"
    return f"interlock question reply {task_id} {shown} --question {question_id}" + (f" --team {team}" if team else "")


def failure_asked(text: str) -> str | None:
    """Why a task failed, in a line, where a question is about that; None for others."""
    first = text.partition("\n")[0].partition(FAILED)[2]
    return first.removesuffix(RETRY_OR_CANCEL).rstrip(" .:") or None


def asking_for(changes: str) -> str:
    """The answer that asks for these changes."""
    return f"changes: {changes}"


def changes_asked(answer: str) -> str | None:
    """What an answer `changes: …` asks for, empty where it leaves that out; None of any other answer."""
    word, colon, asked = answer.strip().partition(":")
    return asked.strip() if colon and word.lower() == "changes" else None


def reviews_in_order(asked: Sequence[Question]) -> list[Question]:
    """Return the questions with those reviews before others whose work has changed its own check; the places of all
    other questions stay."""
    reviews = iter(sorted((one for one in asked if one.kind == "review"), key=lambda one: not one.changed_check))
    return [next(reviews) if one.kind == "review" else one for one in asked]


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

    @property
    def changed_check(self) -> list[str]:
        """The files of its own check that the work under review has changed."""
        return list(self.data.get("changed_check") or ())

    @property
    def again(self) -> Json | None:
        """When and by whom the same work was decided before: at, by."""
        found = self.data.get("again")
        return found if isinstance(found, dict) else None

    @property
    def choices(self) -> list[str]:
        """The options that are whole answers, which `changes: …` is not."""
        return [option for option in self.options if changes_asked(option) not in ("…", "...")]

    @property
    def beside(self) -> bool:
        """Whether its task does not wait for the answer."""
        return self.kind in ("review", "merge") or bool(self.data.get("relayed"))

    def as_dict(self) -> Json:
        """The contract's shape."""
        return fields_of(self, SHOWN)

    def exchange(self) -> Json:
        """The question and its answer, for the conversation of its task."""
        return fields_of(self, EXCHANGE)


@dataclass(slots=True)
class StopRequest:
    """Members are asked whether `subject` may stop. `state` is open, granted, rejected or expired; `answers` holds
    `{approve, reason, at}` by name."""

    id: str
    subject: str
    asked_by: str
    asked: list[str]
    answers: dict[str, Json]
    reason: str | None
    state: str
    at: str
    expires_at: str
