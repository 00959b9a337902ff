"""`interlock workflow queue …`: workflows that wait for their turn."""

from __future__ import annotations

import click

from interlock.errors import TaskNotFound
from interlock.model.task import PRIORITIES
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import Branch, verb
from interlock.surfaces.cli.task_words import line

CHOICE = click.Choice(PRIORITIES)


@verb("list", reads=True, example="interlock workflow queue list")
def list_(call: Call) -> None:
    """What waits, in the order in which it will start."""
    found = call.team().workflow_queue()
    lines = [
        f"{one['position']:>3}  {words.strong(one['task_id'])}  {one['priority']:<8}  {words.clean(one['skill'])}  "
        + words.faint(f"{words.ago(one['queued_at'])} by {words.clean(one['queued_by'])}")
        for one in found
    ]
    call.answer({"queue": found}, lines or "No workflow waits for its turn.")


@verb("add", example="interlock workflow queue add /bmad:bmm:workflows:create-story --priority high")
@click.argument("what", metavar="TASK|SKILL")
@click.option("--priority", type=CHOICE, help="Before those of a lower one [default: the task's own].")
def add(call: Call, what: str, priority: str | None) -> None:
    """Queue a workflow: its task, or a skill, for which a task is made.

    It starts at once when nothing else is at work. A full queue (100) loses its oldest entry.
    """
    team = call.team()
    try:
        found = team.queue_workflow(what, priority=priority)
    except TaskNotFound:
        found = team.queue_workflow(_invocation(what), priority=priority)
    where = f"waits at place {found['position']}" if found["position"] else "has its turn at once"
    call.answer(found, f"{words.strong(found['task_id'])} {where}: {words.clean(found['skill'])}")
    call.warn(found["warnings"])


def _invocation(name: str) -> str:
    """The whole name of the workflow that is installed here, as `workflow run` understands it.

    Raises:
        InterlockError: it is no workflow either; the message says what is near.
    """
    from interlock.workflow.runs.starting import locate

    return locate(name, ".").skill.invocation


@verb("remove", example="interlock workflow queue remove 003")
@click.argument("task")
def remove(call: Call, task: str) -> None:
    """Take a workflow out of the queue; its task is cancelled, the others stand as they stood."""
    found = call.team().unqueue_workflow(task)
    call.answer(found.as_dict(), line(found, "is out of the queue, and cancelled"))
    call.warn(found.warnings)


@verb("reprioritise", example="interlock workflow queue reprioritise 003 critical")
@click.argument("task")
@click.argument("priority", type=CHOICE)
def reprioritise(call: Call, task: str, priority: str) -> None:
    """Give an entry another priority; within one, whoever came first starts first."""
    found = call.team().reprioritise_workflow(task, priority)
    call.answer(found, f"{words.strong(found['task_id'])} is {priority} now, at place {found['position']}")


@verb("clear", example="interlock workflow queue clear")
def clear(call: Call) -> None:
    """Cancel everything that waits."""
    found = call.team().clear_workflow_queue()
    call.answer({"cancelled": found}, f"{len(found)} cancelled." if found else "No workflow waits for its turn.")


ROWS = {
    "list": ("workflow_queue:list_", "what waits, in its order"),
    "add": ("workflow_queue:add", "queue a workflow"),
    "remove": ("workflow_queue:remove", "take one out; its task is cancelled"),
    "reprioritise": ("workflow_queue:reprioritise", "give one another priority"),
    "clear": ("workflow_queue:clear", "cancel everything that waits"),
}

queue = Branch(
    "queue",
    ROWS,
    {"Commands": list(ROWS)},
    help="Workflows that wait for their turn: the more urgent first, and within one priority whoever came first.",
)
"""The row `workflow queue` of the tree."""
