"""What a run decides and learns on its way, kept in its state for whoever curates it once it has ended (FR33)."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.workflow.control.closing import LONG, Closing
from interlock.workflow.memory.lesson import condensed
from interlock.workflow.state.document import WorkflowState

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
