"""How the end of a program becomes a verb of the ledger.

What the agent has reported counts, whatever its exit code: a verb, an AOF/1 message, or a `run_result.json` that it
left, which is applied now that its program has ended (decision 16). The last thing that a program prints may be such a
report, too (decision 22; not for a shell task, whose command prints another tool's words):

    {"status": "COMPLETE" | "INCOMPLETE" | "NO_EVIDENCE" | "ERROR" | "AWAITING_RESPONSE" | "BLOCKED",
     "output": TEXT, "reason": "timeout" | "interactive" | TEXT}

Without any, the end itself is the report: a program that ended well is finished, anything else is a failed attempt
(decision 4). A provider that has nothing left (a usage limit, an overload, no network, an expired login; decision 20)
is no one's fault and uses up no attempt: the task waits, reserved for the same member, whose session is then resumed.
Nor does a machine that is short of space, memory, open files or processes, nor a ledger that cannot be used: the task
waits for whoever can have it then.
An agent's program that could not start, and would not on another try, says nothing about the task either: another
member gets it, where there is one that may have it.

A review is decided by a verb, a message, or the last line of a program that ended well: `approve`, `changes: …`, or
such JSON (`COMPLETE` approves, `INCOMPLETE` with an `output` asks for changes). Anything else is no verdict: silence
never approves.
"""

from __future__ import annotations

import json
from typing import Any

from interlock.clock import iso
from interlock.core.questions import review_answer
from interlock.core.tasks import answer, claim, finish, review, verify
from interlock.core.tasks import review as reviewers
from interlock.core.tasks.find import find
from interlock.core.tasks.transition import end_run, move
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace, close_session
from interlock.errors import InvalidRequest
from interlock.lazy_dataclass import dataclass
from interlock.model.evidence import row
from interlock.model.guard import CAUSES
from interlock.model.run import Run
from interlock.model.task import WAITING, Task
from interlock.model.text import moment, plain
from interlock.processes import ref
from interlock.protocol.dropped import adopt, apply_within, unapplied
from interlock.protocol.handlers import REASON_CHARS, digest, record, stop
from interlock.protocol.routing import missing_within
from interlock.runner.executor import Result
from interlock.runner.stdout_messages import without_messages

OUTPUT_TAIL = 4000
SUMMARY_TAIL = 600
FINDINGS_CHARS = 10_000
AUTOMATIC = "automatic"
"""Marks a result that the worker wrote for an agent that reported nothing."""
WAITS = ("capacity", "short")
GIVEN_BACK = ("cancelled", *WAITS)
"""Ends that say nothing about the work: no attempt is used up, and what was put down may be an interim result."""

REPORT_LINES = 40
"""Over how many lines the last report of a program may go."""
STATUSES = ("COMPLETE", "INCOMPLETE", "NO_EVIDENCE", "ERROR", "AWAITING_RESPONSE", "BLOCKED")

NO_CAPACITY = "capacity"
NOT_STARTED = "unstarted"
FIRST_PAUSE = 60.0
LONGEST_PAUSE = 3600.0
AFTER_RESET = 5.0
"""Seconds after the time that a provider names: its clock and ours are not the same."""

_WORDS = {
    "failed": "failed",
    "killed": "was killed",
    "timeout": "took longer than its time limit",
    "cancelled": "stopped",
    "capacity": "its provider has no capacity left",
    "short": "could not go on",
}


@dataclass(frozen=True, slots=True)
class ReportedOutcome:
    """The report that a program printed last; `reason` is None where it gave none."""

    status: str
    output: str
    reason: str | None


