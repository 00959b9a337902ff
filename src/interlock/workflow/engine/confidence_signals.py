"""What speaks for the result of a step: the signals of the confidence calculator, as a run has them (FR19e, 2b.11).

    validation_verdict   what the step says of itself, or that its document is there; a validator's score
    memory_match         how well what memory knows fits this work
    reviewer_agreement   how far those who reviewed the work agree
    party_mode           how sure those were who discussed it
    model_selection      whether those who examined it had the model that the work called for

A step without any is measured by nothing, and people are told so; the calculator's default is a number for machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from interlock.model.workflow import GATE
from interlock.workflow.engine import evidence
from interlock.workflow.engine.confidence_calculator import MODEL, NO_SIGNAL, calculate
from interlock.workflow.engine.context import Draft, Examination, stands_in
from interlock.workflow.engine.examination import APPROVE
from interlock.workflow.entry import verdicts
from interlock.workflow.state.document import StepRecord

OUTCOMES = {verdicts.SUCCESS: 100.0, verdicts.PARTIAL: 50.0, verdicts.FAILURE: 0.0}


def signals(run: Draft, outcome: str) -> dict[str, float | None]:
    """The signals for the step at hand, null where there is none. What an examination gives by itself comes first."""
    verdict = OUTCOMES.get(outcome)
    if verdict is None and evidence.seen(run.record.proofs):
        verdict = OUTCOMES[verdicts.SUCCESS]
    examination = run.examination
    here = {
        "validation_verdict": verdict,
        "memory_match": run.knowledge.relevance,
        "party_mode": run.party.signal(run),
    }
    known = {name: value for name, value in here.items() if value is not None}
    return {**here, **_before(run, examination), **known, **_examined(run, examination)}


def measure(run: Draft, record: StepRecord, outcome: str) -> None:
    """Write into the record how far the result can be trusted, and which signals say so."""
    found = signals(run, outcome)
    record.confidence = calculate(found, run.settings.tier, run.settings.confidence).score
    record.evidence = [name for name, value in found.items() if value is not None]


def measured(record: StepRecord) -> bool:
    """Whether anything speaks for or against its result. Records from before `evidence` was kept are judged by the
    number, which is the default only by chance otherwise."""
    return bool(record.evidence) or record.confidence not in (None, NO_SIGNAL)


def models(subagents: Iterable[Mapping[str, Any]], since: int) -> dict[str, float]:
    """The signal of the models that were chosen for a round: the least of those who answered. Empty where the program
    uses its own, and nothing was selected. `since`: the number of the last subagent before the round."""
    found = [
        float(one["model_signal"])
        for one in subagents
        if int(one.get("n", 0)) > since and one.get("status") == "completed" and one.get("model_signal") is not None
    ]
    return {MODEL: min(found)} if found else {}


def _examined(run: Draft, here: Examination | None) -> dict[str, float]:
    """What those who examined the work add, where the step at hand is an examination."""
    rounds = run.state.rounds_of(here.name) if here is not None else []
    return dict(rounds[-1].get("signals", {})) if rounds else {}


def _before(run: Draft, here: Examination | None) -> dict[str, float]:
    """What examinations of the same finished work have found before this one, as long as nothing was fixed since."""
    if here is None or stands_in(here) or len(run.state.rounds_of(here.name)) != 1:
        return {}
    found: dict[str, float] = {}
    for one in run.examinations:
        if one is here or stands_in(one) or f"{GATE}{one.name}" not in run.state.completed_steps:
            continue
        rounds = run.state.rounds_of(one.name)
        if rounds and rounds[-1]["verdict"] == APPROVE:
            found |= rounds[-1].get("signals", {})
    return found
