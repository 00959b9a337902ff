"""How the end of a program becomes a verb of the ledger.

What the agent has reported counts, whatever its exit code: a verb, an AOF/1 message, or a `run_result.json` that it
left, which is applied now that its program has ended (decision 16). Without any, the end itself is the report: a
program that ended well is finished, anything else is a failed attempt (decision 4).

What a program says about its own end, in the last thing that it prints (decision 22).

    {"status": "COMPLETE" | "INCOMPLETE" | "NO_EVIDENCE" | "ERROR" | "AWAITING_RESPONSE" | "BLOCKED",
     "output": TEXT, "reason": "timeout" | "interactive" | TEXT}

Such a word counts as the report of the run, whatever its exit code. A shell task's own command does not report this
way: what it prints is another tool's.

How the end of a reviewer's program becomes a verdict.

What it said by a verb or a message counts. Else the last line of a program that ended well is looked at: `approve`,
`changes: …`, or JSON with a `status` (`COMPLETE` approves, `INCOMPLETE` with an `output` asks for changes). Whatever
else it says, or however it ends, is no verdict: silence never approves.

An agent whose provider has nothing left: a usage limit, an overload, no network, an expired login (decision 20).

It is nobody's fault and uses up no attempt. The run ends and frees its place; the task waits for the time the provider
names, or longer each time where it names none, reserved for the same member, whose own session is then resumed. An
expired login ends by itself for nobody: a person is asked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from interlock.clock import iso, seconds
from interlock.core.questions import review_answer
from interlock.core.tasks import answer, claim, finish, review, verify
from interlock.core.tasks import review as reviewers
from interlock.core.tasks.find import find
from interlock.core.tasks.transition import end_run, move
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace, close_session
from interlock.errors import InvalidRequest
from interlock.model.evidence import row
from interlock.model.guard import CAUSES
from interlock.model.task import WAITING, Task
from interlock.processes import ref
from interlock.processes.output import plain
from interlock.processes.ref import alive
from interlock.protocol.dropped import adopt, apply_recorded
from interlock.protocol.handlers import REASON_CHARS, digest, record, stop
from interlock.runner.executor import Result
from interlock.runner.stdout_messages import without_messages

OUTPUT_TAIL = 4000
SUMMARY_TAIL = 600
AUTOMATIC = "automatic"
"""Marks a result that the worker wrote in the place of an agent that reported nothing."""

GIVEN_BACK = ("cancelled", "capacity")
"""Ends that say nothing about the work: no attempt is used up, and what was put down may be an interim result."""

_WORDS = {
    "failed": "failed",
    "killed": "was killed from outside",
    "timeout": "took longer than its time limit",
    "cancelled": "was stopped",
    "capacity": "its provider has no capacity left",
}


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
    """Complete or fail the run, as its program ended; the task, or null when nothing is left to do for this run.

    `talks`: the agent takes more than one prompt, so that the end of its turn says nothing (decision 4): without a
    report and without a `verify` the attempt has failed.

    `verifier` names this process, in case a verify must now be run, also one that the agent's own report led to. `tree`
    is the git tree that a command of the task's own has left.

    Raises:
        StaleRun, Conflict: the run was superseded at this very moment.
    """
    if result.status not in GIVEN_BACK:
        adopt(workspace, task.id)
        apply_recorded(workspace, caller, task.id, task.run, verifier=verifier)
    if task.state == "review":
        settle_review(workspace, task, caller, result, None if result.status == "ended" else reason(result))
        return None
    with workspace.act(caller, acknowledge=False) as act:
        current = find(act.rows, task.id)
        if current.run == task.run and current.owner is None:
            requeue_answered(act, current)
            finish.given_back(act, current)
        if current.run != task.run or current.owner != caller.name:
            return None  # Taken from it, given back by it, or done.
        if current.state in WAITING:
            answer.park(act, current, "its program has ended")
            return None
        if current.state != "in-progress":
            # It reported by itself; who reviews or verifies it goes on with it.
            ours = current.verifying is not None and current.verifying.get("process") == verifier
            return current if ours else None
        tail = without_messages(plain(result.output))[-OUTPUT_TAIL:].strip()
        said = read_outcome(tail) if result.status not in GIVEN_BACK and current.command is None else None
        if said is not None:
            _report(act, current, said.output or None)
            current = apply_outcome(act, current, said, verifier)
            return current if current.verifying is not None else None
        if result.status == "ended" and talks and current.verify is None and not _has_reported(act, current):
            note_silence(act, current)
            finish.fail(act, current, "ended its turn without a report, also after a reminder", output=tail or None)
            return None
        if result.status == "ended":
            summary = _last_lines(tail) or None
            _report(act, current, summary)
            known = {"command": current.command, "exit_code": result.exit_code, "tree": tree}
            proof = row("exit_code", act.at, act.name, **known) if current.command is not None else None
            return finish.complete(act, current, summary=summary, verifier=verifier, proof=proof)
        if result.status == "capacity":
            wait_for_capacity(act, current, reason(result), result)
            return None
        counts = result.status not in GIVEN_BACK
        why, output = reason(result), tail or None
        finish.fail(act, current, why, counts=counts, output=output, permanent=result.permanent)
        return None


def requeue_answered(act: UnitOfWork, task: Task) -> None:
    """Its question was answered while its program was about to end: the answer begins a new run, without delay."""
    run = act.rows.runs.get(task.id, task.run) if task.run else None
    if run is not None and run.ended_at is None and task.state in ("ready", "backlog"):
        end_run(act, task, "awaiting-response", "its program has ended")
        act.rows.tasks.update(task, not_before=None, reserved=None, updated_at=act.at)
        act.topics.add("tasks")


def _report(act: UnitOfWork, task: Task, summary: str | None) -> None:
    """The result of a run that ended well and said nothing: that it ended well (decision 4).

    That an agent, other than a command, left it to us to say so is an event (decision 21).
    """
    run = act.rows.runs.get(task.id, task.run)
    if run is None or (run.result is not None and AUTOMATIC not in run.result):
        return  # It has reported, and goes on after a check that failed.
    if not task.rounds:
        note_silence(act, task)
    fields = {
        "taskId": task.id, "runId": run.id, "agentId": run.member, "completedAt": act.at, "outcome": "done",
        "deliverables": [], "blockers": [], **({"notes": summary} if summary else {}), AUTOMATIC: True,
    }  # fmt: skip
    record(act, run, fields, source="worker", applied=digest(fields))


def note_silence(act: UnitOfWork, task: Task) -> None:
    """That an agent has said nothing of its task is an event (decision 21)."""
    run = act.rows.runs.get(task.id, task.run)
    member = act.rows.team.member(run.member) if run is not None else None
    if run is not None and member is not None and member.agent != "shell":
        act.event("agent.idle_without_report", task.id, run=run.id, member=run.member)


def _has_reported(act: UnitOfWork, task: Task) -> bool:
    run = act.rows.runs.get(task.id, task.run)
    return run is not None and run.result is not None and AUTOMATIC not in run.result


def give_up(
    workspace: Workspace, task: Task, caller: Principal, why: str, counts: bool, permanent: bool = False
) -> None:
    """The run cannot go on, for a reason of ours: its task goes back into the queue, or on to deadletter, at once where
    it is `permanent`.

    Raises:
        Conflict: it has been settled otherwise.
    """
    with workspace.act(caller, acknowledge=False) as act:
        current = find(act.rows, task.id)
        if task.state == "review":
            give_up_review(act, current, task.run, why, counts)
            return
        if current.run != task.run or current.owner != caller.name:
            return
        if current.state == "review" and current.verifying is not None and counts:
            if alive(str(current.verifying.get("process") or "")) and caller.process != _verifier_of(current):
                return  # The agent's own process is about to decide.
            evidence = {"command": current.verify, "exit_code": None, "passed": False, "tail": why}
            current = verify.verified(act, current, evidence, run=task.run)
        if current.state == "in-progress":
            finish.fail(act, current, why, counts=counts, permanent=permanent)


def end_session(workspace: Workspace, caller: Principal) -> None:
    """The session of a run is over; what its agent claimed beside the task it was given goes back to the queue."""
    with workspace.act(caller, acknowledge=False) as act:
        _release_others(act, "the session of its agent has ended")
        close_session(act, act.name, act.session)


def end_task(workspace: Workspace, caller: Principal) -> None:
    """The session goes on, without a task; what its agent claimed beside it goes back to the queue."""
    with workspace.ledger.snapshot() as rows:
        others = [task for task in rows.tasks.owned(caller.name) if task.session == caller.session]
    if any(task.state == "in-progress" for task in others):
        with workspace.act(caller, acknowledge=False) as act:
            _release_others(act, "its agent got no turn for it")


def _release_others(act: UnitOfWork, reason: str) -> None:
    for task in act.rows.tasks.owned(act.name):
        if task.session == act.session and task.state == "in-progress":
            act.run = task.run
            claim.release(act, task, reason)


def reason(result: Result) -> str:
    """How the program ended, in a line."""
    if result.status == "failed" and result.exit_code is not None:
        return f"ended with exit code {result.exit_code}"
    words = "could not start" if result.permanent else _WORDS[result.status]
    return f"{words}: {result.detail}" if result.detail else words


def _last_lines(text: str) -> str:
    """As many of the last lines as fit into a summary, whole, if at least one does."""
    if len(text) <= SUMMARY_TAIL:
        return text
    end = text[-SUMMARY_TAIL:]
    return end.partition("\n")[2].strip() or end


def _verifier_of(task: Task) -> str:
    return ref.without_token(str((task.verifying or {}).get("process") or ""))


LINES = 40
"""Over how many lines the last word of a program may go."""
STATUSES = ("COMPLETE", "INCOMPLETE", "NO_EVIDENCE", "ERROR", "AWAITING_RESPONSE", "BLOCKED")


@dataclass(frozen=True, slots=True)
class ReportedOutcome:
    """A status with what goes with it; `reason` is null where it was not given."""

    status: str
    output: str
    reason: str | None


def read_outcome(text: str) -> ReportedOutcome | None:
    """The outcome that what a program printed ends with; null where that is something else. Line breaks in it, as many
    a shell's `echo` makes them, are taken for what was meant."""
    lines = text.rstrip().split("\n")
    for start in range(len(lines) - 1, max(-1, len(lines) - LINES - 1), -1):
        if lines[start].lstrip().startswith("{"):
            said = _said("\n".join(lines[start:]))
            if said is not None:
                return said
    return None


