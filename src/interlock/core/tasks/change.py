"""Everything else one may do to a task: edit, assign, block, retry, cancel, delete, add and remove dependencies."""

from __future__ import annotations

from typing import Any

from interlock.core import questions
from interlock.core.mailbox import notify
from interlock.core.tasks.claim import claim, must_hold, refuse_stale, refuse_stopped
from interlock.core.tasks.create import CONTROLS, FIELDS, allow_controls, check_fields, member_named
from interlock.core.tasks.finish import ask_reviewer, check_reason, complete
from interlock.core.tasks.transition import (
    ask_anew,
    end_run,
    illegal,
    may_be_blocked,
    move,
    reopen_run,
    settle_queue,
    waiting_state,
)
from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import DependencyCycle, Forbidden, InvalidRequest, InvalidTransition
from interlock.model.graph import Cycle, ranks_for_edge
from interlock.model.guard import one_question
from interlock.model.names import check_text
from interlock.model.task import FINAL, HELD, STATES, WAITING, Task, states_named

GATES = ("review", *CONTROLS)
"""What decides whether work is good enough, or what is run; not for who merely does the work to change."""

EDITABLE = ("subject", *(column for column, field in FIELDS.items() if not field.fixed))
LOG_LIMIT = 10_000
_ORDER = {"pending": 0, "in_progress": 1, "completed": 2}


def update(act: UnitOfWork, task: Task, *, verifier: str | None = None, **fields: Any) -> Task:
    """Edit fields; with `status`, take the task forward: `in_progress` claims it, `completed` completes it.

    Raises:
        InvalidTransition: the status goes backward, or the task is final.
        Forbidden: the actor neither holds, made nor leads it.
        InvalidRequest: an unknown field or a bad value.
    """
    status = fields.pop("status", None)
    log = fields.pop("log", None)
    unknown = sorted(set(fields) - set(EDITABLE) - {"plan_digest"})
    if unknown:
        raise InvalidRequest(f"{unknown[0]} cannot be updated; these can: {', '.join(EDITABLE)}.", field=unknown[0])
    if status is None and not fields and log is None:
        raise InvalidRequest(f"Say what to update: status, log, {', '.join(EDITABLE)}.", field="status")
    if fields:
        _edit(act, task, fields)
    if log is not None:
        add_log(act, task, log)
    return task if status is None else _forward(act, task, status, verifier)


def add_log(act: UnitOfWork, task: Task, text: str) -> Task:
    """Add a line to the task's Work Log."""
    check_text(text, "log", limit=LOG_LIMIT, required=True)
    refuse_stale(act, task)
    act.rows.tasks.add_log(task.id, act.at, act.name, text)
    act.rows.tasks.update(task, updated_at=act.at)
    act.event("task.logged", task.id, text=text)
    act.topics.add("tasks")
    return task


def assign(act: UnitOfWork, task: Task, to: str | None) -> Task:
    """Reserve the task for one member, or, with null, for nobody. A task somebody else holds is taken from them; one
    in deadletter gets another chance with its new assignee (decision 8). Repeated it changes nothing.

    Raises:
        Forbidden: the actor neither holds, made nor leads it; from deadletter only the lead and people may. Or the
            member has stopped.
        MemberNotFound: nobody of that name.
    """
    if task.state in FINAL:
        raise illegal(task, "cannot be assigned")
    _must_lead_or_hold(act, task, "assign")
    name = None if to is None else member_named(act, to)
    refuse_stopped(act, name)
    if task.state == "deadletter" and name is not None:
        retry(act, task)
    elif task.assignee == name and task.reserved is None and task.owner in (None, name):
        return task
    act.rows.tasks.update(task, assignee=name, reserved=None, updated_at=act.at)
    act.event("task.assigned", task.id, assignee=name)
    act.topics.add("tasks")
    if task.owner is not None and task.owner != name and task.state in HELD:
        owner, number = task.owner, task.run
        end_run(act, task, "reclaimed", f"assigned to {name or 'nobody'}")
        if task.state == "review":
            move(act, task, "in-progress", reason=f"assigned to {name or 'nobody'}", verifying=None)
        move(act, task, waiting_state(task), reason=f"assigned to {name or 'nobody'}", verifying=None)
        act.event("task.reclaimed", task.id, run=number, reason=f"assigned to {name or 'nobody'}")
        notify(act, owner, f"{task.id} was taken from you and assigned to {name or 'nobody'}.", summary="reassigned")
    if name is not None and name != task.owner:
        notify(act, name, f"{task.id} is yours: {task.subject}", type="task_assignment", summary=task.subject)
    return task


