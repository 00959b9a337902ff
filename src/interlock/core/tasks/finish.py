"""Finishing a task: complete, verify, review, fail.

    in-progress ──complete──> review ──(verify passes)──> done, or on to its reviewer ──approve──> done
         ^                      │                                     │
         └──(verify fails)──────┘<───────────── reject ───────────────┘

A task with `verify` is done only when Interlock itself has run that command and it succeeded; one that was done in a
worktree of its own, when its branch is merged as well (see `merge`). Every stay in review has somebody: the verify or
merge under way, the member named by `review`, or a human with a question.
"""

from __future__ import annotations

from typing import Any

from interlock.core import questions
from interlock.core.mailbox import notify
from interlock.core.tasks.claim import must_hold, open_run
from interlock.core.tasks.transition import end_run, illegal, move, reopen_run, waiting_state
from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import Forbidden, InvalidRequest
from interlock.model.evidence import changed_check, row
from interlock.model.names import HUMAN, check_text
from interlock.model.question import (
    APPROVE,
    CHANGES,
    FAILED,
    RETRY_OR_CANCEL,
    Question,
    asking_for,
    changes_asked,
)
from interlock.model.task import Task
from interlock.model.text import gist, named

SUMMARY_LIMIT = 10_000
LONGEST_DELAY = 3600.0
"""Seconds between two attempts at most, however often a task has failed."""


def complete(
    act: UnitOfWork,
    task: Task,
    *,
    summary: str | None = None,
    verifier: str | None = None,
    proof: dict[str, Any] | None = None,
) -> Task:
    """Report a task as finished. On a task in review, by someone other than its author: approve it.

    With `verify` the task goes to review, `verifying` is set and names `verifier`, the process that must now run the
    command and call `verified`. Repeated by the same session it changes nothing (decision 10). `proof` is a row of
    evidence that goes with the report.

    Raises:
        Forbidden, StaleRun, TaskAlreadyClaimed, InvalidTransition: see `claim.must_hold`.
    """
    if summary is not None:
        check_text(summary, "summary", limit=SUMMARY_LIMIT)
    if _repeated(act, task):
        return task
    if task.state == "review" and act.name != task.owner:
        return approve(act, task, summary)
    must_hold(act, task)
    if task.state == "review":
        raise illegal(task, "is in review already")
    act.event("task.completed", task.id, outcome="done", run=task.run_id, summary=summary, session=act.session)
    if summary:
        _log(act, task, summary)
    changes: dict[str, Any] = {} if summary is None else {"output": summary}
    return finished(act, task, verifier, changes, proof)


def finished(
    act: UnitOfWork, task: Task, verifier: str | None, changes: dict[str, Any], proof: dict[str, Any] | None = None
) -> Task:
    """The work is reported as done: on to its verify, its reviewer, or the end. The caller has checked who reports.

    What was known of earlier work says nothing about this."""
    changes = {**changes, "evidence": [] if proof is None else [proof]}
    if task.verify is None:
        return settle(act, task, changes)
    round_ = task.rounds + 1
    state: dict[str, Any] = {"run": task.run, "round": round_, "process": verifier, "at": act.at}
    last = task.check
    if last is not None and not last.get("passed") and last.get("run") == task.run_id:
        state["failed"] = last  # Where nothing has changed since, it need not be run again.
    # Where it had ended with less than a whole result, its run goes on while we look at the whole one.
    reopen_run(act, task)
    if task.state == "review":
        questions.withdraw(act, task, "reported as done")
        act.rows.tasks.update(task, verifying=state, updated_at=act.at, **changes)
        act.topics.add("tasks")
    else:
        move(act, task, "review", reason="verifying", verifying=state, **changes)
    act.event("verify.started", task.id, run=task.run_id, round=round_, command=task.verify)
    return task


def approve(act: UnitOfWork, task: Task, summary: str | None = None) -> Task:
    """A reviewer's yes: the task is done.

    Raises:
        InvalidTransition: it is not in review, or its verify is still running.
        Forbidden: the actor is the author, or the review is somebody else's.
    """
    _must_review(act, task)
    answer_review(act, task, summary or APPROVE)
    act.event("task.approved", task.id, by=act.name, session=act.session)
    tree = task.evidence[-1]["tree"] if task.evidence else None
    approval = row("approval", act.at, act.name, tree=tree)
    _finish(act, task, f"approved by {act.name}", {"evidence": [*task.evidence, approval]})
    return task


