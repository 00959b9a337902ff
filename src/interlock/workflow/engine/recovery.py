"""What a run decides and learns on its way, kept in its state for whoever curates it once it has ended (FR33).

What is tried when something fails, in which order, and when a human is asked (BMAD-2b.8, 2b.12, FR16, FR19d).

A *transient* failure (the agent died, was silent, its network broke) is retried three times with growing pauses. A
step without its *evidence* is told what is missing, then begins again. A failed *validation* is fixed: by what was
remembered, then by its findings, then by the template. Two equal results in a row are a stall; from the second attempt
on a stall calls Party Mode, once for the same result. What nothing has helped against is put to a human, with
everything that was tried and why it failed. The limits of the Loop-Back Handler stand above all of it: they ask a human
where the order below would try something else, and end what goes round for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.workflow.engine import loop_back_handler
from interlock.workflow.engine.loop_back_handler import MAX_ITERATIONS, Judgement
from interlock.workflow.engine.turn_interpreter import LONG, Closing
from interlock.workflow.memory.lesson import condensed
from interlock.workflow.state.document import WorkflowState

TRANSIENT, VALIDATION, UNCLEAR, EVIDENCE = "transient", "validation", "unclear", "evidence"
TRANSIENT_TRIES = 3
FIRST_PAUSE = 1.0  # seconds; doubled each time
RETRY, FIX, PARTY, ASK, END = "retry", "fix", "party_mode", "ask", "end"
TELL, BEGIN_AGAIN = "tell_what_is_missing", "begin_again"
TRIED = 20


@dataclass(frozen=True)
class Remedy:
    """What to do next: `retry` after `pause` seconds, `fix` by `strategy`, call `party_mode`, `ask` a human, or `end`
    the run. `error` is the code of the limit that was reached."""

    action: str
    strategy: str = ""
    pause: float = 0.0
    why: str = ""
    error: str | None = None


def failed(state: WorkflowState, kind: str, reason: str, issues: Sequence[str] = (), output: str = "") -> None:
    """Note a failure of the current step in `state.recovery`."""
    known = state.recovery if state.recovery.get("kind") == kind else {}
    found = loop_back_handler.validation_hash(output or reason, issues)
    attempts = int(known.get("attempts", 0)) + 1
    state.recovery = {
        "kind": kind,
        "attempts": attempts,
        "reason": reason[:2000],
        "issues": [str(one)[:500] for one in issues][:50],
        "shrinking": 0 < len(issues) < len(known.get("issues", [])),
        "advice": known.get("advice"),
        "stalled": loop_back_handler.is_stalled(known.get("hash"), found) if kind == VALIDATION else False,
        "hash": found,
        "tried": list(known.get("tried", []))[-TRIED:],
        "failed_party": list(state.recovery.get("failed_party", [])),
        "party": known.get("party"),
    }
    if known.get("party") == "running":
        # Party Mode was called for the result before this one, and the step still fails.
        state.recovery["failed_party"] = sorted({*state.recovery["failed_party"], known.get("hash"), found})
        state.recovery["party"] = None
    for one in reversed(state.recovery["tried"]):
        if "failed" not in one:
            one["failed"] = reason[:500]
        break


def limited(state: WorkflowState, judgement: Judgement) -> None:
    """Note what the loop of the step says about the failure in `state.recovery`."""
    if judgement.error is not None:
        state.recovery |= {"error": judgement.error, "details": dict(judgement.details)}


def remedy(state: WorkflowState, *, fix_known: bool, template: bool, unwanted: Collection[str] = frozenset()) -> Remedy:
    """What the failure in `state.recovery` calls for; strategies that a person does not want here are left out."""
    found = state.recovery
    attempts, tried = int(found.get("attempts", 1)), [one["strategy"] for one in found.get("tried", [])]
    if found.get("kind") == TRANSIENT:
        if attempts <= TRANSIENT_TRIES:
            pause = FIRST_PAUSE * 2 ** (attempts - 1)
            return Remedy(RETRY, f"retry_{attempts}", pause, f"try {attempts} of {TRANSIENT_TRIES}, after {pause:g} s")
        return Remedy(ASK, why=f"{TRANSIENT_TRIES} tries did not help")
    if found.get("kind") == EVIDENCE:
        for number, action in enumerate((TELL, BEGIN_AGAIN), 1):
            if attempts <= number:
                return Remedy(
                    action, action, why=f"{found.get('reason')}, for the {'first' if number == 1 else 'second'} time"
                )
        return Remedy(ASK, why="it was told what is missing and began again, and it is still missing")
    if found.get("kind") == UNCLEAR:
        return Remedy(ASK, why="the agent does not say how the step stands")
    error = found.get("error")
    if error == MAX_ITERATIONS:
        return Remedy(END, why="it was fixed and validated again as often as may be", error=error)
    if found.get("stalled"):
        response = loop_back_handler.stall_response(attempts, found["hash"], frozenset(found.get("failed_party", ())))
        if response == "party_mode":
            return Remedy(PARTY, why=f"the same result {attempts} times in a row")
    if error is not None:
        return Remedy(ASK, why=f"{error.replace('_', ' ')}: more of the same would not help", error=error)
    usable = [one for one in loop_back_handler.FALLBACKS[:-1] if one not in tried and one not in unwanted]
    for strategy in usable:
        if (strategy == "memory_patterns" and not fix_known) or (strategy == "template_fixes" and not template):
            continue
        return Remedy(FIX, strategy, why=f"the next strategy not tried yet: {strategy.replace('_', ' ')}")
    if found.get("shrinking") and "heuristic_fixes" not in unwanted:
        return Remedy(FIX, "heuristic_fixes", why="it helped: fewer findings are left")
    return Remedy(ASK, why="every strategy was tried")


def signature(recovery: Mapping[str, Any]) -> str:
    """What a failure is known by: its reason and the issues that were found."""
    issues = "; ".join(str(one) for one in recovery.get("issues", []))
    return f"{recovery.get('reason', '')}{f': {issues}' if issues else ''}"[:1000]


def trying(state: WorkflowState, strategy: str) -> None:
    """Note that a strategy is being tried."""
    state.recovery.setdefault("tried", []).append({"strategy": strategy})


def report(state: WorkflowState) -> str:
    """What a human is told: what failed, what was tried, and why it did not help."""
    found = state.recovery
    lines = [str(found.get("reason") or "the step failed")]
    lines += [f"- {issue}" for issue in found.get("issues", [])[:10]]
    tried = [
        f"- {one['strategy'].replace('_', ' ')}: {one.get('failed', 'did not help')}" for one in found.get("tried", [])
    ]
    if tried:
        lines += ["", "Tried:", *tried]
    return "\n".join(lines)


DECIDED, LEARNED, FIXED = "decided", "learned", "fixed"
KEPT = 60
OF_A_TURN = 8
CHARS = 1900  # of each; what is longer is told in its own main sentences


def collect(state: WorkflowState, closing: Closing, at: str) -> None:
    """Note what the agent's closing line says was decided and learned, each thing once."""
    for kind, said in ((DECIDED, closing.decided), (LEARNED, closing.learned)):
        for text in _sentences(said):
            _add(state, {"kind": kind, "text": text, "at": at})


def fixed(state: WorkflowState, failure: str, solution: str, at: str) -> None:
    """Note a failure that is over, and what helped."""
    _add(state, {"kind": FIXED, "text": _short(failure), "solution": _short(solution), "at": at})


def _sentences(said: Iterable[str]) -> list[str]:
    texts = (_short(" ".join(one.split())) for one in said)
    return [one for one in texts if len(one) > 3][:OF_A_TURN]


def _short(text: str) -> str:
    return condensed(text[:LONG], CHARS)


def _add(state: WorkflowState, entry: dict[str, str]) -> None:
    known = {(one.get("kind"), str(one.get("text", "")).casefold()) for one in state.learned}
    if (entry["kind"], entry["text"].casefold()) in known:
        return
    state.learned = [*state.learned, {**entry, "step": state.current_step}][-KEPT:]