def _said(text: str) -> ReportedOutcome | None:
    try:
        said: Any = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or said.get("status") not in STATUSES:
        return None
    output, reason = said.get("output"), said.get("reason")
    return ReportedOutcome(
        said["status"],
        output.strip() if isinstance(output, str) else "",
        reason.strip() if isinstance(reason, str) and reason.strip() else None,
    )


def apply_outcome(act: UnitOfWork, task: Task, outcome: ReportedOutcome, verifier: str) -> Task:
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
        stop(act, task, because[:REASON_CHARS], _outcome_text(outcome), cause=outcome.reason)
    else:
        move(
            act,
            task,
            "awaiting-response",
            reason=because[:REASON_CHARS],
            output=_outcome_text(outcome),
            cause=outcome.reason,
        )
    end_run(act, task, task.state, because[:REASON_CHARS])
    return task


def _outcome_text(outcome: ReportedOutcome) -> str:
    """What stopped the program, in its own words."""
    return outcome.output or (outcome.reason or "" if outcome.reason not in CAUSES else "")


FINDINGS_CHARS = 10_000


def settle_review(workspace: Workspace, task: Task, caller: Principal, result: Result, why: str | None) -> None:
    """Write down what the run of a review came to. `why` says how the program ended, where that was not well.

    Raises:
        StaleRun, Conflict: the run was superseded at this very moment.
    """
    with workspace.act(caller, acknowledge=False) as act:
        current = find(act.rows, task.id)
        run = reviewers.under_review(act.rows, current)
        if run is None or run.number != task.run:
            return  # It has been decided, or taken from the reviewer.
        verdict = None if why is not None else read_verdict(result.output)
        if verdict is None:
            counts = result.status not in ("cancelled", "capacity")
            review.no_verdict(act, current, why or "it ended without a verdict", counts=counts)
            if result.status == "capacity":
                postpone_review(act, current, why or "no capacity", result)
        else:
            give_verdict(act, current, *verdict)


