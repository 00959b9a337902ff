"""A code review that a person ran as a workflow of its own: what it came to, read from what it said and wrote.

The agent that reviewed knows its findings, which stand in its session and in the story; only the verdict is read here.
"""

from __future__ import annotations

from interlock.workflow.control.context import RunContext
from interlock.workflow.control.examination import (
    APPROVE,
    BLOCKED,
    BLOCKING,
    CHANGES,
    MAJOR,
    SKIPPED,
    Examined,
    Finding,
)
from interlock.workflow.entry import verdicts
from interlock.workflow.examinations import story as stories

OPEN = {
    CHANGES: Finding(
        MAJOR,
        "High and Medium findings of the review are open",
        fix="mend each of them in code and tests, and say so in the story",
    ),
    BLOCKED: Finding(BLOCKING, "the review is blocked", fix="see what it says"),
}
LEFT = ("action item", "leave as", "later")


def of_run(run: RunContext) -> Examined:
    """The first round of such a run. Reads files."""
    state = run.state
    story = stories.of_run(state, run.root, run.package.config(run.workflow.module))
    said = "\n\n".join(one["said"] for one in state.transcript)
    noted = stories.section(story.text, stories.NOTES) if story else ""
    found = verdicts.review(said) or (verdicts.review(noted) if noted else None)
    if found is None:
        return Examined(SKIPPED, "the review does not say what it came to, and it cannot be told from its findings")
    manner = "as it says" if found.printed else "as follows from what it says"
    left = found.verdict == CHANGES and (found.left or _chosen_to_leave(run))
    why = f"{found.why}, {manner}" + ("; what is open was left for later, as was chosen" if left else "")
    open_ = (OPEN[found.verdict],) if found.verdict != APPROVE else ()
    return Examined(found.verdict, why, open_, {"own": True, "left_open": left}, {"printed": found.printed})


def _chosen_to_leave(run: RunContext) -> bool:
    """Whether a human chose to keep the findings as action items."""
    answers = [one for one in run.state.asked if one.get("by") == "human" and one.get("purpose") == "menu"]
    if not answers:
        return False
    last = answers[-1]
    chosen = str(last.get("answer", "")).strip().strip("[]. ").lower()
    labels = [line for line in str(last.get("text", "")).lower().splitlines() if line.strip(" *[>").startswith(chosen)]
    return any(word in f"{chosen} {' '.join(labels)}" for word in LEFT)
