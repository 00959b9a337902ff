"""How the end of a program becomes a verb of the ledger."""

from __future__ import annotations

from interlock.executor import Result
from interlock.model.task import Task
from interlock.output import plain
from interlock.runner.lifesigns import lives
from interlock.sessions import Caller
from interlock.tasks import claim, finish
from interlock.tasks.find import find
from interlock.tasks.transition import end_run
from interlock.workspace import Workspace

OUTPUT_TAIL = 4000
SUMMARY_TAIL = 600
CAPACITY_PAUSE = 60.0
"""Seconds before a task is tried again whose agent's provider had no capacity left."""

_WORDS = {
    "failed": "could not be carried out",
    "killed": "was killed from outside",
    "timeout": "took longer than its time limit",
    "cancelled": "was stopped",
    "capacity": "its provider has no capacity left",
}


def settle(workspace: Workspace, task: Task, caller: Caller, result: Result, *, verifier: str) -> Task | None:
    """Complete or fail the run, as its program ended; the task, or null when nothing is left to do for this run.

    What the agent has reported itself stands. `verifier` names this process, in case a verify must now be run.

    Raises:
        StaleRun, Conflict: the run was superseded at this very moment.
    """
    with workspace.act(caller, acknowledge=False) as act:
        current = find(act.rows, task.id)
        if current.run == task.run and current.owner is None:
            finish.given_back(act, current)
        if current.run != task.run or current.owner != caller.name:
            return None  # Taken from it, given back by it, or done.
        if current.state in ("blocked", "awaiting-response"):
            end_run(act, current, current.state, "its program has ended")
            return None
        if current.state != "in-progress":
            return None  # It reported by itself; who reviews or verifies it goes on with it.
        tail = plain(result.output)[-OUTPUT_TAIL:].strip()
        if result.status == "ended":
            return finish.complete(act, current, summary=_last_lines(tail) or None, verifier=verifier)
        counts = result.status not in ("cancelled", "capacity")
        pause = CAPACITY_PAUSE if result.status == "capacity" else 0.0
        finish.fail(act, current, reason(result), counts=counts, output=tail or None, pause=pause)
        return None


def give_up(workspace: Workspace, task: Task, caller: Caller, why: str, counts: bool) -> None:
    """The run cannot go on, for a reason of ours: its task goes back into the queue, or on to deadletter.

    Raises:
        Conflict: it has been settled otherwise.
    """
    with workspace.act(caller, acknowledge=False) as act:
        current = find(act.rows, task.id)
        if current.run != task.run or current.owner != caller.name:
            return
        if current.state == "review" and current.verifying is not None and counts:
            if lives(str(current.verifying.get("process") or "")) and caller.process != _verifier_of(current):
                return  # The agent's own process is about to decide.
            evidence = {"command": current.verify, "exit_code": None, "passed": False, "tail": why}
            current = finish.verified(act, current, evidence, run=task.run)
        if current.state == "in-progress":
            finish.fail(act, current, why, counts=counts)


def end_session(workspace: Workspace, caller: Caller) -> None:
    """The session of a run is over; what its agent claimed beside the task it was given goes back to the queue."""
    with workspace.act(caller, acknowledge=False) as act:
        for task in act.rows.tasks.owned(act.name):
            if task.session == act.session and task.state == "in-progress":
                act.run = task.run
                claim.release(act, task, "the session of its agent has ended")
        act.rows.team.end_session(act.name, act.session, act.at)
        act.event("session.ended", member=act.name, session=act.session)


def reason(result: Result) -> str:
    """How the program ended, in a line."""
    if result.status == "failed" and result.exit_code is not None:
        return f"ended with exit code {result.exit_code}"
    words = _WORDS[result.status]
    return f"{words}: {result.detail}" if result.detail else words


def _last_lines(text: str) -> str:
    """As many of the last lines as fit into a summary, whole, if at least one does."""
    if len(text) <= SUMMARY_TAIL:
        return text
    end = text[-SUMMARY_TAIL:]
    return end.partition("\n")[2].strip() or end


def _verifier_of(task: Task) -> str:
    return str((task.verifying or {}).get("process") or "").partition("#")[0]
