"""Mail between members: stored in the ledger for good, shown in `inbox/<member>/messages.jsonl` until handed over.

Promises: a message that was sent is in the ledger or the sender has an error; an unknown recipient is an error, never
a new inbox; what was handed over but maybe not seen is handed over again, marked; nothing is dropped because an inbox
is full. Handing over takes two commits: *offered* before a byte is printed, *delivered* after the last (decision 5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

from interlock.clock import seconds
from interlock.core.unit_of_work import UnitOfWork, acknowledged, add_person, requeue
from interlock.errors import InboxFull, InvalidRequest, MessageTooLarge, RecipientNotFound
from interlock.model.handover import READ_COUNT, fitting
from interlock.model.json import Json
from interlock.model.message import TYPES, UNLIMITED, Broadcast, Message, MessageFields
from interlock.model.names import HUMAN, check_metadata, check_storable, check_text
from interlock.storage.ledger import Rows

OFFER_LIFE = 60.0
"""Seconds after which an offer by a process that still lives counts as given up."""

SUMMARY_LIMIT = 500
REASON_LIMIT = 10_000
CLIENT_ID_LIMIT = 200
NOTICE_LIMIT = 20_000
NOTICE = {"notice": True}
"""The metadata of Interlock's own notices, by which a runner knows that they are worth no prompt of their own."""
IN_HAND = ("offered", "delivered")
UNSAID: Json = {**dict.fromkeys(MessageFields.__annotations__), "type": "message", "urgent": False}
"""What a message says where nothing else is given."""
MAY_BE_EMPTY = UNLIMITED | {"idle"}
"""Types that say something by their type alone."""


def send(
    act: UnitOfWork,
    to: str,
    content: str,
    *,
    notice: bool = False,
    sender: str | None = None,
    **given: Unpack[MessageFields],
) -> Message:
    """Store one message. With a `client_id` that this sender used before, answer the first one again.

    `notice`: one of Interlock's own, which reaches a full inbox too and is as long as it has to be. `sender`: who it
    comes from; the actor by default.

    Raises:
        RecipientNotFound: nobody of that name; names the nearest.
        MessageTooLarge: content above `message_bytes`.
        InboxFull: the recipient has `inbox_limit` unread messages.
        InvalidRequest: not text, empty, or an unknown type.
    """
    fields: Json = {**UNSAID, **given}
    _check(act, content, fields["type"], fields["summary"], fields["reason"], notice)
    unlimited = fields["type"] in UNLIMITED
    before = sent_before(act, fields["client_id"])
    if before:
        return before[0]
    fields["urgent"] = fields["urgent"] or unlimited
    fields["metadata"] = None if fields["metadata"] is None else check_metadata(fields["metadata"])
    return _store(act, sender or act.name, recipient(act, to), content, fields, unlimited=notice or unlimited)


def sent_before(act: UnitOfWork, client_id: str | None) -> list[Message]:
    """What the actor sent under that id of its own; nothing without one.

    Raises:
        InvalidRequest: the id is no text of at most 200 characters.
    """
    if client_id is None:
        return []
    return act.rows.messages.by_client_id(
        act.name, check_text(client_id, "client_id", limit=CLIENT_ID_LIMIT, required=True)
    )


def notify(act: UnitOfWork, to: str | None, content: str, *, type: str = "message", summary: str | None = None) -> None:
    """One of Interlock's own notices; never to the member whose own act caused it, nor to nobody.

    It is cut where it is too long: a notice must not make the verb fail that caused it.
    """
    if to is not None and to != act.name and (to == HUMAN or act.rows.team.address(to) is not None):
        summary = None if summary is None else summary[:SUMMARY_LIMIT]
        send(act, to, content[:NOTICE_LIMIT], type=type, summary=summary, notice=True, metadata=dict(NOTICE))


