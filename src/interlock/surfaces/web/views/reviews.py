"""How finished work was examined and discussed, in the shape in which the page shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.model.json import Json

VERDICTS = {
    "approve": ("done", "Approved"),
    "changes_requested": ("review", "Changes requested"),
    "blocked": ("blocked", "Blocked"),
}
"""The signal and the words of each verdict."""
NOT_REVIEWED = "not reviewed"
"""The status of an examination whose latest attempt came to no verdict."""
TITLES = {"code_review": "Code review", "pre_final_review": "Pre-final review"}
VALIDATORS = {"pending": "backlog", "in_progress": "in-progress", "completed": "done", "failed": "deadletter"}
SEVERITIES = ("blocking", "major", "minor")
PURPOSES = {
    "stall": "The run stood still",
    "thresholds": "The findings passed a threshold",
    "low_confidence": "The result was doubtful",
    "chosen": "It was chosen at a menu",
    "pre_final_review": "Large work is reviewed before it is closed",
}
HOW = {
    "full": "hosted by the installed party mode",
    "simulated": "each voice an agent of its own",
    "menu": "played by the run’s own agent",
}
ENDS = {
    "consensus_reached": "all agree",
    "max_rounds": "no consensus within the rounds there are",
    "stagnation": "two rounds in a row brought nothing new",
    "exit_keyword": "it was ended",
    "timeout": "its time was up",
    "error": "it broke off",
}


def examination(name: str, kept: Mapping[str, Any]) -> Json:
    """One examination with its rounds, the newest last, and who looks at the work now."""
    rounds = [_round(number, one) for number, one in enumerate(kept.get("rounds", ()), 1)]
    now = kept.get("now") or {}
    begun = int(now.get("round") or 0)
    validators = [_validator(label, one) for label, one in now.get("validators", {}).items()]
    return {
        "name": name,
        "title": title(name),
        "rounds": rounds,
        "validators": validators,
        "round": begun,
        "under_way": any(one["status"] != "completed" for one in validators) and begun > len(rounds),
        "mends": bool(kept.get("mend")),
        "unreviewed": kept.get("status") == NOT_REVIEWED,
    }


def title(name: str) -> str:
    """An examination's name for people."""
    return TITLES.get(name, name.replace("_", " ").capitalize())


def loop(kept: Mapping[str, Any]) -> Json | None:
    """A loop of validating and fixing; null where it has not come round yet."""
    if not kept.get("current_iteration"):
        return None
    found = kept.get("errors_by_iteration", {})
    return {
        "iteration": kept["current_iteration"],
        "most": kept["max_iterations"],
        "same": int(kept.get("same_error_count", 0)),
        "found": [{"when": "At first" if key == "0" else f"Iteration {key}", "errors": one}
                  for key, one in found.items()],
    }  # fmt: skip


def discussion(party: Mapping[str, Any]) -> Json | None:
    """A discussion: its rounds as a table of who held what, and what it came to. Null where there was none."""
    if not party.get("purpose"):
        return None
    rounds: Sequence[Mapping[str, Any]] = party.get("rounds") or ()
    spoke = [said["agent"] for one in rounds for said in one["contributions"]]
    voices = list(dict.fromkeys([*party.get("voices", ()), *spoke]))
    running = party.get("status") == "running"
    came_to = party.get("summary") or {}
    last = {}
    for one in rounds:
        last.update(one.get("votes", {}))
    return {
        "running": running,
        "why": party.get("why") or PURPOSES.get(party["purpose"], party["purpose"].replace("_", " ")),
        "how": HOW.get(party.get("how", ""), ""),
        "step": party.get("step"),
        "problem": party.get("problem", ""),
        "rounds": rounds,
        "most": party.get("max_rounds"),
        "voices": [{"name": name, "cells": [_cell(name, one) for one in rounds]} for name in voices],
        "positions": [
            {"label": label, "text": text, "by": [name for name, held in last.items() if held == label]}
            for label, text in (party.get("options") or {}).items()
        ],
        "ended": ENDS.get(str(party.get("exit_reason")), str(party.get("exit_reason") or "").replace("_", " ")),
        "exit_reason": party.get("exit_reason"),
        "error": party.get("error"),
        "recommendation": came_to.get("recommendation", ""),
        "confidence": came_to.get("confidence"),
        "others": list(came_to.get("recommendations", ()))[1:],
    }


def _round(number: int, one: Mapping[str, Any]) -> Json:
    verdict = str(one.get("verdict", ""))
    mark, words = VERDICTS.get(verdict, ("cancelled", verdict.replace("_", " ").capitalize()))
    findings = sorted(one.get("findings", ()), key=lambda one: _rank(one.get("severity")))
    checked = [item for item in one.get("checklist", ()) if item.get("result") != "n/a"]
    return {
        "number": number,
        "mark": mark,
        "words": words,
        "summary": one.get("summary", ""),
        "at": one.get("at"),
        "findings": [
            {
                **{name: str(one.get(name) or "") for name in ("severity", "title", "location", "fix")},
                "repeats": max(0, len(one.get("found_by", ())) - 1),
            }
            for one in findings
        ],
        "counts": [
            (severity, count)
            for severity in SEVERITIES
            if (count := sum(one.get("severity") == severity for one in findings))
        ],
        "passed": sum(item.get("result") == "pass" for item in checked),
        "checked": len(checked),
        "failed_items": [item for item in checked if item.get("result") != "pass"],
        "score": one.get("compliance_score"),
        "validators": [_heard(one) for one in one.get("validators", ())],
        "perspectives": {
            name: VERDICTS.get(said, ("", said.replace("_", " ")))[1]
            for name, said in (one.get("perspectives") or {}).items()
        },
        "lost": one.get("lost") or {},
    }


def _validator(label: str, one: Mapping[str, Any]) -> Json:
    result = one.get("result") or {}
    status = str(one.get("status", "pending"))
    return {
        "label": label,
        "name": one.get("name", ""),
        "status": status,
        "words": status.replace("_", " "),
        "mark": VALIDATORS.get(status, "backlog"),
        "said": one.get("detail") or result.get("summary") or "",
        "count": len(result.get("findings", ())),
        "attempts": int(one.get("attempts", 0)),
    }


def _heard(result: Mapping[str, Any]) -> Json:
    failed = result.get("status") == "failed"
    return {
        "label": result.get("label", ""),
        "name": result.get("name", ""),
        "words": {"failed": "could not be heard", "issues": "issues", "passed": "passed"}.get(
            str(result.get("status")), str(result.get("status", ""))
        ),
        "mark": "deadletter" if failed else "review" if result.get("status") == "issues" else "done",
        "said": result.get("detail") or result.get("summary") or "",
        "count": len(result.get("findings", ())),
        "attempts": 0,
    }


def _cell(name: str, round: Mapping[str, Any]) -> Json:
    said = next((one for one in round["contributions"] if one["agent"] == name), None)
    return {
        "label": round.get("votes", {}).get(name, ""),
        "spoke": said is not None,
        "sure": said.get("confidence") if said else None,
    }


def _rank(severity: object) -> int:
    return SEVERITIES.index(str(severity)) if severity in SEVERITIES else len(SEVERITIES)
