"""Where work lies that was done in worktrees: what is merged, what a person has taken over, what is kept."""

from __future__ import annotations

import os
from typing import Any

from interlock.model.run import KEPT as ARTIFACTS
from interlock.model.task import Task
from interlock.model.text import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.model.event import Event
    from interlock.storage.ledger import Rows

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


def incidents(rows: Rows, tasks: list[Task]) -> list[dict[str, Any]]:
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


def of(rows: Rows, task: Task) -> dict[str, Any]:
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
