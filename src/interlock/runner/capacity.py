"""An agent whose provider has nothing left: a usage limit, an overload, no network, an expired login (decision 20).

It is nobody's fault and uses up no attempt. The run ends and frees its place; the task waits for the time the provider
names, or longer each time where it names none, reserved for the same member, whose own session is then resumed. An
expired login ends by itself for nobody: a person is asked.
"""

from __future__ import annotations

from datetime import datetime

from interlock.clock import iso, seconds
from interlock.executor import Result
from interlock.model.task import Task
from interlock.sessions import Act
from interlock.tasks import answer, finish
from interlock.tasks.transition import end_run

OUTCOME = "capacity"
FIRST_PAUSE = 60.0
LONGEST_PAUSE = 3600.0
AFTER_RESET = 5.0
"""Seconds after the time that a provider names: its clock and ours are not the same."""


def wait(act: Act, task: Task, why: str, result: Result) -> None:
    """End the run of `task` for want of capacity, and let the task wait."""
    run = act.rows.runs.get(task.id, task.run)
    member, when = act.name, retry_at(act, task, result)
    _told(act, task, why, when, result.login)
    if result.login:
        answer.ask(
            act, task, text=f"{member} cannot work: {result.detail or why}. Answer when that is mended.",
            key=f"login:{task.run_id}",
        )  # fmt: skip
        end_run(act, task, OUTCOME, why)
        return
    why = f"{why}; tried again {_local(when)}"
    finish.fail(act, task, why, counts=False)
    if run is not None:
        act.rows.runs.update(run, ended_at=act.at, outcome=OUTCOME, reason=why)
    act.rows.tasks.update(task, not_before=when, reserved=member, updated_at=act.at)


def wait_to_review(act: Act, task: Task, why: str, result: Result) -> None:
    """The run that was to review `task` has ended so; the review waits."""
    when = retry_at(act, task, result)
    _told(act, task, why, when, result.login)
    act.rows.tasks.update(task, not_before=when, updated_at=act.at)
    act.topics.add("tasks")


def retry_at(act: Act, task: Task, result: Result) -> str:
    """When to try again, ISO 8601 UTC."""
    times = 0
    for run in reversed(act.rows.runs.of_task(task.id)):
        if run.outcome == OUTCOME:
            times += 1
        elif run.ended_at is not None:
            break
    now = act.clock.now()
    # A time that is over already counts once: whoever names it again and again has nothing to give at it.
    if result.retry_at is not None and (result.retry_at > now or not times):
        return iso(max(result.retry_at, now) + AFTER_RESET)
    return act.later(min(FIRST_PAUSE * 2**times, LONGEST_PAUSE))


def _local(moment: str) -> str:
    """A moment as people here read it, with its zone."""
    return datetime.fromtimestamp(seconds(moment)).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def _told(act: Act, task: Task, why: str, when: str, login: bool) -> None:
    act.event("run.capacity", task.id, run=task.run_id, reason=why, retry_at=None if login else when, login=login)
