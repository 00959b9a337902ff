"""Projects, and task groups: everything that was asked in one chat session (contract, HTTP)."""

from __future__ import annotations

import re
from dataclasses import field

from interlock.errors import InvalidRequest
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, fields_of
from interlock.model.task import FRONT_DOOR

SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
SHOWN = (
    "task_group_id=id session_id=id project_id task_count status_counts latest_status latest_task_id=latest_task "
    "first_prompt created_at updated_at"
).split()
CHAT = "task_id task_group_id=session_id session_id status".split()


@dataclass(slots=True, frozen=True)
class Project:
    """A team with a working directory, as the front door lists it."""

    id: str
    workdir: str | None
    created_at: str
    task_counts: dict[str, int]


@dataclass(slots=True, frozen=True)
class ChatResult:
    """The task that a chat message became; `status` is in the words of the front door."""

    task_id: str
    session_id: str
    status: str

    def as_dict(self) -> Json:
        """The contract's shape."""
        return fields_of(self, CHAT)


@dataclass(slots=True)
class Group:
    """One chat session with its tasks counted. `id` is the chat session's; `state_counts` leaves out empty states."""

    id: str
    created_at: str
    updated_at: str
    first_prompt: str
    latest_task: str | None = None
    latest_state: str | None = None
    task_count: int = 0
    state_counts: dict[str, int] = field(default_factory=dict)
    project_id: str = ""
    """Known to those who read the groups of several teams."""

    @property
    def status_counts(self) -> dict[str, int]:
        """Its tasks counted in the words of the front door."""
        counts: dict[str, int] = {}
        for state, count in self.state_counts.items():
            if count and state != "deleted":
                counts[FRONT_DOOR[state]] = counts.get(FRONT_DOOR[state], 0) + count
        return counts

    @property
    def latest_status(self) -> str | None:
        """Where its newest task is, in the same words."""
        return None if self.latest_state is None else FRONT_DOOR[self.latest_state]

    def as_dict(self) -> Json:
        """The contract's shape."""
        return fields_of(self, SHOWN)


def check_chat_session(value: object) -> str:
    """`value` as the id of a chat session: 1 to 128 of letters, digits and `. _ : @ -`, so that it stands in addresses.

    Raises:
        InvalidRequest: it is something else.
    """
    if not isinstance(value, str) or not SESSION_ID.fullmatch(value):
        raise InvalidRequest(
            "A chat session's id is 1 to 128 letters, digits and . _ : @ -, beginning with a letter or digit.",
            field="session_id",
        )
    return value
