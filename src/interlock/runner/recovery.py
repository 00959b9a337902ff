"""Taking up what a dead runner left: its processes are ended, its runs given back, its verifies run again.

A run hangs on the process of its runner. When that is gone from this machine there is nothing to wait for: no lease, no
grace, and no attempt is used up (decision 20). Before a task is taken up, the process group of the old run is ended,
found by pid, start time, boot id and the token in its environment, so that nobody else's is touched.
"""

from __future__ import annotations

from interlock import processes
from interlock.errors import Conflict, InvalidRequest
from interlock.model.names import SYSTEM
from interlock.model.task import Run, Task
from interlock.sessions import Caller
from interlock.tasks import finish
from interlock.workspace import Workspace


def written(identity: processes.Identity, token: str) -> str:
    """How a run's process is written down in the ledger."""
    return f"{identity.as_text()}#{token}"


def lives(text: str) -> bool | None:
    """Whether the process written down as `text` lives; null when it is another machine's."""
    try:
        return processes.alive(processes.Identity.parse(text.partition("#")[0]))
    except InvalidRequest:
        return False


def end(text: str, grace: float) -> bool:
    """End the process group written down as `text`; true when nothing of it is left."""
    identity, _, token = text.partition("#")
    try:
        return processes.end_group(processes.Identity.parse(identity), grace=grace, token=token or None)
    except InvalidRequest:
        return True


def abandoned(workspace: Workspace) -> list[Run]:
    """Open runs whose runner is gone from this machine."""
    with workspace.look() as rows:
        return [run for run in rows.runs.open() if run.runner is not None and lives(run.runner) is False]


def take_up(workspace: Workspace) -> list[str]:
    """Give every abandoned run's task back to the queue; the ids of those tasks. Polling twice is harmless."""
    found = abandoned(workspace)
    if not found:
        return []
    with workspace.look() as rows:
        grace = float(workspace.settings(rows).get("stop_grace"))
    taken = []
    for run in found:
        if run.process is not None:
            end(run.process, grace)
        with workspace.act(Caller(SYSTEM, run=run.number)) as act:
            task = act.rows.tasks.get(run.task_id)
            # Everything may have changed since we looked: the run is checked again where it cannot.
            if task is not None and task.run == run.number and task.state == "in-progress":
                try:
                    finish.fail(act, task, "its runner is gone", counts=False)
                except Conflict:
                    continue
                taken.append(run.task_id)
    return taken


def unverified(workspace: Workspace) -> list[Task]:
    """Tasks in review whose verify was under way in a process that is gone."""
    with workspace.look() as rows:
        return [
            task
            for task in rows.tasks.select(states=["review"])
            if task.verifying is not None and lives(str(task.verifying.get("process") or "")) is False
        ]