def reject(act: UnitOfWork, task: Task, reason: str, *, author_lives: bool) -> Task:
    """A reviewer's no: the task goes back to its author in a new run, with `reason` as findings; where the author has
    no living session, on to the queue, reserved for the author.

    Raises:
        as `approve`; InvalidRequest without a reason.
    """
    check_text(reason, "reason", limit=SUMMARY_LIMIT, required=True)
    _must_review(act, task)
    answer_review(act, task, asking_for(reason))
    act.event("task.rejected", task.id, reason=reason)
    _log(act, task, f"Changes requested: {reason}")
    author = task.owner
    end_run(act, task, "rejected", reason)
    back_to_author(act, task, f"changes requested by {act.name}", {"findings": reason}, author_lives=author_lives)
    notify(act, author, f"Changes are asked for on {task.id}: {reason}", summary="changes requested")
    return task


def back_to_author(act: UnitOfWork, task: Task, reason: str, changes: dict[str, Any], *, author_lives: bool) -> None:
    """Give a task in review, whose run has ended, to its author in a new run; where the author has no living session,
    on to the queue, reserved for the author, or, where the author has left, for anybody."""
    author, session = task.owner, task.session
    changes = {"evidence": [], "rounds": 0, **changes}
    if act.rows.team.member(str(author)) is not None and author_lives:
        move(act, task, "in-progress", reason=reason, run=task.run + 1, **changes)
        open_run(act, task, None)
        act.event("task.claimed", task.id, owner=author, run=task.run_id, session=session, forced=False)
        return
    move(act, task, "in-progress", reason=reason, **changes)
    if act.rows.team.member(str(author)) is None:
        move(act, task, waiting_state(task), reason=f"{author} left the team")
    else:
        move(act, task, waiting_state(task), reason=f"waits for {author}", reserved=author)


def fail(
    act: UnitOfWork,
    task: Task,
    reason: str,
    *,
    counts: bool = True,
    output: str | None = None,
    pause: float = 0.0,
    lapsed: str | None = None,
    permanent: bool = False,
) -> Task:
    """The run of the task ended without a result. The task is tried again after a growing delay; after `retries`
    failed attempts it goes to deadletter with the cause on it. `counts` false: the run used up no attempt, and the
    next one may begin after `pause` seconds. `lapsed`: it ended because its lease ran out, by `stale_heartbeat` or
    `lease_expired`; the way back into the queue is then called `<lapsed>_reclaim` (AOF-61.04, 61.11).
    `permanent`: tried again it would fail again, so a person is asked at once, and no attempt is used up.

    Raises:
        as `claim.must_hold`.
    """
    must_hold(act, task)
    failures = task.failures + (1 if counts and not permanent else 0)
    end_run(act, task, "expired" if lapsed else "failed" if counts else "reclaimed", lapsed or reason)
    if permanent or (counts and failures > retries_of(act, task)):
        act.event("task.failed", task.id, run=task.run_id, attempt=failures, reason=reason, retry_at=None)
        text = f"{reason}\n\n{output}" if output else reason
        move(act, task, "deadletter", reason=reason, owner=None, failures=failures, output=text, verifying=None)
        given_up(act, task, reason)
        return task
    retry_at = None
    if counts:
        delay = act.settings.get("retry_delay") * 2 ** min(failures - 1, 30)
        retry_at = act.later(min(delay, LONGEST_DELAY))
        act.event("task.failed", task.id, run=task.run_id, attempt=failures, reason=reason, retry_at=retry_at)
    else:
        retry_at = act.later(pause) if pause else None
        act.event("task.reclaimed", task.id, run=task.run_id, reason=reason)
    hop = f"{lapsed}_reclaim" if lapsed else reason
    move(act, task, waiting_state(task), reason=hop, failures=failures, not_before=retry_at, verifying=None)
    return task


def retries_of(act: UnitOfWork, task: Task) -> int:
    """How often the task may fail."""
    return int(act.settings.get("retries") if task.retries is None else task.retries)


