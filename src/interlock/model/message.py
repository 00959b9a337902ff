"""A message, its types and the stages of its delivery (decisions 5 and 6).

stored ──> offered ──> delivered ──> acknowledged
   ^          │            │
   └──────────┴────────────┘   the process died, or a new session of the recipient began: offered again, marked
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from interlock.model.json import Json, fields_of

TYPES = (
    "message", "plain", "broadcast", "task_assignment", "shutdown_request", "shutdown_response", "shutdown_approved",
    "shutdown_rejected", "idle",
)  # fmt: skip
UNLIMITED = frozenset(type for type in TYPES if type.startswith("shutdown_"))
"""Types that reach an inbox however full it is."""

STAGES = ("stored", "offered", "delivered", "acknowledged")


SHOWN = (
    "id sender to=recipient type content summary timestamp read stage request_id approve reason metadata redelivered"
).split()


class MessageFields(TypedDict, total=False):
    """What may be said with a message beside its recipient and content. `client_id` is the sender's own: a repeated
    send with it is harmless."""

    type: str
    summary: str | None
    urgent: bool
    request_id: str | None
    approve: bool | None
    reason: str | None
    metadata: Json | None
    client_id: str | None


@dataclass(slots=True)
class Message:
    """One message to one recipient. `n` is its place in the team's mail; times are ISO 8601 UTC."""

    n: int
    id: str
    sender: str
    recipient: str
    type: str
    content: str
    summary: str | None
    timestamp: str
    stage: str
    attempt: int
    session: str | None
    request_id: str | None
    approve: bool | None
    reason: str | None
    metadata: Json | None
    urgent: bool

    @property
    def read(self) -> bool:
        """Whether it was handed over to its recipient (CORE-FR-006)."""
        return self.stage in ("delivered", "acknowledged")

    @property
    def redelivered(self) -> bool:
        """Whether it may have been seen before."""
        return self.attempt > 1

    def as_dict(self) -> Json:
        """The contract's shape, the same in `messages.jsonl`."""
        return {**fields_of(self, SHOWN), "metadata": self.metadata or {}}


def as_xml(message: Message) -> str:
    """The block a hook puts before an agent's prompt (TEAM-3.xml). Everything from the message is escaped, so it can
    neither close its own tag nor forge another (decision 9)."""
    attributes = [("teammate_id", message.sender), ("type", message.type)]
    if message.summary is not None:
        attributes.append(("summary", message.summary))
    if message.request_id is not None:
        attributes.append(("request_id", message.request_id))
    if message.approve is not None:
        attributes.append(("approve", "true" if message.approve else "false"))
    if message.reason is not None:
        attributes.append(("reason", message.reason))
    if message.redelivered:
        attributes.append(("redelivered", "true"))
    inside = "".join(f'\n  {name}="{escaped_attribute(value)}"' for name, value in attributes)
    return f"<teammate-message{inside}>\n{escaped(message.content)}\n</teammate-message>\n"


def escaped(text: str) -> str:
    """`text` for XML content; a parser gives back the same, but characters XML forbids become U+FFFD."""
    text = (
        text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace('"', "&quot;")
        .replace("'", "&apos;")
        .replace("\r", "&#13;")  # a bare one would be read as a line feed
    )
    if text.isprintable():
        return text
    return "".join(
        c if c in "\n\t" or (c >= " " and c not in _FORBIDDEN) else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def escaped_attribute(text: str) -> str:
    """`text` for a double-quoted XML attribute, where bare line feeds and tabs would be read as blanks."""
    return escaped(text).replace("\n", "&#10;").replace("\t", "&#9;")


_FORBIDDEN = "\ufffe\uffff"
