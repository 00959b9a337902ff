"""A plan meets the ledger: which tasks to create, update, cancel and do again. All of it is one transaction.

Tasks are known by their key. Running a plan again continues it: done stays done, new keys are added, an open task that
changed is updated, and what was begun and has changed since is reported, never touched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from interlock.core import teams
from interlock.core.tasks import change, create
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.gitwork import place
from interlock.gitwork.preflight import has_commits_of
from interlock.model.plan import Plan, PlanLimits, PlanMember, PlannedTask, PlanTask, StagedPlan, digest, whole_digest
from interlock.model.task import AOF, FINAL, MEASURES, Task
from interlock.model.team import Member
from interlock.plan.comparing import ExistingTask, PlanChanges, TaskChange, compare
from interlock.settings import Settings


def isolated(plan: Plan, workspace: Workspace | None, settings: Settings, *, new: bool = False) -> bool:
    """Whether the tasks of `plan` get worktrees of their own: as it says; else where members may work at once on what
    is committed. A team (`workspace`, where it exists) that works otherwise keeps doing so until its plan changes."""
    if plan.isolation is not None:
        return plan.isolation == "worktree"
    changed = True
    if workspace is not None:
        with workspace.look() as rows:
            settings = workspace.settings(rows)
            last = rows.events.latest(None, 1, ["plan.started"])
        changed = new or (bool(last) and last[0].payload.get("digest") not in (None, whole_digest(plan)))
    if settings.get("isolation") == "worktree":
        return True
    return changed and plan.at_once and has_commits_of(plan.workdir, float(settings.get("git_timeout")))


def preview(workspace: Workspace, plan: Plan, *, redo: Collection[str] = (), new: bool = False) -> PlanChanges:
    """What `stage` would do; changes nothing."""
    with workspace.look() as rows:
        return _compare(rows.tasks.planned(), plan, redo, new)


def stage(
    workspace: Workspace, plan: Plan, digest_of_all: str, found_in: str | None, *, redo: Collection[str] = (),
    new: bool = False,
) -> PlanChanges:  # fmt: skip
    """Bring members and tasks of the team up to the plan, whose isolation is decided.

    `new` starts the whole plan over; `digest_of_all` is that of the plan as it was written, and `found_in` where the
    team worked when it was found to be the plan's.

    Raises:
        TeamExists: another process has given it to another directory since.
    """
    with workspace.act(Principal()) as act:
        if act.rows.team.get().workdir not in (found_in, plan.workdir):
            raise place.refusal(place.standing(act.rows, act.settings), plan.workdir, "elsewhere")
        if new:
            for task in act.rows.tasks.planned():
                if task.state not in FINAL:
                    change.cancel(act, task, reason="the plan was started over")
        _configure(act, plan)
        for member in plan.members.values():
            _update_member(act, member)
        before = act.rows.tasks.planned()
        changes = _compare(before, plan, redo, new)
        for planned in changes.new:
            _create(act, planned)
        for again in changes.redo:
            _redo(act, again)
        for changed in changes.updated:
            _update(act, changed)
        tasks = {task.id: task for task in before}
        for same in changes.unchanged:
            _describe(act, tasks[same.existing.task_id], same.task)
        for gone in changes.removed_open:
            removed = act.rows.tasks.get(gone.task_id)
            if removed is not None:
                change.cancel(act, removed, reason="no longer in the plan")
                # It gives its key back: a task of that key, later, is a new one.
                act.rows.tasks.update(removed, plan_key=None)
        act.event(
            "plan.started", path=plan.path, new=[task.key for task in changes.new],
            updated=[changed.task.key for changed in changes.updated], digest=digest_of_all,
        )  # fmt: skip
    return changes


def _compare(planned: list[Task], plan: Plan, redo: Collection[str], new: bool) -> PlanChanges:
    existing = {
        str(task.plan_key): ExistingTask(str(task.plan_key), task.id, task.state, task.plan_digest or "")
        for task in planned
    }
    return compare(plan, {} if new else existing, redo)


def staged(plan: Plan, changes: PlanChanges, notes: tuple[str, ...] = ()) -> StagedPlan:
    """The answer of staging `plan`: what it says of the run, and what was done about each task."""
    limits = _stored(plan.limits)
    limits.pop("time", None)
    new = tuple(PlannedTask(task.key, task.subject) for task in changes.new)
    return StagedPlan(
        plan.team, plan.parallel, plan.limits.time, limits, notes, new, _met(changes.updated), _met(changes.redo),
        _met(changes.unchanged), _met(changes.changed_started), _met(changes.removed_started),
        _met(changes.removed_open),
    )  # fmt: skip


def _met(found: Iterable[TaskChange | ExistingTask]) -> tuple[PlannedTask, ...]:
    pairs = [(one.existing, one.task.subject) if isinstance(one, TaskChange) else (one, "") for one in found]
    return tuple(PlannedTask(before.key, subject, before.task_id, before.state) for before, subject in pairs)


def _stored(limits: PlanLimits) -> dict[str, float]:
    """The limits that are set, as they are stored."""
    found = {name: getattr(limits, name) for name in MEASURES}
    return {name: float(value) for name, value in found.items() if value is not None}


def _member_fields(planned: PlanMember) -> dict[str, Any]:
    return {
        "agent": planned.agent,
        "command": list(planned.command) if planned.command else None,
        "type": planned.type,
        "model": planned.model,
        "permissions": planned.permissions,
        "env": list(planned.env) or None,
        "limits": _stored(planned.limits) or None,
    }


def as_member(planned: PlanMember) -> Member:
    """A member of a plan as it will stand in the ledger, to find out whether it can be run."""
    return Member(
        name=planned.name, session_key="", inbox=planned.name, role="member", status="active", unread=0, session=None,
        joined_at="", last_active_at=None, **_member_fields(planned),
    )  # fmt: skip


def _configure(act: UnitOfWork, plan: Plan) -> None:
    teams.work_in(act, plan.workdir)
    team = act.rows.team.get()
    wanted: dict[str, Any] = {
        "isolation": plan.isolation,
        "check_before": None if plan.check_before else False,
        "worktree_setup": plan.setup,
        "worktree_copy": "\n".join(plan.copy) or None,
        "check_files": "\n".join(plan.protect) or None,
        "strict": plan.strict or None,
    }
    changed = {name: value for name, value in wanted.items() if team.settings.get(name) != value}
    if changed:
        teams.configure(act, changed)


def _update_member(act: UnitOfWork, planned: PlanMember) -> None:
    member, wanted = act.rows.team.member(planned.name), _member_fields(planned)
    if member is None:
        teams.spawn(act, planned.name, **wanted)
        return
    changed = {name: value for name, value in wanted.items() if getattr(member, name) != value}
    if changed:
        act.rows.team.update_member(member, **changed)
        act.event("member.updated", name=planned.name, **changed)


def _task_fields(planned: PlanTask) -> dict[str, Any]:
    return {
        "body": planned.body,
        "type": planned.type,
        "priority": planned.priority,
        "review": planned.review,
        "verify": planned.verify,
        "command": planned.run,
        "env": list(planned.env) or None,
        "timeout": planned.timeout,
        "labels": list(planned.labels) or None,
        "retries": planned.retries,
        "limits": _stored(planned.limits) or None,
        "plan_digest": digest(planned),
        **({"metadata": dict(planned.metadata)} if planned.metadata else {}),
    }


def _id_of(act: UnitOfWork, key: str) -> str:
    task = act.rows.tasks.by_plan_key(key)
    assert task is not None, f"the plan's own task {key} is missing"
    return task.id


def _create(act: UnitOfWork, planned: PlanTask) -> Task:
    return create.create(
        act, planned.subject, **_task_fields(planned), assignee=planned.assignee,
        blocked_by=[_id_of(act, key) for key in planned.blocked_by], plan_key=planned.key,
    )  # fmt: skip


def _redo(act: UnitOfWork, again: TaskChange) -> None:
    """Leave the finished task as it is, and give its key and its place before whatever still waits to a new one."""
    old = act.rows.tasks.get(again.existing.task_id)
    task = _create(act, again.task)
    if old is None:
        return
    for dependent in act.rows.graph.open_dependents(old.id):
        change.depend(act, dependent, task)
        if old.state != "done":
            change.independ(act, dependent, old)
    if old.state == "deadletter":
        change.cancel(act, old, reason=f"done again as {task.id}")


def _describe(act: UnitOfWork, task: Task, planned: PlanTask) -> None:
    """Bring the metadata of a task up to date that asks for the same as before, whatever has become of it."""
    said = {name: value for name, value in planned.metadata.items() if name not in AOF}  # Those it has already.
    metadata, asked = {**task.metadata, **said}, digest(planned)
    if metadata != task.metadata or asked != task.plan_digest:
        columns = create.metadata_columns(act, metadata, task)
        act.rows.tasks.update(task, **columns, plan_digest=asked, updated_at=act.at)
        act.event("task.updated", task.id, fields=["metadata", "plan_digest"])
        act.topics.add("tasks")


def _update(act: UnitOfWork, changed: TaskChange) -> None:
    task = act.rows.tasks.get(changed.existing.task_id)
    if task is None:
        return
    change.update(act, task, **_task_fields(changed.task), subject=changed.task.subject)
    if task.assignee != changed.task.assignee:
        change.assign(act, task, changed.task.assignee)
    wanted = {_id_of(act, key) for key in changed.task.blocked_by}
    present = {id for id, _ in act.rows.graph.blockers(task.id)}
    for id in sorted(present - wanted):
        blocker = find(act.rows, id)
        if blocker.plan_key is not None:  # What people made it wait for beside the plan is theirs.
            change.independ(act, task, blocker)
    for id in sorted(wanted - present):
        change.depend(act, task, find(act.rows, id))
