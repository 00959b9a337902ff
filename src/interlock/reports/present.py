"""What a team does now."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from interlock.model.names import HUMAN, LEAD
from interlock.model.task import Task
from interlock.output import plain
from interlock.reports.needs import needs_me
from interlock.views import complete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.ledger import Rows

NEXT_SHOWN = 10
LAST_WORDS = 200
TAIL_BYTES = 4096


def status(rows: Rows, team: str, log_path: Callable[[str, int, str], str], now: str) -> dict[str, Any]:
    """What needs a human, what runs since when with its last words, what waits for somebody, what is next.

    `log_path` answers where the output of a run (task id, number, kind) is kept. `runner` is the process that drives
    the team, if one has signed on. `unread` counts the mail of those who are told of it nowhere else.
    """
    held = complete(rows, rows.tasks.select(states=["in-progress", "awaiting-response", "blocked", "review"]))
    return {
        "team": team,
        "runner": rows.team.get().runner,
        "needs_me": needs_me(rows),
        "running": [_running(task, log_path) for task in held if _at_work(task)],
        "waiting": [_held(task) for task in held if not _at_work(task)],
        "next": [
            {
                "task_id": task.id,
                "subject": task.subject,
                "state": task.state,
                "key": task.plan_key,
                "priority": task.priority,
                "assignee": task.reserved_for,
                "not_before": task.not_before if task.not_before is not None and task.not_before > now else None,
            }
            for task in rows.tasks.ready(NEXT_SHOWN)
        ],
        "counts": rows.tasks.counts(),
        "retry_at": rows.tasks.ready_after(now),
        "unread": {name: number for name in (HUMAN, LEAD) if (number := rows.messages.unread_of(name))},
    }


def last_words(path: str) -> str | None:
    """The last line a run printed; null where it has said nothing."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - TAIL_BYTES))
            lines = plain(file.read().decode("utf-8", "replace")).splitlines()
    except OSError:
        return None
    return next((line.strip()[:LAST_WORDS] for line in reversed(lines) if line.strip()), None)


def _at_work(task: Task) -> bool:
    """Whether something is done about a task that somebody holds: by its owner, or by its check."""
    return task.state == "in-progress" or task.verifying is not None


def _running(task: Task, log_path: Callable[[str, int, str], str]) -> dict[str, Any]:
    words = None
    if task.verifying is not None:
        printed = last_words(log_path(task.id, task.run, "verify"))
        words = f"checking: {task.verify}" + (f" · {printed}" if printed else "")
    return {**_held(task), "last_words": words or last_words(log_path(task.id, task.run, "output"))}


def _held(task: Task) -> dict[str, Any]:
    return {
        "task_id": task.id,
        "subject": task.subject,
        "key": task.plan_key,
        "member": task.owner,
        "state": task.state,
        "since": task.claimed_at,
        "attempt": task.attempt,
    }
