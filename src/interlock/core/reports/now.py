"""What a team does now: its status, the board of its tasks, one task with all that belongs to it, and its members."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from interlock import model
from interlock.core.reports.needs import in_states, kept, needs_me
from interlock.core.reports.waits import Reasons
from interlock.core.tasks.review import under_review
from interlock.core.teams import members
from interlock.core.workers import clock_time
from interlock.errors import InvalidRequest
from interlock.mirror.task_view import complete, show
from interlock.model.names import HUMAN, LEAD
from interlock.model.status import NextTask, RunningTask, StatusReport, UnableMember, WaitingTask
from interlock.model.task import COLUMNS, HELD, PRIORITIES, STATES, Task
from interlock.model.team import Member
from interlock.model.text import plain
from interlock.processes import ref
from interlock.settings import Settings
from interlock.storage.ledger import Rows

NEXT_SHOWN = 10
LAST_WORDS = 200
CAPACITY_LOOKED_AT = 20
"""So many times that a provider had no capacity left are looked at for one that is still to come."""
TAIL_BYTES = 4096


def status(
    rows: Rows, team: str, log_path: Callable[[str, int, str], str], now: str, settings: Settings
) -> StatusReport:
    """What needs a human, what runs since when with its latest output, what waits for somebody, what is next.

    `log_path` answers where the output of a run (task id, number, kind) is kept.
    """
    counts = rows.tasks.counts()
    held = complete(rows, in_states(rows, counts, ["in-progress", "awaiting-response", "blocked", "review"]))
    reviews = {task.id: run.member for task in held if (run := under_review(rows, task)) is not None}
    own, members = rows.team.get(), [member for member in rows.team.members() if member.role == "member"]
    reasons, windows = Reasons(rows, settings, now), _windows(rows)
    return StatusReport(
        team=team,
        status="paused" if own.settings.get("paused") else own.status,
        paused=[member.name for member in members if member.status == "paused"],
        stopped=[member.name for member in members if member.status == "stopped"],
        runner=own.runner,
        needs_me=needs_me(rows, reasons.workers, counts),
        running=[
            _running(task, reviews.get(task.id), log_path, windows.get((task.owner or "", task.session or "")))
            for task in held
            if task.id in reviews or _at_work(task)
        ],
        waiting=[
            WaitingTask(*_held(task), reasons.of(task))
            for task in held
            if task.id not in reviews and not _at_work(task)
        ],
        next=[
            NextTask(
                task.id, task.subject, task.state, task.plan_key, task.priority, task.reserved_for,
                task.not_before if task.not_before is not None and task.not_before > now else None,
                reasons.of(task),
            )
            for task in rows.tasks.ready(NEXT_SHOWN, float(settings.get("ageing")))
        ],
        kept=kept(rows),
        counts=counts,
        spent=_spent(rows.runs.spent(now)),
        retry_at=rows.tasks.ready_after(now),
        unread={name: number for name in (HUMAN, LEAD) if (number := rows.messages.unread_of(name))},
    )  # fmt: skip


def _spent(sums: dict[str, Any]) -> dict[str, Any]:
    """Null for tokens and costs of which nothing is known."""
    tokens = sums.get("unknown") and not sums["tokens"]
    cost = sums.pop("cost_partial", False)
    return {
        **sums,
        **({"tokens": None, "input_tokens": None, "output_tokens": None} if tokens else {}),
        **({"cost_partial": True} if cost and sums["cost_usd"] else {"cost_usd": None} if cost else {}),
    }


def unable(rows: Rows, why_idle: Callable[[Member], str | None] | None) -> list[UnableMember]:
    """The members whose agent cannot be had on this machine: whoever drives the team here
    works without them, and says so only to who started it."""
    members = [one for one in rows.team.members() if one.role == "member" and one.agent and one.status != "stopped"]
    found = [(member, why_idle(member)) for member in members] if why_idle is not None else []
    return [UnableMember(member.name, member.agent, why) for member, why in found if why is not None]


def last_words(path: str) -> str | None:
    """The last line a run printed; null where it has said nothing."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - TAIL_BYTES))
            lines = plain(file.read().decode("utf-8", "replace")).splitlines()
    except OSError:
        return None
    return next((line.strip()[:LAST_WORDS] for line in reversed(lines) if line.strip()), None)


def _at_work(task: Task) -> bool:
    """Whether something is done about a task that somebody holds: by its owner, or by its check."""
    return task.state == "in-progress" or task.under_way


def _windows(rows: Rows) -> dict[tuple[str, str], str]:
    """What is known of programs that claimed by hand and are not seen to live, by member and session."""
    found = {}
    for member, session, process, since in rows.runs.joined():
        if since is not None:
            found[member, session] = f"its program is gone since {clock_time(since)}"
        elif ref.alive(process) is None:
            own = rows.team.member(member)
            heard = own.last_active_at if own is not None and own.session == session else None
            last = f"last heard of at {clock_time(heard)}" if heard else "not heard of since another session of its own"
            found[member, session] = f"its program is on another machine, {last}"
    return found


