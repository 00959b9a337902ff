"""Taking a task, giving it back, and showing that one still works on it.

Two claims never both win: the claim is one transaction of the team's only writer. A claim begins a run, which belongs
to one session; whatever another session, or an older run, then says about the task is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from interlock.clock import seconds
from interlock.core.tasks.transition import end_run, illegal, lease, move, waiting_state
from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import Forbidden, RunLimit, StaleRun, TaskAlreadyClaimed, UnmetDependencies
from interlock.model.names import SYSTEM
from interlock.model.run import Run
from interlock.model.task import AGELESS, HELD, PRIORITIES, Task
from interlock.model.team import Member
from interlock.model.text import count
from interlock.processes import ref
from interlock.settings import Settings
from interlock.storage.ledger import Rows

LOST = frozenset({"superseded", "reclaimed", "failed", "expired"})
"""How a run ends that was taken from its session."""


def claim(
    act: UnitOfWork, task: Task, *, force: bool = False, take_over: bool = False, runner: str | None = None
) -> Task:
    """Give `task` to the actor and begin a run. Repeated by the same session it changes nothing.

    `force` goes past open blockers, as the policy `soft` does, with a warning that stays on the task; `take_over`
    moves the run of another session of the same member here. `runner` is the process that drives the run.

    Raises:
        TaskAlreadyClaimed: somebody else, or another session of the actor, holds it.
        UnmetDependencies: a blocker is open (strict policy); `blocked_by` lists them.
        RunLimit: the actor is at as many tasks as a member may be.
        Forbidden: it is assigned to somebody else, the actor has stopped, or the setting `force` forbids to force it.
        InvalidTransition: it is finished, in deadletter, or, for `take_over`, in review.
    """
    if task.state in HELD and task.owner is not None:
        if task.owner != act.name:
            raise _taken(task, "Task already claimed by another agent")
        if task.session == act.session:
            return task
        if not take_over:
            raise _taken(task, "Task already claimed by another agent: another session of yours", take_over=True)
        if task.state == "review":
            raise illegal(task, "is in review, so there is no work to take over")
        return _take_over(act, task, runner)
    if task.state not in ("ready", "backlog"):
        raise illegal(task, "cannot be claimed")
    refuse_stopped(act, act.name)
    if task.reserved_for not in (None, act.name):
        raise Forbidden(
            f"{task.id} is reserved for {task.reserved_for}. `interlock task assign {task.id} --to {act.name}` "
            "changes that.",
            task_id=task.id,
            assignee=task.reserved_for,
        )
    blocked_by = [id for id, state in act.rows.graph.blockers(task.id) if state != "done"] if task.open_blockers else []
    if blocked_by and act.settings.get("claim_policy") == "strict":
        _refuse_unmet(act, task, blocked_by, force)
    _begin(
        act, task, runner, reason="claimed with unmet dependencies" if blocked_by else "claimed", soft=bool(blocked_by)
    )
    return task


def refuse_stopped(act: UnitOfWork, name: str | None) -> None:
    """A member that was stopped gets no work, in whatever way, until it is resumed.

    Raises:
        Forbidden: it was.
    """
    member = act.member if name in (None, act.name) else act.rows.team.member(str(name))
    if name is not None and member is not None and member.status == "stopped":
        raise Forbidden(
            f"{name} has stopped and gets no work. `interlock resume --member {name}` gives it work again.", member=name
        )


def _refuse_unmet(act: UnitOfWork, task: Task, blocked_by: list[str], force: bool) -> None:
    allowed = act.settings.get("force")
    may = allowed == "members" or (allowed == "lead" and act.leads)
    if force and may:
        return
    waits = f"{task.id} waits for {', '.join(blocked_by)}."
    if force:
        who = "nobody" if allowed == "nobody" else "only the lead or a human"
        raise Forbidden(
            f"{waits} In this team {who} goes past that (setting force: {allowed}). Finish those first.",
            task_id=task.id,
            setting="force",
        )
    raise UnmetDependencies(
        f"Task has unmet dependencies: {waits} Finish those first{', or claim it with --force' if may else ''}.",
        task_id=task.id,
        blocked_by=blocked_by,
    )


def may_be_given_work(rows: Rows, member: str, settings: Settings) -> bool:
    """Whether a runner may start that member: neither it nor the team is paused, and no runner that lives has it at
    work already, in whatever process."""
    found = rows.team.member(member)
    return found is not None and is_free(found, rows.runs.open(), settings)


def is_free(member: Member, open_runs: Iterable[Run], settings: Settings) -> bool:
    """As `may_be_given_work`, of a member and the runs that are open."""
    if member.status != "active" or settings.get("paused"):
        return False
    # On another machine it is at work until its lease has ended, which is found by whoever looks after the team.
    at_work = (run.runner for run in open_runs if run.member == member.name and run.runner)
    return all(ref.alive(runner) is False for runner in at_work)


def refuse_more_runs(act: UnitOfWork, parallel: int) -> None:
    """No run begins beyond `parallel` open ones.

    Raises:
        RunLimit: that many are open.
    """
    if (running := act.rows.runs.open_count()) >= parallel:
        raise RunLimit(
            f"The team has {count(running, 'open run')}, and may have {parallel}. Wait for one to end, or raise the "
            "setting parallel.",
            limit=parallel,
            setting="parallel",
        )


def claim_next(
    act: UnitOfWork,
    *,
    shell: bool | None,
    runner: str | None = None,
    parallel: int | None = None,
    labels: Collection[str] = (),
    only: Collection[str] | None = None,
) -> Task | None:
    """Claim the ready task the actor should take, most urgent first, then oldest; null where there is none. An old
    task is more urgent than it was (setting `ageing`), so that none waits for ever behind new ones.

    `shell`: only tasks with a command of their own (true) or without (false); `parallel`: the most runs the team may
    have open; `labels`: those that are offered to tasks which ask for some; `only`: the plan keys of those that count.

    Raises:
        RunLimit: that many runs are open, or the actor is at as many tasks as a member may be.
        Forbidden: the actor has stopped.
    """
    if runner is not None and not may_be_given_work(act.rows, act.name, act.settings):
        return None
    if parallel is not None:
        refuse_more_runs(act, parallel)
    if runner is None:
        refuse_stopped(act, act.name)
    ageing = float(act.settings.get("ageing"))
    task = act.rows.tasks.next_ready(act.name, shell=shell, now=act.at, labels=labels, ageing=ageing, only=only)
    if task is not None:
        _begin(act, task, runner, reason="claimed", soft=False)
    return task


def turn(task: Task, ageing: float) -> tuple[float, int]:
    """Where a ready task comes in the queue: as `next_ready` orders it."""
    return seconds(task.created_at) + PRIORITIES.index(task.priority) * (ageing or AGELESS), task.n


def release(act: UnitOfWork, task: Task, reason: str | None = None) -> Task:
    """Give a task back, for anybody (or its assignee) to take. Repeated by the same session it changes nothing.

    Raises:
        Forbidden: the actor does not hold it.
        StaleRun: another session of the actor has taken it over.
    """
    last = act.rows.runs.get(task.id, task.run) if task.run else None
    given_back = task.state in ("ready", "backlog") and last is not None and last.outcome == "released"
    # The same act again, and nobody has claimed the task since. The lead also gives back what others hold.
    if last is not None and given_back and (act.leads or (last.member, last.session) == (act.name, act.session)):
        return task
    must_hold(act, task)
    if task.state == "review":
        raise illegal(task, "is in review and cannot be released")
    number = task.run
    end_run(act, task, "released", reason)
    move(act, task, waiting_state(task), reason=reason or "released")
    act.event("task.released", task.id, run=number)
    return task


def heartbeat(act: UnitOfWork, task: Task) -> Run:
    """Show that the run lives: it may now stay silent for `heartbeat_ttl` seconds.

    Raises:
        StaleRun: the run was superseded or has ended.
        Forbidden: the actor does not hold the task.
    """
    run = act.rows.runs.get(task.id, task.run)
    reviewed = run is not None and run.ended_at is None and task.state == "review" and run.member != task.owner
    if run is None or not reviewed:
        must_hold(act, task)
    elif (run.member, run.session) != (act.name, act.session):
        raise StaleRun(f"{task.id} is being reviewed by {run.member}; its author has nothing to show.", task_id=task.id)
    if run is None or run.ended_at is not None:
        raise StaleRun(f"The run of {task.id} has ended; claim the task again.", task_id=task.id)
    expires = act.later(act.settings.get("heartbeat_ttl"))
    act.rows.runs.update(run, heartbeat_at=act.at, expires_at=expires, beats=run.beats + 1)
    act.event("run.heartbeat", task.id, run=run.id, expires_at=expires)
    return run


def must_hold(act: UnitOfWork, task: Task) -> None:
    """The actor may go on with the task's current run.

    The lead and people may act on any held task, since somebody must when its owner is gone; they name no run. Not so a
    session of theirs that lost this very task: it would speak for work that is no longer its own.

    Raises:
        StaleRun: the actor's run, or session, was superseded.
        TaskAlreadyClaimed: another session of the actor holds the task.
        Forbidden: another member holds it.
        InvalidTransition: nobody holds it.
    """
    # Only Interlock itself names a run here: a session's runs of this task are known, and it may hold other tasks too.
    if act.role == SYSTEM and act.run is not None and act.run != task.run:
        raise _stale(task, act.run)
    if task.owner is None or task.state not in HELD:
        older = act.rows.runs.of_session(task.id, act.session) if task.run else None
        if older is not None and older.number < task.run:
            raise _stale(task, older.number)
        raise illegal(task, "is not claimed")
    if task.owner == act.name:
        if task.session == act.session:
            return
        older = act.rows.runs.of_session(task.id, act.session)
        if older is not None:
            raise _stale(task, older.number)
        raise _taken(task, "Task already claimed by another agent: another session of yours", take_over=True)
    older = act.rows.runs.of_session(task.id, act.session) if act.role != SYSTEM else None
    if older is not None and (not act.leads or older.outcome in LOST):
        raise _stale(task, older.number)
    if not act.leads:
        raise Forbidden(
            f"{task.id} is held by {task.owner}; only {task.owner}, the lead or a human may do that.",
            task_id=task.id,
            owner=task.owner,
        )


def refuse_stale(act: UnitOfWork, task: Task) -> None:
    """Whoever lost the task to a newer run may not go on with it, not even by a way that is open to everybody.

    Raises:
        StaleRun: the actor's run was taken from it.
    """
    older = act.rows.runs.of_session(task.id, act.session) if task.run and act.role != SYSTEM else None
    if older is not None and older.number < task.run and older.outcome in LOST:
        raise _stale(task, older.number)


def _begin(act: UnitOfWork, task: Task, runner: str | None, *, reason: str, soft: bool) -> None:
    number = task.run + 1
    most = int(act.settings.get("member_parallel"))
    if most and (at := sum(one.state == "in-progress" for one in act.rows.tasks.owned(act.name))) >= most:
        raise RunLimit(
            f"{act.name} is at {at} tasks, and a member may be at {most}. Finish or release one, or raise the setting "
            "member_parallel.",
            limit=most,
            setting="member_parallel",
        )
    # One that was kept for the session that asked, until its time was up.
    end_run(act, task, "superseded", f"claimed by {act.name}")
    move(
        act, task, "in-progress", reason=reason, owner=act.name, session=act.session, run=number, soft=soft,
        claimed_at=act.at, not_before=None, reserved=None, verifying=None,
    )  # fmt: skip
    open_run(act, task, runner)
    act.event("task.claimed", task.id, owner=act.name, run=task.run_id, session=act.session, forced=soft)


def _take_over(act: UnitOfWork, task: Task, runner: str | None) -> Task:
    end_run(act, task, "superseded", f"taken over by session {act.session}")
    act.rows.tasks.update(task, run=task.run + 1, session=act.session, claimed_at=act.at, updated_at=act.at)
    open_run(act, task, runner)
    act.event(
        "task.claimed", task.id, owner=act.name, run=task.run_id, session=act.session, forced=False, took_over=True
    )
    act.topics.add("tasks")
    return task


def open_run(act: UnitOfWork, task: Task, runner: str | None) -> None:
    """Begin the run that `task.run` now numbers, for its present owner and session. One that a runner drives is heard
    of from the first; one begun by hand has a lease only where `claim_ttl` gives it one (decision 11)."""
    act.rows.runs.begin(
        Run(
            task_id=task.id,
            number=task.run,
            member=task.owner or act.name,
            session=task.session or act.session,
            started_at=act.at,
            runner=runner,
            expires_at=lease(act, runner is not None),
        )
    )


def _taken(task: Task, message: str, *, take_over: bool = False) -> TaskAlreadyClaimed:
    hint = (
        f"`interlock task claim {task.id} --take-over` moves it here."
        if take_over
        else "`interlock task next` finds another."
    )
    return TaskAlreadyClaimed(f"{message} ({task.owner} holds {task.id}). {hint}", task_id=task.id, owner=task.owner)


def _stale(task: Task, number: int) -> StaleRun:
    return StaleRun(
        f"Run {number} of {task.id} was superseded by run {task.run} ({task.owner or 'nobody'} holds the task now); "
        "what it reports no longer counts. Claim the task again to continue.",
        task_id=task.id,
        run=number,
        current_run=task.run,
    )
