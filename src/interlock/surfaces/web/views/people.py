"""Members with what each is doing, and their messages as a conversation."""

from __future__ import annotations

from typing import Any

from interlock.model.message import Message
from interlock.model.names import HUMAN
from interlock.surfaces.web.visit import Visit

PER_PAGE = 60


def crew(visit: Visit) -> dict[str, Any]:
    """Members, those at work first."""
    found = visit.team.crew()
    return {
        "members": sorted(found, key=lambda one: (not one["tasks"], one["role"] != "lead")),
        "paused": visit.status["status"] == "paused",
    }


def member(visit: Visit) -> dict[str, Any]:
    """One member."""
    name = visit.params["member"]
    return {"member": next((one for one in visit.team.crew() if one["name"] == name), None), "name": name}


def mail(visit: Visit) -> dict[str, Any]:
    """The messages of the team, or to and from one member, a page at a time, the newest at the end."""
    who = visit.params.get("member") or visit.query.get("member") or None
    found = visit.team.history(member=who, limit=PER_PAGE + 1, before=visit.number("before"))
    shown = found[-PER_PAGE:]
    return {
        "entries": _entries(shown),
        "older": shown[0].n if len(found) > PER_PAGE else None,
        "newer": visit.number("before") is not None,
        "who": who,
        "unread": visit.status["unread"].get(visit.me, 0) if visit.may_act and not who else 0,
        "me": HUMAN,
    }


def write(visit: Visit) -> dict[str, Any]:
    """Whom one may write to."""
    names = [member.name for member in visit.team.members()]
    return {"names": names, "to": visit.params.get("member") or visit.query.get("member")}


def _entries(messages: list[Message]) -> list[dict[str, Any]]:
    """Messages as a reader sees them: what went to several at once once, what follows closely under one name."""
    found: list[dict[str, Any]] = []
    for message in messages:
        last = found[-1] if found else None
        same = last is not None and last["sender"] == message.sender and last["type"] == message.type
        if last is not None and same and message.type == "broadcast" and last["content"] == message.content:
            last["to"].append(message.recipient)
            last["waiting"] += not message.read
            continue
        follows = same and last is not None and last["to"] == [message.recipient] and _close(last["at"], message)
        found.append(
            {
                "n": message.n,
                "sender": message.sender,
                "to": [message.recipient],
                "type": message.type,
                "at": message.timestamp,
                "content": message.content,
                "summary": message.summary if message.summary and message.summary not in message.content else None,
                "waiting": int(not message.read),
                "urgent": message.urgent,
                "follows": follows,
            }
        )
    return found


def _close(at: str, message: Message) -> bool:
    """Whether it was sent within the same ten minutes by the clock: then it needs no heading of its own."""
    return at[:15] == message.timestamp[:15]
