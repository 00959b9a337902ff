"""What a team does now."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from interlock.mirror.task_view import complete
from interlock.model.names import HUMAN, LEAD
from interlock.model.task import Task
from interlock.output import plain
from interlock.reports import copies
from interlock.reports.needs import needs_me
from interlock.tasks.reviewers import under_review

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.model.team import Member
    from interlock.storage.ledger import Rows

NEXT_SHOWN = 10
LAST_WORDS = 200
TAIL_BYTES = 4096


def status(rows: Rows, team: str, log_path: Callable[[str, int, str], str], now: str) -> dict[str, Any]:
    """What needs a human, what runs since when with its last words, what waits for somebody, what is next.

    `log_path` answers where the output of a run (task id, number, kind) is kept. `runner` is the process that drives
    the team, if one has signed on, `workers` those that wait for work; neither says that it still lives. `status` of
    the team is active or paused. `unread` counts the mail of those who are told of it nowhere else.
    """
    held = complete(rows, rows.tasks.select(states=["in-progress", "awaiting-response", "blocked", "review"]))
    reviews = {task.id: run.member for task in held if (run := under_review(rows, task)) is not None}
    own, members = rows.team.get(), [member for member in rows.team.members() if member.role == "member"]
    return {
        "team": team,
        "status": "paused" if own.settings.get("paused") else own.status,
        "paused": [member.name for member in members if member.status == "paused"],
        "stopped": [member.name for member in members if member.status == "stopped"],
        "runner": own.runner,
        "needs_me": needs_me(rows),
        "running": [
            _running(task, reviews.get(task.id), log_path) for task in held if task.id in reviews or _at_work(task)
        ],
        "waiting": [_held(task) for task in held if task.id not in reviews and not _at_work(task)],
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
        "kept": copies.kept(rows),
        "counts": rows.tasks.counts(),
        "spent": _spent(rows.runs.spent(now)),
        "retry_at": rows.tasks.ready_after(now),
        "unread": {name: number for name in (HUMAN, LEAD) if (number := rows.messages.unread_of(name))},
    }


def _spent(sums: dict[str, Any]) -> dict[str, Any]:
    """Null for tokens and costs of which nothing is known."""
    tokens = sums.get("unknown") and not sums["tokens"]
    cost = sums.pop("cost_partial", False)
    return {
        **sums,
        **({"tokens": None, "input_tokens": None, "output_tokens": None} if tokens else {}),
        **({"cost_partial": True} if cost and sums["cost_usd"] else {"cost_usd": None} if cost else {}),
    }


def unable(rows: Rows, why_idle: Callable[[Member], str | None] | None) -> list[dict[str, Any]]:
    """The members whose agent cannot be had on this machine, `{member, agent, why}`: whoever drives the team here
    works without them, and says so only to who started it."""
    members = [one for one in rows.team.members() if one.role == "member" and one.agent and one.status != "stopped"]
    found = [(member, why_idle(member)) for member in members] if why_idle is not None else []
    return [{"member": member.name, "agent": member.agent, "why": why} for member, why in found if why is not None]


def in_words(one: dict[str, Any]) -> str:
    """What one of `unable` comes to, and what to do about it."""
    return (
        f"{one['member']} cannot work here: {one['why']} The others work without it. `interlock agents list` shows "
        "what is installed."
    )


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
    return task.state == "in-progress" or task.under_way


def _running(task: Task, reviewer: str | None, log_path: Callable[[str, int, str], str]) -> dict[str, Any]:
    words = None
    if task.verifying is not None:
        printed = last_words(log_path(task.id, task.run, "verify"))
        words = f"checking: {task.verify}" + (f" · {printed}" if printed else "")
    elif task.merging is not None and task.merging["stage"] == "merging":
        printed = last_words(log_path(task.id, task.run, "merge"))
        words = "merging" + (f" · {printed}" if printed else "")
    elif task.merging is not None:
        words = "waits for its merge"
    member = reviewer or task.owner
    return {**_held(task), "member": member, "last_words": words or last_words(log_path(task.id, task.run, "output"))}


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
