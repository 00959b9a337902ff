"""What a team has done, for whoever comes back in the morning: also what is merged, taken over, and kept."""

from __future__ import annotations

import os
from typing import Any

from interlock.clock import seconds
from interlock.core.reports.needs import first_line, needs_me
from interlock.mirror.task_view import complete
from interlock.model import evidence
from interlock.model.event import Event
from interlock.model.names import HUMAN
from interlock.model.run import KEPT as ARTIFACTS
from interlock.model.run import Run, spent_together
from interlock.model.task import FINAL, Task
from interlock.model.text import named
from interlock.model.text import programs as in_words
from interlock.storage.ledger import Rows

REFUSED = "was refused"
"""The outcome in an incident: an agent asked for a permission and did not get it."""
FINE = ("done", "released", "blocked", "awaiting-response")
"""Outcomes of a run that are no incident."""
OVERSTEPPED_SHOWN = 200
CHAIN_SHOWN = 6
"""How many tasks of a chain that waits are named."""


def report(rows: Rows, team: str, since: str | None, now: str) -> dict[str, Any]:
    """What needs you, what is done with its evidence, what failed and why, what is left and why, what it took.

    `since` is an ISO 8601 time; only what was finished, or went wrong, after it is listed as such. `seconds` is the
    time that runs took, verifies included; of `totals`, `elapsed` is from the first run to the end of the last.
    """
    tasks = complete(rows, rows.tasks.select())
    by_id = {task.id: task for task in tasks}
    runs = {task.id: _real(rows.runs.of_task(task.id)) for task in tasks if task.run}
    done = [task for task in tasks if task.state == "done" and (since is None or (task.completed_at or "") >= since)]
    return {
        "team": team,
        "since": since,
        "needs_me": needs_me(rows),
        "done": [_done(rows, task, runs.get(task.id, []), now) for task in done],
        "failed": [_failed(task, runs.get(task.id, []), now) for task in tasks if task.state == "deadletter"],
        "incidents": _incidents(rows, tasks, runs, since),
        "left": [
            {
                **_brief(task),
                "blocked_by": task.blocked_by,
                "why": _waits_for_capacity(runs.get(task.id, []), task, now) or why_left(task, by_id, now),
            }
            for task in tasks
            if task.state not in FINAL | {"deadletter"}
        ],
        "cancelled": [_brief(task) for task in tasks if task.state == "cancelled"],
        "integration": integration(rows),
        "kept": kept(rows),
        "counts": rows.tasks.counts(),
        "totals": _totals(runs, since, now),
    }


def why_left(task: Task, by_id: dict[str, Task], now: str) -> str:
    """Why a task is not done yet, in a line; `by_id` holds all tasks, complete."""
    match task.state:
        case "backlog":
            return _waits_for(task, by_id, CHAIN_SHOWN)
        case "ready" if task.not_before is not None and task.not_before > now:
            failed = f"failed {task.failures} times; " if task.failures else ""
            return f"{failed}is tried again at {task.not_before}"
        case "ready":
            return f"is ready for {task.reserved_for or 'whoever takes it'}"
        case "in-progress":
            return f"{task.owner} is at it"
        case "review" if task.verifying is not None:
            return "its check is running, or was stopped; running the plan again takes it up"
        case "review" if task.merging is not None:
            return "waits for its merge; running the plan again takes it up"
        case "review" if task.question is not None and task.question["kind"] == "merge":
            return "could not be merged; waits for an answer"
        case "review" if task.question is not None and task.question["kind"] == "permission":
            return f"{_reviewer(task)}, who reviews it, waits for an answer"
        case "review" if task.question is not None:
            return f"waits for review by {HUMAN}{_instead_of(task)}"
        case "review":
            return f"waits for review by {_reviewer(task)}"
        case "awaiting-response":
            return "waits for an answer"
        case _:
            return first_line(task.output) or "is blocked"


def _real(runs: list[Run]) -> list[Run]:
    """Without runs that nobody worked in: a rejection opens one, and gives it back at once where its author is gone."""
    return [run for run in runs if run.outcome != "released" or run.ended_at != run.started_at]


def _reviewer(task: Task) -> str:
    return task.review if task.review not in (None, "none") else HUMAN


def _instead_of(task: Task) -> str:
    return "" if _reviewer(task) == HUMAN else f", since {_reviewer(task)} came to no verdict"


def _waits_for(task: Task, by_id: dict[str, Task], depth: int) -> str:
    parts = []
    for id in task.blocked_by:
        blocker = by_id.get(id)
        if blocker is None:
            parts.append(f"{id}, which was deleted")
        elif blocker.state == "backlog" and depth > 1:
            parts.append(f"{_name(blocker)}, which {_waits_for(blocker, by_id, depth - 1)}")
        elif blocker.state == "cancelled":
            parts.append(f"{_name(blocker)}, which was cancelled")
        else:
            parts.append(f"{_name(blocker)}, which is {_STATES.get(blocker.state, blocker.state)}")
    return f"waits for {' and for '.join(parts) or 'nothing'}"


