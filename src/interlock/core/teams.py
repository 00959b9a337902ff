"""Members of a team: spawn, remove, settings, and the state of the team in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interlock.core.mailbox import REASON_LIMIT, notify
from interlock.core.tasks.finish import ask_reviewer
from interlock.core.tasks.transition import end_run, move, start_queued_workflows, waiting_state
from interlock.core.unit_of_work import UnitOfWork, unknown_member
from interlock.errors import (
    Forbidden,
    InvalidMemberName,
    InvalidRequest,
    MemberExists,
    MemberLimit,
    MemberNotFound,
    MembersRunning,
)
from interlock.model.handover import escaped
from interlock.model.names import HUMAN, LEAD, check_member_name, check_session_key, check_text, sanitized
from interlock.model.task import FINAL, HELD, STATUS, Task
from interlock.model.team import Member, TeamRecord
from interlock.model.text import count
from interlock.settings import PERMISSIONS, Settings, known
from interlock.storage.ledger import Rows


def founded(
    id: str, name: str, lead: str, workdir: str | None, settings: dict[str, Any], at: str
) -> tuple[TeamRecord, Member]:
    """A new team and its lead."""
    team = TeamRecord(
        id=id, name=name, lead_session_key=lead, status="active", workdir=workdir, settings=settings, created_at=at,
        updated_at=at, day="", day_count=0, open_tasks=0, runner=None,
    )  # fmt: skip
    member = Member(
        name=LEAD, session_key=lead, inbox=sanitized(lead), role=LEAD, agent=None, command=None, type=None, model=None,
        permissions=None, status="active", unread=0, session=None, joined_at=at, last_active_at=None,
    )  # fmt: skip
    return team, member


def work_in(act: UnitOfWork, directory: str, *, moved: bool = False) -> None:
    """Have the team work in that directory from now on; `moved`: a person says so, whatever was left in it, so that
    what stands there, or the user's HEAD, says where the integration branch is."""
    team = act.rows.team.get()
    if moved or team.workdir != directory:
        changes = {"landed": None} if moved else {}
        act.rows.team.update(team, workdir=directory, updated_at=act.at, **changes)
        act.event("team.updated", workdir=directory, **({"was": team.workdir} if moved else {}))


def spawn(
    act: UnitOfWork,
    name: str,
    *,
    agent: str | None = None,
    command: list[str] | None = None,
    agent_id: str | None = None,
    type: str | None = None,
    model: str | None = None,
    permissions: str | None = None,
    env: list[str] | None = None,
    limits: dict[str, float] | None = None,
) -> Member:
    """Register a member with the session key `agent:<agent id, default its name>:teammate:<uuid4>`.

    A `command` without an `agent` is a program that is given its task and ends, as `{command: […]}` is in a plan.

    Raises:
        InvalidMemberName: the name breaks the rule, is reserved, or collides with another's inbox directory.
        MemberExists: there is a member of that name.
        MemberLimit: the team has `member_limit` members.
        Forbidden: the actor is a plain member.
    """
    _must_lead(act, "spawn a member")
    check_member_name(name)
    everybody = act.rows.team.members()
    if any(member.name == name for member in everybody):
        raise MemberExists(f"There is a member {name!r} already. `interlock member list` shows all.", member=name)
    key = check_session_key(f"agent:{agent_id or name}:teammate:{act.clock.new_id()}")
    directories = (name.lower(), sanitized(key).lower())
    for member in everybody:
        if member.inbox.lower() in directories:
            raise InvalidMemberName(
                f"{name!r} collides with the inbox of {member.name}; choose another alphanumeric name.", name=name
            )
    present = sum(member.role != "person" for member in everybody)
    if present >= act.settings.get("member_limit"):
        raise too_many_members(f"The team has {count(present, 'member')}", act.settings)
    if permissions is not None and permissions not in PERMISSIONS:
        raise InvalidRequest(f"permissions must be one of: {', '.join(PERMISSIONS)}.", field="permissions")
    if command is not None and agent is None:
        agent = "command"
    for field, value in (("agent", agent), ("type", type), ("model", model)):
        if value is not None:
            check_text(value, field, limit=100, required=True)
    member = Member(
        name=name, session_key=key, inbox=name, role="member", agent=agent, command=command, type=type, model=model,
        permissions=permissions, status="active", unread=0, session=None, joined_at=act.at, last_active_at=None,
        env=env, limits=limits,
    )  # fmt: skip
    act.rows.team.add_member(member)
    act.event("member.spawned", name=name, session_key=key, agent=agent)
    act.topics.add("members")
    return member


