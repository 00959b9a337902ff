"""What people want to know of a team, as data: now (`status`) and over a night (`report`).

Faces turn it into text, Markdown or a page; nothing here formats for one of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from interlock.ledger import Rows
from interlock.model.task import BROKEN, FINAL, Task
from interlock.views import complete

NEXT_SHOWN = 10
LAST_WORDS = 200
TAIL_BYTES = 4096


def status(rows: Rows, team: str, log_path: Callable[[str, int], str]) -> dict[str, Any]:
    """What needs a human, what runs since when with its last words, what is next.

    `log_path` answers where the output of a run (task id, number) is kept.
    """
    held = complete(rows, rows.tasks.select(states=["in-progress", "awaiting-response", "blocked", "review"]))
    return {
        "team": team,
        "needs_me": needs_me(rows),
        "running": [
            {
                "task_id": task.id,
                "subject": task.subject,
                "member": task.owner,
                "state": task.state,
                "since": task.claimed_at,
                "last_words": last_words(log_path(task.id, task.run)),
            }
            for task in held
        ],
        "next": [_brief(task) for task in rows.tasks.ready(NEXT_SHOWN)],
        "counts": rows.tasks.counts(),
        "retry_at": rows.tasks.ready_after(),
    }


def needs_me(rows: Rows) -> list[dict[str, Any]]:
    """Everything that goes no further without a person, most pressing first: `{kind, task_id, text, verb}`."""
    found = [
        {"kind": question.kind, "task_id": question.task_id, "text": question.text, "verb": _answer_verb(question)}
        for question in rows.questions.open()
    ]
    for task in rows.tasks.select(states=["blocked"]):
        found.append(_need("blocked", task, task.output or "blocked", f"interlock task unblock {task.id}"))
    for task in rows.tasks.select(states=["deadletter"]):
        reason = (task.output or "failed").splitlines()[0]
        found.append(_need("deadletter", task, reason, f"interlock task retry {task.id}"))
    for task in complete(rows, rows.tasks.select(states=["backlog"])):
        if any(rows.tasks.get(blocker).state in BROKEN for blocker in task.blocked_by):  # type: ignore[union-attr]
            verb = f"interlock task depend {task.id} --on {task.blocked_by[0]} --remove"
            found.append(_need("broken", task, task.warnings[0] if task.warnings else "a blocker is gone", verb))
    members = {member.name: member for member in rows.team.members() if member.role == "member"}
    if any(member.agent for member in members.values()):
        for task in rows.tasks.ready(1000):
            if not any(may_take(task, name, member.agent) for name, member in members.items()):
                text = "no member can take it: " + ("it needs a shell member" if task.command else "it needs an agent")
                found.append(_need("unclaimable", task, text, f"interlock task assign {task.id} --to MEMBER"))
    return found


def may_take(task: Task, name: str, agent: str | None) -> bool:
    """Whether a member may work on a ready task: a command is for shell members, everything else is not."""
    if task.reserved_for not in (None, name):
        return False
    if agent is None:
        return task.reserved_for == name
    return (agent == "shell") == (task.command is not None)


def report(rows: Rows, team: str, since: str | None) -> dict[str, Any]:
    """What needs you, what is done with its evidence, what failed and why, what is left, what it took.

    `since` is an ISO 8601 time; only what was finished after it is listed as done.
    """
    tasks = complete(rows, rows.tasks.select())
    runs = {task.id: rows.runs.of_task(task.id) for task in tasks if task.run}
    done = [task for task in tasks if task.state == "done" and (since is None or (task.completed_at or "") >= since)]
    return {
        "team": team,
        "since": since,
        "needs_me": needs_me(rows),
        "done": [
            {
                **_brief(task),
                "evidence": task.evidence,
                "verified": _verified(task),
                "by": task.owner,
                "runs": len(runs.get(task.id, ())),
                "output": task.output,
            }
            for task in done
        ],  # fmt: skip
        "failed": [
            {**_brief(task), "reason": task.output, "runs": len(runs.get(task.id, ()))}
            for task in tasks
            if task.state == "deadletter"
        ],  # fmt: skip
        "incidents": _incidents(runs, since),
        "left": [
            {**_brief(task), "blocked_by": task.blocked_by}
            for task in tasks
            if task.state not in FINAL | {"deadletter"}
        ],  # fmt: skip
        "cancelled": [_brief(task) for task in tasks if task.state == "cancelled"],
        "counts": rows.tasks.counts(),
    }


def last_words(path: str) -> str | None:
    """The last line a run printed; null where it has said nothing."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    return next((line.strip()[:LAST_WORDS] for line in reversed(lines) if line.strip()), None)


def _incidents(runs: dict[str, list[Any]], since: str | None) -> list[dict[str, Any]]:
    """Runs that ended otherwise than well, in the order they ended: what happened in the night."""
    found = [
        {"task_id": run.task_id, "run": run.number, "member": run.member, "at": run.ended_at, "outcome": run.outcome,
         "reason": run.reason}
        for attempts in runs.values()
        for run in attempts
        if run.ended_at is not None and run.outcome not in ("done", "released") and (since is None or run.ended_at >= since)
    ]  # fmt: skip
    return sorted(found, key=lambda incident: str(incident["at"]))


def _verified(task: Task) -> bool:
    return bool(task.evidence and task.evidence.get("passed"))


def _brief(task: Task) -> dict[str, Any]:
    return {
        "task_id": task.id,
        "subject": task.subject,
        "state": task.state,
        "key": task.plan_key,
        "priority": task.priority,
        "assignee": task.reserved_for,
        "completed_at": task.completed_at,
    }


def _need(kind: str, task: Task, text: str, verb: str) -> dict[str, Any]:
    return {"kind": kind, "task_id": task.id, "text": f"{task.subject}: {text}", "verb": verb}


def _answer_verb(question: Any) -> str:
    if question.kind == "review":
        return f"interlock task approve {question.task_id}"
    return f"interlock question reply {question.task_id} TEXT"
