"""What a team has done, for whoever comes back in the morning: also what is merged, taken over, and kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter

from interlock.clock import seconds
from interlock.core.reports.needs import first_line, in_states, kept, needs_me
from interlock.core.reports.waits import Reasons
from interlock.mirror.task_view import complete
from interlock.model import evidence
from interlock.model.event import Event
from interlock.model.json import Json
from interlock.model.report import (
    DoneTask,
    EndedTask,
    FailedTask,
    Incident,
    IntegrationBranch,
    LeftTask,
    RunTotals,
    TeamReport,
)
from interlock.model.run import KEPT as ARTIFACTS
from interlock.model.run import Artifact, Run, spent_together
from interlock.model.task import FINAL, STATES, Task
from interlock.model.team import Member
from interlock.model.text import named, stuck
from interlock.model.text import programs as in_words
from interlock.settings import Settings
from interlock.storage.ledger import Rows

REFUSED = "was refused"
"""The outcome in an incident: an agent asked for a permission and did not get it."""
FINE = ("done", "released", "blocked", "awaiting-response")
"""Outcomes of a run that are no incident."""
STUCK = {
    "reminded": "got nowhere, and was told so",
    "ended": "got nowhere, and was ended",
    "asked": "got nowhere, and a person was asked",
}
OVERSTEPPED = ("access.refused", "processes.left")
OVERSTEPPED_SHOWN = 200
OPEN = sorted(set(STATES) - FINAL - {"deadletter"})
NO_LIMIT = 2**62
TROUBLED_LOOKED_AT = 10_000


def report(
    rows: Rows, team: str, since: str | None, now: str, settings: Settings, limit: int | None = None
) -> TeamReport:
    """What needs you, what is done with its evidence, what failed and why, what is left and why, what it took.

    `since` is an ISO 8601 time; only what was finished, or went wrong, after it is listed as such. `limit`: so many of
    each list, the newest, are read and told; `left_out` counts the others. Incidents are of the `limit` tasks, or
    `TROUBLED_LOOKED_AT` where that is more, of which something was told last.
    """
    reasons, counts, most = Reasons(rows, settings, now), rows.tasks.counts(), NO_LIMIT if limit is None else limit
    done, failed, cancelled, left = (
        in_states(rows, counts, states, before=NO_LIMIT, limit=most, ended_since=from_)[::-1]
        for states, from_ in ((["done"], since), (["deadletter"], None), (["cancelled"], None), (OPEN, None))
    )
    troubled = rows.tasks.troubled(FINE, TROUBLE, since or "", max(most, TROUBLED_LOOKED_AT))
    ids = list({task.id: None for some in (done, failed, left, troubled) for task in some if task.run})
    runs = {id: _real(some) for id, some in rows.runs.by_task(ids).items()}
    made = rows.runs.artifacts_by_task([task.id for task in done if task.worktree])
    incidents = _incidents(rows, reasons.workers.people.values(), troubled, runs, since)
    proofs = _proofs(rows, since)
    totals = {
        "done": proofs.total(),
        "failed": counts.get("deadletter", 0),
        "incidents": len(incidents),
        "left": sum(counts.get(state, 0) for state in OPEN),
        "cancelled": counts.get("cancelled", 0),
    }
    found = TeamReport(
        team, since, needs_me(rows, reasons.workers, counts),
        done=[_done(task, runs.get(task.id, []), made.get(task.id, []), now) for task in done],
        failed=[_failed(task, runs.get(task.id, []), now) for task in failed],
        incidents=incidents[max(0, len(incidents) - most) :],
        left=_left(rows, left, reasons),
        cancelled=[EndedTask(*_brief(task)) for task in cancelled],
        integration=integration(rows),
        kept=kept(rows),
        counts=counts,
        totals=_totals(rows, since, now),
        unverified=proofs[evidence.UNVERIFIED],
    )  # fmt: skip
    told = ((name, number - len(getattr(found, name))) for name, number in totals.items())
    found.left_out = {name: number for name, number in told if number}
    return found


def _left(rows: Rows, tasks: list[Task], reasons: Reasons) -> list[LeftTask]:
    beyond = rows.graph.holding_up(tasks[0].n - 1) if tasks else []
    reasons.know((*complete(rows, beyond), *complete(rows, tasks)))
    return [
        LeftTask(*_brief(task), task.blocked_by, reasons.of(task) or _at_hand(task), task.changed) for task in tasks
    ]


def _at_hand(task: Task) -> str:
    if task.state == "in-progress":
        return f"{task.owner} is working on it"
    return f"is ready for {task.reserved_for or 'anybody'}"


def _proofs(rows: Rows, since: str | None) -> Counter[str]:
    """What the evidence of finished tasks shows, and of how many."""
    found = Counter[str]()
    for some, number in rows.tasks.evidence(since):
        found[evidence.in_words(some)] += number
    return found


def _real(runs: list[Run]) -> list[Run]:
    """Without runs that nobody worked in: a rejection opens one, and gives it back at once where its author is gone."""
    return [run for run in runs if run.outcome != "released" or run.ended_at != run.started_at]


def _done(task: Task, runs: list[Run], made: list[Artifact], now: str) -> DoneTask:
    known = task.worktree or {}
    files = [one.path for one in made if one.kind in ARTIFACTS] if known else []
    return DoneTask(
        *_brief(task),
        merged=known.get("merged"),
        delivered=known.get("delivered"),
        files=files,
        only_files=bool(files) and known.get("merged") is None,
        evidence=evidence.shown(task.evidence),
        verified=evidence.is_verified(task.evidence),
        proof=evidence.in_words(task.evidence),
        by=task.owner,
        runs=len(runs),
        attempts=task.attempt,
        failed_checks=task.rounds,
        seconds=_length(runs, now),
        spent=spent_together(runs),
        output=task.output,
        changes=known.get("changes"),
        changed=task.changed,
    )


def _failed(task: Task, runs: list[Run], now: str) -> FailedTask:
    return FailedTask(
        *_brief(task),
        reason=task.output,
        evidence=evidence.shown(task.evidence),
        by=runs[-1].member if runs else None,
        runs=len(runs),
        attempts=task.failures,
        seconds=_length(runs, now),
        spent=spent_together(runs),
        changes=(task.worktree or {}).get("changes"),
        changed=task.changed,
    )


def _incidents(
    rows: Rows, people: Iterable[Member], tasks: list[Task], runs: dict[str, list[Run]], since: str | None
) -> list[Incident]:
    """What went otherwise than well, in the order of time: runs that failed or were given up, checks that failed, and
    what agents wanted to do and were not allowed to."""
    found = []
    asks_nobody = {member.name for member in people if member.agent == "shell"}
    told = rows.events.of_tasks([task.id for task in tasks], TELLING)
    for task in tasks:
        own, events = {run.number: run for run in runs.get(task.id, ())}, told.get(task.id, [])
        if task.rounds or any(run.member not in asks_nobody for run in own.values()):
            found += _failed_checks(task, own, events) + _refused(task, own, events) + _stuck(task, own, events)
        found += [
            _incident(task, run.number, run.member, str(run.ended_at), str(run.outcome), run.reason)
            for run in own.values()
            if run.ended_at is not None and run.outcome not in FINE
        ]
    found += merge_incidents(tasks, told)
    found += _overstepped(tasks, told)
    return sorted((one for one in found if since is None or one.at >= since), key=lambda one: one.at)


def _failed_checks(task: Task, own: dict[int, Run], events: list[Event]) -> list[Incident]:
    found = []
    for event in events:
        if event.type == "verify.finished" and event.payload.get("passed") is False:
            run = own.get(_number(event))
            reason = f"round {event.payload.get('round')}, {evidence.ended(event.payload).removeprefix('ended with ')}"
            member = run.member if run is not None else task.owner
            found.append(_incident(task, _number(event), member, event.at, "check failed", reason))
    return found


def _refused(task: Task, own: dict[int, Run], events: list[Event]) -> list[Incident]:
    """One incident for each run that was refused something, with what it was first: in the morning this is why an agent
    that nobody could be asked for came to nothing."""
    refused: dict[int, list[Event]] = {}
    for event in events:
        if event.type == "permission.answered" and event.payload.get("answer") == "refuse":
            refused.setdefault(_number(event), []).append(event)
    found = []
    for number, some in refused.items():
        first, run = some[0].payload, own.get(number)
        what = first_line(str(first.get("title") or first.get("tool") or "something"))
        more = f", and {len(some) - 1} more" if len(some) > 1 else ""
        why = f" ({first['why']})" if first.get("why") else ""
        member = run.member if run is not None else task.owner
        found.append(_incident(task, number, member, some[0].at, REFUSED, f"{what}{more}{why}"))
    return found


def _stuck(task: Task, own: dict[int, Run], events: list[Event]) -> list[Incident]:
    """What runs did that got nowhere, with what it cost, also where they found their way after they were told."""
    found = []
    for event in events:
        if event.type == "run.stuck":
            run, told = own.get(_number(event)), STUCK[str(event.payload["action"])]
            member = run.member if run is not None else task.owner
            found.append(_incident(task, _number(event), member, event.at, told, stuck(event.payload["evidence"])))
    return found


def _overstepped(tasks: list[Task], told: dict[str, list[Event]]) -> list[Incident]:
    """What runs tried as somebody else, and daemons that they left running."""
    every = [(task, event) for task in tasks for event in told.get(task.id, ()) if event.type in OVERSTEPPED]
    found = []
    for task, event in sorted(every, key=lambda one: one[1].seq)[-OVERSTEPPED_SHOWN:]:
        said = event.payload
        if event.type == "access.refused":
            outcome, reason = "tried what its member may not, and was refused", said["reason"]
        else:
            outcome, reason = "left running, as keep_processes allows", in_words(said["processes"])
        number = _number(event) if said.get("run") else task.run
        found.append(_incident(task, number, said["member"] or task.owner, event.at, outcome, reason))
    return found


def _number(event: Event) -> int:
    return int(str(event.payload.get("run")).rpartition(".")[2])


def _incident(task: Task, number: int, member: str | None, at: str, outcome: str, reason: str | None) -> Incident:
    return Incident(task.id, task.plan_key, number, member, at, outcome, reason)


def _totals(rows: Rows, since: str | None, now: str) -> RunTotals:
    sums = rows.runs.totals(now, since or "")
    began, ended = sums["began_at"], sums["ended_at"]
    elapsed = seconds(ended) - seconds(began) if sums["runs"] else 0.0
    unknown = bool(sums.get("unknown")) and not sums["tokens"]
    spent: Json = {
        name: None if unknown and name.endswith("_tokens") else sums[name]
        for name in ("turns", "input_tokens", "output_tokens", "cost_usd", "unknown", "cost_partial")
        if name in sums and (name != "cost_partial" or sums["cost_usd"] is not None)
    }
    return RunTotals(sums["runs"], sums["time"], spent, round(max(0.0, elapsed), 3), began, ended)


def _length(runs: list[Run], now: str) -> float:
    return round(sum(max(0.0, seconds(run.ended_at or now) - seconds(run.started_at)) for run in runs), 3)


def _brief(task: Task) -> tuple[str, str, str, str | None, str, str | None, str | None]:
    return (
        task.id, task.subject, task.state, task.plan_key, task.priority, task.reserved_for, task.completed_at,
    )  # fmt: skip


ELSEWHERE = ("checkout.changed", "worktree.changed")
TROUBLE: dict[str, tuple[tuple[str, object], ...]] = {
    "verify.finished": (("passed", False),),
    "permission.answered": (("answer", "refuse"),),
    "merge.finished": (("outcome", "conflict"), ("outcome", "red"), ("outcome", "failed")),
    **dict.fromkeys(("run.stuck", "changes.set_aside", "integration.moved", *ELSEWHERE, *OVERSTEPPED), ()),
}
"""The types of events that may be incidents of a task, and what those say that are."""
TELLING = (*TROUBLE, "task.claimed")
"""The same, and which say whose."""


def integration(rows: Rows) -> IntegrationBranch | None:
    """The team's integration branch, as far as the ledger knows; null in a team that has none."""
    merged = rows.tasks.merged()
    if not merged:
        return None
    return IntegrationBranch(f"interlock/{rows.team.get().name}", merged, merged - len(rows.tasks.undelivered()))


