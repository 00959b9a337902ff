"""A team and its members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Team:
    """A team's own row. `day` and `day_count` number its tasks; `open_tasks` counts those not final."""

    id: str
    name: str
    lead_session_key: str
    status: str
    workdir: str | None
    settings: dict[str, Any]
    created_at: str
    updated_at: str
    day: str
    day_count: int
    open_tasks: int
    runner: str | None

    def as_dict(self, members: list[dict[str, Any]]) -> dict[str, Any]:
        """The shape of `config.json` and of `team show`."""
        return {
            "name": self.name,
            "id": self.id,
            "lead_session_key": self.lead_session_key,
            "members": members,
            "settings": dict(self.settings),
            "status": self.status,
            "workdir": self.workdir,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }


@dataclass(slots=True)
class Member:
    """Somebody who takes part. `role` is lead, member or person; a person does not count as a member.

    `env` names the variables that its programs may see of the runner's environment, beyond those of a task.
    """

    name: str
    session_key: str
    inbox: str
    role: str
    agent: str | None
    command: list[str] | None
    type: str | None
    model: str | None
    permissions: str | None
    status: str
    unread: int
    session: str | None
    joined_at: str
    last_active_at: str | None
    current_task: str | None = None
    env: list[str] | None = None
    limits: dict[str, float] | None = None
    """What it may use in all: `turns`, `tokens`, `cost_usd`, `time` (seconds)."""

    def as_dict(self) -> dict[str, Any]:
        """The contract's shape."""
        return {
            "name": self.name,
            "session_key": self.session_key,
            "role": self.role,
            "status": self.status,
            "agent": self.agent,
            "type": self.type,
            "model": self.model,
            "current_task": self.current_task,
            "joined_at": self.joined_at,
            "last_active_at": self.last_active_at,
        }

    def registration(self) -> dict[str, Any]:
        """What `config.json` says of a member: only what changes when members come and go."""
        return {
            "name": self.name,
            "session_key": self.session_key,
            "role": self.role,
            "agent": self.agent,
            "type": self.type,
            "model": self.model,
            "joined_at": self.joined_at,
        }
