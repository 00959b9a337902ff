"""A message, its types and the stages of its delivery (decisions 5 and 6).

stored ──> offered ──> delivered ──> acknowledged
   ^          │            │
   └──────────┴────────────┘   the process died, or a new session of the recipient began: offered again, marked
"""

from __future__ import annotations

from typing import Annotated, TypedDict

from interlock.lazy_dataclass import dataclass
from interlock.model.handover import teammate_message
from interlock.model.json import Json, fields_of

TYPES = (
    "message", "plain", "broadcast", "task_assignment", "shutdown_request", "shutdown_response", "shutdown_approved",
    "shutdown_rejected", "idle",
)  # fmt: skip
UNLIMITED = frozenset(type for type in TYPES if type.startswith("shutdown_"))
"""Types that reach an inbox however full it is."""


SHOWN = (
    "id sender to=recipient type content summary timestamp read stage request_id approve reason metadata redelivered"
).split()


class MessageFields(TypedDict, total=False):
    """What may be said with a message beside its recipient and content. What agents may say has words for them, or the
    values that it takes."""

    type: Annotated[str, TYPES]
    summary: Annotated[str | None, "A few words"]
    urgent: bool
    request_id: Annotated[str | None, "The shutdown request you answer; default: the only one"]
    approve: Annotated[bool | None, "Your answer to it"]
    reason: Annotated[str | None, "Why"]
    metadata: Json | None
    client_id: Annotated[str | None, "Your own id: sending it again sends nothing twice"]


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


@dataclass(slots=True, frozen=True)
class Broadcast:
    """Whom a message to everybody reached, and whom not, each `{member, error, message}`."""

    delivered: list[str]
    not_delivered: list[Json]


def as_xml(message: Message) -> str:
    """The block a hook puts before an agent's prompt (TEAM-3.xml)."""
    return teammate_message(
        message.sender, message.type, message.content,
        summary=message.summary, request_id=message.request_id, approve=message.approve, reason=message.reason,
        redelivered=message.redelivered,
    )  # fmt: skip