def given_back(act: UnitOfWork, task: Task) -> Task:
    """An agent that a runner drives has released the task. It is offered again after a growing delay; given back more
    often than it may fail, it goes to deadletter: whoever takes it would be started for nothing, for ever.

    Anything that has happened to the task since the release stands.
    """
    runs = act.rows.runs.of_task(task.id)
    if task.state not in ("ready", "backlog") or not runs or runs[-1].outcome != "released":
        return task
    times = sum(run.outcome == "released" and run.runner is not None for run in runs)
    if times > retries_of(act, task):
        reason = f"returned to the queue {times} times, last: {runs[-1].reason or 'without a reason'}"
        if task.state == "backlog":  # It waits for a new blocker first.
            return task
        act.event("task.failed", task.id, run=runs[-1].id, attempt=times, reason=reason, retry_at=None)
        move(act, task, "deadletter", reason=reason, output=reason)
        given_up(act, task, reason)
    else:
        delay = act.settings.get("retry_delay") * 2 ** min(times - 1, 30)
        act.rows.tasks.update(task, not_before=act.later(min(delay, LONGEST_DELAY)), updated_at=act.at)
        act.topics.add("tasks")
    return task


def answer_review(act: UnitOfWork, task: Task, answer: str) -> None:
    """Close the task's review question with this answer."""
    for question in act.rows.questions.open(task.id):
        if question.kind == "review":
            questions.close(act, question, answer)


def settle(act: UnitOfWork, task: Task, changes: dict[str, Any]) -> Task:
    """What follows once the work is reported and verified: done, or on to whoever reviews."""
    if task.review in (None, "none"):
        _finish(act, task, "completed", changes)
        return task
    return to_review(act, task, "done", f"review by {task.review}", changes)


def to_review(act: UnitOfWork, task: Task, outcome: str, reason: str, changes: dict[str, Any]) -> Task:
    """End the run with this outcome and give the task to whoever reviews it: the named member, else a human."""
    end_run(act, task, outcome)
    if task.state != "review":
        move(act, task, "review", reason=reason, **changes)
    else:
        act.rows.tasks.update(task, updated_at=act.at, **changes)
        act.topics.add("tasks")
    ask_reviewer(act, task)
    return task


def ask_reviewer(act: UnitOfWork, task: Task) -> None:
    """Ask whoever reviews the task: the member named, else a human, also where the member is the author or has left."""
    if task.review in (None, "none", HUMAN, task.owner) or act.rows.team.member(str(task.review)) is None:
        ask_human(act, task)
    else:
        told = "\n\n".join(filter(None, (f"Please review {task.id}: {task.subject}", _changed(task), task.output)))
        notify(
            act, task.review, told.rstrip(),
            type="task_assignment", summary=f"review {task.id}",
        )  # fmt: skip


def _finish(act: UnitOfWork, task: Task, reason: str, changes: dict[str, Any]) -> None:
    """Nothing more is to be said about the work: done; or, where it lies in a worktree, on to its merge."""
    if task.worktree is None:
        done(act, task, reason, changes)
    else:
        wait_for_merge(act, task, changes)


def wait_for_merge(act: UnitOfWork, task: Task, changes: dict[str, Any]) -> None:
    """Queue the task's branch for its merge. `held` is the process that may still be busy with its program."""
    run = act.rows.runs.get(task.id, task.run)
    end_run(act, task, "done")
    questions.withdraw(act, task, "its branch is merged")
    state = {"stage": "waiting", "since": act.at, "at": act.at, "held": run and run.runner, "process": None}
    if task.state == "review":
        act.rows.tasks.update(task, merging=state, updated_at=act.at, **changes)
        act.topics.add("tasks")
    else:
        move(act, task, "review", reason="waits for its merge", merging=state, **changes)
    act.event("merge.queued", task.id, branch=(task.worktree or {}).get("branch"), run=task.run_id)


def done(act: UnitOfWork, task: Task, reason: str, changes: dict[str, Any]) -> None:
    """The end of the road."""
    end_run(act, task, "done")
    path = ("done",) if task.state == "review" else ("review", "done")
    move(act, task, *path, reason=reason, completed_at=act.at, soft=False, **changes)