_STATES = {
    "deadletter": "in deadletter",
    "in-progress": "under way",
    "review": "in review",
    "awaiting-response": "waiting for an answer",
    "backlog": "waiting itself",
}


def _name(task: Task) -> str:
    return task.plan_key or task.id


def _done(rows: Rows, task: Task, runs: list[Run], now: str) -> dict[str, Any]:
    return {
        **_brief(task),
        **copies_of(rows, task),
        "evidence": task.evidence,
        "verified": evidence.is_verified(task.evidence),
        "proof": evidence.in_words(task.evidence),
        "by": task.owner,
        "runs": len(runs),
        "attempts": task.attempt,
        "failed_checks": task.rounds,
        "seconds": _length(runs, now),
        "spent": spent_together(runs),
        "output": task.output,
    }


def _failed(task: Task, runs: list[Run], now: str) -> dict[str, Any]:
    return {
        **_brief(task),
        "reason": task.output,
        "evidence": task.evidence,
        "by": runs[-1].member if runs else None,
        "runs": len(runs),
        "attempts": task.failures,
        "seconds": _length(runs, now),
        "spent": spent_together(runs),
    }


def _incidents(rows: Rows, tasks: list[Task], runs: dict[str, list[Run]], since: str | None) -> list[dict[str, Any]]:
    """What went otherwise than well, in the order of time: runs that failed or were given up, checks that failed, and
    what agents wanted to do and were not allowed to."""
    found = []
    asks_nobody = {member.name for member in rows.team.members() if member.agent == "shell"}
    for task in tasks:
        own = {run.number: run for run in runs.get(task.id, ())}
        if task.rounds or any(run.member not in asks_nobody for run in own.values()):
            events = rows.events.of_task(task.id)
            found += _failed_checks(task, own, events) + _refused(task, own, events)
        found += [
            _incident(task, run.number, run.member, str(run.ended_at), str(run.outcome), run.reason)
            for run in own.values()
            if run.ended_at is not None and run.outcome not in FINE
        ]
    found += merge_incidents(rows, tasks)
    found += _overstepped(rows, {task.id: task for task in tasks})
    return sorted((one for one in found if since is None or str(one["at"]) >= since), key=lambda one: str(one["at"]))


def _failed_checks(task: Task, own: dict[int, Run], events: list[Event]) -> list[dict[str, Any]]:
    found = []
    for event in events:
        if event.type == "verify.finished" and event.payload.get("passed") is False:
            run = own.get(_number(event))
            reason = f"round {event.payload.get('round')}, {evidence.ended(event.payload).removeprefix('ended with ')}"
            member = run.member if run is not None else task.owner
            found.append(_incident(task, _number(event), member, event.at, "check failed", reason))
    return found


def _refused(task: Task, own: dict[int, Run], events: list[Event]) -> list[dict[str, Any]]:
    """One incident for each run that was refused something, with what it was first: in the morning this is why an agent
    that nobody could be asked for came to nothing."""
    refused: dict[int, list[Event]] = {}
    for event in events:
        if event.type == "permission.answered" and event.payload.get("answer") == "refuse":
            refused.setdefault(_number(event), []).append(event)
    found = []
    for number, some in refused.items():
        first, run = some[0].payload, own.get(number)
        what = first_line(str(first.get("title") or first.get("tool") or "something"))
        more = f", and {len(some) - 1} more" if len(some) > 1 else ""
        why = f" ({first['why']})" if first.get("why") else ""
        member = run.member if run is not None else task.owner
        found.append(_incident(task, number, member, some[0].at, REFUSED, f"{what}{more}{why}"))
    return found


def _overstepped(rows: Rows, tasks: dict[str, Task]) -> list[dict[str, Any]]:
    """What runs tried as somebody else, and daemons that they left running."""
    found = []
    for event in rows.events.latest(None, OVERSTEPPED_SHOWN, ("access.refused", "processes.left")):
        task, said = tasks.get(str(event.task_id)), event.payload
        if task is None:
            continue
        if event.type == "access.refused":
            outcome, reason = "tried what its member may not, and was refused", said["reason"]
        else:
            outcome, reason = "left running, as keep_processes allows", in_words(said["processes"])
        number = _number(event) if said.get("run") else task.run
        found.append(_incident(task, number, said["member"] or task.owner, event.at, outcome, reason))
    return found


def _number(event: Event) -> int:
    return int(str(event.payload.get("run")).rpartition(".")[2])


