"""An examination as a step of a run: examine, let the maker fix what was found, examine again, until it is approved.

The rounds are kept in `state.examinations`, and what the maker has still to fix with them, so a run that is killed
goes on with the round it was in. Its loop is kept like that of any step that is validated (`looping`): what does not
end by itself is put to a human, or ends the run.
"""

from __future__ import annotations

from typing import Any

from interlock.workflow.engine import (
    closing_line,
    confidence_signals,
    evidence,
    menus,
    prompts,
    recovery,
    step_judge,
    transitions,
)
from interlock.workflow.engine.closing_line import Closing
from interlock.workflow.engine.context import THRESHOLDS, Draft, Examination
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.effects import FIX, Act, Ending, ExaminationEnded, Examine, LetGo, PromptReady, Save
from interlock.workflow.engine.examination import (
    APPROVE,
    BLOCKED,
    CAPACITY,
    CHANGES,
    FACTS,
    MINOR,
    NOT_DONE,
    SET_ASIDE,
    SKIPPED,
    STOPPED,
    Examined,
)
from interlock.workflow.engine.turn_interpreter import Reading
from interlock.workflow.markdown import quoted
from interlock.workflow.menus.escalation import ADVANCED_ELICITATION, PARTY_MODE
from interlock.workflow.state import step_tracking
from interlock.workflow.state.document import RUNNING, TERMINAL, Proof

UNHEARD, TRIES = "not_reviewed", 3
"""An examination that could not be heard so many times ends the run: it is not reviewed, and never completed."""
SHOWN = 20  # findings that a human is shown
SAID = 4000  # characters of the maker's answer to the findings


def work(run: Draft, examination: Examination) -> None:
    """What is to be done next: the maker fixes what was found, or a round is held."""
    state, record = run.state, run.record
    kept = state.examinations.setdefault(examination.name, {"rounds": []})
    if kept.get("mend"):
        advice = str(state.recovery.pop("guidance", ""))
        run.send(FIX, f"{kept['mend']}\n\n{advice}".rstrip())
        run.effect(Save())
        return
    # Also of a round that goes on after a kill: what was asked in it is counted from its beginning.
    kept.setdefault("since", max((int(one.get("n", 0)) for one in state.subagents), default=0))
    if record.status != "in_progress":
        step_tracking.begin(state, record.id, record.name, run.now)
        run.event("workflow.step_started", step=record.id, name=record.name, visit=record.visit)
    run.effect(Save(), Examine(len(kept["rounds"]) + 1))


def examined(run: Draft, event: ExaminationEnded) -> None:
    """What a round calls for. The process lets go of the run where nobody can examine it before the agents' provider
    has capacity again, and where the round was stopped."""
    state, record, found = run.state, run.record, event.found
    examination = run.examination
    assert examination is not None
    if event.stopped:
        # Where it was stopped because the run is somebody else's, the save says so.
        run.effect(
            Save(), LetGo(Ending("stopped", "it was not looked at to the end; the round begins again with the run"))
        )
        return
    if state.state == TERMINAL:
        return
    # Others have looked at it: an agent that says the same in each round goes on all the same.
    state.visits = {}
    run.effect(Act.NOTE_PROGRESS)
    if found.verdict in (CAPACITY, STOPPED):
        retry_at = found.details.get("retry_at") if found.verdict == CAPACITY else None
        run.effect(LetGo(Ending(found.verdict, found.summary, retry_at)))
        return
    kept = state.examinations[examination.name]
    kept["status"] = "not reviewed" if found.verdict in (SKIPPED, NOT_DONE) else "reviewed"
    if found.verdict == SKIPPED:
        run.warn(f"{examination.name}_skipped", f"{record.name} of {state.skill} is left out: {found.summary}")
        transitions.skipped(run, found.summary)
        return
    if found.verdict != NOT_DONE:
        for earlier in kept["rounds"]:
            earlier.pop("reports", None)
        signals = {**confidence_signals.models(run.state.subagents, int(kept.get("since", 0))), **found.signals}
        kept["rounds"].append({**found.as_dict(), "signals": signals, "at": run.now})
    kept.pop("reports", None)
    kept.pop("since", None)
    kept.pop("advice", None)
    basis = {"of": examination.name, "round": event.number}
    run.decide(Decision("examination", found.verdict, found.summary, by="agent", basis=basis))
    run.event(
        "workflow.examined", step=run.record.id, of=examination.name, round=event.number, verdict=found.verdict,
        findings=len(found.findings), **found.told,
    )  # fmt: skip
    _act(run, examination, kept, found)


