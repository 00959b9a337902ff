"""Dependencies after creation."""

from __future__ import annotations

from interlock.errors import DependencyCycle, Forbidden, InvalidRequest
from interlock.model.graph import Cycle, ranks_for_edge
from interlock.model.task import FINAL, HELD, Task
from interlock.sessions import Act
from interlock.tasks.transition import illegal, settle_queue


def depend(act: Act, task: Task, on: Task) -> Task:
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
            f"{task.id} cannot wait for {on.id}: that would close a circle, {' -> '.join(cycle.path)}. "
            "`interlock task depend ID --on ID --remove` takes an edge away.",
            task_id=task.id,
            cycle=cycle.path,
        ) from None
    if not graph.add(on.id, task.id, act.name):
        return task
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


def independ(act: Act, task: Task, on: Task) -> Task:
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