def block(act: UnitOfWork, task: Task, reason: str) -> Task:
    """Stop for a reason that is not a dependency; on a blocked task, give another reason. Repeated it changes nothing.

    Raises:
        InvalidTransition: the task is finished, in deadletter, or in review, where its work is done.
    """
    check_reason(reason, "block")
    if task.state in WAITING and task.output == one_question(reason, type=task.type).output:
        return task
    if task.state in HELD and task.owner is not None:
        must_hold(act, task)
    else:
        _must_lead_or_hold(act, task, "block")
    if task.state == "review":
        raise illegal(task, "is in review and cannot be blocked")
    if task.state in WAITING:
        ask_anew(act, task, reason)
    else:
        move(act, task, "blocked", reason=reason, output=reason)
    act.event("task.blocked", task.id, reason=reason)
    return task


def unblock(act: UnitOfWork, task: Task) -> Task:
    """The reason is gone. The owner goes on with its run; anybody else puts the task back into the queue."""
    if task.state not in WAITING:
        raise illegal(task, "is not blocked")
    if task.owner == act.name:
        must_hold(act, task)
        reopen_run(act, task)  # Ended where it had reported before, or where its program was thought to be gone.
        move(act, task, "in-progress", reason="unblocked")
    else:
        _must_lead_or_hold(act, task, "unblock")
        owner = task.owner
        end_run(act, task, task.state)
        move(act, task, waiting_state(task), reason="unblocked")
        notify(act, owner, f"{task.id} is no longer blocked and back in the queue.", summary="unblocked")
    act.event("task.unblocked", task.id)
    return task


def retry(act: UnitOfWork, task: Task) -> Task:
    """Give a task in deadletter another chance, with its count of failures at zero."""
    if task.state != "deadletter":
        raise illegal(task, "is not in deadletter")
    if not act.leads:
        raise Forbidden("Only the lead or a human may retry a task in deadletter.", task_id=task.id)
    act.event("task.retried", task.id)
    move(act, task, waiting_state(task), reason="retried", failures=0, rounds=0, not_before=None)
    return task


def cancel(act: UnitOfWork, task: Task, *, reason: str | None = None, cascade: bool = False) -> list[Task]:
    """Call a task off; with `cascade` also everything that waits for it. Dependents are warned otherwise.

    Returns:
        The tasks that were cancelled, this one first.

    Raises:
        Forbidden: the actor may not cancel this one, or, with `cascade`, one that waits for it.
        InvalidTransition: the task is done, or deleted and nothing waits for it.
    """
    if task.state == "cancelled" and not cascade:
        return [task]
    if task.state == "done":
        raise illegal(task, "cannot be cancelled")
    chosen, waiting = [], [task]
    seen = {task.id}
    while waiting:
        here = waiting.pop(0)
        if here.state not in FINAL:
            chosen.append(here)
        if cascade:
            for dependent in act.rows.graph.open_dependents(here.id):
                if dependent.id not in seen:
                    seen.add(dependent.id)
                    waiting.append(dependent)
    if not chosen:
        raise illegal(task, "cannot be cancelled")
    for here in chosen:
        _must_lead_or_hold(act, here, "cancel")
    # Last in the order of dependencies first: nobody is warned about a blocker that goes in the same breath.
    for here in sorted(chosen, key=lambda one: one.rank, reverse=True):
        _drop(act, here, "cancelled", reason or (f"{task.id} was cancelled" if here is not task else "cancelled"))
        act.event("task.cancelled", here.id, reason=reason)
    return chosen


def delete(act: UnitOfWork, task: Task) -> Task:
    """Delete a task that is not final; it stays in the ledger and out of sight. Repeated it changes nothing."""
    if task.state == "deleted":
        return task
    _must_lead_or_hold(act, task, "delete")
    if task.state in FINAL:
        raise illegal(task, "cannot be deleted")
    _drop(act, task, "deleted", "deleted")
    act.event("task.deleted", task.id)
    return task


def _drop(act: UnitOfWork, task: Task, state: str, reason: str) -> None:
    owner = task.owner if task.state in HELD else None
    end_run(act, task, state, reason)
    move(act, task, state, reason=reason, verifying=None, soft=False)
    notify(act, owner, f"{task.id} ({task.subject}) was {state}; stop working on it.", summary=state)


def _edit(act: UnitOfWork, task: Task, fields: dict[str, Any]) -> None:
    if task.state in FINAL:
        raise illegal(task, "cannot be edited")
    _must_lead_or_hold(act, task, "edit")
    gates = [name for name in GATES if name in fields]
    if gates and not act.leads and act.name != task.created_by:
        raise Forbidden(
            f"Only its creator, the lead or a human may change the {gates[0]} of {task.id}: whoever does the work does "
            "not decide when it is good enough.",
            task_id=task.id,
            field=gates[0],
        )
    allow_controls(act, [name for name in CONTROLS if name in fields])
    checked = check_fields(act, task, **{name: value for name, value in fields.items() if name != "plan_digest"})
    act.rows.tasks.update(task, updated_at=act.at, **{**fields, **checked})
    queued = act.rows.queue.get(task.id) if task.type == "WORKFLOW" and "priority" in fields else None
    if queued is not None:
        act.rows.queue.update(queued, priority=task.priority)
    act.event("task.updated", task.id, fields=sorted(fields))
    act.topics.add("tasks")
    if task.state == "blocked" and not may_be_blocked(act, task.type):
        move(act, task, "awaiting-response", reason=f"a task of type {task.type} is not blocked")
    if "review" in fields and task.state == "review" and not task.under_way:
        questions.withdraw(act, task, "somebody else reviews it now")
        ask_reviewer(act, task)


