"""Who reviews what: only looks, so that whoever shows it loads nothing that changes a task."""

from __future__ import annotations

from interlock.model.names import HUMAN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.model.run import Run
    from interlock.model.task import Task
    from interlock.model.team import Member
    from interlock.storage.ledger import Rows


def can_review(member: Member | None) -> bool:
    """Whether a runner could let that member review: it has an agent, and one that reads."""
    if member is None or member.role != "member" or member.status == "stopped":
        return False
    return member.agent not in (None, "shell")


def reviewer_of(rows: Rows, task: Task) -> str | None:
    """The member whose program a runner starts for the review of this task; null where a person decides."""
    if task.state != "review" or task.under_way or task.review in (None, "none", HUMAN, task.owner):
        return None
    if not can_review(rows.team.member(str(task.review))):
        return None
    return (
        None if any(question.kind in ("review", "merge") for question in rows.questions.open(task.id)) else task.review
    )


def under_review(rows: Rows, task: Task) -> Run | None:
    """The run that reviews the task now."""
    if task.state != "review" or task.under_way or not task.run:
        return None
    run = rows.runs.get(task.id, task.run)
    return run if run is not None and run.ended_at is None else None


def waiting_for(rows: Rows, member: str) -> list[Task]:
    """The tasks that a runner should have `member` review, oldest first, whether or not their time has come. Where an
    earlier review has asked a person something, that is answered first."""
    return [
        task
        for task in rows.tasks.select(states=["review"])
        if task.review == member
        and reviewer_of(rows, task) == member
        and under_review(rows, task) is None
        and not rows.questions.open(task.id)
    ]