def broadcast(
    act: UnitOfWork, content: str, *, summary: str | None = None, urgent: bool = False, client_id: str | None = None
) -> Broadcast:
    """Send to every member but the sender; people get it only when named."""
    _check(act, content, "broadcast", summary, None, False)
    reached = {message.recipient for message in sent_before(act, client_id)}
    fields = {**UNSAID, "type": "broadcast", "summary": summary, "urgent": urgent, "client_id": client_id}
    delivered: list[str] = []
    refused: list[Json] = []
    for member in act.rows.team.members():
        if member.name == act.name or member.role == "person":
            continue
        if member.name not in reached:
            try:
                _store(act, act.name, (member.name, member.unread), content, fields, unlimited=False)
            except InboxFull as error:
                refused.append({"member": member.name, "error": error.code, "message": error.message})
                continue
        delivered.append(member.name)
    return Broadcast(delivered, refused)


def waits(rows: Rows, member: str, now: float, alive: Callable[[str], bool | None], urgent_only: bool) -> bool:
    """Whether that member has mail that may be handed over now."""
    return bool(_free(rows, member, now, alive, 1, urgent_only))


def offer(
    act: UnitOfWork,
    process: str,
    alive: Callable[[str], bool | None],
    *,
    count: int,
    size: int,
    urgent_only: bool = False,
    earlier: str = "seen",
) -> list[Message]:
    """First half of handing mail to the act's session: mark it as offered by `process`.

    `earlier` is what became of the mail that this session was given before: at a boundary of a turn it was `seen`; in
    the middle of one that is `unknown`; a reader that says itself what it has seen is given the rest `again`.

    What another living process is handing over just now is left to it; what a dead one began is taken over.
    """
    if earlier == "again":
        requeue(act, "not_acknowledged")
    elif earlier == "seen":
        acknowledged(act)
    free = _free(act.rows, act.name, act.clock.now(), alive, count, urgent_only)
    chosen = free[: fitting((len(message.content) for message in free), size)]
    if chosen:
        act.rows.messages.offer(act.name, [message.n for message in chosen], act.session, process, act.at)
        for message in chosen:
            message.stage, message.attempt, message.session = "offered", message.attempt + 1, act.session
        again = [message.id for message in chosen if message.redelivered]
        act.event(
            "message.offered", to=act.name, session=act.session, ids=[message.id for message in chosen], again=again
        )
    return chosen


def deliver(act: UnitOfWork, numbers: Sequence[int]) -> list[str]:
    """Second half: everything was printed. Answers the ids of what was still this session's to hand over."""
    ids = act.rows.messages.deliver(act.name, numbers, act.session, act.at)
    if ids:
        act.event("message.delivered", to=act.name, session=act.session, ids=ids)
    return ids


def arrived(act: UnitOfWork) -> None:
    """Second half where the act's session shows by itself that it has what it was offered: all that it was."""
    waiting = act.rows.messages.undelivered(act.name)
    deliver(act, [one.n for one in waiting if (one.stage, one.session) == ("offered", act.session)])


def give_back(act: UnitOfWork, numbers: Sequence[int], reason: str) -> None:
    """The handing over failed (the reader is gone), or nobody can tell that it was seen: offer the messages again.

    Only what this session still has in hand: another one may have taken them up meanwhile.
    """
    held = [
        message.n
        for message in act.rows.messages.numbered(numbers)
        if message.recipient == act.name and message.stage in IN_HAND and message.session == act.session
    ]
    requeue(act, reason, numbers=held)


def acknowledge(act: UnitOfWork, ids: Sequence[str]) -> list[str]:
    """Mark these messages of the actor as seen; answers those that are, also where this was said before. What was never
    handed over, or is nobody's of that id, is not among them.

    Raises:
        InvalidRequest: `ids` is no list of texts.
    """
    if isinstance(ids, str) or len(ids) > READ_COUNT or not all(isinstance(one, str) for one in ids):
        raise InvalidRequest(f"ids must be a list of at most {READ_COUNT} message ids.", field="ids")
    for one in ids:
        check_storable(one, "ids")
    seen = act.rows.messages.acknowledge_ids(act.name, ids, act.at)
    if seen:
        act.event("message.acknowledged", to=act.name, session=act.session, ids=seen)
        act.topics.add(f"inbox:{act.name}")
    return act.rows.messages.seen(act.name, ids)


