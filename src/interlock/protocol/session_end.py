"""The end of a session: what its runs had put down as their result is applied to their tasks (AOF-59.07 to 09).

Only now: while an agent lives, a result that it has put down may be an interim one (decision 16). Each task is applied
in a transaction of its own, where everything is looked at again; a task without a result leaves no trace of any kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from interlock.model.names import HUMAN, LEAD, SYSTEM
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.protocol.completion import apply, digest, record
from interlock.protocol.dropped import adopt_all
from interlock.protocol.payloads import RunResult
from interlock.protocol.routing import missing_file
from interlock.sessions import Act, Caller, unknown_member
from interlock.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Ended:
    """One task whose recorded result was applied. `verifying`: its verify has to be run by the caller now."""

    task: Task
    outcome: str
    applied: bool
    verifying: bool

    def as_dict(self) -> dict[str, Any]:
        """How doors show it."""
        return {
            "task_id": self.task.id,
            "outcome": self.outcome,
            "applied": self.applied,
            "state": self.task.state,
            "run_id": self.task.run_id,
        }


def end_session(workspace: Workspace, caller: Caller, *, verifier: str) -> list[Ended]:
    """Apply the recorded results of the caller's tasks in progress; of all tasks for the lead and people.

    A caller with a session of its own ends only what that session works on.

    Raises:
        MemberNotFound: the caller is nobody.
        LedgerBusy, LedgerUnusable, StorageError, TeamNotFound: what was not applied yet will be by the next call.
    """
    adopt_all(workspace, [task.id for task, _ in _at_work(workspace, caller)])
    ended = []
    for task, run in _at_work(workspace, caller):
        if unapplied(run):
            one = apply_recorded(workspace, caller, task.id, run.number, verifier=verifier)
            if one is not None:
                ended.append(one)
    return ended


def unapplied(run: Run) -> bool:
    """Whether the run has put down a result that has not moved its task."""
    return run.result is not None and run.applied != digest(run.result)


def apply_recorded(workspace: Workspace, caller: Caller, task_id: str, number: int, *, verifier: str) -> Ended | None:
    """Apply what that run has recorded; null where somebody else did, or the task is no longer in progress."""
    with workspace.ledger.snapshot() as rows:
        run = rows.runs.get(task_id, number)
    if run is None or run.result is None:
        return None
    missing = missing_file(workspace, task_id, run.result.get("summaryRef"))
    with workspace.act(caller, acknowledge=False) as act:
        return apply_within(act, task_id, number, missing=missing, verifier=verifier)


def apply_within(
    act: Act, task_id: str, number: int, *, missing: str | None, verifier: str | None, source: str = "session_end"
) -> Ended | None:
    """As `apply_recorded`, inside a transaction that is under way. `missing`: what is odd about its summary's file;
    `source`: why it is applied now. Without a `verifier` whoever polls next runs the verify."""
    task, run = act.rows.tasks.get(task_id), act.rows.runs.get(task_id, number)
    if task is None or run is None or run.result is None or not unapplied(run):
        return None
    if task.run != number or task.state != "in-progress":
        return None
    fields = run.result
    if missing is not None:
        act.event("protocol.message.warning", task.id, reason=missing, type="run_result", path=fields.get("summaryRef"))
    record(act, run, fields, source=source, applied=digest(fields))
    applied = apply(act, task, run, fields, run.member, verifier)
    waits = task.verifying is not None and task.verifying["process"] == verifier
    return Ended(task, RunResult.model_validate(fields).outcome, applied, waits)


def _at_work(workspace: Workspace, caller: Caller) -> list[tuple[Task, Run]]:
    """The tasks in progress that the caller's word ends, each with its run."""
    with workspace.ledger.snapshot() as rows:
        found = rows.team.address(caller.name)
        everybody = caller.name in (HUMAN, SYSTEM) or (found is not None and found[2] in (LEAD, "person"))
        if found is None and not everybody:
            raise unknown_member(rows, caller.name)
        if everybody:
            tasks = rows.tasks.select(states=["in-progress"])
        else:
            owned = rows.tasks.owned(str(found and found[0]))
            own = (None, *(task.session for task in owned)) if caller.session is None else (caller.session,)
            tasks = [task for task in owned if task.state == "in-progress" and task.session in own]
        runs = ((task, rows.runs.get(task.id, task.run)) for task in tasks)
        return [(task, run) for task, run in runs if run is not None]
