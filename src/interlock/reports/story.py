"""One task with everything that belongs to it, and the members with what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interlock.mirror.task_view import complete, show
from interlock.model.task import HELD, Task
from interlock.reports.present import last_words
from interlock.tasks.reviewers import under_review
from interlock.teams import members

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.storage.ledger import Rows


def story(rows: Rows, task: Task, events: int) -> dict[str, Any]:
    """See `client_views.Views.story`."""
    blockers = [rows.tasks.get(id) for id, _ in rows.graph.blockers(task.id)]
    dependents = [rows.tasks.get(id) for id in rows.graph.dependents(task.id)]
    return {
        "task": show(rows, task),
        "runs": rows.runs.of_task(task.id),
        "log": rows.tasks.log(task.id),
        "events": rows.events.of_task(task.id, events),
        "questions": rows.questions.of_task(task.id),
        "handoff": rows.handoffs.get(task.id),
        "parent": rows.tasks.get(task.parent_id) if task.parent_id else None,
        "blockers": complete(rows, [one for one in blockers if one is not None]),
        "dependents": complete(rows, [one for one in dependents if one is not None]),
    }


def crew(rows: Rows, log_path: Callable[[str, int, str], str]) -> list[dict[str, Any]]:
    """See `client_views.Views.crew`."""
    doing: dict[str, list[dict[str, Any]]] = {}
    said: dict[str, str | None] = {}
    for task in rows.tasks.select(states=HELD):
        review = under_review(rows, task)
        who = review.member if review is not None else task.owner
        since = review.started_at if review is not None else task.claimed_at
        if who is not None:
            doing.setdefault(who, []).append(
                {
                    "task_id": task.id,
                    "subject": task.subject,
                    "state": task.state,
                    "reviews": review is not None,
                    "since": since,
                    "run": task.run,
                }
            )
            if task.state == "in-progress" or review is not None:
                said[who] = last_words(log_path(task.id, task.run, "output"))
    return [
        {
            **member.as_dict(),
            "unread": rows.messages.unread_of(member.name),
            "tasks": doing.get(member.name, []),
            "last_words": said.get(member.name),
        }
        for member in members(rows)
    ]
