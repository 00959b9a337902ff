"""Every decision of a run with its reason and what it was made from, so that it can be shown and made again (FR12).

Each whole decision is an event `workflow.decided`; the state keeps the latest ones short. `replay` makes a decision
again from its log and the workflow's definition; one that asked the world (a file, an agent, a human) is not replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow.engine.checkpoint_pace import is_full
from interlock.workflow.entry import tier_suggester
from interlock.workflow.menus.menu_participation_engine import participate
from interlock.workflow.menus.selection import Situation
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.state.document import WorkflowState

KEPT = 200  # short ones, in the state
INPUT = 8000  # characters of what was said that a decision keeps
EVENT = "workflow.decided"
LEARNED_PREFERENCE = "learned_preference"


@dataclass(frozen=True)
class Decision:
    """One decision. `kind` is menu, question, next_step, checkpoint, tier, fix …; `by` engine, brief, agent or human.

    `confidence` is 0 to 100 where the decision has one; `basis` is what it was made from. `source` is what it came
    from, where that is not `by`: `LEARNED_PREFERENCE`. `pattern` is the choice as feedback knows it.
    """

    kind: str
    choice: str
    why: str
    by: str = "engine"
    confidence: float | None = None
    basis: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    pattern: Mapping[str, Any] | None = None

    def event(self, state: WorkflowState, at: str) -> Json:
        """The payload of its event; counts it and keeps it short in the state."""
        state.decisions_made += 1
        record = state.step(state.current_step) if state.current_step is not None else None
        short: Json = {
            "seq": state.decisions_made,
            "at": at,
            "step": state.current_step,
            "visit": record.visit if record else 0,
            "kind": self.kind,
            "choice": self.choice[:300],
            "why": self.why[:500],
            "by": self.by,
            "confidence": self.confidence,
            "decision_source": self.source or self.by,
        }
        if self.pattern is not None:
            short["pattern"] = dict(self.pattern)
        state.decisions = [*state.decisions, short][-KEPT:]
        return {**short, "workflow_id": state.workflow_id, "basis": dict(self.basis)}


def menu_basis(output: str, path: str, line: int, situation: Situation, yolo: bool) -> Json:
    """What a menu's answer is made from."""
    return {"output": output[-INPUT:], "path": path, "line": line, "situation": asdict(situation), "yolo": yolo}


def replay(payload: Mapping[str, Any], workflow: Workflow) -> str | None:
    """The choice that the same decision comes to now; None where it cannot be made without asking the world."""
    basis = payload.get("basis")
    if not isinstance(basis, Mapping) or payload.get("by") != "engine":
        return None
    if payload["kind"] == "menu" and "situation" in basis:
        step = next((s for s in workflow.steps if (s.path, s.line) == (basis["path"], basis["line"])), None)
        found = participate(basis["output"], step.text if step else "", Situation(**basis["situation"])).selection
        return found.option.key if found and found.option else None
    if payload["kind"] == "checkpoint" and "batch" in basis:
        return "checkpoint" if is_full(basis["batch"], basis["tier"], basis.get("size")) else "go on"
    if payload["kind"] == "tier" and "text" in basis:
        return str(tier_suggester.suggest(basis["text"]).tier)
    return None
