"""PORT, the part of `ledger` that is about work: tasks, who waits for whom, and attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from interlock.model.artifact import Artifact
from interlock.model.task import Run, Task


class TaskRows(Protocol):
    """Tasks and their Work Logs."""

    def insert(self, task: Task) -> int:
        """Store a new task and answer its `n`; `n` and `rank` of `task` are set to it."""

    def update(self, task: Task, **changes: Any) -> None:
        """Write these fields, in the row and in `task`."""

    def get(self, task_id: str) -> Task | None:
        """The task with exactly that id."""

    def ids_ending(self, suffix: str, limit: int) -> list[str]:
        """Ids that end in `-<suffix>`, the newest first."""

    def by_plan_key(self, key: str) -> Task | None:
        """The newest task made from that key of a plan."""

    def planned(self) -> list[Task]:
        """The newest task of each plan key."""

    def select(
        self,
        *,
        states: Iterable[str] | None = None,
        owner: str | None = None,
        limit: int | None = None,
        after: int = 0,
        before: int | None = None,
    ) -> list[Task]:
        """Tasks in order of creation; `states` none means all but deleted ones, `after` is an `n` to go on from.

        With `before`, an `n`, the newest below it come first.
        """

    def next_ready(self, member: str, *, shell: bool | None, now: str) -> Task | None:
        """The ready task that `member` should take: most urgent, then oldest. `shell`: only tasks with (or without)
        a command of their own. One that waits in the queue of workflows is passed over."""

    def ready(self, limit: int) -> list[Task]:
        """The ready queue in its order."""

    def ready_after(self, now: str) -> str | None:
        """The earliest `not_before` after `now` among ready tasks."""

    def owned(self, member: str) -> list[Task]:
        """Tasks that member holds now."""

    def verifying(self) -> list[Task]:
        """Tasks whose verify is under way, or was when its process ended."""

    def merging(self) -> list[Task]:
        """Tasks whose branch waits for its merge or is being merged, or was when the process ended."""

    def worktrees(self) -> list[Task]:
        """Tasks that were begun in a worktree of their own, whatever their state; also where that is gone by now."""

    def baseline(self, tree: str, setup: str, command: str) -> tuple[bool | None] | None:
        """Whether that check failed on that tree before anybody worked on it, null where it came to no end; null
        altogether where it was not run."""

    def baselined(self, tree: str, setup: str, command: str, red: bool | None, at: str) -> None:
        """Store it."""

    def current(self) -> dict[str, str]:
        """For each owner the task in progress it took last."""

    def counts(self) -> dict[str, int]:
        """How many tasks are in each state."""

    def add_log(self, task_id: str, at: str, author: str, text: str) -> None:
        """Append a Work Log line."""

    def log(self, task_id: str) -> list[tuple[str, str, str]]:
        """The Work Log as (at, author, text)."""


class GraphRows(Protocol):
    """Who waits for whom. Edges outlive completion."""

    def add(self, blocker: str, blocked: str, by: str | None = None) -> bool:
        """Store an edge and who made it; false where it stood already."""

    def maker(self, blocker: str, blocked: str) -> str | None:
        """Who made that edge; null where there is none."""

    def remove(self, blocker: str, blocked: str) -> bool:
        """Drop an edge; false where there was none."""

    def blockers(self, task_id: str) -> list[tuple[str, str]]:
        """(id, state) of everything the task waits or waited for."""

    def dependents(self, task_id: str) -> list[str]:
        """Ids of everything that waits or waited for the task."""

    def open_dependents(self, task_id: str) -> list[Task]:
        """The dependents of a task that are not final."""

    def edges(self) -> list[tuple[str, str]]:
        """All edges as (blocker, blocked)."""

    def edges_of(self, task_ids: Sequence[str]) -> list[tuple[str, str, str, str]]:
        """(blocker, its state, blocked, its state) of every edge that touches one of those."""

    def rank(self, task_id: str) -> int:
        """The task's rank (see `model.graph`)."""

    def set_ranks(self, ranks: Mapping[str, int]) -> None:
        """Store new ranks."""


class RunRows(Protocol):
    """Attempts at tasks."""

    def begin(self, run: Run) -> None:
        """Store a new run."""

    def update(self, run: Run, **changes: Any) -> None:
        """Write these fields, in the row and in `run`."""

    def get(self, task_id: str, number: int) -> Run | None:
        """That run."""

    def of_task(self, task_id: str) -> list[Run]:
        """All runs of a task, oldest first."""

    def of_session(self, task_id: str, session: str) -> Run | None:
        """The newest run of the task that belonged to that session."""

    def open(self) -> list[Run]:
        """Runs that have not ended."""

    def open_count(self) -> int:
        """How many of them a runner drives: claims made by hand take nobody's place, nor does a session that waits for
        a person."""

    def lapsed(self, now: str) -> list[Run]:
        """Open runs of tasks in progress or in review whose lease has run out by `now`, the oldest first."""

    def runners(self) -> list[str]:
        """The runners of open runs, each once."""

    def of_runner(self, runner: str) -> list[Run]:
        """The open runs that runner drives."""

    def spent(self, now: str, *, task: str | None = None, member: str | None = None, since: str = "") -> dict[str, Any]:
        """What runs have spent together, of one task or member or all, begun at `since` or later: `turns`, `tokens`,
        `input_tokens`, `output_tokens`, `cost_usd`, and `time` in seconds until `now`."""

    def last_agent_session(self, member: str) -> str | None:
        """The agent's own id of the last session of that member that told one."""

    def joined(self) -> list[tuple[str, str, str, str | None]]:
        """(member, session, process, gone since) of the sessions with a process, living or ended, that hold open runs
        which no runner drives."""

    def of_member_session(self, member: str, session: str) -> list[Run]:
        """The open runs of that session which no runner drives, of tasks in progress."""

    def by_hand(self) -> list[str]:
        """Ids of the tasks whose open run no runner drives."""

    def keep(self, task_id: str, number: int, artifacts: Sequence[Artifact]) -> None:
        """Note what that run made that is in no commit, in the place of what was noted before."""

    def artifacts(self, task_id: str) -> list[Artifact]:
        """What the runs of a task made that is in no commit, by run and path."""
