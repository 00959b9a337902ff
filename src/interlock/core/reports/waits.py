"""Why a task goes no further by itself, in a line, on every face the same.

No sentence is stored: each is made from the rows of one moment (workers with their beats and labels, open runs,
blockers, questions, the time of the next try), so it is true as long as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from interlock.core.reports.needs import first_line, idle, may_take, seats_only
from interlock.core.tasks.review import under_review
from interlock.core.workers import Waits, clock_time
from interlock.mirror.task_view import complete
from interlock.model import evidence
from interlock.model.guard import FALLBACKS
from interlock.model.names import HUMAN
from interlock.model.task import Task
from interlock.model.text import count, named
from interlock.processes import ref
from interlock.settings import Settings
from interlock.storage.ledger import Rows

HINDRANCES_SHOWN = 6
"""How many tasks are named that hold another up from afar."""
NEXT_RUN = "`interlock run` or `interlock up`"
STATES = {
    "deadletter": "failed",
    "in-progress": "in progress",
    "review": "in review",
    "awaiting-response": "waiting for an answer",
    "backlog": "waiting",
}


class Reasons:
    """Why tasks of a team wait, at one moment."""

    def __init__(self, rows: Rows, settings: Settings, now: str) -> None:
        self._rows = rows
        self._settings = settings
        self._now = now
        self._known: dict[str, Task | None] = {}

    def know(self, tasks: Iterable[Task]) -> None:
        """Take tasks, complete, that others may wait for; what else is needed is read one by one."""
        self._known |= {task.id: task for task in tasks}

    @cached_property
    def workers(self) -> Waits:
        """For which workers tasks wait."""
        return Waits(self._rows, self._settings, self._now)

    def of(self, task: Task) -> str | None:
        """Why a task, complete, goes no further now; None where it does, where it is over, or where nothing is known
        to hold it up."""
        match task.state:
            case "backlog":
                return self._blocked(task)
            case "ready":
                return self._not_begun(task)
            case "review":
                run = under_review(self._rows, task)
                return _in_review(task) if run is None else f"{run.member} is reviewing it"
            case "awaiting-response":
                return "waits for an answer"
            case "blocked" if (task.output or "").strip() in FALLBACKS.values():
                return "waits for an answer"
            case "blocked":
                return first_line(task.output) or "is blocked"
        return None

    def _not_begun(self, task: Task) -> str | None:
        if task.not_before is not None and task.not_before > self._now:
            last = self._rows.runs.get(task.id, task.run) if task.run else None
            if last is not None and last.outcome == "capacity":
                return f"waits for capacity until {clock_time(task.not_before)}: {last.reason}"
            failed = f"failed {count(task.failures, 'time')}; " if task.failures else ""
            return f"{failed}next try at {clock_time(task.not_before)}"
        people = self.workers.people
        if seats_only(people):
            return self._by_hand(task)
        if self._settings.get("paused"):
            return "the team is paused"
        if (found := idle(task, people, self.workers)) is not None:
            return found[1]
        takers = [one for one in people.values() if one.role == "member" and may_take(task, one.name, one.agent)]
        return self.workers.why(task, takers)

    def _by_hand(self, task: Task) -> str | None:
        members = [one.name for one in self.workers.people.values() if one.role == "member"]
        takers = [name for name in members if task.reserved_for in (None, name)]
        most = int(self._settings.get("member_parallel"))
        if most and takers and all(self._at(name) >= most for name in takers):
            return f"{named(takers, 3)}: at {most}, as many tasks as a member may be at"
        return f"waits for {task.reserved_for} to claim it" if task.reserved_for else None

    def _at(self, member: str) -> int:
        return sum(one.state == "in-progress" for one in self._rows.tasks.owned(member))

    def _blocked(self, task: Task) -> str:
        """What it waits for, and what that waits for in the end, each said once."""
        here = [id for id in task.blocked_by if not self._waits(id)]
        parts = [self._hindrance(id) for id in here]
        beyond: list[str] = []
        between = []
        for id in (one for one in task.blocked_by if one not in here):
            found = self._hindrances(id)
            if not set(found) <= {*here, *beyond}:
                beyond += [one for one in found if one not in {*here, *beyond}]
                between.append(self._name(id))
        if between:
            last = ", ".join(self._hindrance(id) for id in beyond)
            parts.append(f"{' and '.join(between)}, blocked in turn by {last}")
        return f"blocked by {', '.join(parts) or 'nothing'}"

    def _task(self, id: str) -> Task | None:
        if id not in self._known:
            found = self._rows.tasks.get(id)
            self._known[id] = None if found is None else complete(self._rows, [found])[0]
        return self._known[id]

    def _waits(self, id: str) -> bool:
        task = self._task(id)
        return task is not None and task.state == "backlog" and bool(task.blocked_by)

    def _hindrances(self, id: str) -> list[str]:
        """The tasks at the far ends of what a waiting task waits for, as far as anybody would read."""
        seen, left = {id}, [id]
        found: list[str] = []
        while left and len(found) < HINDRANCES_SHOWN:
            task = self._task(left.pop(0))
            for one in (near for near in (task.blocked_by if task is not None else ()) if near not in seen):
                seen.add(one)
                (left if self._waits(one) else found).append(one)
        return found

    def _hindrance(self, id: str) -> str:
        task = self._task(id)
        return f"{self._name(id)} ({'deleted' if task is None else STATES.get(task.state, task.state)})"

    def _name(self, id: str) -> str:
        task = self._task(id)
        return id if task is None else task.plan_key or id


def _in_review(task: Task) -> str | None:
    if task.verifying is not None:
        gone = ref.alive(str(task.verifying.get("process") or "")) is False
        return f"its check was stopped; {NEXT_RUN} takes it up" if gone else "its check is running"
    if task.merging is not None:
        holder = task.merging.get("process") or task.merging.get("held")
        gone = not holder or ref.alive(str(holder)) is False
        return f"waits for its merge{f'; {NEXT_RUN} takes it up' if gone else ''}"
    asked, who = (task.question or {}).get("kind"), task.review if task.review not in (None, "none") else HUMAN
    if asked == "merge":
        return "could not be merged; waits for an answer"
    if asked == "permission":
        return f"{who}, who reviews it, waits for an answer"
    if asked is None:
        return f"waits for review by {who}"
    if (task.check or {}).get("earlier") is False:
        return f"waits for review by {HUMAN}, since it is {evidence.ONLY_CHANGED}"
    return f"waits for review by {HUMAN}{'' if who == HUMAN else f', since {who} came to no verdict'}"