def settle(
    workspace: Workspace,
    task: Task,
    caller: Principal,
    result: Result,
    *,
    verifier: str,
    talks: bool = False,
    tree: str | None = None,
) -> Task | None:
    """Complete or fail the run, as its program ended; the task, or None when nothing is left to do for this run.

    Args:
        verifier: this process, in case a verify must now be run, also one that the agent's own report led to.
        talks: the agent takes more than one prompt, so that the end of its turn says nothing (decision 4): without a
            report and without a `verify` the attempt has failed.
        tree: the git tree that a command of the task's own has left.

    Raises:
        StaleRun, Conflict: the run was superseded at this very moment.
    """
    if result.status not in GIVEN_BACK:
        adopt(workspace, task.id)
    with workspace.act(caller) as act:
        if result.status not in GIVEN_BACK:
            _apply_recorded(act, workspace.directory, task, verifier)
        current = find(act.rows, task.id)
        if task.state == "review":
            _settle_review(act, current, task.run, result)
            return None
        if current.run == task.run and current.owner is None:
            run = _run_of(act, current) if current.run else None
            if run is not None and run.ended_at is None and current.state in ("ready", "backlog"):
                # It was answered while its program was about to end: the answer begins a new run, without delay.
                answer.park(act, current, "its program has ended")
            finish.given_back(act, current)
        if current.run != task.run or current.owner != caller.name:
            return None  # Taken from it, given back by it, or done.
        if current.state in WAITING:
            answer.park(act, current, "its program has ended")
            return None
        if current.state != "in-progress":
            # It reported by itself; who reviews or verifies it takes over.
            ours = current.verifying is not None and current.verifying.get("process") == verifier
            return current if ours else None
        return _settle_work(act, current, result, verifier=verifier, talks=talks, tree=tree)


def _apply_recorded(act: UnitOfWork, directory: str, task: Task, verifier: str) -> None:
    """Apply what the run has put down of its end, if anything."""
    run = _run_of(act, task)
    if run is not None and unapplied(run):
        missing = missing_within(act.rows, directory, task.id, (run.result or {}).get("summaryRef"))
        apply_within(act, task.id, task.run, missing=missing, verifier=verifier)


def _settle_work(
    act: UnitOfWork, task: Task, result: Result, *, verifier: str, talks: bool, tree: str | None
) -> Task | None:
    tail = without_messages(plain(result.output))[-OUTPUT_TAIL:].strip()
    said = read_outcome(tail) if result.status not in GIVEN_BACK and task.command is None else None
    if said is not None:
        _report(act, task, said.output or None)
        task = _apply_outcome(act, task, said, verifier)
        return task if task.verifying is not None else None
    if result.status == "ended" and talks and task.verify is None:
        run = _run_of(act, task)
        if run is None or run.result is None or AUTOMATIC in run.result:
            _note_silence(act, task)
            finish.fail(act, task, "ended its turn without a report, also after a reminder", output=tail or None)
            return None
    if result.status == "ended":
        end = tail[-SUMMARY_TAIL:]
        # As many of the last lines as fit, whole, if at least one does.
        summary = (tail if end == tail else end.partition("\n")[2].strip() or end) or None
        _report(act, task, summary)
        known = {"command": task.command, "exit_code": result.exit_code, "tree": tree}
        proof = row("exit_code", act.at, act.name, **known) if task.command is not None else None
        return finish.complete(act, task, summary=summary, verifier=verifier, proof=proof)
    if result.status in WAITS:
        _wait_for_capacity(act, task, result)
    elif result.permanent and _another_may(act, task):
        _end_uncounted(act, task, reason_of(result), NOT_STARTED)
    else:
        counts = result.status not in GIVEN_BACK
        finish.fail(act, task, reason_of(result), counts=counts, output=tail or None, permanent=result.permanent)
    return None


def _another_may(act: UnitOfWork, task: Task) -> bool:
    """Whether a member could have the task whose program may yet start. It has been nobody's twice for nothing: where
    those who are left cannot work here, a person is asked."""
    unfit = {run.member for run in act.rows.runs.of_task(task.id) if run.outcome == NOT_STARTED}
    if task.command is not None or task.reserved_for is not None or act.name in unfit:
        return False
    others = (one for one in act.rows.team.members() if one.name not in {act.name, *unfit})
    return any(one.status == "active" and one.agent not in (None, "shell") for one in others)


def give_up(workspace: Workspace, task: Task, caller: Principal, result: Result) -> None:
    """End a run that cannot continue, for a reason of ours: its task goes back into the queue, or on to deadletter, at
    once where that is `permanent`.

    Raises:
        Conflict: it has been settled otherwise.
    """
    counts, why = result.status not in GIVEN_BACK, str(result.detail)
    with workspace.act(caller) as act:
        current = find(act.rows, task.id)
        if task.state == "review":
            under = reviewers.under_review(act.rows, current)
            if under is not None and under.number == task.run:
                _no_verdict(act, current, result, why)
            return
        if current.run != task.run or current.owner != caller.name:
            return
        if current.state == "review" and current.verifying is not None and counts:
            if caller.process != ref.without_token(str(current.verifying.get("process") or "")):
                return  # The agent's own process decides or, where that is gone, whoever runs the check again.
            evidence = {"command": current.verify, "exit_code": None, "passed": False, "tail": why}
            current = verify.verified(act, current, evidence, run=task.run)
        if current.state == "in-progress" and result.status in WAITS:
            _wait_for_capacity(act, current, result)
        elif current.state == "in-progress":
            finish.fail(act, current, why, counts=counts, permanent=result.permanent)


