"""Taking up what a dead runner left: its processes are ended, its runs given back.

A run hangs on the process of its runner. When that is gone from this machine there is nothing to wait for: no lease, no
grace, and no attempt is used up (decision 20). Before a task is taken up, the old run's programs are ended: found by
pid, start time and boot id, and by the run token in their environment, so that nobody else's is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

from interlock import processes
from interlock.errors import Conflict, InvalidRequest
from interlock.model.names import SYSTEM
from interlock.model.task import Run, Task
from interlock.runner.lifesigns import lives, session_token, token_of
from interlock.sessions import Caller
from interlock.tasks import change, finish
from interlock.tasks.transition import end_run
from interlock.workspace import Workspace


def end(text: str, grace: float) -> bool:
    """End the process group written down as `text`, and what carries its token; true when nothing of it is left."""
    try:
        return processes.end_group(processes.Identity.parse(text.partition("#")[0]), grace=grace, token=token_of(text))
    except InvalidRequest:
        token = token_of(text)
        return token is None or processes.end_marked(token, grace)


def end_run_programs(run: Run, grace: float) -> bool:
    """End everything that run started here; true when nothing of it is left."""
    if run.runner is not None and lives(run.runner) is None:
        return True  # On another machine; whoever takes its runs over has said that it is gone.
    return end(run.process or f"#{session_token(run.session) or ''}", grace)


def end_verify_program(task: Task, grace: float) -> bool:
    """End the program of a verify whose verifier is gone; true when nothing of it is left."""
    token = token_of(str((task.verifying or {}).get("process") or ""))
    return token is None or processes.end_marked(token, grace)


def runner_is_gone(run: Run) -> bool:
    """Whether the runner of that run is known to be gone; one on another machine is not."""
    return run.runner is not None and lives(run.runner) is False


def abandoned(workspace: Workspace, gone: Callable[[Run], bool] = runner_is_gone) -> list[Run]:
    """Open runs whose runner is `gone`, but for those whose work waits to be verified."""
    found = []
    with workspace.look() as rows:
        for run in rows.runs.open():
            if gone(run):
                task = rows.tasks.get(run.task_id)
                if task is not None and task.run == run.number and task.state != "review":
                    found.append(run)
    return found


def verifying(workspace: Workspace) -> list[tuple[Task, Run]]:
    """Tasks whose verify is under way, or was when its process ended, with the runs that it judges."""
    found = []
    with workspace.look() as rows:
        for task in rows.tasks.select(states=["review"]):
            run = rows.runs.get(task.id, task.run)
            if task.verifying is not None and run is not None:
                found.append((task, run))
    return found


def take_up(workspace: Workspace, gone: Callable[[Run], bool] = runner_is_gone) -> list[str]:
    """Give every abandoned run's task back to the queue; the ids of those tasks. Polling twice is harmless."""
    found = abandoned(workspace, gone)
    if not found:
        return []
    with workspace.look() as rows:
        grace = float(workspace.settings(rows).get("stop_grace"))
    ended = _end_all(found, grace)
    return [run.task_id for run in found if _give_back(workspace, run, ended.get(run.id, False))]


def _end_all(runs: list[Run], grace: float) -> dict[str, bool]:
    """End the programs of all these runs at once: each may take its grace to go."""
    gone: dict[str, bool] = {}

    def end_one(run: Run) -> None:
        gone[run.id] = end_run_programs(run, grace)

    threads = [Thread(target=end_one, args=(run,), name=f"interlock-end-{run.id}") for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return gone


def _give_back(workspace: Workspace, run: Run, gone: bool) -> bool:
    try:
        with workspace.act(Caller(SYSTEM, run=run.number)) as act:
            task = act.rows.tasks.get(run.task_id)
            current = act.rows.runs.get(run.task_id, run.number)
            # Everything may have changed since we looked: the run is checked again where it cannot.
            if task is None or task.run != run.number or current is None or current.ended_at is not None:
                return False
            if task.state in ("blocked", "awaiting-response"):
                end_run(act, task, task.state, "its runner is gone")
            elif task.state != "in-progress":
                return False
            elif gone:
                finish.fail(act, task, "its runner is gone", counts=False)
            else:
                reason = "programs of an earlier run could not be ended; end them, then unblock it"
                change.block(act, task, reason)
                end_run(act, task, "blocked", reason)
            act.rows.team.end_session(run.member, run.session, act.at)
            act.event("session.ended", member=run.member, session=run.session)
            return task.state in ("ready", "backlog")
    except Conflict:
        return False
