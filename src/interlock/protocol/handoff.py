"""`handoff.request`, `handoff.accepted` and `handoff.rejected`: a part of a task goes to another agent.

A request is written down beside the child (the mirror shows it as `inputs/handoff.json` and `handoff.md`), marks it as
one level deep, and reserves it, if nobody holds it, for the agent it is meant for. A child cannot be handed on: depth
is one. A reservation is not ownership; an agent that does not take the child frees it again, blocked with its reason.
"""

from __future__ import annotations

from interlock.mailbox import notify
from interlock.model.names import HUMAN
from interlock.model.run import Handoff
from interlock.model.task import FINAL, Task
from interlock.protocol.authority import Refused, existing, member_named, same_task, sender
from interlock.protocol.completion import REASON_CHARS, stop
from interlock.protocol.message import Handled, Incoming, may_go
from interlock.protocol.payloads import HandoffAck, HandoffRequest
from interlock.sessions import Act

DEPTH = 1
"""How often a task may be handed on."""


def handle_request(act: Act, incoming: Incoming) -> Handled:
    """Take in a request.

    Raises:
        Refused: `task_not_found`, `taskId_mismatch`, `parent_not_found`, `nested_delegation`, `unauthorized_agent`,
            `invalid_transition` where the child is finished.
    """
    envelope = incoming.envelope
    payload: HandoffRequest = envelope.payload
    child = existing(act, envelope.task_id, delegation=True)
    same_task(envelope, payload.task_id)
    parent = _parent(act, payload.parent_task_id)
    depth = (parent.delegation_depth or 0) + 1
    if depth > DEPTH or parent.id == child.id:
        raise Refused(
            "nested_delegation",
            f"{parent.id} was handed over itself, so no part of it can be handed on; create a task instead"
            if parent.id != child.id
            else f"{child.id} cannot be handed over by itself",
            "payload.parentTaskId",
            delegation=True,
        )
    name = sender(act, envelope, parent.owner, may_lead=True)
    before = act.rows.handoffs.get(child.id)
    if child.state in FINAL and before is None:
        raise Refused(
            "invalid_transition", f"{child.id} is {child.state} and cannot be handed over", "taskId", delegation=True
        )
    to = HUMAN if payload.to_agent == HUMAN else member_named(act, payload.to_agent)
    fields = payload.as_json()
    same = (
        before is not None
        and before.state != "rejected"
        and (before.payload, before.parent_id) == (fields, parent.id)
    )  # fmt: skip
    if child.state not in FINAL:
        if not same:
            act.rows.handoffs.put(Handoff(child.id, parent.id, name, to, fields, "requested", None, act.at, None))
        act.rows.tasks.update(child, delegation_depth=depth, parent_id=child.parent_id or parent.id, updated_at=act.at)
        act.topics.add("tasks")
        _reserve(act, child, to, known=to == HUMAN or act.rows.team.address(to) is not None, tell=not same)
    act.event(
        "delegation.requested", child.id, parent_task_id=parent.id, from_agent=name, to_agent=to, depth=depth
    )  # fmt: skip
    return Handled(child, not same)


def handle_accepted(act: Act, incoming: Incoming) -> Handled:
    """Take in that a handoff was accepted: nothing moves, the child's agent goes on.

    Raises:
        Refused: `task_not_found`, `taskId_mismatch`, `unauthorized_agent`.
    """
    child, handoff, name = _acknowledged(act, incoming)
    fresh = handoff is not None and _answer(act, handoff, "accepted", None)
    act.event("delegation.accepted", child.id, from_agent=name, parent_task_id=handoff.parent_id if handoff else None)
    if handoff is not None and fresh:
        notify(act, handoff.from_agent, f"{name} took {child.id}: {child.subject}", summary="handoff accepted")
    return Handled(child, fresh)


def handle_rejected(act: Act, incoming: Incoming) -> Handled:
    """Take in that a handoff was not accepted: the child is blocked, with the reason, and no longer reserved.

    Raises:
        Refused: `task_not_found`, `taskId_mismatch`, `unauthorized_agent`.
    """
    child, handoff, name = _acknowledged(act, incoming)
    payload: HandoffAck = incoming.envelope.payload
    said = payload.reason or "no reason given"
    fresh = handoff is not None and _answer(act, handoff, "rejected", payload.reason)
    if child.assignee == name and child.owner != name:
        act.rows.tasks.update(child, assignee=None, updated_at=act.at)
        act.event("task.assigned", child.id, assignee=None)
    moves = child.state != "blocked" and not child.under_way and may_go(child.state, ["blocked"])
    if moves:
        stop(act, child, f"handoff rejected: {said}"[:REASON_CHARS], f"{name} rejected the handoff: {said}")
    act.event(
        "delegation.rejected", child.id, reason=said, from_agent=name,
        parent_task_id=handoff.parent_id if handoff else None,
    )  # fmt: skip
    if handoff is not None and fresh:
        notify(act, handoff.from_agent, f"{name} did not take {child.id}: {said}", summary="handoff rejected")
    return Handled(child, moves or fresh)


def _parent(act: Act, task_id: str) -> Task:
    parent = act.rows.tasks.get(task_id)
    if parent is None or parent.state == "deleted":
        # Only the delegation came to nothing: the message itself is about a task that exists (decision 17).
        raise Refused(
            "parent_not_found", f"no task {task_id} to hand a part of", "payload.parentTaskId", rejected=False,
            delegation=True,
        )  # fmt: skip
    return parent


def _reserve(act: Act, child: Task, to: str, *, known: bool, tell: bool) -> None:
    """Reserve a child that nobody holds; nobody can be waited for who is not here."""
    if not known:
        act.event("protocol.message.warning", child.id, reason="unknown_agent", type="handoff.request", agent=to)
        return
    if child.owner is None and child.assignee != to:
        act.rows.tasks.update(child, assignee=to, reserved=None)
        act.event("task.assigned", child.id, assignee=to)
    if tell:
        notify(act, to, f"{child.id} was handed to you: {child.subject}", type="task_assignment", summary=child.subject)


def _acknowledged(act: Act, incoming: Incoming) -> tuple[Task, Handoff | None, str]:
    envelope = incoming.envelope
    payload: HandoffAck = envelope.payload
    child = existing(act, envelope.task_id)
    same_task(envelope, payload.task_id)
    handoff = act.rows.handoffs.get(child.id)
    return child, handoff, sender(act, envelope, child.owner, handoff.to_agent if handoff else None)


def _answer(act: Act, handoff: Handoff, state: str, reason: str | None) -> bool:
    """Write the answer down; false where it is the one we had."""
    if (handoff.state, handoff.reason) == (state, reason):
        return False
    act.rows.handoffs.update(handoff, state=state, reason=reason, answered_at=act.at)
    return True
