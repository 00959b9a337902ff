"""What a program says about its own end, in the last thing that it prints (decision 22).

    {"status": "COMPLETE" | "INCOMPLETE" | "NO_EVIDENCE" | "ERROR" | "AWAITING_RESPONSE" | "BLOCKED",
     "output": TEXT, "reason": "timeout" | "interactive" | TEXT}

Such a word counts as the report of the run, whatever its exit code. A shell task's own command does not report this
way: what it prints is another tool's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from interlock.model.guard import CAUSES
from interlock.model.task import Task
from interlock.protocol.completion import REASON_CHARS, stop
from interlock.sessions import Act
from interlock.tasks import finish
from interlock.tasks.transition import end_run, move

LINES = 40
"""Over how many lines the last word of a program may go."""
STATUSES = ("COMPLETE", "INCOMPLETE", "NO_EVIDENCE", "ERROR", "AWAITING_RESPONSE", "BLOCKED")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A status with what goes with it; `reason` is null where it was not given."""

    status: str
    output: str
    reason: str | None


def read(text: str) -> Outcome | None:
    """The outcome that what a program printed ends with; null where that is something else. Line breaks in it, as many
    a shell's `echo` makes them, are taken for what was meant."""
    lines = text.rstrip().split("\n")
    for start in range(len(lines) - 1, max(-1, len(lines) - LINES - 1), -1):
        if lines[start].lstrip().startswith("{"):
            said = _said("\n".join(lines[start:]))
            if said is not None:
                return said
    return None


def _said(text: str) -> Outcome | None:
    try:
        said: Any = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or said.get("status") not in STATUSES:
        return None
    output, reason = said.get("output"), said.get("reason")
    return Outcome(
        said["status"],
        output.strip() if isinstance(output, str) else "",
        reason.strip() if isinstance(reason, str) and reason.strip() else None,
    )


def apply(act: Act, task: Task, outcome: Outcome, verifier: str) -> Task:
    """Take the task in progress where its run says that it has come to.

    Raises:
        as `finish.complete` and `finish.fail`.
    """
    said = outcome.output or outcome.reason or ""
    because = f"reported {outcome.status}" + (f": {said}" if said else "")
    if outcome.status == "COMPLETE":
        return finish.complete(act, task, summary=outcome.output[: finish.SUMMARY_LIMIT] or None, verifier=verifier)
    if outcome.status in ("INCOMPLETE", "NO_EVIDENCE"):
        word = "partial" if outcome.status == "INCOMPLETE" else "needs_review"
        return finish.to_review(act, task, word, because[:REASON_CHARS], {"output": because})
    if outcome.status == "ERROR":
        return finish.fail(act, task, because[:REASON_CHARS], output=outcome.output or None)
    if outcome.status == "BLOCKED":
        stop(act, task, because[:REASON_CHARS], _told(outcome), cause=outcome.reason)
    else:
        move(act, task, "awaiting-response", reason=because[:REASON_CHARS], output=_told(outcome), cause=outcome.reason)
    end_run(act, task, task.state, because[:REASON_CHARS])
    return task


def _told(outcome: Outcome) -> str:
    """What stopped the program, in its own words."""
    return outcome.output or (outcome.reason or "" if outcome.reason not in CAUSES else "")