def give_up_review(act: UnitOfWork, task: Task, number: int, why: str, counts: bool) -> None:
    """The run of a review cannot go on, for a reason of ours."""
    run = reviewers.under_review(act.rows, task)
    if run is not None and run.number == number:
        review.no_verdict(act, task, why, counts=counts)


def give_verdict(act: UnitOfWork, task: Task, approved: bool, findings: str) -> None:
    """Apply a verdict."""
    if approved:
        finish.approve(act, task)
    else:
        finish.reject(act, task, findings[:FINDINGS_CHARS], author_lives=review.author_lives(act, task))


def read_verdict(output: str) -> tuple[bool, str] | None:
    """(approved, findings) of the last line that says anything; null where that is no verdict."""
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


OUTCOME = "capacity"
FIRST_PAUSE = 60.0
LONGEST_PAUSE = 3600.0
AFTER_RESET = 5.0
"""Seconds after the time that a provider names: its clock and ours are not the same."""


def wait_for_capacity(act: UnitOfWork, task: Task, why: str, result: Result) -> None:
    """End the run of `task` for want of capacity, and let the task wait."""
    run = act.rows.runs.get(task.id, task.run)
    member, when = act.name, retry_at(act, task, result)
    _note_capacity(act, task, why, when, result.login)
    if result.login:
        answer.ask(
            act, task, text=f"{member} cannot work: {result.detail or why}. Answer when that is mended.",
            key=f"login:{task.run_id}",
        )  # fmt: skip
        end_run(act, task, OUTCOME, why)
        return
    why = f"{why}; tried again {_local(when)}"
    finish.fail(act, task, why, counts=False)
    if run is not None:
        act.rows.runs.update(run, ended_at=act.at, outcome=OUTCOME, reason=why)
    act.rows.tasks.update(task, not_before=when, reserved=member, updated_at=act.at)


