"""Whether there is anything left that goes on without a person."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.ledger import Rows
from interlock.model.task import Run
from interlock.model.team import Member
from interlock.reports import may_take
from interlock.runner.lifesigns import lives
from interlock.tasks.reviewers import reviewer_of

READY_LOOKED_AT = 10_000

LOST = frozenset({"reclaimed", "cancelled", "deleted", "superseded", "expired"})
"""Outcomes of a run whose task was taken away from it."""


def nothing_left(rows: Rows, crew: Sequence[Member], *, unattended: bool = False) -> bool:
    """Whether no task is ready, now or after its delay, that a member of the crew could take, and nobody else with a
    living process is at work, whose result could make one so. A pause ends nothing: whoever made it ends it."""
    here = {member.name for member in rows.team.members() if member.status != "stopped"}
    crew = [member for member in crew if member.name in here]
    names = {member.name for member in crew}
    ready = rows.tasks.ready(READY_LOOKED_AT)
    if any(may_take(task, member.name, member.agent) for task in ready for member in crew):
        return False
    reviews = rows.tasks.select(states=["review"])
    if any(reviewer_of(rows, task) in names and not rows.questions.open(task.id) for task in reviews):
        return False
    for task in rows.tasks.merging():
        state = task.merging or {}
        if any(lives(str(state[who])) for who in ("process", "held") if state.get(who)):
            return False
    if any(one.reversible and one.default is not None for one in rows.questions.open()) and unattended:
        return False  # Its default will be taken.
    return not any(_at_work(rows, run) for run in rows.runs.open())


def _at_work(rows: Rows, run: Run) -> bool:
    """Whether that run goes on by itself: a runner's, a verify, or a member's whose session has a living process.

    People, and members at a plain command line, have none: their tasks wait for a person.
    """
    task = rows.tasks.get(run.task_id)
    if task is None or task.run != run.number:
        return False
    if task.state == "review" and not task.under_way:
        # A review, unless it waits for a permission.
        return run.runner is not None and bool(lives(run.runner)) and not rows.questions.open(task.id)
    if task.state == "review":
        return task.verifying is not None and bool(lives(str(task.verifying.get("process") or "")))
    if task.state != "in-progress":
        return False
    if run.runner is not None:
        return bool(lives(run.runner))
    member = rows.team.member(run.member)
    return (
        member is not None
        and member.role == "member"
        and any(
            session == run.session and process is not None and lives(process)
            for session, process in rows.team.living_sessions(run.member)
        )
    )
