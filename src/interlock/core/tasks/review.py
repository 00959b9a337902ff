"""Reviews by members whose programs a runner starts: the review is a run of the reviewer, with a number of its own.

    in review ──claim_review──> the reviewer's run ──approve──> done
                    ▲                    ├──changes──> a new run of the author, with the findings
                    └──tried again───────┴──no verdict, too often──> a human is asked

It is counted like any run, and fences like any: it takes the task's next number, and whatever speaks for an older one
is stale. The author keeps the task, and never reviews it.
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.core.tasks.claim import may_be_given_work, refuse_more_runs
from interlock.core.tasks.finish import LONGEST_DELAY, ask_human, retries_of
from interlock.core.tasks.transition import end_run, lease
from interlock.core.unit_of_work import RUN_SESSION, UnitOfWork
from interlock.model.names import HUMAN
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.model.text import count, gist
from interlock.processes import ref
from interlock.storage.ledger import Rows


def claim_review(act: UnitOfWork, *, runner: str, parallel: int) -> Task | None:
    """Begin the actor's review of the task that waits longest for it; None where none does.

    Raises:
        RunLimit: `parallel` runs are open.
    """
    found = [task for task in waiting_for(act.rows, act.name) if task.not_before is None or task.not_before <= act.at]
    if not found or not may_be_given_work(act.rows, act.name, act.settings):
        return None
    refuse_more_runs(act, parallel)
    task = found[0]
    act.rows.tasks.update(task, run=task.run + 1, not_before=None, updated_at=act.at)
    run = Run(
        task_id=task.id, number=task.run, member=act.name, session=act.session, started_at=act.at, runner=runner,
        expires_at=lease(act, True),
    )  # fmt: skip
    act.rows.runs.begin(run)
    act.event("review.started", task.id, run=run.id, member=act.name)
    act.topics.add("tasks")
    return task


def no_verdict(act: UnitOfWork, task: Task, reason: str, *, counts: bool = True) -> None:
    """The run that reviews the task has ended without a verdict: another one follows after a growing delay, and after
    `retries` failed ones a human is asked. `counts` false: it was stopped, and is not held against anybody."""
    run = under_review(act.rows, task)
    if run is not None and run.member != task.review:
        end_run(act, task, "reclaimed", "somebody else reviews it now")
        return
    end_run(act, task, "failed" if counts else "reclaimed", reason)
    for question in act.rows.questions.open(task.id):
        if question.held:  # What it asked a person is answered to the next one.
            act.rows.questions.update(question, held=False)
    failures = _failures(act, task)
    if counts and failures > retries_of(act, task):
        act.event("review.failed", task.id, run=task.run_id, reason=reason, retry_at=None)
        ask_human(act, task, f"{task.review} gave no verdict in {count(failures, 'attempt')}. The last: {gist(reason)}")
        return
    retry_at = None
    if counts:
        delay = act.settings.get("retry_delay") * 2 ** min(failures - 1, 30)
        retry_at = act.later(min(delay, LONGEST_DELAY))
    act.event("review.failed", task.id, run=task.run_id, reason=reason, retry_at=retry_at)
    act.rows.tasks.update(task, not_before=retry_at, updated_at=act.at)
    act.topics.add("tasks")


def abstain(act: UnitOfWork, task: Task, reason: str) -> None:
    """The reviewer says that it cannot judge: a human is asked."""
    end_run(act, task, "blocked", reason)
    act.event("review.failed", task.id, run=task.run_id, reason=reason, retry_at=None)
    act.rows.tasks.add_log(task.id, act.at, act.name, f"Cannot review it: {reason}")
    act.event("task.logged", task.id, text=f"Cannot review it: {reason}")
    ask_human(act, task, f"{task.review} cannot judge it: {gist(reason)}")


def author_lives(act: UnitOfWork, task: Task) -> bool:
    """Whether the session that did the task still has a living process that could hear of a verdict,
    as far as anybody here can see.

    The session of a runner's program cannot: it has had its prompt, and the findings need a new one.
    """
    if task.session is None or task.session.startswith(RUN_SESSION):
        return False
    return any(
        session == task.session and process is not None and ref.alive(process)
        for session, process in act.rows.sessions.living(str(task.owner))
    )


def _failures(act: UnitOfWork, task: Task) -> int:
    """How many reviews since the author's last run have come to nothing."""
    failed = 0
    for run in reversed(act.rows.runs.of_task(task.id)):
        if run.member == task.owner:
            break
        failed += run.outcome == "failed"
    return failed


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


def waiting_for(rows: Rows, member: str, in_review: Sequence[Task] | None = None) -> list[Task]:
    """The tasks (of those `in_review`, all by default) that a runner should have `member` review, oldest first, whether
    or not their time has come. Where an earlier review has asked a person something, that is answered first."""
    return [
        task
        for task in (rows.tasks.select(states=["review"]) if in_review is None else in_review)
        if task.review == member
        and reviewer_of(rows, task) == member
        and under_review(rows, task) is None
        and not rows.questions.open(task.id)
    ]