def _forward(act: UnitOfWork, task: Task, status: str, verifier: str | None) -> Task:
    """A member's status update goes forward only (CORE-FR-011). `in_progress` is a claim, also of a task that is
    claimed already: who is told that it worked may rely on holding it."""
    if not isinstance(status, str):
        raise InvalidRequest("status must be text.", field="status")
    targets = set(states_named(status))
    here = _ORDER.get(task.status)
    if task.state in targets and status not in ("in_progress", "in-progress"):
        return task
    wanted = next((word for word in _ORDER if states_named(word) >= targets), None)
    if (
        wanted is None
        or here is None
        or _ORDER[wanted] < here
        or (status in STATES and status not in ("in-progress", "done"))
    ):
        raise InvalidTransition(
            f"{task.id} cannot go from {task.status} to {status}: a status update goes forward only (pending, "
            "in_progress, completed). Use `task release`, `retry`, `cancel`, `block` or `delete` for the rest.",
            task_id=task.id,
            state=task.state,
            status=task.status,
        )
    if wanted == "in_progress":
        return claim(act, task)
    if wanted == "completed":
        if here == 0:
            raise illegal(task, "cannot be completed before it is claimed")
        return complete(act, task, verifier=verifier)
    return task


def _must_lead_or_hold(act: UnitOfWork, task: Task, verb: str) -> None:
    if task.owner == act.name and task.state in HELD and not act.leads:
        must_hold(act, task)
        return
    if act.leads or act.name == task.created_by:
        refuse_stale(act, task)
        return
    raise Forbidden(
        f"Only its owner, its creator, the lead or a human may {verb} {task.id}.", task_id=task.id, owner=task.owner
    )


def depend(act: UnitOfWork, task: Task, on: Task) -> Task:
    """Make `task` wait for `on`. Repeated it changes nothing.

    A task that is already at work keeps its owner and gets a warning.

    Raises:
        DependencyCycle: `on` waits for `task`, directly or through others; `cycle` shows how.
        InvalidTransition: `task` is final.
    """
    if task.state in FINAL:
        raise illegal(task, "cannot get a dependency")
    if on.state == "deleted":
        raise InvalidRequest(f"{on.id} was deleted and would block for ever.", field="on")
    graph = act.rows.graph
    try:
        ranks = ranks_for_edge(
            on.id, task.id, graph.rank, lambda id: [blocker for blocker, _ in graph.blockers(id)], graph.dependents
        )
    except Cycle as cycle:
        raise DependencyCycle(
            f"{task.id} cannot wait for {on.id}: that would create a dependency cycle, {' -> '.join(cycle.path)}. "
            "`interlock task depend ID --on ID --remove` takes an edge away.",
            task_id=task.id,
            cycle=cycle.path,
        ) from None
    if not graph.add(on.id, task.id, act.name):
        return task
    task.linked = on.linked = True
    if ranks:
        graph.set_ranks(ranks)
    act.event("dependency.added", task.id, on=on.id)
    act.topics.add("tasks")
    act.rows.tasks.update(
        task,
        updated_at=act.at,
        open_blockers=task.open_blockers + (on.state != "done"),
        soft=task.soft or (task.state in HELD and on.state != "done"),
    )
    settle_queue(act, task, f"waits for {on.id}")
    return task


def independ(act: UnitOfWork, task: Task, on: Task) -> Task:
    """Take that edge away. Repeated it changes nothing.

    Raises:
        Forbidden: the actor did not make it, nor leads.
    """
    maker = act.rows.graph.maker(on.id, task.id)
    if maker is not None and maker != act.name and not act.leads:
        raise Forbidden(
            f"{maker} made {task.id} wait for {on.id}; only {maker}, the lead or a human takes that back.",
            task_id=task.id,
            created_by=maker,
        )
    if not act.rows.graph.remove(on.id, task.id):
        return task
    act.event("dependency.removed", task.id, on=on.id)
    act.topics.add("tasks")
    left = task.open_blockers - (on.state != "done") if task.state not in FINAL else task.open_blockers
    act.rows.tasks.update(task, updated_at=act.at, open_blockers=max(0, left))
    settle_queue(act, task, f"no longer waits for {on.id}")
    return task
