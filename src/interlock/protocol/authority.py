"""Who may say what about which task (decision 14), and whose word is out of date.

Existence, task id and delegation depth are checked before any of this. `MessageRefused` is raised before the first
write of a handler; the router turns it into the events and the answer.
"""

from __future__ import annotations

from interlock.core.tasks.claim import must_hold
from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import InterlockError
from interlock.model.names import LEAD
from interlock.model.task import HELD, Task
from interlock.protocol.envelope import Envelope, FieldError


class EnvelopeRefused(Exception):
    """The message is sound, but may not or cannot be acted on."""

    def __init__(
        self, reason: str, message: str, path: str = "", *, rejected: bool = True, delegation: bool = False
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.errors = [FieldError(path, message)]
        self.rejected = rejected
        """Whether `protocol.message.rejected` is logged."""
        self.delegation = delegation
        """Whether `delegation.rejected` is logged."""


def member_named(act: UnitOfWork, agent: str) -> str:
    """The name of the member that `agent` (a name or a session key) stands for; itself where the team knows none."""
    found = act.rows.team.address(agent)
    return agent if found is None else found[0]


def existing(act: UnitOfWork, task_id: str, path: str = "taskId", *, delegation: bool = False) -> Task:
    """The task of that id.

    Raises:
        MessageRefused: `task_not_found`.
    """
    task = act.rows.tasks.get(task_id)
    if task is None or task.state == "deleted":
        raise EnvelopeRefused(
            "task_not_found", f"no task {task_id}; `interlock task list` shows them", path, delegation=delegation
        )
    return task


def sender(act: UnitOfWork, envelope: Envelope, *allowed: str | None, may_lead: bool = False) -> str:
    """The member that speaks, who must be one of `allowed`; where those are all null, anybody is.

    A member with a session or token speaks for itself only; the lead and people may pass on anybody's words.

    Raises:
        MessageRefused: `unauthorized_agent`.
    """
    name = member_named(act, envelope.from_agent)
    if act.settings.get("protocol_senders") == "any":
        return name
    if not act.leads and name != act.name:
        raise EnvelopeRefused("unauthorized_agent", f"{act.name} cannot speak for {envelope.from_agent}", "fromAgent")
    named = [one for one in allowed if one is not None]
    if named and name not in named and not (may_lead and name == LEAD):
        raise EnvelopeRefused(
            "unauthorized_agent",
            f"{envelope.from_agent} has no say in this; it is for {' or '.join(dict.fromkeys(named))} to say",
            "fromAgent",
        )
    return name


def same_task(envelope: Envelope, named: str | None) -> None:
    """The payload must be about the same task as the envelope.

    Raises:
        MessageRefused: `taskId_mismatch`.
    """
    if named is not None and named != envelope.task_id:
        raise EnvelopeRefused(
            "taskId_mismatch", f"taskId {named} of the payload is not the envelope's {envelope.task_id}",
            "payload.taskId",
        )  # fmt: skip


def not_stale(act: UnitOfWork, envelope: Envelope, task: Task, name: str) -> None:
    """What is said must be about the run that is still current, in the words of whoever has it.

    Raises:
        MessageRefused: `stale_run`, or `task_already_claimed` where another session of the same member has the task.
    """
    if envelope.run_id is not None and envelope.run_id != task.run_id:
        raise _stale(task, envelope.run_id)
    if act.run is not None and act.run != task.run:
        raise _stale(task, f"{task.id}.{act.run}")
    older = act.rows.runs.of_session(task.id, act.session) if task.run else None
    if older is not None and older.number < task.run:
        raise _stale(task, older.id)
    if task.owner is not None and task.state in HELD:
        if act.name != task.owner and not act.leads:
            return  # The setting protocol_senders lets it pass.
        try:
            must_hold(act, task)
        except InterlockError as error:
            raise EnvelopeRefused(error.code, error.message, "taskId") from None
    elif task.run and task.state in ("ready", "backlog"):
        run = act.rows.runs.get(task.id, task.run)
        if run is not None and run.member == name:
            # It was taken back from its run: to take its result all the same would be to apply it to the next one.
            raise _stale(task, run.id)


def _stale(task: Task, run: str) -> EnvelopeRefused:
    return EnvelopeRefused(
        "stale_run",
        f"run {run} of {task.id} no longer counts ({task.owner or 'nobody'} holds the task, run {task.run_id}); claim "
        "the task again to continue",
        "runId",
    )