def _incident(task: Task, number: int, member: str | None, at: str, outcome: str, reason: str | None) -> dict[str, Any]:
    return {
        "task_id": task.id,
        "key": task.plan_key,
        "run": number,
        "member": member,
        "at": at,
        "outcome": outcome,
        "reason": reason,
    }


def _totals(runs: dict[str, list[Run]], since: str | None, now: str) -> dict[str, Any]:
    counted = [run for some in runs.values() for run in some if since is None or (run.ended_at or now) >= since]
    began = min((run.started_at for run in counted), default=None)
    ended = max((run.ended_at or now for run in counted), default=None)
    elapsed = seconds(ended) - seconds(began) if began is not None and ended is not None else 0.0
    return {
        "runs": len(counted),
        "seconds": _length(counted, now),
        "spent": spent_together(counted),
        "elapsed": round(max(0.0, elapsed), 3),
        "began_at": began,
        "ended_at": ended,
    }


def _waits_for_capacity(runs: list[Run], task: Task, now: str) -> str | None:
    """Until when a task waits for its agent's provider, and what that said; null where it does not."""
    last = runs[-1] if runs else None
    if last is None or last.outcome != "capacity" or task.state != "ready" or (task.not_before or "") <= now:
        return None
    return f"waits for capacity until {task.not_before}: {last.reason}"


def _length(runs: list[Run], now: str) -> float:
    return round(sum(max(0.0, seconds(run.ended_at or now) - seconds(run.started_at)) for run in runs), 3)


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


KEPT = ("deadletter", "cancelled")
"""States in which a task's worktree stays, since what was done there is nowhere else."""
ELSEWHERE = ("checkout.changed", "worktree.changed")


def integration(rows: Rows) -> dict[str, Any] | None:
    """The team's integration branch: how many finished tasks are on it, and how many of them were merged on by
    `interlock merge`; null in a team that has none."""
    merged = [task for task in rows.tasks.worktrees() if task.state == "done" and (task.worktree or {}).get("merged")]
    if not merged:
        return None
    taken = sum(bool((task.worktree or {}).get("delivered")) for task in merged)
    return {"branch": f"interlock/{rows.team.get().name}", "tasks": len(merged), "delivered": taken}


def kept(rows: Rows) -> list[dict[str, Any]]:
    """The worktrees of tasks that came to nothing, for somebody to look at, or to go on in, and of those that hold what
    could not be kept with the run: `why`, and `size` in bytes."""
    found = []
    for task in rows.tasks.worktrees():
        known = task.worktree or {}
        if (task.state in KEPT or known.get("stays")) and os.path.isdir(str(known.get("path"))):
            found.append(
                {
                    "task_id": task.id,
                    "subject": task.subject,
                    "key": task.plan_key,
                    "state": task.state,
                    "path": known["path"],
                    "branch": known["branch"],
                    "why": known.get("stays"),
                    "size": known.get("size"),
                }
            )
    return found


def merge_incidents(rows: Rows, tasks: list[Task]) -> list[dict[str, Any]]:
    """The merges of tasks that came to nothing, and what changed where nobody was to change anything: that once, though
    it is an event of each task that was at work, and by nobody, since nobody knows."""
    found = {}
    for task in tasks:
        for event in rows.events.of_task(task.id) if task.worktree else ():
            told = _told(event)
            if told is None:
                continue
            elsewhere = event.type in ELSEWHERE
            found[(event.at, *told) if elsewhere else event.seq] = {
                "task_id": task.id,
                "key": task.plan_key,
                "run": None if elsewhere else task.run,
                "member": None if elsewhere else task.owner,
                "at": event.at,
                "outcome": told[0],
                "reason": told[1],
            }
    return list(found.values())


def _told(event: Event) -> tuple[str, str] | None:
    said = event.payload
    if event.type == "merge.finished" and said["outcome"] in ("conflict", "red", "failed"):
        return f"merge: {said['outcome']}", said["reason"]
    if event.type == "changes.set_aside":
        return "may only read, and what it changed was taken back", f"kept in {said['path']}"
    if event.type in ELSEWHERE:
        runs = named(said["runs"], 5)
        what = f"{said['path']} ({named(said['changed'], 5)}); who changed it is not known"
        return "something changed elsewhere", f"{what}; at work since the look before: {runs}"
    return None


def copies_of(rows: Rows, task: Task) -> dict[str, Any]:
    """What a report says of the merge of a finished task: the files that are kept beside it, and whether they are all
    of its result."""
    known = task.worktree or {}
    files = [one.path for one in rows.runs.artifacts(task.id) if one.kind in ARTIFACTS] if known else []
    return {
        "merged": known.get("merged"),
        "delivered": known.get("delivered"),
        "files": files,
        "only_files": bool(files) and known.get("merged") is None,
    }