def _act(run: Draft, examination: Examination, kept: dict[str, Any], found: Examined) -> None:
    name, skill = run.record.name, run.state.skill
    if found.verdict == APPROVE:
        recovery.loop_validated(run, [])
        _over(run, found, "PASS", "success")
    elif found.details.get("left_open"):
        _over(run, found, "PARTIAL", "partial")
    elif _unheard(found) and _at_its_limit(kept):
        recovery.exhausted(run, UNHEARD, {"of": examination.name, "summary": found.summary})
    elif found.verdict == BLOCKED:
        says = found.details.get("says")
        said = f"\n\nIt says:\n\n{quoted(says)}" if says else ""
        text = f"{name} of {skill} is blocked: {found.summary}\n\n{_listed(found)}{said}"
        recovery.escalate(run, text, found.summary, answers=found.details.get("answers", ()))
    elif found.verdict == NOT_DONE:
        text = f"{name} of {skill} could not be done: {found.summary}\n\nNobody has examined the work."
        recovery.escalate(run, text, found.summary)
    else:
        _changes(run, kept, found)


def _unheard(found: Examined) -> bool:
    """Whether nobody, or too few, could be heard: no verdict on the work."""
    perspectives = found.details.get("perspectives")
    return found.verdict == NOT_DONE or (perspectives is not None and len(perspectives) < 2)


def _at_its_limit(kept: dict[str, Any]) -> bool:
    """Whether it was tried as often as it may be; a human is asked before that, not for ever."""
    kept["unheard"] = int(kept.get("unheard", 0)) + 1
    return bool(kept["unheard"] >= TRIES)


def _changes(run: Draft, kept: dict[str, Any], found: Examined) -> None:
    judgement = recovery.loop_validated(run, _errors(found))
    kept["mend"] = prompts.findings(run.record.name, found)
    if judgement.action == "end":
        recovery.exhausted(run, str(judgement.error), judgement.details)
    elif judgement.action == "escalate":
        text = f"{run.record.name} of {run.state.skill} does not come to an end: {found.summary}\n\n{_listed(found)}"
        recovery.escalate(run, text, found.summary, (), judgement.error, judgement.details)
    else:
        asks_for = None if menus.had_help(run.state, run.record) else found.details.get("escalation")
        if asks_for == PARTY_MODE:
            run.party.call(run, THRESHOLDS, found.summary, str(kept["mend"]))
            return
        if asks_for == ADVANCED_ELICITATION:
            recovery.triggered(run, ADVANCED_ELICITATION, found.summary)
        reason = f"before the findings of round {len(kept['rounds'])} are fixed"
        run.keep(reason, PromptReady(FIX, str(kept["mend"])))


def mended(run: Draft, examination: Examination, said: Reading) -> None:
    """The maker says that it has fixed what was found. Whoever fixed its own work does not judge it: it is examined
    again, by those who get to read what the maker says about their findings."""
    kept = run.state.examinations[examination.name]
    kept["mend"] = None
    kept["answer"] = said.closing.text[-SAID:]
    kept["unchanged"] = said.closing.unchanged
    step_judge.settle_recovery(run)
    run.record.status = "in_progress"
    run.state.sent = None
    run.move(RUNNING)
    run.effect(Save())


def advised(run: Draft, examination: Examination, text: str | None) -> None:
    """A human's answer to what an examination came to: `text` is their advice, null for `retry`.

    With `retry` others look at the work afresh: what they had found is set aside, and found again where it stands. What
    Interlock itself has found is handed over once more. With advice the maker is told first, or those who examine it.
    """
    state = run.state
    kept = state.examinations.setdefault(examination.name, {"rounds": []})
    last = kept["rounds"][-1] if kept["rounds"] else {}
    if text is None and last and examination.name not in FACTS and kept.get("status") == "reviewed":
        kept["mend"] = None
        last[SET_ASIDE] = [*last.get("findings", ()), *last.pop("further", ())]
        last["findings"] = []
    elif text is not None and last.get("verdict") == BLOCKED:
        kept["mend"] = prompts.findings(run.record.name, Examined.of(last))
    elif last.get("verdict") != CHANGES:
        kept["mend"] = None
    if text is not None:
        advice = f"The user's advice:\n\n{quoted(text)}"
        if kept.get("mend"):
            kept["mend"] = f"{kept['mend']}\n\n{advice}"
        else:
            kept["advice"] = text
    state.waiting = state.sent = None
    run.move(RUNNING)


def _errors(found: Examined) -> list[dict[str, Any]]:
    """What a loop knows its findings by: those that count, where any do."""
    grave = [one for one in found.findings if one.severity != MINOR] or list(found.findings)
    return [{"title": one.title, "location": one.location} for one in grave] or [{"title": found.summary}]


def _listed(found: Examined) -> str:
    lines = []
    for one in found.findings[:SHOWN]:
        place = f" ({one.location})" if one.location else ""
        lines.append(f"- {one.severity}: {one.title}{place}{f'. {one.fix}' if one.fix else ''}")
    left = len(found.findings) - SHOWN
    return "\n".join([*lines, *([f"- and {left} more"] if left > 0 else [])])


def _over(run: Draft, found: Examined, verdict: str, outcome: str) -> None:
    closing = Closing(found.summary, step=closing_line.COMPLETED, verdict=verdict)
    run.record.verdict = verdict
    run.record.proofs = [Proof(evidence.VERDICT, run.record.name, evidence.SEEN, found.summary[:500])]
    transitions.done(run, Reading(closing_line.COMPLETED, found.summary, closing), outcome)
