"""Whose turn it is among the workflows of a team: `workflow_parallel` of them at once, the others wait in a queue.

A task in the queue stays `ready`, but no worker pulls it. Whenever a task of type WORKFLOW changes its state, in
whatever way, the turns are looked at in the same transaction: so no crash can leave a queue that nobody serves, and no
poll is needed. One that waits for a human has given its turn up, and takes a free one when it is answered.
"""

from __future__ import annotations

from interlock.model.task import Task
from interlock.sessions import Act

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.model.workflow import QueueEntry

WORKFLOW = "WORKFLOW"
WAITING = ("ready", "backlog")
STANDS = (*WAITING, "awaiting-response", "blocked")
"""States in which an entry keeps its place: what is asked or blocked before it began comes back to it."""


def moved(act: Act, task: Task) -> None:
    """A workflow's task has changed its state: it may have left the queue, and the turn of another come."""
    if task.state not in STANDS and act.rows.queue.remove(task.id):
        # Somebody claimed it by its id, or called it off: the others stand as they stood.
        act.event("workflow.dequeued", task.id, reason="started" if task.state == "in-progress" else task.state)
    advance(act)


def advance(act: Act) -> list[QueueEntry]:
    """Give the free turns to those who are next. Entries whose task waits for another task are passed over."""
    started: list[QueueEntry] = []
    if not act.rows.queue.count():
        return started
    free = act.settings.get("workflow_parallel") - act.rows.queue.active()
    for entry in act.rows.queue.entries() if free > 0 else ():
        task = act.rows.tasks.get(entry.task_id)
        if task is None or task.state != "ready":
            continue
        act.rows.queue.remove(entry.task_id)
        act.event("workflow.dequeued", entry.task_id, reason="started")
        act.topics.add("tasks")
        started.append(entry)
        if len(started) == free:
            break
    return started
