"""A team and its members."""

from __future__ import annotations

from typing import NamedTuple

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, fields_of

TEAM = "name id lead_session_key settings status workdir created_at updated_at".split()
MEMBER = "name session_key role status agent type model current_task joined_at last_active_at".split()


@dataclass(slots=True)
class TeamRecord:
    """A team's own row. `day` and `day_count` number its tasks; `open_tasks` counts those not final; `landed` is the
    commit at which its integration branch was left last."""

    id: str
    name: str
    lead_session_key: str
    status: str
    workdir: str | None
    settings: Json
    created_at: str
    updated_at: str
    day: str
    day_count: int
    open_tasks: int
    runner: str | None
    landed: str | None = None

    def as_dict(self, members: list[Json]) -> Json:
        """The shape of `config.json` and of `team show`."""
        return {**fields_of(self, TEAM[:3]), "members": members, **fields_of(self, TEAM[3:])}


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

    def as_dict(self) -> Json:
        """The contract's shape."""
        return fields_of(self, MEMBER)

    def registration(self) -> Json:
        """What `config.json` says of a member: only what changes when members come and go."""
        return fields_of(self, ("name", "session_key", "role", "agent", "type", "model", "joined_at"))


class LedgerStart(NamedTuple):
    """What every transaction and snapshot begins with: the newest event, and the team's name, own settings and
    directory to work in."""

    head: int
    at: str
    team: str
    settings: Json
    workdir: str | None


class Outstanding(NamedTuple):
    """Of which kinds there is anything that a scheduler may have to see to, and after what time there will be.

    Attributes:
        requests: shutdown requests that are open.
        questions: open ones.
        by_hand: open runs that no runner drives.
        driven: open runs that one does.
        lapsed: open runs whose lease has ended.
        review: tasks in review.
        verifying: tasks in review whose check is under way.
        merging: tasks in review whose branch is to be merged.
        kept: living sessions that runners hold.
        ready_after: when the next ready task may be claimed of those that wait for a time.
    """

    requests: bool
    questions: bool
    by_hand: bool
    driven: bool
    lapsed: bool
    review: bool
    verifying: bool
    merging: bool
    kept: bool
    ready_after: str | None


class ActingMember(NamedTuple):
    """A member that acts, as it was found."""

    name: str
    role: str
    status: str
    agent: str | None
    known: bool
    """Whether its session had begun and not ended."""
    delivered: bool
    """Whether mail was delivered to that session which it has not acknowledged."""


@dataclass(slots=True, frozen=True)
class TeamOverview:
    """A team with its members, the lead first, and how many tasks are in each state."""

    team: TeamRecord
    members: list[Member]
    task_counts: dict[str, int]

    def as_dict(self) -> Json:
        """The contract's shape: that of `config.json`, with `task_counts`."""
        return {**self.team.as_dict([one.as_dict() for one in self.members]), "task_counts": self.task_counts}