def too_many_members(whose: str, settings: Settings) -> MemberLimit:
    """The refusal of a member beyond the limit; `whose` says whose members are how many."""
    limit = settings.get("member_limit")
    message = f"{whose}, the lead included, and may have {limit}. Remove one, or raise the setting member_limit."
    return MemberLimit(message, limit=limit, setting="member_limit")


def remove(act: UnitOfWork, name: str, *, running: bool, reason: str = "removed") -> list[str]:
    """Take a member out of the team; its tasks go back to the queue, what it was to review goes to a human.

    Args:
        running: whether a program of that member is at work now; it must be stopped first.

    Returns:
        The ids of the tasks it gave back.

    Raises:
        MemberNotFound, MembersRunning; InvalidRequest for the lead; Forbidden for another than the member itself, the
        lead or a human.
    """
    if name != act.name:
        _must_lead(act, "remove another member")
    _managed(act, name, "The lead cannot be removed; delete the team instead.")
    if running:
        raise MembersRunning(
            f"{name} is at work. Ask it first: `interlock shutdown request {name}`, or end it: "
            f"`interlock stop --now --member {name}`.",
            members=[name],
        )
    # What is in review is done; verify and review go on without it.
    given_back = _give_back(act, [t for t in act.rows.tasks.owned(name) if t.state in HELD - {"review"}], "was removed")
    waiting = [task for task in act.rows.tasks.select() if task.state not in FINAL]
    for task in waiting:
        if name in (task.assignee, task.reserved):
            act.rows.tasks.update(task, assignee=None, reserved=None, updated_at=act.at)
            act.event("task.assigned", task.id, assignee=None)
            act.topics.add("tasks")
    act.rows.team.remove_member(name)
    for task in waiting:
        if task.state == "review" and task.review == name and not task.under_way:
            ask_reviewer(act, task)
    act.event("member.removed", name=name, reason=reason)
    act.topics.add("members")
    return given_back


def pause(act: UnitOfWork, name: str | None = None, *, reason: str | None = None) -> None:
    """Let runners start nothing new, of one member or in the whole team; what runs is finished. Repeated it changes
    nothing, and a member that was stopped stays so.

    Raises:
        MemberNotFound, InvalidRequest: not a member, or the lead; a reason that is too long, or no text.
        Forbidden: the actor is a plain member.
    """
    _must_lead(act, "pause the team or a member")
    if reason is not None:
        check_text(reason, "reason", limit=REASON_LIMIT)
    team = act.rows.team.get()
    if name is not None:
        if _managed(act, name).status == "active":
            set_aside(act, name, "paused", reason)
    elif not team.settings.get("paused"):
        act.rows.team.update(team, settings={**team.settings, "paused": True}, updated_at=act.at)
        act.event("team.paused", reason=reason)
        act.topics.add("members")


def resume(act: UnitOfWork, name: str | None = None) -> None:
    """Go on after `pause`, or give a member that was stopped work again. Repeated it changes nothing.

    Raises:
        as `pause`.
    """
    _must_lead(act, "resume the team or a member")
    team = act.rows.team.get()
    if name is not None:
        member = _managed(act, name)
        if member.status != "active":
            act.rows.team.update_member(member, status="active")
            act.event("member.resumed", name=name)
    elif team.settings.get("paused"):
        kept = {name: value for name, value in team.settings.items() if name != "paused"}
        act.rows.team.update(team, settings=kept, updated_at=act.at)
        act.event("team.resumed")
    act.topics.add("members")


def set_aside(act: UnitOfWork, name: str, status: str, reason: str | None) -> None:
    """Give that member nothing new: runners leave one that is `paused` alone; one that is `stopped` gets no work by
    hand either, and what it does ends. A runner ends what it drives; what is held by hand goes back to the queue."""
    member = act.rows.team.member(name)
    if member is not None and member.role == "member" and member.status != status:
        act.rows.team.update_member(member, status=status)
        act.event("member.paused", name=name, status=status, reason=reason)
        act.topics.add("members")
        if status == "stopped":
            at_work = [task for task in act.rows.tasks.owned(name) if task.state == "in-progress"]
            for id in _give_back(act, _by_hand(act, at_work), "has stopped"):
                notify(
                    act, LEAD, f"{id} returned to the queue: {name} has stopped.", summary="task returned to the queue"
                )
            kept = [task for task in act.rows.tasks.select(states=["ready", "backlog"]) if task.reserved == name]
            for task in _by_hand(act, kept):
                act.rows.tasks.update(task, reserved=None, updated_at=act.at)


