"""Findings that builds left to others, made work of their own: each is what a build is asked for (`lane.of_finding`).

Such a finding is a task of the lead's (`settling.defer`). To sweep it up gives that very task a place in the plan of
the stories, so that it is built, reviewed, verified and merged like one; who found it, and what is said of it, stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import InvalidRequest
from interlock.model.json import Json
from interlock.model.names import LEAD
from interlock.model.task import Task
from interlock.workflow.package.packages import Package
from interlock.workflow.stories import lane as lanes
from interlock.workflow.stories.settling import FINGERPRINT, FOUND_BY

WAITING = ("backlog", "ready")


def key_of(task: Task) -> str:
    """The key that a finding has in the plan."""
    return f"deferred-{task.id.removeprefix('task-')}"


def is_finding(task: Task) -> bool:
    """Whether a task is for what a build found and left to others."""
    return FINGERPRINT in task.metadata


def waiting(tasks: Iterable[Task]) -> list[Task]:
    """The findings that nobody has taken up."""
    return [
        one for one in tasks
        if is_finding(one) and one.plan_key is None and one.state in WAITING and one.assignee in (None, LEAD)
    ]  # fmt: skip


def chosen(found: Sequence[Task], names: Sequence[str]) -> list[Task]:
    """Those of the findings that are named, or all.

    Raises:
        InvalidRequest: none waits, or one that is named does not.
    """
    known = {one.id: one for one in found}
    if gone := [name for name in names if name not in known]:
        listed = ", ".join(known) or "none"
        raise InvalidRequest(f"No finding that waits is called {', '.join(gone)}: {listed}.", field="tasks")
    if not found:
        raise InvalidRequest("No finding of a build waits to be taken up.", field="tasks")
    return [known[name] for name in dict.fromkeys(names)] or list(found)


def take_up(act: UnitOfWork, found: Sequence[Task]) -> None:
    """Give each of them its key in the plan, and to whoever is free."""
    for task in found:
        act.rows.tasks.update(task, plan_key=key_of(task), assignee=None, updated_at=act.at)
        act.event("task.updated", task.id, fields=["plan_key", "assignee"])
    act.topics.add("tasks")


def entry(package: Package, task: Task, tasks: Mapping[str, Task]) -> Json:
    """What the plan says of a finding: it comes after the stories that found it, as far as they are in the plan.

    Raises:
        WorkflowNotFound: the package has no skill for it.
    """
    keys = [lanes.task_key(str(one)) for one in task.metadata.get(FOUND_BY, ())]
    return {
        "subject": task.subject, "body": lanes.of_finding(package, task, key_of(task)).body, "type": "WORKFLOW",
        "priority": task.priority, "blocked_by": [one for one in keys if one in tasks],
    }  # fmt: skip
