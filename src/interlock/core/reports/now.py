"""What a team does now: its status, the board of its tasks, one task with all that belongs to it, and its members."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from interlock.core.reports.needs import needs_me
from interlock.core.reports.night import kept
from interlock.core.tasks.review import under_review
from interlock.core.teams import members
from interlock.errors import InvalidRequest
from interlock.mirror.task_view import complete, show
from interlock.model.names import HUMAN, LEAD
from interlock.model.report import Board, CrewMember, Occupation, TaskStory
from interlock.model.task import FINAL, HELD, STATES, Task
from interlock.model.team import Member
from interlock.model.text import plain
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
        "kept": kept(rows),
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


SHOWN = tuple(state for state in STATES if state != "deleted")
NEWEST = 2**62
"""More than any task's `n`."""


def board(rows: Rows, limit: int) -> Board:
    """The tasks by state, at most `limit` of each."""
    counts = rows.tasks.counts()
    tasks = {state: in_state(rows, state, 0, limit) if counts.get(state) else [] for state in SHOWN}
    tasks["ready"] = rows.tasks.ready(limit)
    complete(rows, [task for some in tasks.values() for task in some])
    return Board({state: counts.get(state, 0) for state in SHOWN}, tasks)


def in_state(rows: Rows, state: str, after: int, limit: int) -> list[Task]:
    """The tasks of one state after the one with that `n`: the newest first where they are finished.

    Raises:
        InvalidRequest: there is no such state.
    """
    if state not in SHOWN:
        raise InvalidRequest(f"{state!r} is no state to list. Use one of: {', '.join(SHOWN)}.", field="state")
    if state in FINAL:
        return rows.tasks.select(states=[state], before=after or NEWEST, limit=limit)
    return rows.tasks.select(states=[state], after=after, limit=limit)


def story(rows: Rows, task: Task, events: int) -> TaskStory:
    """Everything about one task, with its newest `events`."""
    blockers = [rows.tasks.get(id) for id, _ in rows.graph.blockers(task.id)]
    dependents = [rows.tasks.get(id) for id in rows.graph.dependents(task.id)]
    return TaskStory(
        show(rows, task), rows.runs.of_task(task.id), rows.tasks.log(task.id), rows.events.of_task(task.id, events),
        rows.questions.of_task(task.id), rows.handoffs.get(task.id),
        rows.tasks.get(task.parent_id) if task.parent_id else None,
        blockers=complete(rows, [one for one in blockers if one is not None]),
        dependents=complete(rows, [one for one in dependents if one is not None]),
    )  # fmt: skip


def crew(rows: Rows, log_path: Callable[[str, int, str], str]) -> list[CrewMember]:
    """The members, the lead first, with what each is doing."""
    doing: dict[str, list[Occupation]] = {}
    said: dict[str, str | None] = {}
    for task in rows.tasks.select(states=HELD):
        review = under_review(rows, task)
        who = review.member if review is not None else task.owner
        since = review.started_at if review is not None else task.claimed_at
        if who is not None:
            found = Occupation(task.id, task.subject, task.state, review is not None, since, task.run)
            doing.setdefault(who, []).append(found)
            if task.state == "in-progress" or review is not None:
                said[who] = last_words(log_path(task.id, task.run, "output"))
    return [
        CrewMember(one, rows.messages.unread_of(one.name), doing.get(one.name, []), said.get(one.name))
        for one in members(rows)
    ]
