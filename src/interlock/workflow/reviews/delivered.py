"""The examination of what a workflow is for: its document is there, or the project was worked on (decision 0820).

It comes before every other, and nothing skips it: that each step says it is completed is no evidence that the workflow
has left anything. A story's own evidence is asked for elsewhere (`outcome.open_points`, `stories.spec`).
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.workflow.engine import deliverables, evidence
from interlock.workflow.engine.context import Draft
from interlock.workflow.engine.examination import APPROVE, BLOCKING, CHANGES, DELIVERABLE, Examined, Finding
from interlock.workflow.reviews import review_brief
from interlock.workflow.reviews.code_review import implements
from interlock.workflow.reviews.outcome import MAKERS

BY_RECORD = "bmad-build-auto"
WORK = "nothing was changed beside the documents"
LEAVE = "Write it, as the workflow says; where the work is not wanted any more, say so and end with `blocked`."


class Delivered:
    """See the module and `engine.context.Examination`."""

    name = DELIVERABLE
    title = "Examination of the result"

    def called_for(self, run: Draft) -> str | None:
        """After a workflow whose document is known by its name, and after one that writes code."""
        if deliverables.of(run.workflow, run.state.plan.arguments) is not None:
            return "a workflow is completed only where what it is for is there"
        skill = run.workflow.skill
        if skill.name in MAKERS or skill.id == BY_RECORD or not implements(run.package, run.workflow):
            return None
        return "an implementation is completed only where something was changed"

    def begin(self, run: Draft, round: int) -> Examined:
        """Look for it among what has changed since the run began."""
        return examined(run)


def examined(run: Draft) -> Examined:
    """The verdict. Reads files and asks git."""
    state, workflow = run.state, run.workflow
    changed = review_brief.since_begun(state, run.root)
    one = deliverables.of(workflow, state.plan.arguments)
    if one is None:
        return _work(run, changed)
    claimed = bool(state.examinations.get(DELIVERABLE, {}).get("unchanged"))
    claimed = claimed or any(evidence.unchanged(record.proofs) for record in state.steps.values())
    missing, where = deliverables.lacking(workflow, one, state.plan.arguments, state.plan.values, changed, claimed)
    if missing:
        return Examined(CHANGES, missing, (Finding(BLOCKING, missing, where, f"{LEAVE} It is a file {one.line}."),))
    return Examined(APPROVE, f"{where} is there, {one.line}")


def _work(run: Draft, changed: Sequence[str] | None) -> Examined:
    known = changed if changed is not None else review_brief.of_run(run.state, run.root).paths
    work = [path for path in known if not deliverables.is_document(run.workflow, path)]
    if not work:
        return Examined(CHANGES, WORK, (Finding(BLOCKING, WORK, fix="Implement what was asked, with its tests."),))
    noun = "file was" if len(work) == 1 else "files were"
    return Examined(APPROVE, f"{len(work)} {noun} changed beside the documents")
