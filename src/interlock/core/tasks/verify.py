"""How a check has ended, and what becomes of its task.

review ──passed──────────> done, or on to its reviewer
       ──failed──────────> in-progress, with the output as findings; three rounds without delay, then deadletter
       ──could not start─> a person is asked: that says nothing about the work, and costs the author nothing
"""

from __future__ import annotations

from typing import Any

from interlock.core import questions
from interlock.core.mailbox import notify
from interlock.core.tasks.finish import given_up, settle
from interlock.core.tasks.transition import end_run, illegal, move, reopen_run, waiting_state
from interlock.core.unit_of_work import UnitOfWork
from interlock.model import evidence
from interlock.model.question import APPROVE, CHANGES
from interlock.model.task import Task
from interlock.settings import Settings
from interlock.storage.ledger import Rows

RETRY = "retry"


def baseline(rows: Rows, settings: Settings, task: Task, tree: object = None) -> tuple[bool | None] | None:
    """Whether the task's check failed on the `tree` before the work, by default that of its worktree (null: it came to
    no end), or null where it was not run there."""
    tree = tree or (task.worktree or {}).get("tree")
    if tree is None or task.verify is None:
        return None
    return rows.tasks.baseline(str(tree), _setup(settings), task.verify)


def red_before(act: UnitOfWork, task: Task) -> bool | None:
    """The same, null also where it is not known."""
    found = baseline(act.rows, act.settings, task)
    return None if found is None else found[0]


def baselined(act: UnitOfWork, task: Task, red: bool | None, tail: str | None = None) -> None:
    """Write down how the check of `task` ended on the tree before the work, also for others of that tree; `tail` is the
    end of what it printed there."""
    tree, command = str((task.worktree or {})["tree"]), str(task.verify)
    act.rows.tasks.baselined(tree, _setup(act.settings), command, red, act.at)
    act.event("verify.before", task.id, tree=tree, command=command, red=red, tail=tail)
    for one in act.rows.tasks.worktrees():
        if (one.worktree or {}).get("tree") != tree or one.verify != command:
            continue
        rows = [{**row, "red_before": red} if row["kind"] == "verify" else row for row in one.evidence]
        if rows != one.evidence:
            act.rows.tasks.update(one, evidence=rows, updated_at=act.at)
            if one.id != task.id:
                act.event("verify.before", one.id, tree=tree, command=command, red=red)
            act.topics.add("tasks")


def _setup(settings: Settings) -> str:
    return str(settings.get("worktree_setup")).strip()


def take_up(act: UnitOfWork, task: Task, verifier: str) -> Task:
    """Take over a check whose process is gone, so that somebody runs it."""
    if task.state != "review" or task.verifying is None:
        raise illegal(task, "has no verify under way")
    act.rows.tasks.update(task, verifying={**task.verifying, "process": verifier, "at": act.at})
    act.event(
        "verify.started", task.id, run=task.run_id, round=task.verifying["round"], command=task.verify, again=True
    )
    return task


def verified(act: UnitOfWork, task: Task, found: dict[str, Any], *, run: int, verifier: str | None = None) -> Task:
    """Take in how the check of that run ended.

    A result that comes late (the run was superseded, or the check was taken over: `verifier`, where given, is not who
    runs it now) changes nothing.
    """
    state = task.verifying
    if task.state != "review" or state is None or task.run != run:
        return task
    if verifier is not None and state["process"] != verifier:
        return task
    passed = bool(found.get("passed"))
    rows = [*(one for one in task.evidence if one["kind"] != "verify")]
    rows.append(evidence.check({**found, "run": task.run_id, "red_before": red_before(act, task)}, act.at))
    act.event(
        "verify.finished", task.id, run=task.run_id, round=state["round"], passed=passed,
        exit_code=found.get("exit_code"), seconds=found.get("seconds"), ended=evidence.ended(found),
    )  # fmt: skip
    if passed:
        return settle(act, task, {"evidence": rows, "verifying": None, "findings": None})
    if evidence.ended(found) == evidence.NOT_STARTED:
        return _ask(act, task, found, rows)
    rounds = task.rounds + 1
    again = "Nothing has changed since, so it was not run again. " if found.get("unchanged") else ""
    findings = f"{again}`{found.get('command')}` {evidence.ended(found)}:\n\n{found.get('tail') or '(no output)'}"
    changes: dict[str, Any] = {"evidence": rows, "verifying": None, "findings": findings, "rounds": rounds}
    limit = act.settings.get("verify_rounds")
    if rounds >= limit:
        end_run(act, task, "failed", "verify failed")
        reason = f"verify failed {rounds} times"
        move(act, task, "deadletter", reason=reason, owner=None, output=f"{reason}\n\n{findings}", **changes)
        given_up(act, task, reason)
    else:
        move(act, task, "in-progress", reason=f"verify failed, round {rounds} of {limit}", **changes)
        if act.rows.team.member(str(task.owner)) is None:
            end_run(act, task, "released", f"{task.owner} left the team")
            move(act, task, waiting_state(task), reason=f"{task.owner} left the team")
            return task
        notify(act, task.owner, f"{task.id} is yours again, its verify failed.\n\n{findings}", summary="verify failed")
    return task


def retry(act: UnitOfWork, task: Task) -> Task:
    """The check that could not start is run again, by whoever sees to abandoned checks."""
    reopen_run(act, task)
    state = {"run": task.run, "round": task.rounds + 1, "process": None, "at": act.at}
    act.rows.tasks.update(task, verifying=state, updated_at=act.at)
    act.event("verify.started", task.id, run=task.run_id, round=state["round"], command=task.verify, again=True)
    act.topics.add("tasks")
    return task


def _ask(act: UnitOfWork, task: Task, found: dict[str, Any], rows: list[dict[str, Any]]) -> Task:
    end_run(act, task, "done")
    act.rows.tasks.update(task, evidence=rows, verifying=None, updated_at=act.at)
    act.topics.add("tasks")
    why = str(found.get("tail") or "").strip().partition("\n")[0]
    questions.put(
        act, task, "review",
        f"The check of {task.id} ({task.subject}) could not start: {why} Fix it and `{RETRY}`, or `approve` the work "
        "unchecked.",
        options=[RETRY, APPROVE, CHANGES],
        context=f"`{task.verify}`; another one: interlock task update {task.id} --verify COMMAND",
    )  # fmt: skip
    return task
