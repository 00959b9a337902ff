"""The shutdown handshake: somebody is asked to stop, or announces that they will, and those concerned answer.

A request has an id, those asked, their answers and a time limit. `request M` asks M. Without M the caller announces
its own shutdown to the lead and to every owner of a task that waits for one of the caller's; the lead's approval, or
all of theirs, grants it (decision 6). Silence is reported, never taken for a yes.
"""

from __future__ import annotations

from typing import Any

from interlock.errors import Forbidden, RequestNotFound
from interlock.mailbox import recipient, send
from interlock.model.names import LEAD, check_text
from interlock.sessions import Act

REASON_LIMIT = 2000


def request(act: Act, member: str | None = None, *, reason: str | None = None) -> dict[str, Any]:
    """Ask `member` to shut down, or announce the caller's own shutdown. The same open request is not made twice.

    Returns:
        The request: id, subject, asked_by, asked, answers, reason, state, at, expires_at.

    Raises:
        RecipientNotFound: nobody of that name.
        Forbidden: a plain member asks another to stop.
    """
    if reason is not None:
        check_text(reason, "reason", limit=REASON_LIMIT)
    expire(act)
    subject = act.name if member is None else recipient(act, member)[0]
    if subject != act.name and not act.leads:
        raise Forbidden("Only the lead or a human may ask another member to shut down.", member=subject)
    for open_request in act.rows.requests.open():
        if open_request["subject"] == subject and open_request["asked_by"] == act.name:
            return open_request
    asked = [subject] if subject != act.name else _concerned(act)
    made: dict[str, Any] = {
        "id": f"shutdown-{act.clock.new_id()[:8]}",
        "subject": subject,
        "asked_by": act.name,
        "asked": asked,
        "answers": {},
        "reason": reason,
        "state": "open" if asked else "granted",
        "at": act.at,
        "expires_at": act.later(act.settings.get("shutdown_timeout")),
    }
    act.rows.requests.insert(made)
    act.event("shutdown.requested", request=made["id"], subject=subject, to=asked, reason=reason)
    if not asked:
        act.event("shutdown.granted", request=made["id"])
    text = (
        f"Please finish or release your tasks and shut down.{f' Reason: {reason}' if reason else ''}"
        if subject != act.name
        else f"{subject} is going to shut down.{f' Reason: {reason}' if reason else ''}"
    )
    for name in asked:
        send(
            act, name, text + " Answer with `interlock shutdown approve`, or `reject --reason …`.",
            type="shutdown_request", request_id=made["id"], reason=reason, summary=f"shutdown of {subject}",
        )  # fmt: skip
    return made


def answer(
    act: Act, request_id: str | None, *, approve: bool, reason: str | None = None, announce: bool = True
) -> dict[str, Any]:
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
    if act.name in found["answers"]:
        return found
    answers = {**found["answers"], act.name: {"approve": approve, "reason": reason, "at": act.at}}
    state = _state(found, answers)
    act.rows.requests.update(found["id"], answers=answers, state=state)
    act.event("shutdown.answered", request=found["id"], by=act.name, approve=approve, reason=reason)
    if state == "granted":
        act.event("shutdown.granted", request=found["id"])
    elif state == "rejected":
        act.event("shutdown.rejected", request=found["id"], reason=reason)
    if announce and found["asked_by"] != act.name:
        word = "agrees to" if approve else "rejects"
        send(
            act,
            found["asked_by"],
            f"{act.name} {word} the shutdown of {found['subject']}.{f' {reason}' if reason else ''}",
            type="shutdown_response", request_id=found["id"], approve=approve, reason=reason,
        )  # fmt: skip
    return {**found, "answers": answers, "state": state}


def closed_by_message(act: Act, type: str, request_id: str | None, reason: str | None) -> None:
    """A `shutdown_approved` or `shutdown_rejected` sent as a message closes the request alike."""
    if type in ("shutdown_approved", "shutdown_rejected"):
        answer(act, request_id, approve=type == "shutdown_approved", reason=reason or "rejected", announce=False)


def expire(act: Act) -> list[dict[str, Any]]:
    """Close requests whose time is up, and tell who asked that nobody answered."""
    late = [found for found in act.rows.requests.open() if found["expires_at"] <= act.at]
    for found in late:
        silent = [name for name in found["asked"] if name not in found["answers"]]
        act.rows.requests.update(found["id"], state="expired")
        act.event("shutdown.expired", request=found["id"], waiting_for=silent)
        if act.rows.team.address(found["asked_by"]) is not None:
            send(
                act, found["asked_by"],
                f"{', '.join(silent)} did not answer the shutdown request. "
                f"`interlock stop --now --member {found['subject']}` ends {found['subject']} without an answer.",
                type="message", request_id=found["id"], notice=True, summary="shutdown request unanswered",
            )  # fmt: skip
    return late


def _concerned(act: Act) -> list[str]:
    """The lead, and every owner of a task that waits for one of the caller's."""
    names = [LEAD] if act.name != LEAD else []
    for task in act.rows.tasks.owned(act.name):
        for dependent in act.rows.graph.open_dependents(task.id):
            if dependent.owner not in (None, act.name, *names):
                names.append(str(dependent.owner))
    return names


def _asking(act: Act, request_id: str | None) -> dict[str, Any]:
    if request_id is not None:
        found = act.rows.requests.get(request_id)
        if found is None or act.name not in found["asked"]:
            raise RequestNotFound(f"No shutdown request {request_id!r} asks {act.name}.", request_id=request_id)
        if found["state"] != "open" and act.name not in found["answers"]:
            raise RequestNotFound(
                f"The shutdown request {request_id} is {found['state']} already.", request_id=request_id
            )
        return found
    mine = [r for r in act.rows.requests.open() if act.name in r["asked"] and act.name not in r["answers"]]
    if len(mine) != 1:
        which = ", ".join(r["id"] for r in mine)
        raise RequestNotFound(
            f"{len(mine)} open shutdown requests ask {act.name}; name one: {which}." if mine
            else f"No open shutdown request asks {act.name}.",
            candidates=[r["id"] for r in mine],
        )  # fmt: skip
    return mine[0]


def _state(found: dict[str, Any], answers: dict[str, Any]) -> str:
    if LEAD in answers and answers[LEAD]["approve"]:
        return "granted"
    if any(not given["approve"] for given in answers.values()):
        return "rejected"
    return "granted" if set(answers) == set(found["asked"]) else "open"
