"""What goes no further without a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core.tasks.review import reviewer_of
from interlock.mirror.task_view import complete
from interlock.model.guard import leading_to
from interlock.model.names import HUMAN
from interlock.model.question import Question, reply_command
from interlock.model.task import BROKEN, WAITING, Task
from interlock.model.team import Member
from interlock.storage.ledger import Rows

READY_LOOKED_AT = 1000


def needs_me(rows: Rows) -> list[dict[str, Any]]:
    """Everything that waits for a person, most pressing first: `{kind, task_id, text, verb}`.

    `kind` is a question's, or `review`, `blocked`, `deadletter`, `broken`, `unclaimable`, `stopped`, `held`. One about
    ready tasks stands for all with that cause and says how many in `count`. `verb` names the team: ids are counted per
    team, so without it a task of another team could be hit.
    """
    people = {member.name: member for member in rows.team.members()}
    failed = rows.tasks.select(states=["deadletter"])
    given_up = {task.id for task in failed}
    questions = [one for one in rows.questions.open() if one.task_id not in given_up or one.kind != "escalation"]
    found = [
        {
            "kind": question.kind,
            "task_id": question.task_id,
            "text": _asked(rows, question),
            "verb": _answer_verb(question),
        }
        for question in questions
    ]
    asked = {question.task_id for question in questions}
    for task in rows.tasks.select(states=["review"]):
        if not task.under_way and task.id not in asked and reviewer_of(rows, task) is None:
            found.append(_need("review", task, f"waits for review by {task.review or HUMAN}", "approve"))
    for task in rows.tasks.select(states=WAITING):
        if task.id not in asked:
            found.append(_need("blocked", task, first_line(task.output) or "it is blocked", "unblock"))
    for task in failed:
        if task.id not in asked:
            found.append(_need("deadletter", task, first_line(task.output) or "it failed", "retry"))
    for task in complete(rows, rows.tasks.select(states=["backlog"])):
        found += _broken(rows, task)
    found += _unclaimable(rows, people)
    for task in rows.tasks.select(states=["in-progress"]):
        owner = people.get(str(task.owner))
        if owner is not None and owner.role != "member":
            found.append(_need("held", task, f"{owner.name} holds it", "complete"))
    team = rows.team.get().name
    for need in found:
        need["verb"] = in_team(need["verb"], team)
    return found


def in_team(verb: str, team: str) -> str:
    """A command line that acts in that team, wherever it is typed."""
    return f"{verb} --team {team}"


def may_take(task: Task, name: str, agent: str | None) -> bool:
    """Whether a member may work on a ready task: a command is for shell members, everything else is not."""
    if task.reserved_for not in (None, name):
        return False
    if agent is None:
        return task.reserved_for == name
    return (agent == "shell") == (task.command is not None)


def first_line(text: str | None) -> str:
    """The first line of a text that says anything."""
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), "")


def _broken(rows: Rows, task: Task) -> list[dict[str, Any]]:
    """One need for each blocker that will not unblock the task by itself. One in deadletter is fixed by a retry."""
    found = []
    for id in task.blocked_by:
        blocker = rows.tasks.get(id)
        if blocker is not None and blocker.state in BROKEN:
            need = _need("broken", task, f"waits for {id} ({blocker.subject}), which is in {blocker.state}", "depend")
            verb = f"interlock task depend {task.id} --on {id} --remove"
            if blocker.state == "deadletter":
                verb = f"interlock task retry {id}"
            else:
                need["text"] = f"{task.subject}: waits for {id} ({blocker.subject}), which was {blocker.state}"
            found.append({**need, "verb": verb})
    return found


def _unclaimable(rows: Rows, people: Mapping[str, Member]) -> list[dict[str, Any]]:
    """Ready tasks that nobody may take, one need for each cause with how many there are. In a team without agents
    whoever has a seat takes them by hand."""
    members = [member for member in people.values() if member.role == "member"]
    seats = not any(member.agent for member in members) and any(member.status != "stopped" for member in members)
    found: dict[tuple[str, str, str], list[Task]] = {}
    for task in [] if seats else rows.tasks.ready(READY_LOOKED_AT):
        takers = [member for member in members if member.agent and may_take(task, member.name, member.agent)]
        if all(member.status == "stopped" for member in takers):
            found.setdefault(_why_idle(task, takers, people), []).append(task)
    return [_idle(tasks, *cause) for cause, tasks in found.items()]


def _idle(tasks: Sequence[Task], kind: str, why: str, verb: str) -> dict[str, Any]:
    need = _need(kind, tasks[0], why, "assign")
    if len(tasks) > 1:
        need["text"] = f"{tasks[0].subject} and {len(tasks) - 1} more: {why}"
    return {**need, "verb": verb.format(id=tasks[0].id), "count": len(tasks)}


def _why_idle(task: Task, takers: Sequence[Member], people: Mapping[str, Member]) -> tuple[str, str, str]:
    """(kind, reason, verb) of a ready task that nobody takes."""
    if takers:
        name = takers[0].name
        return "stopped", f"{name}, who could do this, was stopped", f"interlock resume --member {name}"
    reserved = people.get(task.reserved_for or "")
    if reserved is not None and reserved.agent is None:
        why = f"this waits for {reserved.name}, who has no agent that could begin it"
        return "unclaimable", why, "interlock task claim {id}"
    if not any(member.agent for member in people.values() if member.role == "member"):
        agent = "shell" if task.command else "AGENT"
        why = "nobody can take this: the team has no agent"
        return "unclaimable", why, f"interlock member spawn NAME --agent {agent}"
    kind = "with a command needs a shell member" if task.command else "without a command needs an agent"
    only = f" and this is reserved for {task.reserved_for}" if task.reserved_for else ""
    why = f"no member can take this: a task {kind}{only}"
    return "unclaimable", why, "interlock task assign {id} --to MEMBER"


def _need(kind: str, task: Task, text: str, verb: str) -> dict[str, Any]:
    return {
        "kind": kind,
        "task_id": task.id,
        "text": f"{task.subject}: {text}",
        "verb": f"interlock task {verb} {task.id}",
    }


def _asked(rows: Rows, question: Question) -> str:
    """The question, after what the task stopped for."""
    task = rows.tasks.get(question.task_id)
    led = leading_to(task.output, question.text) if task is not None and task.state in WAITING else ""
    asked = first_line(question.text)
    return f"{first_line(led)} {asked}" if led and first_line(led) not in asked else asked


def _answer_verb(question: Question) -> str:
    if question.kind == "review":
        return f"interlock task approve {question.task_id}"
    return reply_command(question.id, question.task_id)
