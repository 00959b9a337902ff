"""How the end of a program becomes a verb of the ledger.

What the agent has reported counts, whatever its exit code: a verb, an AOF/1 message, or a `run_result.json` that it
left, which is applied now that its program has ended (decision 16). Without any, the end itself is the report: a
program that ended well is finished, anything else is a failed attempt (decision 4).
"""

from __future__ import annotations

from interlock.executor import Result
from interlock.model.evidence import row
from interlock.model.task import WAITING, Task
from interlock.output import plain
from interlock.protocol.completion import digest, record
from interlock.protocol.dropped import adopt
from interlock.protocol.session_end import apply_recorded
from interlock.runner import capacity, outcome, reviewing
from interlock.runner.hearing import without_messages
from interlock.runner.lifesigns import lives
from interlock.sessions import Act, Caller, close_session
from interlock.tasks import answer, claim, finish, verify
from interlock.tasks.find import find
from interlock.tasks.transition import end_run
from interlock.workspace import Workspace

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
    caller: Caller,
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
        reviewing.settle(workspace, task, caller, result, None if result.status == "ended" else reason(result))
        return None
    with workspace.act(caller, acknowledge=False) as act:
        current = find(act.rows, task.id)
        if current.run == task.run and current.owner is None:
            answered(act, current)
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
        said = outcome.read(tail) if result.status not in GIVEN_BACK and current.command is None else None
        if said is not None:
            _report(act, current, said.output or None)
            current = outcome.apply(act, current, said, verifier)
            return current if current.verifying is not None else None
        if result.status == "ended" and talks and current.verify is None and not _has_reported(act, current):
            event(act, current)
            finish.fail(act, current, "ended its turn without a report, also after a reminder", output=tail or None)
            return None
        if result.status == "ended":
            summary = _last_lines(tail) or None
            _report(act, current, summary)
            known = {"command": current.command, "exit_code": result.exit_code, "tree": tree}
            proof = row("exit_code", act.at, act.name, **known) if current.command is not None else None
            return finish.complete(act, current, summary=summary, verifier=verifier, proof=proof)
        if result.status == "capacity":
            capacity.wait(act, current, reason(result), result)
            return None
        counts = result.status not in GIVEN_BACK
        why, output = reason(result), tail or None
        finish.fail(act, current, why, counts=counts, output=output, permanent=result.permanent)
        return None


def answered(act: Act, task: Task) -> None:
    """Its question was answered while its program was about to end: the answer begins a new run, without delay."""
    run = act.rows.runs.get(task.id, task.run) if task.run else None
    if run is not None and run.ended_at is None and task.state in ("ready", "backlog"):
        end_run(act, task, "awaiting-response", "its program has ended")
        act.rows.tasks.update(task, not_before=None, reserved=None, updated_at=act.at)
        act.topics.add("tasks")


def _report(act: Act, task: Task, summary: str | None) -> None:
    """The result of a run that ended well and said nothing: that it ended well (decision 4).

    That an agent, other than a command, left it to us to say so is an event (decision 21).
    """
    run = act.rows.runs.get(task.id, task.run)
    if run is None or (run.result is not None and AUTOMATIC not in run.result):
        return  # It has reported, and goes on after a check that failed.
    if not task.rounds:
        event(act, task)
    fields = {
        "taskId": task.id, "runId": run.id, "agentId": run.member, "completedAt": act.at, "outcome": "done",
        "deliverables": [], "blockers": [], **({"notes": summary} if summary else {}), AUTOMATIC: True,
    }  # fmt: skip
    record(act, run, fields, source="worker", applied=digest(fields))


def event(act: Act, task: Task) -> None:
    """That an agent has said nothing of its task is an event (decision 21)."""
    run = act.rows.runs.get(task.id, task.run)
    member = act.rows.team.member(run.member) if run is not None else None
    if run is not None and member is not None and member.agent != "shell":
        act.event("agent.idle_without_report", task.id, run=run.id, member=run.member)


def _has_reported(act: Act, task: Task) -> bool:
    run = act.rows.runs.get(task.id, task.run)
    return run is not None and run.result is not None and AUTOMATIC not in run.result


def give_up(workspace: Workspace, task: Task, caller: Caller, why: str, counts: bool, permanent: bool = False) -> None:
    """The run cannot go on, for a reason of ours: its task goes back into the queue, or on to deadletter, at once where
    it is `permanent`.

    Raises:
        Conflict: it has been settled otherwise.
    """
    with workspace.act(caller, acknowledge=False) as act:
        current = find(act.rows, task.id)
        if task.state == "review":
            reviewing.give_up(act, current, task.run, why, counts)
            return
        if current.run != task.run or current.owner != caller.name:
            return
        if current.state == "review" and current.verifying is not None and counts:
            if lives(str(current.verifying.get("process") or "")) and caller.process != _verifier_of(current):
                return  # The agent's own process is about to decide.
            evidence = {"command": current.verify, "exit_code": None, "passed": False, "tail": why}
            current = verify.verified(act, current, evidence, run=task.run)
        if current.state == "in-progress":
            finish.fail(act, current, why, counts=counts, permanent=permanent)


def end_session(workspace: Workspace, caller: Caller) -> None:
    """The session of a run is over; what its agent claimed beside the task it was given goes back to the queue."""
    with workspace.act(caller, acknowledge=False) as act:
        _release_others(act, "the session of its agent has ended")
        close_session(act, act.name, act.session)


def end_task(workspace: Workspace, caller: Caller) -> None:
    """The session goes on, without a task; what its agent claimed beside it goes back to the queue."""
    with workspace.ledger.snapshot() as rows:
        others = [task for task in rows.tasks.owned(caller.name) if task.session == caller.session]
    if any(task.state == "in-progress" for task in others):
        with workspace.act(caller, acknowledge=False) as act:
            _release_others(act, "its agent got no turn for it")


def _release_others(act: Act, reason: str) -> None:
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
    return str((task.verifying or {}).get("process") or "").partition("#")[0]
