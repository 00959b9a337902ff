"""What goes no further without a person."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock.core.tasks.review import reviewer_of
from interlock.core.workers import Waits
from interlock.model.guard import leading_to
from interlock.model.names import HUMAN
from interlock.model.question import Question, reply_command, reviews_in_order
from interlock.model.status import KeptWorktree, Need
from interlock.model.task import WAITING, Task
from interlock.model.team import Member
from interlock.storage.ledger import Rows

READY_LOOKED_AT = 1000
KEPT = ("deadletter", "cancelled")
"""States in which a task's worktree stays, since what was done there is nowhere else."""


def in_states(rows: Rows, counts: Mapping[str, int], states: Collection[str], **further: Any) -> list[Task]:
    """The tasks in `states`, as `TaskRows.select` gives them; nothing is read where there are none by the `counts`."""
    return rows.tasks.select(states=states, **further) if any(counts.get(state) for state in states) else []


def needs_me(rows: Rows, waits: Waits, counts: Mapping[str, int]) -> list[Need]:
    """Everything that waits for a person, most pressing first.

    `kind` is a question's, or `review`, `blocked`, `deadletter`, `broken`, `unclaimable`, `stopped`, `held`. One about
    ready tasks stands for all with that cause and says how many in `count`. `verb` names the team: ids are counted per
    team, so without it a task of another team could be hit. `counts` are those of the tasks by state.
    """
    people = waits.people
    failed = in_states(rows, counts, ["deadletter"])
    given_up = {task.id for task in failed}
    questions = [one for one in rows.questions.open() if one.task_id not in given_up or one.kind != "escalation"]
    found = [_question(rows, one) for one in reviews_in_order(questions)]
    asked = {question.task_id for question in questions}
    for task in in_states(rows, counts, ["review"]):
        if not task.under_way and task.id not in asked and reviewer_of(rows, task) is None:
            found.append(_need("review", task, f"waits for review by {task.review or HUMAN}", "approve"))
    for task in in_states(rows, counts, WAITING):
        if task.id not in asked:
            found.append(_need("blocked", task, first_line(task.output) or "it is blocked", "unblock"))
    for task in failed:
        if task.id not in asked:
            need = _need("deadletter", task, first_line(task.output).rstrip(":") or "it failed", "retry")
            found.append(replace(need, cause=task.cause))
    found += _broken(rows)
    if counts.get("ready"):
        found += [_idle(tasks, *cause) for cause, tasks in unclaimable(rows, waits).items()]
    for task in in_states(rows, counts, ["in-progress"]):
        owner = people.get(str(task.owner))
        if owner is not None and owner.role != "member":
            found.append(_need("held", task, f"{owner.name} holds it", "complete"))
    team = rows.team.get().name
    for need in found:
        need.verb = in_team(need.verb, team)
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


def _broken(rows: Rows) -> Iterator[Need]:
    """One need for each blocker that will not unblock a task by itself. One in deadletter is fixed by a retry."""
    for id, subject, blocker, its_subject, state in rows.graph.broken():
        failed = state == "deadletter"
        why = f"waits for {blocker} ({its_subject}), which {'is in' if failed else 'was'} {state}"
        verb = f"retry {blocker}" if failed else f"depend {id} --on {blocker} --remove"
        yield Need("broken", id, f"{subject}: {why}", f"interlock task {verb}")


def unclaimable(rows: Rows, waits: Waits) -> dict[tuple[str, str, str], list[Task]]:
    """Ready tasks that nobody may take, by (kind, reason, verb). In a team without agents whoever has a seat takes them
    by hand."""
    people = waits.people
    found: dict[tuple[str, str, str], list[Task]] = {}
    for task in [] if seats_only(people) else rows.tasks.ready(READY_LOOKED_AT):
        if (cause := idle(task, people, waits)) is not None:
            found.setdefault(cause, []).append(task)
    return found


def seats_only(people: Mapping[str, Member]) -> bool:
    """Whether no member has an agent, so that tasks are taken by hand, and somebody may."""
    members = [member for member in people.values() if member.role == "member"]
    return not any(member.agent for member in members) and any(member.status != "stopped" for member in members)


def idle(task: Task, people: Mapping[str, Member], waits: Waits) -> tuple[str, str, str] | None:
    """(kind, reason, verb) of a ready task that no member with an agent takes; None where one may."""
    if (unlabelled := waits.unlabelled(task)) is not None:
        return "unclaimable", unlabelled, f"interlock work --labels {','.join(task.labels or ())}"
    agents = [one for one in people.values() if one.role == "member" and one.agent]
    takers = [member for member in agents if may_take(task, member.name, member.agent)]
    return _why_idle(task, takers, people) if all(member.status == "stopped" for member in takers) else None


def _idle(tasks: Sequence[Task], kind: str, why: str, verb: str) -> Need:
    first, more = tasks[0], f" and {len(tasks) - 1} more" if len(tasks) > 1 else ""
    return Need(kind, first.id, f"{first.subject}{more}: {why}", verb.format(id=first.id), len(tasks))


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


def _need(kind: str, task: Task, text: str, verb: str) -> Need:
    return Need(kind, task.id, f"{task.subject}: {text}", f"interlock task {verb} {task.id}")


def _question(rows: Rows, question: Question) -> Need:
    """The question, after what the task stopped for."""
    task = rows.tasks.get(question.task_id)
    led = leading_to(task.output, question.text) if task is not None and task.state in WAITING else ""
    asked = first_line(question.text)
    if led and first_line(led) not in asked:
        asked = f"{first_line(led)} {asked}"
    subject = task.subject if task is not None and question.task_id not in asked else None
    return Need(question.kind, question.task_id, asked, _answer_verb(question), subject=subject)


def _answer_verb(question: Question) -> str:
    if question.kind == "review":  # Of a check that could not start, the first word is to try again.
        verb = "retry" if "retry" in question.options else "approve"
        return f"interlock task {verb} {question.task_id}"
    return reply_command(question.id, question.task_id, choices=question.choices)


def kept(rows: Rows) -> list[KeptWorktree]:
    """The worktrees of tasks that came to nothing, for somebody to look at, or to go on in, and of those that hold what
    could not be kept with the run: `why`, and `size` in bytes."""
    found = []
    for task in rows.tasks.kept(KEPT):
        known = task.worktree or {}
        if os.path.isdir(str(known.get("path"))):
            found.append(
                KeptWorktree(
                    task.id, task.subject, task.plan_key, task.state, known["path"], known["branch"],
                    known.get("stays"), known.get("size"),
                )
            )  # fmt: skip
    return found