def _running(
    task: Task, reviewer: str | None, log_path: Callable[[str, int, str], str], window: str | None
) -> RunningTask:
    words = None
    if task.verifying is not None:
        printed = last_words(log_path(task.id, task.run, "verify"))
        words = f"checking: {task.verify}" + (f" · {printed}" if printed else "")
    elif task.merging is not None and task.merging["stage"] == "merging":
        printed = last_words(log_path(task.id, task.run, "merge"))
        words = "merging" + (f" · {printed}" if printed else "")
    elif task.merging is not None:
        words = "waits for its merge"
    words = words or last_words(log_path(task.id, task.run, "output")) or window
    return RunningTask(*_held(task, reviewer), words)


def _held(task: Task, reviewer: str | None = None) -> tuple[str, str, str | None, str | None, str, str | None, int]:
    member = reviewer or task.owner
    return (task.id, task.subject, task.plan_key, member, task.state, task.claimed_at, task.attempt)


def board(rows: Rows, sought: model.views.BoardFilter, limit: int) -> model.views.Board:
    """The tasks by column, at most `limit` of each.

    Raises:
        InvalidRequest: there is no such priority.
    """
    _check(sought)
    counts = rows.tasks.board_counts(sought)
    tasks = {name: rows.tasks.board(name, sought, limit=limit) if counts[name] else [] for name in COLUMNS}
    complete(rows, [task for some in tasks.values() for task in some])
    return model.views.Board(rows.tasks.counts(), counts, tasks, rows.tasks.epics())


def column(rows: Rows, name: str, sought: model.views.BoardFilter, offset: int, limit: int) -> list[Task]:
    """The tasks of one column, or in one state, from `offset` on.

    Raises:
        InvalidRequest: there is no such column, state or priority.
    """
    _check(sought)
    known = [*COLUMNS, *(state for state in STATES if state != "deleted")]
    if name not in known:
        raise InvalidRequest(f"{name!r} is no column of the board. Use one of: {', '.join(known)}.", field="state")
    return complete(rows, rows.tasks.board(name, sought, limit=limit, offset=offset))


def _check(sought: model.views.BoardFilter) -> None:
    if sought.priority and sought.priority not in PRIORITIES:
        raise InvalidRequest(f"priority must be one of {', '.join(PRIORITIES)}.", field="priority")


def whole(rows: Rows, task: Task, settings: Settings, now: str) -> Task:
    """A task with what follows from the rows around it, and why it goes no further now."""
    found = show(rows, task)
    found.why = Reasons(rows, settings, now).of(found)
    return found


def story(rows: Rows, task: Task, events: int, settings: Settings, now: str) -> model.views.TaskStory:
    """Everything about one task, with its newest `events`."""
    blockers = [rows.tasks.get(id) for id, _ in rows.graph.blockers(task.id)]
    dependents = [rows.tasks.get(id) for id in rows.graph.dependents(task.id)]
    return model.views.TaskStory(
        whole(rows, task, settings, now), rows.runs.of_task(task.id), rows.tasks.log(task.id),
        rows.events.of_task(task.id, events), rows.questions.of_task(task.id), rows.handoffs.get(task.id),
        rows.tasks.get(task.parent_id) if task.parent_id else None,
        blockers=complete(rows, [one for one in blockers if one is not None]),
        dependents=complete(rows, [one for one in dependents if one is not None]),
    )  # fmt: skip


def member_overviews(
    rows: Rows, log_path: Callable[[str, int, str], str], now: str
) -> list[model.views.MemberOverview]:
    """The members, the lead first, with what each is doing and has used."""
    without: dict[str, str] = {}
    for event in rows.events.latest(None, CAPACITY_LOOKED_AT, ["run.capacity"]):
        until, number = event.payload.get("retry_at"), str(event.payload["run"]).rpartition(".")[2]
        run = rows.runs.get(str(event.task_id), int(number)) if until is not None and until > now else None
        if run is not None:
            without.setdefault(run.member, str(until))
    doing: dict[str, list[model.views.Occupation]] = {}
    said: dict[str, str | None] = {}
    for task in rows.tasks.select(states=HELD):
        review = under_review(rows, task)
        who = review.member if review is not None else task.owner
        since = review.started_at if review is not None else task.claimed_at
        if who is not None:
            found = model.views.Occupation(task.id, task.subject, task.state, review is not None, since, task.run)
            doing.setdefault(who, []).append(found)
            if task.state == "in-progress" or review is not None:
                said[who] = last_words(log_path(task.id, task.run, "output"))
    return [
        model.views.MemberOverview(
            one,
            rows.messages.unread_of(one.name),
            doing.get(one.name, []),
            said.get(one.name),
            _spent(rows.runs.spent(now, member=one.name)),
            without.get(one.name),
        )
        for one in members(rows)
    ]
