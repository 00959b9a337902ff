"""The runner and git as the verbs use them; loaded with the first verb that waits, checks, or works in a worktree."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from shutil import rmtree

from interlock.agents.profiles import AgentProfile as Profile
from interlock.agents.registry import AgentInfo, AgentRegistry, AgentSummary, WhyIdle
from interlock.app.blocking import run_async
from interlock.core.tasks.find import find
from interlock.core.tasks.verify import verified
from interlock.core.unit_of_work import Principal, Workspace
from interlock.doctor import DoctorReport
from interlock.doctor.home import CHECKING, abandoned
from interlock.doctor.team import examine as examine_team
from interlock.doctor.team import examine_all as examine_home
from interlock.errors import InterlockError
from interlock.gitwork.delivery import changes, merge_into
from interlock.gitwork.isolation import look, trees
from interlock.gitwork.trees import DIRECTORY, Trees
from interlock.memory.store import Condition, Log, MemoryStore, MemoryUnavailable, OpenMemory, RecallResult
from interlock.mirror.task_view import show
from interlock.model.driving import Stop, Update
from interlock.model.task import Task
from interlock.processes.ancestry import origin
from interlock.processes.commands import words_of
from interlock.processes.peers import origin as connected_run
from interlock.runner import merge_queue, remote_runs
from interlock.runner.agent_check import MEMBER as TRIAL_MEMBER
from interlock.runner.agent_check import try_out
from interlock.runner.context import RunnerConfig
from interlock.runner.executor import Executor, Result
from interlock.runner.machine_share import MachineShare
from interlock.runner.notification_targets import browsers, targets
from interlock.runner.notifications import Notifications, NotificationSettings
from interlock.runner.recovery_scan import LivenessProbe
from interlock.runner.registration import at_work
from interlock.runner.scheduler import PollReport, Scheduler, poll
from interlock.runner.team_runner import TeamRunner
from interlock.runner.telemetry import Telemetry, TracedCalls
from interlock.runner.verify import Evidence, examine
from interlock.runner.web_push import public_key, subscribe, unsubscribe
from interlock.runner.workspace_allocation import place, seal

__all__ = [
    "CHECKING", "TRIAL_MEMBER", "AgentInfo", "AgentRegistry", "AgentSummary", "Condition", "DoctorReport", "Evidence",
    "Executor", "LivenessProbe", "Log", "MachineShare", "MemoryStore", "MemoryUnavailable", "NotificationSettings",
    "Notifications", "OpenMemory", "PollReport", "Profile", "RecallResult", "Result", "RunnerConfig", "Scheduler",
    "Stop", "TeamRunner", "Telemetry", "TracedCalls", "Trees", "Update", "WhyIdle", "abandoned", "browsers",
    "changes", "connected_run", "examine_home", "examine_team", "forgetting", "look",
    "merge_into", "merge_now", "place", "poll", "public_key", "remote_runs", "rmtree", "run_async", "subscribe",
    "targets", "trees", "try_out", "unsubscribe", "verify_now", "words_of",
]  # fmt: skip


def verify_now(workspace: Workspace, caller: Principal, task: Task, mark: str) -> Task:
    """Run the task's check as the verifier `mark`, and record how it ended; returns the task."""
    evidence = run_async(examine, workspace, task)
    with workspace.act(caller) as act:
        found = find(act.rows, task.id)
        verified(act, found, evidence.as_dict(), run=task.run, verifier=mark)
        show(act.rows, found)
    found.warnings = [*found.warnings, *act.warnings]
    return found


def merge_now(workspace: Workspace, task: Task) -> Task:
    """Merge what waits for it, where no runner is there to do it and nobody waits for us inside a run; returns the
    task as it then is."""
    with workspace.ledger.snapshot() as rows:
        driven = bool(at_work(rows))
    if driven or origin(workspace.home) is not None:
        return task
    probe = LivenessProbe()
    scheduler = Scheduler(workspace, probe=probe)
    seen: set[str] = set()
    while (one := scheduler.next_merge()) is not None and one.task is not None and one.task.id not in seen:
        seen.add(one.task.id)
        if not run_async(merge_queue.take_up, workspace, one.task, probe.merges, lambda update: None):
            break
    if not seen:
        return task
    with workspace.look() as rows:
        return show(rows, find(rows, task.id))


def forgetting(workspace: Workspace) -> Callable[[], None]:
    """What makes git forget the worktrees of a team, once their directories are gone. The branches stay, unless
    the user's has all that is on them: it is work."""
    how = look(workspace)
    if not how.on and not os.path.isdir(os.path.join(workspace.directory, DIRECTORY)):
        return lambda: None
    try:
        found = trees(workspace, how)
        paths = found.all()
    except InterlockError:
        return lambda: None  # It never had any, or its repository is gone.
    with workspace.ledger.snapshot() as rows:
        left = [task for task in rows.tasks.worktrees() if task.state != "done"]
    for task in left:  # Their branches stay, and hold all of it then.
        with suppress(InterlockError, OSError):
            seal(workspace, task, found)

    def forget() -> None:
        with suppress(InterlockError):
            for path in paths:
                found.remove(path)
            found.end()

    return forget