def recipient(act: UnitOfWork, to: str) -> tuple[str, int]:
    """(name, unread) of whom `to` names: a member by name or session key, `lead`, `human` or a person.

    Raises:
        RecipientNotFound: nobody; `suggestion` holds the nearest name.
    """
    found = act.rows.team.address(to) if isinstance(to, str) else None
    if found is None and to == HUMAN:
        add_person(act, HUMAN)
        found = act.rows.team.address(HUMAN)
    if found is None:
        from difflib import get_close_matches

        names = [*act.rows.team.names(), HUMAN]
        near = get_close_matches(str(to).lower(), names, cutoff=0.5)
        hint = f" Did you mean {near[0]}?" if near else f" Members: {', '.join(dict.fromkeys(names))}."
        raise RecipientNotFound(
            f"Nobody here is called {str(to)[:80]!r}; nothing was sent.{hint}",
            recipient=str(to)[:200],
            suggestion=near[0] if near else None,
        )
    return found[0], found[3]


def _store(act: UnitOfWork, sender: str, to: tuple[str, int], content: str, said: Json, *, unlimited: bool) -> Message:
    """Store what was `said` beside the content, for `to` as `recipient` answers it."""
    name, unread = to
    if not unlimited:
        limit = act.settings.get("inbox_limit")
        if unread >= limit:
            raise _full(name, limit)
    client_id, fields = said["client_id"], {key: value for key, value in said.items() if key != "client_id"}
    message = Message(
        n=0, id=act.clock.new_id(), sender=sender, recipient=name, content=content, timestamp=act.at, stage="stored",
        attempt=0, session=None, **fields,
    )  # fmt: skip
    act.rows.messages.insert(message, client_id)
    act.event("message.sent", id=message.id, n=message.n, to=name, type=message.type)
    act.topics.add(f"inbox:{name}")
    return message


def _free(
    rows: Rows, member: str, now: float, alive: Callable[[str], bool | None], count: int, urgent_only: bool
) -> list[Message]:
    living: dict[str, bool | None] = {}

    def in_other_hands(process: str, offered_at: str) -> bool:
        if process not in living:
            living[process] = alive(process)
        # A clock that was set back must not keep mail from its recipient.
        return living[process] is not False and 0 <= now - seconds(offered_at) < OFFER_LIFE

    looked_at = count + 50
    while True:
        found = rows.messages.offerable(member, looked_at, urgent_only)
        free = [
            message
            for message, process, offered_at in found
            if message.stage != "offered" or not in_other_hands(process, offered_at)
        ]
        if len(free) >= count or len(found) < looked_at:
            break
        looked_at *= 4  # What others are handing over just now stands in front.
    # Urgent mail overtakes, but only mail that is waiting: order within each kind is the order of sending.
    free.sort(key=lambda message: (not message.urgent, message.n))
    return free[:count]


def _check(act: UnitOfWork, content: str, type: str, summary: str | None, reason: str | None, notice: bool) -> None:
    if not isinstance(content, str):
        raise InvalidRequest("content must be text.", field="content")
    check_storable(content, "content")
    if type not in TYPES:
        raise InvalidRequest(f"There is no message type {type!r}. Use one of: {', '.join(TYPES)}.", field="type")
    if not content.strip() and type not in MAY_BE_EMPTY:
        raise InvalidRequest("content is required and must not be empty.", field="content")
    size = len(content.encode("utf-8"))
    limit = act.settings.get("message_bytes")
    if size > limit and not notice:
        raise MessageTooLarge(
            f"The message has {size} bytes, over the size limit of {limit}. Put the text into a file and send "
            "its path, or raise the setting message_bytes.",
            size=size,
            limit=limit,
            setting="message_bytes",
        )
    for field, text, longest in (("summary", summary, SUMMARY_LIMIT), ("reason", reason, REASON_LIMIT)):
        if text is not None:
            check_text(text, field, limit=longest)


def _full(name: str, limit: int) -> InboxFull:
    return InboxFull(
        f"The inbox of {name} holds {limit} unread messages and takes no more; nothing was sent. Wait until {name} has "
        "read some, or raise the setting inbox_limit.",
        member=name,
        limit=limit,
        setting="inbox_limit",
    )
