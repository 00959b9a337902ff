"""The shutdown handshake: a member is asked to stop, or announces that it will, and those concerned answer.

A request has an id, those asked, their answers and a time limit. `request M` asks M. Without M the caller announces
its own shutdown to the lead and to every owner of a task that waits for one of the caller's; the lead's approval, or
all of theirs, grants it (decision 6). Silence is reported, never taken for a yes.
"""

from __future__ import annotations

from typing import Any

from interlock.core.mailbox import recipient, send, sent_before
from interlock.core.teams import set_aside
from interlock.core.unit_of_work import UnitOfWork, unknown_member
from interlock.errors import Forbidden, RequestNotFound
from interlock.model.message import Message
from interlock.model.names import LEAD, SYSTEM, check_text
from interlock.model.question import StopRequest

REASON_LIMIT = 2000


def request(act: UnitOfWork, member: str | None = None, *, reason: str | None = None) -> StopRequest:
    """Ask `member` to shut down, or announce the caller's own shutdown. The same open request is not made twice: an
    announcement reaches whoever it concerns and was not asked yet.

    Raises:
        MemberNotFound: nobody of that name.
        Forbidden: a plain member asks another to stop.
    """
    if reason is not None:
        check_text(reason, "reason", limit=REASON_LIMIT)
    expire(act)
    found = None if member is None else act.rows.team.address(member)
    if found is None and member is not None:
        raise unknown_member(act.rows, member)
    subject = act.name if found is None else found[0]
    if subject != act.name and not act.leads:
        raise Forbidden("Only the lead or a human may ask another member to shut down.", member=subject)
    asked = [subject] if subject != act.name else _concerned(act)
    same = [one for one in act.rows.requests.open() if (one.subject, one.asked_by) == (subject, act.name)]
    if same:
        made = same[0]
        asked = [name for name in asked if name not in made.asked]
        if asked:
            act.rows.requests.update(made, asked=[*made.asked, *asked])
            act.event("shutdown.requested", request=made.id, subject=subject, to=asked, reason=reason)
    else:
        made = _open(act, subject, asked, reason)
    text = (
        f"Please finish or release your tasks and shut down.{f' Reason: {reason}' if reason else ''}"
        if subject != act.name
        else f"{subject} is going to shut down.{f' Reason: {reason}' if reason else ''}"
    )
    for name in asked:
        send(
            act, name, text + " Answer with `interlock shutdown approve`, or `reject --reason …`.",
            type="shutdown_request", request_id=made.id, reason=reason, summary=f"shutdown of {subject}",
        )  # fmt: skip
    return made


def answer(
    act: UnitOfWork, request_id: str | None, *, approve: bool, reason: str | None = None, announce: bool = True
) -> StopRequest:
    """Approve or reject the request named, or the caller's only open one; the requester gets a `shutdown_response`.

    Repeated with the same answer it changes nothing.

    Raises:
        RequestNotFound: no open request that asks the caller, or several and none is named.
        InvalidRequest: a rejection without a reason.
    """
    expire(act)
    if not approve:
        check_text(reason if reason is not None else "", "reason", limit=REASON_LIMIT, required=True)
    found = _asking(act, request_id)
    if act.name in found.answers:
        return found
    answers = {**found.answers, act.name: {"approve": approve, "reason": reason, "at": act.at}}
    state = _state(found, answers)
    act.rows.requests.update(found, answers=answers, state=state)
    act.event("shutdown.answered", request=found.id, by=act.name, approve=approve, reason=reason)
    if state == "granted":
        act.event("shutdown.granted", request=found.id)
        set_aside(act, found.subject, "stopped", "its shutdown was granted")
    elif state == "rejected":
        act.event("shutdown.rejected", request=found.id, reason=reason)
    if announce and found.asked_by != act.name and act.rows.team.address(found.asked_by) is not None:
        word = "agrees to" if approve else "rejects"
        send(
            act,
            found.asked_by,
            f"{act.name} {word} the shutdown of {found.subject}.{f' {reason}' if reason else ''}",
            type="shutdown_response", request_id=found.id, approve=approve, reason=reason,
        )  # fmt: skip
    return found


