"""A task group: everything that was asked in one chat session (contract, HTTP)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from interlock.errors import InvalidRequest
from interlock.model.json import Json
from interlock.model.task import FRONT_DOOR

SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")


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

    def as_dict(self, project: str) -> Json:
        """The contract's shape."""
        counts: dict[str, int] = {}
        for state, count in self.state_counts.items():
            if count and state != "deleted":
                counts[FRONT_DOOR[state]] = counts.get(FRONT_DOOR[state], 0) + count
        return {
            "task_group_id": self.id,
            "session_id": self.id,
            "project_id": project,
            "task_count": self.task_count,
            "status_counts": counts,
            "latest_status": None if self.latest_state is None else FRONT_DOOR[self.latest_state],
            "latest_task_id": self.latest_task,
            "first_prompt": self.first_prompt,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }


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
