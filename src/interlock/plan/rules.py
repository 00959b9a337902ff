"""What must be true of a plan's members and tasks together. Each breach is a fault at the line that causes it."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.plan.nodes import Faults
from interlock.plan.ordering import circles
from interlock.plan.values import Entry, nearest


def check(members: Mapping[str, Entry], tasks: Mapping[str, Entry], faults: Faults) -> None:
    """Hold the rules against all tasks; what was refused already is not judged a second time."""
    for key, task in tasks.items():
        _check_blockers(key, task, tasks, faults)
        if not task.unknown:
            _check_doer(key, task, members, faults)
        _check_reviewer(key, task, members, faults)
        if not task.unknown and not task.lines.keys() & {"subject", "run"}:
            faults.add(task.line, f'task "{key}" has no subject. Say in a line what is to be done')
    edges = {key: task.get("blocked_by", ()) for key, task in tasks.items()}
    for circle in circles(edges):
        line = tasks[circle[-2]].line_of("blocked_by")
        shown = " -> ".join(circle)
        faults.add(line, f"tasks wait for each other in a circle: {shown}. Remove one of these from a blocked_by")


def _check_blockers(key: str, task: Entry, tasks: Mapping[str, Entry], faults: Faults) -> None:
    for blocker in task.get("blocked_by", ()):
        if blocker not in tasks:
            hint = nearest(blocker, (other for other in tasks if other != key)) or " Add it or remove it here"
            faults.add(task.line_of("blocked_by"), f'task "{key}" waits for "{blocker}", which is no task here.{hint}')


def _shell(member: Entry) -> bool | None:
    """Whether the member carries out commands; null when its agent was refused."""
    agent = member.get("agent")
    return None if agent is None else agent == "shell"


def _able(task: Entry, members: Mapping[str, Entry]) -> list[str]:
    """The members of the kind that this task needs, leaving out nobody who might be."""
    runs = "run" in task.lines
    return [name for name, member in members.items() if _shell(member) in (runs, None)]


def _check_doer(key: str, task: Entry, members: Mapping[str, Entry], faults: Faults) -> None:
    if not members:
        return
    runs = "run" in task.lines
    able = _able(task, members)
    assignee = task.get("assignee")
    line = task.line_of("assignee")
    if assignee is not None and assignee not in members:
        faults.add(line, f'task "{key}" is assigned to "{assignee}", who is no member.{_members(assignee, members)}')
    elif assignee is not None and assignee not in able:
        if runs:
            need = "has a run command, and only a shell member can carry it out"
        else:
            need = "has no run command, so it needs an agent"
        mend = f"Assign it to {' or '.join(able)}" if able else _missing(runs)
        kind = "no shell member" if runs else "a shell member"
        faults.add(line, f'task "{key}" {need}; {assignee} is {kind}. {mend}')
    elif not able:
        need = "a run command" if runs else "no run command"
        who = "a shell member" if runs else "an agent"
        faults.add(task.line, f'task "{key}" has {need}, so it needs {who}, and there is none. {_missing(runs)}')


def _missing(runs: bool) -> str:
    if runs:
        return "Add a member such as `ada: {agent: shell}`"
    return "Add a member such as `bob: {agent: claude}`, or give the task a run command"


def _check_reviewer(key: str, task: Entry, members: Mapping[str, Entry], faults: Faults) -> None:
    reviewer = task.get("review", "none")
    if reviewer in ("none", "human") or not members:
        return
    line = task.line_of("review")
    if reviewer not in members:
        choice = {**members, "human": None, "none": None}
        faults.add(
            line, f'the review of task "{key}" is by "{reviewer}", who is no member.{_members(reviewer, choice)}'
        )
    elif reviewer == task.get("assignee"):
        faults.add(
            line, f'task "{key}" would be reviewed by its own assignee, {reviewer}. Name another member or human'
        )
    elif _shell(members[reviewer]):
        faults.add(line, f'{reviewer} is a shell member and cannot review task "{key}". Name an agent or human')
    elif task.get("assignee") is None and not task.faulty("assignee") and _able(task, members) == [reviewer]:
        only = f'{reviewer} is the only member that can do task "{key}", so its review is by nobody else'
        faults.add(line, f"{only}. Add a member, or let human review it")


def _members(name: str, names: Mapping[str, object]) -> str:
    return nearest(name, names) or f" There are: {', '.join(list(names)[:20])}"