def merge_incidents(tasks: list[Task], told_of: dict[str, list[Event]]) -> list[Incident]:
    """The merges of tasks that came to nothing, and what changed where nobody was to change anything: that once, though
    it is an event of each task that was at work, when it was seen last, and by nobody, since nobody knows."""
    found = []
    elsewhere: dict[tuple[object, ...], tuple[Event, dict[str, None]]] = {}
    for task in tasks:
        run: int | None = None
        member: str | None = None
        for event in told_of.get(task.id, ()) if task.worktree else ():
            told = _told(event)
            if event.type == "integration.moved":
                found.append(Incident(task.id, task.plan_key, None, None, event.at, *_moved(event, task)))
            elif event.type == "task.claimed":
                run, member = int(event.payload["run"].rpartition(".")[2]), event.payload["owner"]
            elif told is not None:
                found.append(Incident(task.id, task.plan_key, run, member, event.at, *told))
            elif event.type in ELSEWHERE:
                key = (event.type, event.payload["path"], *event.payload["changed"])
                last, runs = elsewhere.get(key, (event, {}))
                elsewhere[key] = (max(last, event, key=attrgetter("at")), runs | dict.fromkeys(event.payload["runs"]))
    for event, runs in elsewhere.values():
        said = event.payload
        what = f"{said['path']} ({named(said['changed'], 5)}); who changed it is not known"
        detail = f"{what}; at work since the look before: {named(list(runs), 5)}"
        found.append(Incident(str(event.task_id), None, None, None, event.at, "something changed elsewhere", detail))
    return found


def _moved(event: Event, task: Task) -> tuple[str, str]:
    said = event.payload
    whose = "that no task has made" if (task.worktree or {}).get("found") else f"of {task.id}"
    what = f"{said['branch']} was moved to commits {whose}, and put back to {said['commit'][:12]}"
    return what, f"what it was moved to is kept as {said['kept']}" if said["kept"] else ""


def _told(event: Event) -> tuple[str, str] | None:
    said = event.payload
    if event.type == "merge.finished" and said["outcome"] in ("conflict", "red", "failed"):
        return f"merge: {said['outcome']}", said["reason"]
    if event.type == "changes.set_aside":
        return "may only read, and what it changed was taken back", f"kept in {said['path']}"
    return None