def ask_human(act: UnitOfWork, task: Task, doubt: str = "") -> None:
    """Ask a person whether the task in review is good; `doubt`: what speaks against it, or why nobody else decides."""
    first, _, more = doubt.partition("\n\n")
    last = _decided(act, task)
    data: dict[str, Any] = {} if last is None else {"again": {"at": last.answered_at, "by": last.answered_by}}
    if changed := changed_check(task.evidence):
        data["changed_check"] = changed
    questions.put(
        act,
        task,
        "review",
        " ".join(filter(None, (f"Approve {task.id} ({task.subject})?", _again(task, last), first or _changed(task)))),
        options=[APPROVE, CHANGES],
        context="\n\n".join(filter(None, (task.output, more))) or None,
        data=data or None,
    )


def _decided(act: UnitOfWork, task: Task) -> Question | None:
    """What was decided last about the work of the task, where it is asked about again."""
    asked = [one for one in act.rows.questions.of_task(task.id) if one.kind in ("review", "merge")]
    return next((one for one in reversed(asked) if one.state == "answered"), None)


def _again(task: Task, last: Question | None) -> str:
    """Why whoever has decided is asked again, in a sentence."""
    if last is None:
        return ""
    if changes := changes_asked(last.answer or ""):
        return f"Again, after the changes you asked for: {gist(changes)}"
    unmerged = (task.worktree or {}).get("unmerged")
    return f"Again, since it was approved but not merged: {gist(unmerged)}" if unmerged else ""


def _changed(task: Task) -> str:
    """What a reviewer must know of the task's check before anything else."""
    files = changed_check(task.evidence)
    return f"It changed files of its own check: {named(files, 5)}." if files else ""


def _must_review(act: UnitOfWork, task: Task) -> None:
    if task.state != "review":
        raise illegal(task, "is not in review")
    if task.verifying is not None:
        raise illegal(task, "is being verified; wait for the result")
    if task.merging is not None:
        raise illegal(task, "is being merged; wait for the result")
    if act.name == task.owner:
        raise Forbidden(f"{act.name} did {task.id} and cannot review it too.", task_id=task.id)
    named = task.review if task.review not in (None, "none", HUMAN) else None
    if act.name == named or act.role == "person" or (named is not None and act.leads):
        return
    raise Forbidden(f"{task.id} is for {named or 'a human'} to review.", task_id=task.id, reviewer=named or HUMAN)


def _repeated(act: UnitOfWork, task: Task) -> bool:
    """Whether this is the completion that the same session reported before (the answer may have been lost).

    That session need not be the author's: a reviewer completes a task in review, and the lead one that its owner left.
    """
    if task.state not in ("done", "review") or not task.run:
        return False
    run = act.rows.runs.get(task.id, task.run)
    if run is not None and run.member == act.name and run.session == act.session:
        return True
    told = [event for event in act.rows.events.of_task(task.id) if event.actor == act.name]
    return any(
        event.payload.get("session") == act.session
        and (event.type == "task.approved" or event.payload.get("run") == task.run_id)
        for event in told
        if event.type in ("task.completed", "task.approved")
    )


def _log(act: UnitOfWork, task: Task, text: str) -> None:
    act.rows.tasks.add_log(task.id, act.at, act.name, text)
    act.event("task.logged", task.id, text=text)


def given_up(act: UnitOfWork, task: Task, reason: str) -> None:
    """The lead hears of it, and a person is asked what is to become of the task."""
    notify(act, "lead", f"{task.id} ({task.subject}) went to deadletter: {reason}", summary="task failed")
    text = f"{task.id} ({task.subject}){FAILED}{reason.rstrip('.')}. {RETRY_OR_CANCEL}"
    questions.put(act, task, kind="escalation", text=text, options=questions.AFTER_FAILURE, context=task.output)


def check_reason(reason: str | None, verb: str) -> str:
    """A reason that a verb requires.

    Raises:
        InvalidRequest: there is none.
    """
    if reason is None:
        raise InvalidRequest(f"{verb} needs a reason.", field="reason")
    return check_text(reason, "reason", limit=SUMMARY_LIMIT, required=True)