def send_message(act: UnitOfWork, to: str, content: str, *, type: str, **fields: Any) -> Message:
    """Send a message of one of the shutdown types. It does what the verb would do (decision 6): a `shutdown_request`
    opens a request that its recipient can answer, an answer closes the request it answers.

    From the lead or a person a request asks its recipient to stop; from anybody else it announces the sender's own
    shutdown. An answer that names no request, where none is open, is only a message.

    Raises:
        as `mailbox.send`; RequestNotFound: the request named does not ask the sender, or several do and none is named.
    """
    before = sent_before(act, fields.get("client_id"))
    if before:
        return before[0]
    request_id, reason, approve = fields.pop("request_id", None), fields.get("reason"), fields.get("approve")
    if type == "shutdown_request" and request_id is None:
        name = recipient(act, to)[0]
        subject = name if act.leads else act.name
        if name != act.name:
            expire(act)
            same = [r for r in act.rows.requests.open() if (r.subject, r.asked_by) == (subject, act.name)]
            found = next((r for r in same if name in r.asked), None) or _open(act, subject, [name], reason)
            request_id = found.id
    elif type != "shutdown_request":
        approve = {"shutdown_approved": True, "shutdown_rejected": False}.get(type, approve)
        request_id = _answered(act, request_id, approve, reason, recipient(act, to)[0])
    return send(act, to, content, type=type, request_id=request_id, **fields)


def _answered(act: UnitOfWork, request_id: str | None, approve: bool | None, reason: str | None, to: str) -> str | None:
    """Close what the message answers; the id of the request."""
    if approve is None or (request_id is None and not _unanswered(act)):
        return request_id
    asked_by = _asking(act, request_id).asked_by
    # Who asked reads it in this very message, unless that goes to somebody else.
    closed = answer(act, request_id, approve=approve, reason=reason or "rejected", announce=asked_by != to)
    return closed.id


def _concerned(act: UnitOfWork) -> list[str]:
    """The lead, and every owner of a task that waits for one of the caller's."""
    names = [LEAD] if act.name != LEAD else []
    for task in act.rows.tasks.owned(act.name):
        for dependent in act.rows.graph.open_dependents(task.id):
            if dependent.owner not in (None, act.name, *names):
                names.append(str(dependent.owner))
    return names


def _asking(act: UnitOfWork, request_id: str | None) -> StopRequest:
    if request_id is not None:
        found = act.rows.requests.get(request_id)
        if found is None or act.name not in found.asked:
            raise RequestNotFound(f"No shutdown request {request_id!r} asks {act.name}.", request_id=request_id)
        if found.state != "open" and act.name not in found.answers:
            raise RequestNotFound(f"The shutdown request {request_id} is {found.state} already.", request_id=request_id)
        return found
    mine = _unanswered(act)
    if len(mine) != 1:
        which = ", ".join(r.id for r in mine)
        raise RequestNotFound(
            f"{len(mine)} open shutdown requests ask {act.name}; name one: {which}." if mine
            else f"{act.name} has no pending shutdown request.",
            candidates=[r.id for r in mine],
        )  # fmt: skip
    return mine[0]


def _unanswered(act: UnitOfWork) -> list[StopRequest]:
    """The open requests that wait for the actor."""
    return [r for r in act.rows.requests.open() if act.name in r.asked and act.name not in r.answers]


def _open(act: UnitOfWork, subject: str, asked: list[str], reason: str | None) -> StopRequest:
    made = StopRequest(
        id=f"shutdown-{act.clock.new_id()[-12:]}", subject=subject, asked_by=act.name, asked=asked, answers={},
        reason=reason, state="open" if asked else "granted", at=act.at,
        expires_at=act.later(act.settings.get("shutdown_timeout")),
    )  # fmt: skip
    act.rows.requests.insert(made)
    act.event("shutdown.requested", request=made.id, subject=subject, to=asked, reason=reason)
    if not asked:
        act.event("shutdown.granted", request=made.id)
    return made


def _state(found: StopRequest, answers: dict[str, Any]) -> str:
    if LEAD in answers and answers[LEAD]["approve"]:
        return "granted"
    if any(not given["approve"] for given in answers.values()):
        return "rejected"
    return "granted" if set(answers) == set(found.asked) else "open"


def expire(act: UnitOfWork) -> list[StopRequest]:
    """Close requests whose time is up, and tell who asked that nobody answered."""
    late = [found for found in act.rows.requests.open() if found.expires_at <= act.at]
    for found in late:
        silent = [name for name in found.asked if name not in found.answers]
        act.rows.requests.update(found, state="expired")
        act.event("shutdown.expired", request=found.id, waiting_for=silent)
        if act.rows.team.address(found.asked_by) is not None:
            send(
                act, found.asked_by,
                f"{', '.join(silent)} did not answer the shutdown request. "
                f"`interlock stop --now --member {found.subject}` ends {found.subject} without an answer.",
                type="message", request_id=found.id, notice=True, sender=SYSTEM,
                summary="shutdown request unanswered",
            )  # fmt: skip
    return late
