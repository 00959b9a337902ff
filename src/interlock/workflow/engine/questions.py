"""Questions of a run to people: their keys, what was answered before, and what an answer means.

A question's key is (workflow, step, visit, ordinal) (decision 36). After a crash a step begins again within the same
visit and may ask the same thing once more; what was answered then is taken again, so nobody is asked twice. So is what
was answered in the workflow before, where several implement one story: those answers belong to no step.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.workflow.engine.stalls import normalized
from interlock.workflow.menus.options import Option
from interlock.workflow.state.document import StepRecord, WorkflowState

TEXT = 600  # characters of a question that the state keeps
YES = frozenset("y yes ok okay confirm confirmed approve approved continue go c sure".split())
GO_ON, AGAIN, SKIP, STOP, DETAILS, TEXT_ANSWER = "go_on", "again", "skip", "stop", "details", "text"

FACT = re.compile(r"^[^\S\n]*(?:[-*][^\S\n]+)?\**([A-Za-z][\w -]{1,40}?)\**\s*[:=]\s*+\**+\s*+(\S.*)$", re.MULTILINE)
COMMON = frozenset(
    "the a an of for to is are you your we our this that what which who how do does should would like want please with "
    "and or in on it be can i me my any there".split()
)


@dataclass(frozen=True)
class Given:
    """An answer and who gave it: a human, the brief, `--set`."""

    answer: str
    by: str
    why: str


def fingerprint(text: str) -> str:
    """What a question is recognised by when it is asked again."""
    return hashlib.sha256(normalized(text).casefold().encode("utf-8", "surrogatepass")).hexdigest()[:16]


def new_entry(state: WorkflowState, record: StepRecord | None, purpose: str, text: str, at: str) -> dict[str, Any]:
    """The next question of the step's visit, appended to `state.asked`."""
    step, visit = (record.id, record.visit) if record else (None, 0)
    ordinal = 1 + sum(1 for one in state.asked if (one["step"], one["visit"]) == (step, visit))
    entry = {
        "key": f"{state.workflow_id}/{'-' if step is None else step}/{visit}/{ordinal}",
        "step": step, "visit": visit, "ordinal": ordinal,
        "purpose": purpose, "text": text[:TEXT], "fingerprint": fingerprint(text), "at": at,
    }  # fmt: skip
    state.asked.append(entry)
    return entry


def answered(state: WorkflowState, record: StepRecord) -> list[str]:
    """The keys of the questions that were answered in this visit of the step, or in the workflow before this one, in
    their order."""
    mine = ((record.id, record.visit), (None, 0))
    return [str(one["key"]) for one in state.asked if (one["step"], one["visit"]) in mine and one.get("answer")]


def answered_before(state: WorkflowState, keys: list[str], text: str) -> Given | None:
    """The answer to the same question among those with these keys; its key is taken out of them."""
    wanted = fingerprint(text)
    for one in state.asked:
        if one["key"] in keys and one["fingerprint"] == wanted:
            keys.remove(one["key"])
            return Given(str(one["answer"]), str(one.get("by", "human")), "it was answered before")
    return None


def remembered(state: WorkflowState, menu_id: str) -> str | None:
    """The key a human chose in the same menu before."""
    chosen = (e for e in reversed(state.menu_history) if e.get("menu_id") == menu_id and not e.get("automatic", True))
    return next((str(entry["selection"]) for entry in chosen), None)


def from_facts(question: str, brief: str, values: dict[str, str]) -> Given | None:
    """The answer that `--set`, or a `Name: value` line of the brief, gives to a question that names it.

    Only where one fact alone is named with all its words; anything less certain is left to the agent, which reads.
    """
    last = [line for line in question.splitlines() if line.strip()][-3:]
    asked = _words(" ".join(last))
    if len(asked) > 25:
        return None
    facts = [(name, value, "brief") for name, value in FACT.findall(brief)]
    facts += [(name, value, "--set") for name, value in values.items()]
    found = [(name, value, by) for name, value, by in facts if _words(name) and _words(name) <= asked]
    if not found:
        return None
    longest = max(len(_words(name)) for name, _, _ in found)
    best = {value.strip(): (name, by) for name, value, by in found if len(_words(name)) == longest}
    if len(best) != 1:
        return None
    value, (name, by) = next(iter(best.items()))
    return Given(value, "brief", f"{by} says {name.strip()}")


def kind_of(purpose: str) -> str:
    """The kind of the question that is asked for that purpose."""
    kinds = {"menu": "menu", "checkpoint": "checkpoint", "oversight": "checkpoint", "escalation": "escalation"}
    return kinds.get(purpose, "escalation" if purpose == "party_mode" else "clarification")


def choose(reply: str, options: Sequence[Option]) -> Option | None:
    """The option that a human's words mean: its key, its label, or the beginning of one label alone."""
    words = reply.strip().strip("[]().").strip().lower()
    for option in options:
        if words in (option.key.lower(), option.label.lower(), f"{option.key} {option.label}".lower()):
            return option
    starting = [option for option in options if len(words) > 2 and option.label.lower().startswith(words)]
    return starting[0] if len(starting) == 1 else None


def meaning(reply: str, purpose: str) -> str:
    """What an answer to a checkpoint, an oversight pause or an escalation asks for; `text`: something in words."""
    words = reply.strip().lower().rstrip(".!")
    if words in YES:
        return AGAIN if purpose == "escalation" and words in ("continue", "go") else GO_ON
    table = {
        GO_ON: ("proceed", "next"),
        AGAIN: ("retry", "again", "try again", "redo", "reject", "no", "n"),
        SKIP: ("skip",),
        STOP: ("stop", "cancel", "abort", "fail", "quit"),
        DETAILS: ("details", "more", "show details"),
    }
    return next((name for name, known in table.items() if words in known), TEXT_ANSWER)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z0-9]+", text.lower().replace("_", " "))) - COMMON
