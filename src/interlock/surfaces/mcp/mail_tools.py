"""Mail: send, read, wait; and the shutdown handshake, which is spoken in messages."""

from __future__ import annotations

from typing import Any

from interlock.app.mail import Mail
from interlock.errors import InvalidRequest
from interlock.model.message import TYPES
from interlock.surfaces.mcp.tool import Call, Tool, choice, flag, number, text

LONGEST_POLL_MS = 600_000
ANSWERS = {"shutdown_approved": True, "shutdown_rejected": False}


def _send(call: Call) -> dict[str, Any]:
    type = call.get("type", "message")
    if type == "shutdown_request":
        return call.connection.team.request_shutdown(call.get("recipient"), reason=_reason(call))
    if type == "shutdown_response" or type in ANSWERS:
        return _answer(call, type)
    if "content" not in call.arguments:
        raise InvalidRequest(f"send_message needs content for the type {type}.", field="content")
    if type == "broadcast":
        if "recipient" in call.arguments:
            raise InvalidRequest(
                "A broadcast goes to every other member and takes no recipient; leave recipient or type out.",
                field="recipient",
            )
        return call.connection.team.broadcast(content=call["content"], **call.given("summary", "client_id"))
    if "recipient" not in call.arguments:
        raise InvalidRequest(
            f"recipient is required for the type {type}; use type=broadcast to reach everybody.", field="recipient"
        )
    message = call.connection.team.send(
        to=call["recipient"],
        type=type,
        **call.given("content", "summary", "request_id", "approve", "reason", "client_id"),
    )
    return message.as_dict()


def _answer(call: Call, type: str) -> dict[str, Any]:
    approve = call.get("approve", ANSWERS.get(type))
    if approve is None or approve is not ANSWERS.get(type, approve):
        raise InvalidRequest(f"approve must say true or false in a {type}, and fit it.", field="approve")
    return call.connection.team.answer_shutdown(call.get("request_id"), approve=approve, reason=_reason(call))


def _reason(call: Call) -> str | None:
    reason: str | None = call.get("reason", call.get("content"))
    return reason


def _read(call: Call) -> dict[str, Any]:
    assert call.handover is not None
    return _shown(call.handover.begin(call.connection.team.mail()))


def _poll(call: Call) -> dict[str, Any]:
    assert call.handover is not None
    team = call.connection.team
    milliseconds = call.get("timeout_ms")
    seconds = float(team.setting("wait_timeout")[0]) if milliseconds is None else milliseconds / 1000
    return _shown(call.handover.begin(team.mail(wait=seconds)))


def _shown(mail: Mail) -> dict[str, Any]:
    return {"messages": [message.as_dict() for message in mail.messages], "timed_out": mail.timed_out}


NOTHING_CAME: dict[str, Any] = {"messages": [], "timed_out": True}
"""What a poll answers that was ended because the connection closes."""


TOOLS = (
    Tool(
        "send_message",
        "Send a message to a member, `lead` or `human`; type=broadcast reaches every other member. "
        "type=shutdown_request asks recipient to stop or, without one, announces that you will. Answer such a request "
        "with type=shutdown_response and approve, plus reason when you refuse.",
        _send,
        {
            "type": choice(*TYPES),
            "recipient": text("Member name, session key, lead or human"),
            "content": text("At most 100 KB"),
            "summary": text("A few words"),
            "request_id": text("The shutdown request you answer; default: the only one"),
            "approve": flag(),
            "reason": text(),
            "client_id": text("Your own id: sending it again sends nothing twice"),
        },
    ),
    Tool(
        "read_inbox",
        "Get your unread messages and mark them read. Use it when a result says that there are some, and between "
        "tasks. redelivered=true: you may have seen it before.",
        _read,
        hands_over=True,
    ),
    Tool(
        "poll_inbox",
        "Wait for messages: answers as soon as there are some, with timedOut=true when none came in time. Use it when "
        "you have nothing else to do; call it again to go on waiting.",
        _poll,
        {"timeout_ms": number(0, LONGEST_POLL_MS, "default 30000")},
        hands_over=True,
        waits=True,
    ),
)