def _by_hand(act: UnitOfWork, tasks: list[Task]) -> list[Task]:
    """Those of the tasks whose run no runner drives."""
    runs = [act.rows.runs.get(task.id, task.run) for task in tasks]
    return [task for task, run in zip(tasks, runs, strict=True) if run is None or run.runner is None]


def _give_back(act: UnitOfWork, tasks: Sequence[Task], why: str) -> list[str]:
    """Put tasks that their owner works on no more back into the queue; their ids."""
    for task in tasks:
        reason, number = f"{task.owner} {why}", task.run
        end_run(act, task, "reclaimed", reason)
        move(act, task, waiting_state(task), reason=reason)
        act.event("task.reclaimed", task.id, run=number, reason=reason)
    return [task.id for task in tasks]


def _managed(
    act: UnitOfWork, name: str, not_the_lead: str = "No runner drives the lead; pause the team, or one of its members."
) -> Member:
    member = act.rows.team.member(name)
    if name == HUMAN or (member is not None and member.role == "person"):
        raise MemberNotFound(
            f"{name} is a person, and no member that can be removed, paused or resumed. `interlock member list` shows "
            "the members.",
            member=name,
        )
    if member is None:
        raise unknown_member(act.rows, name)
    if member.role == LEAD:
        raise InvalidRequest(not_the_lead, field="member")
    return member


def members(rows: Rows) -> list[Member]:
    """All members, the lead first, each with what it works on. People are not members."""
    current = rows.tasks.current()
    found = [member for member in rows.team.members() if member.role != "person"]
    for member in found:
        member.current_task = current.get(member.name)
        if member.status == "active":
            member.status = "working" if member.current_task else "idle"
    return found


def configure(act: UnitOfWork, changes: dict[str, Any]) -> dict[str, Any]:
    """Set, or with null unset, settings of the team.

    Raises:
        InvalidRequest: an unknown setting, one that is not the team's, or a bad value.
        Forbidden: the actor is a plain member.
    """
    _must_lead(act, "change the settings of the team")
    team = act.rows.team.get()
    settings = dict(team.settings)
    for name, value in changes.items():
        setting = known(name)
        if not setting.team:
            raise InvalidRequest(f"{name} belongs to the home, not to a team; set it without --team.", field=name)
        if value is None:
            settings.pop(name, None)
        else:
            settings[name] = setting.parse(value, "team setting")
    act.rows.team.update(team, settings=settings, updated_at=act.at)
    act.event("team.updated", **changes)
    act.topics.add("members")
    if "workflow_parallel" in changes:
        start_queued_workflows(act, act.home.for_team(settings).get("workflow_parallel"))
    return settings


def state_block(act: UnitOfWork) -> str:
    """What the lead's hook shows of the team (TEAM-state): members and status, task counts, open questions."""
    team = act.rows.team.get()
    counts: dict[str, int] = {}
    for state, found in act.rows.tasks.counts().items():
        counts[STATUS[state]] = counts.get(STATUS[state], 0) + found
    counts.pop("deleted", None)
    lines = ["=== TEAM STATE ===", f"Team: {team.name}", f"Status: {team.status}", "Members:"]
    for member in members(act.rows):
        work = f", on {member.current_task}" if member.current_task else ""
        lines.append(f"- {member.name} ({'Lead' if member.role == LEAD else 'Member'}): {member.status}{work}")
    shown = ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
    lines.append(f"Task counts: {shown}")
    questions = act.rows.questions.open()
    lines.append(f"Open questions: {len(questions)}")
    lines += [f"- {question.task_id}: {question.text}" for question in questions[:10]]
    return escaped("\n".join(lines)) + "\n"


def _must_lead(act: UnitOfWork, what: str) -> None:
    if not act.leads:
        raise Forbidden(f"Only the lead or a human may {what}. Ask: `interlock message send --to lead …`.")