def postpone_review(act: UnitOfWork, task: Task, why: str, result: Result) -> None:
    """The run that was to review `task` has ended so; the review waits."""
    when = retry_at(act, task, result)
    _note_capacity(act, task, why, when, result.login)
    act.rows.tasks.update(task, not_before=when, updated_at=act.at)
    act.topics.add("tasks")


def retry_at(act: UnitOfWork, task: Task, result: Result) -> str:
    """When to try again, ISO 8601 UTC."""
    times = 0
    for run in reversed(act.rows.runs.of_task(task.id)):
        if run.outcome == OUTCOME:
            times += 1
        elif run.ended_at is not None:
            break
    now = act.clock.now()
    # A time that is over already counts once: whoever names it again and again has nothing to give at it.
    if result.retry_at is not None and (result.retry_at > now or not times):
        return iso(max(result.retry_at, now) + AFTER_RESET)
    return act.later(min(FIRST_PAUSE * 2**times, LONGEST_PAUSE))


def _local(moment: str) -> str:
    """A moment as people here read it, with its zone."""
    return datetime.fromtimestamp(seconds(moment)).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def _note_capacity(act: UnitOfWork, task: Task, why: str, when: str, login: bool) -> None:
    act.event("run.capacity", task.id, run=task.run_id, reason=why, retry_at=None if login else when, login=login)
