"""What a runner sees at one look at the ledger, of one moment: all that one of its turns rests on.

The turn plans by it alone. Whatever it leads to asks again, in its own transaction, whether that still holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from interlock.core.tasks import claim
from interlock.core.tasks import review as reviewers
from interlock.gitwork.isolation import Isolation
from interlock.lazy_dataclass import dataclass
from interlock.model.run import Run
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.model.worker import WorkerRecord
from interlock.runner.context import RunnerContext
from interlock.runner.scheduler import Remains
from interlock.settings import Settings
from interlock.storage.ledger import Rows

LOST = frozenset({"reclaimed", "cancelled", "deleted", "superseded", "expired"})
"""Outcomes of a run whose task was taken away from it."""


@dataclass(frozen=True, slots=True)
class Claimable:
    """What a member may claim: the task that it would get, or review."""

    task_id: str
    review: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamPicture:
    """One moment of a team, as its runner sees it.

    Attributes:
        worker: how the ledger lists this process.
        spent: what runs used since this one began, where it has limits.
        members: those with an agent, for whom it may work.
        stopped: the names of those whose shutdown was granted.
        current: the tasks at work here, as they are now.
        lost: the members whose run was taken away.
        nothing_left: whether this runner may end: nobody is at work in it, and nothing proceeds without a person.
        offers: what the members that are free may claim.
        mail: those of them whose mail deserves a turn of its own.
        later: times after which more may be ready.
    """

    settings: Settings
    isolation: Isolation
    worker: WorkerRecord | None
    spent: Mapping[str, float]
    members: Mapping[str, Member]
    stopped: Collection[str]
    current: Collection[Task]
    nothing_left: bool
    lost: Collection[str]
    offers: Mapping[str, Claimable]
    mail: Collection[str]
    remains: Remains
    later: Collection[str]


def driven(everybody: Iterable[Member], own: Collection[str] | None) -> dict[str, Member]:
    """Those with an agent, of the members named `own`, by name."""
    return {m.name: m for m in everybody if m.role == "member" and m.agent and (own is None or m.name in own)}


def offers(
    rows: Rows, free: Iterable[Member], open_runs: Sequence[Run], settings: Settings, now: str, context: RunnerContext,
    in_review: Sequence[Task],
) -> dict[str, Claimable]:  # fmt: skip
    """What each of the `free` members may claim now, by name."""
    found = {}
    for member in free:
        if not claim.is_free(member, open_runs, settings):
            continue
        # What waits for a verdict comes first: the work itself is done already.
        task = next(iter(reviewers.waiting_for(rows, member.name, in_review)), None)
        review = task is not None
        task = task or rows.tasks.next_ready(
            member.name, shell=member.agent == "shell", now=now, labels=context.labels, only=context.config.only
        )
        if task is not None:
            found[member.name] = Claimable(task.id, review)
    return found