def end_session(workspace: Workspace, caller: Principal) -> None:
    """Close the session of a run; what its agent claimed beside the task it was given goes back to the queue."""
    with workspace.act(caller) as act:
        _release_others(act, "the session of its agent has ended")
        close_session(act, act.name, act.session)


def end_task(workspace: Workspace, caller: Principal) -> None:
    """Keep the session, without a task; what its agent claimed beside it goes back to the queue."""
    with workspace.ledger.snapshot() as rows:
        others = [task for task in rows.tasks.owned(caller.name) if task.session == caller.session]
    if any(task.state == "in-progress" for task in others):
        with workspace.act(caller) as act:
            _release_others(act, "its agent got no turn for it")


def _release_others(act: UnitOfWork, reason: str) -> None:
    for task in act.rows.tasks.owned(act.name):
        if task.session == act.session and task.state == "in-progress":
            act.run = task.run
            claim.release(act, task, reason)


def _run_of(act: UnitOfWork, task: Task) -> Run | None:
    return act.rows.runs.get(task.id, task.run)


def _report(act: UnitOfWork, task: Task, summary: str | None) -> None:
    """Write the result of a run that ended well and said nothing: that it ended well (decision 4)."""
    run = _run_of(act, task)
    if run is None or (run.result is not None and AUTOMATIC not in run.result):
        return  # It has reported, and continues after a check that failed.
    if not task.rounds:
        _note_silence(act, task)
    fields = {
        "taskId": task.id, "runId": run.id, "agentId": run.member, "completedAt": act.at, "outcome": "done",
        "deliverables": [], "blockers": [], **({"notes": summary} if summary else {}), AUTOMATIC: True,
    }  # fmt: skip
    record(act, run, fields, source="worker", applied=digest(fields))


def _note_silence(act: UnitOfWork, task: Task) -> None:
    """That an agent, other than a command, has said nothing of its task is an event (decision 21)."""
    run = _run_of(act, task)
    member = act.rows.team.member(run.member) if run is not None else None
    if run is not None and member is not None and member.agent != "shell":
        act.event("agent.idle_without_report", task.id, run=run.id, member=run.member)


def reason_of(result: Result) -> str:
    """How the program ended, in a line."""
    if result.status == "failed" and result.detail and not result.permanent:
        return result.detail
    if result.status == "failed" and result.exit_code is not None:
        return f"ended with exit code {result.exit_code}"
    words = "could not start" if result.permanent else _WORDS[result.status]
    return f"{words}: {result.detail}" if result.detail else words


def read_outcome(text: str) -> ReportedOutcome | None:
    """The report that what a program printed ends with; None where that is something else. Line breaks in it, which a
    shell's `echo` makes, are taken for what was meant."""
    lines = text.rstrip().split("\n")
    for start in range(len(lines) - 1, max(-1, len(lines) - REPORT_LINES - 1), -1):
        if not lines[start].lstrip().startswith("{"):
            continue
        try:
            said: Any = json.loads("\n".join(lines[start:]), strict=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict) and said.get("status") in STATUSES:
            output, reason = (
                part.strip() if isinstance(part := said.get(name), str) else "" for name in ("output", "reason")
            )
            return ReportedOutcome(said["status"], output, reason or None)
    return None


def _apply_outcome(act: UnitOfWork, task: Task, outcome: ReportedOutcome, verifier: str) -> Task:
    """Take the task in progress where its run says that it has come to.

    Raises:
        as `finish.complete` and `finish.fail`.
    """
    said = outcome.output or outcome.reason or ""
    whole = f"reported {outcome.status}" + (f": {said}" if said else "")
    because = whole[:REASON_CHARS]
    if outcome.status == "COMPLETE":
        return finish.complete(act, task, summary=outcome.output[: finish.SUMMARY_LIMIT] or None, verifier=verifier)
    if outcome.status in ("INCOMPLETE", "NO_EVIDENCE"):
        word = "partial" if outcome.status == "INCOMPLETE" else "needs_review"
        return finish.to_review(act, task, word, because, {"output": whole})
    if outcome.status == "ERROR":
        return finish.fail(act, task, because, output=outcome.output or None)
    # What stopped the program, in its own words.
    told = outcome.output or (outcome.reason or "" if outcome.reason not in CAUSES else "")
    if outcome.status == "BLOCKED":
        stop(act, task, because, told, cause=outcome.reason)
    else:
        move(act, task, "awaiting-response", reason=because, output=told, cause=outcome.reason)
    end_run(act, task, task.state, because)
    return task


def read_verdict(output: str) -> tuple[bool, str] | None:
    """(approved, findings) of the last line that says anything; None where that is no verdict."""
    text = without_messages(plain(output))
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    said = read_outcome(last)
    if said is not None:
        if said.status == "COMPLETE":
            return True, ""
        return (False, said.output) if said.status == "INCOMPLETE" and said.output else None
    try:
        return review_answer(last.strip("`*. "))
    except InvalidRequest:
        return None


def _settle_review(act: UnitOfWork, task: Task, number: int, result: Result) -> None:
    """Write down what the run of a review came to."""
    run = reviewers.under_review(act.rows, task)
    if run is None or run.number != number:
        return  # It has been decided, or taken from the reviewer.
    why = None if result.status == "ended" else reason_of(result)
    verdict = None if why is not None else read_verdict(result.output)
    if verdict is None:
        _no_verdict(act, task, result, why or "it ended without a verdict")
    elif verdict[0]:
        finish.approve(act, task)
    else:
        finish.reject(act, task, verdict[1][:FINDINGS_CHARS], author_lives=review.author_lives(act, task))


def _no_verdict(act: UnitOfWork, task: Task, result: Result, why: str) -> None:
    review.no_verdict(act, task, why, counts=result.status not in GIVEN_BACK)
    if result.status in WAITS:
        when = _retry_at(act, task, result)
        _note_capacity(act, task, why, when, result.login)
        act.rows.tasks.update(task, not_before=when, updated_at=act.at)
        act.topics.add("tasks")


def _wait_for_capacity(act: UnitOfWork, task: Task, result: Result) -> None:
    """End the run of `task` for want of capacity, and let the task wait. An expired login does not end by itself: a
    person is asked."""
    why, when = reason_of(result), _retry_at(act, task, result)
    _note_capacity(act, task, why, when, result.login)
    if result.login:
        answer.ask(
            act, task, text=f"{act.name} cannot work: {result.detail or why}. Answer when that is fixed.",
            key=f"login:{task.run_id}",
        )  # fmt: skip
        end_run(act, task, NO_CAPACITY, why)
        return
    _end_uncounted(act, task, f"{why}; next try {moment(when)}", NO_CAPACITY)
    act.rows.tasks.update(task, not_before=when, updated_at=act.at)
    if result.status == "capacity":
        act.rows.tasks.update(task, reserved=act.name)


def _end_uncounted(act: UnitOfWork, task: Task, why: str, outcome: str) -> None:
    """Back into the queue with the task, whose run was in vain, but says nothing about the work."""
    run = _run_of(act, task)
    finish.fail(act, task, why, counts=False)
    if run is not None:
        act.rows.runs.update(run, ended_at=act.at, outcome=outcome, reason=why)


def _retry_at(act: UnitOfWork, task: Task, result: Result) -> str:
    """When to try again, ISO 8601 UTC: the time the provider names, or longer each time where it names none."""
    times = 0
    for run in reversed(act.rows.runs.of_task(task.id)):
        if run.outcome == NO_CAPACITY:
            times += 1
        elif run.ended_at is not None:
            break
    now = act.clock.now()
    # A time that is over already counts once: a provider that names it again and again has nothing to give at it.
    if result.retry_at is not None and (result.retry_at > now or not times):
        return iso(max(result.retry_at, now) + AFTER_RESET)
    return act.later(min(FIRST_PAUSE * 2**times, LONGEST_PAUSE))


def _note_capacity(act: UnitOfWork, task: Task, why: str, when: str, login: bool) -> None:
    act.event("run.capacity", task.id, run=task.run_id, reason=why, retry_at=None if login else when, login=login)
