"""A question of a run that is held: the session stays open, and an answer goes on in the same run (decision 30).

    asked ──> held ──answer──────────────────────────────────> the same session, the same run
                └──`workflow_selection` seconds, or somebody needs the worker, or it is to stop──> parked

A held run takes no place among those at work (`workflow_parallel`, `parallel`), but its member can do nothing else. So
where a task has been ready for that member for `YIELD` seconds, time enough for any other that is free, the run is
parked early: an answer costs it a new session then, and nobody has waited.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import anyio

from interlock.clock import iso
from interlock.core.tasks import answer
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import Conflict, Forbidden
from interlock.model.task import WAITING
from interlock.runner.executor import HumanWait
from interlock.runner.threads import in_thread
from interlock.storage.ledger import Rows
from interlock.workflow.control.ports import Superseded

LOOK_AGAIN = 30.0
"""Seconds between two looks, however quiet it is."""
YIELD = 2.0
"""Seconds that a task is left to others before a held run makes way for it."""

Answer = tuple[str, str]
Step = Answer | Literal["wait"] | None


class HeldQuestion:
    """The wait of the run that `caller` names for the answer to one of its questions."""

    def __init__(
        self, workspace: Workspace, caller: Principal, task_id: str, question: str, patience: HumanWait
    ) -> None:
        self._workspace = workspace
        self._caller = caller
        self._task_id = task_id
        self._question = question
        self._patience = patience
        self._needed_by: str | None = None

    async def wait(self, seconds: float) -> Answer | None:
        """The answer and who gave it, the run being ours; null where it did not come in that time.

        Raises:
            Superseded: it was withdrawn, or the run is not ours any more.
        """
        workspace, patience = self._workspace, self._patience
        ends = anyio.current_time() + seconds
        needed_by, since = None, 0.0
        topics = ["tasks", "questions"]
        with patience.held(), workspace.notifier.waiter(workspace.name, topics, workspace.ledger.watch()) as waiter:
            while True:
                found = await self._act(self._look)
                if found != "wait":
                    return found
                now = anyio.current_time()
                if needed_by != self._needed_by:
                    needed_by, since = self._needed_by, now
                until = min(ends, now + LOOK_AGAIN if needed_by is None else since + YIELD)
                if patience.over is None and now < until:
                    await patience.pause(waiter, until - now)
                    continue
                found = await self._act(partial(self._park, patience.over or self._why(now < ends, seconds)))
                if found != "wait":
                    return found

    def _why(self, early: bool, seconds: float) -> str:
        return f"{self._needed_by} waits for this member" if early else f"nobody answered within {seconds:.0f} s"

    async def _act(self, look: Callable[[], Step]) -> Step:
        try:
            return await in_thread(look)
        except (Conflict, Forbidden) as error:
            raise Superseded(error.message) from error

    def _look(self) -> Step:
        with self._workspace.ledger.snapshot() as rows:
            asked = rows.questions.get(self._question)
            said, task = answer_of(rows, self._question), find(rows, self._task_id)
            if task.run != self._caller.run:
                raise Superseded(f"{task.id} is not this run's any more.")
            if said is None or task.state in WAITING:
                self._note_need(rows)
                held = said is not None or (asked is not None and asked.held and asked.session == self._caller.session)
                return "wait" if held else None
        return taken(self._workspace, self._caller, self._task_id, self._question)

    def _note_need(self, rows: Rows) -> None:
        """Remember which task could be this member's, were it free."""
        ready = rows.tasks.next_ready(self._caller.name, shell=False, now=iso(self._workspace.clock.now()))
        paused = self._workspace.settings(rows).get("paused")
        self._needed_by = None if ready is None or paused else ready.id

    def _park(self, why: str) -> Step:
        """Close the wait, unless the answer came at this very moment."""
        with self._workspace.act(self._caller, acknowledge=False) as act:
            task = find(act.rows, self._task_id)
            if task.run != self._caller.run:
                raise Superseded(f"{task.id} is not this run's any more.")
            if task.state in ("ready", "backlog") and task.owner is None:
                answer.resume(act, task)
                return answer_of(act.rows, self._question)
            if task.state in WAITING:
                answer.park(act, task, why)
            return None


def taken(workspace: Workspace, caller: Principal, task_id: str, question: str) -> Answer | None:
    """The answer to a question, if it has one, with its task taken up again where the run was held for it. Null also
    while the task waits for another answer still.

    Raises:
        Superseded: it was withdrawn.
        Conflict, Forbidden: the run is not the caller's any more.
    """
    with workspace.ledger.snapshot() as rows:
        said, task = answer_of(rows, question), find(rows, task_id)
    if said is None or task.state in WAITING:
        return None
    if task.state != "in-progress":
        with workspace.act(caller, acknowledge=False) as act:
            answer.resume(act, find(act.rows, task_id))
    return said


def answer_of(rows: Rows, question: str) -> Answer | None:
    """The answer and who gave it, null while it is open.

    Raises:
        Superseded: it was withdrawn.
    """
    found = rows.questions.get(question)
    if found is None or found.state == "withdrawn":
        raise Superseded(f"The question {question} was withdrawn.")
    return (found.answer or "", found.answered_by or "somebody") if found.state == "answered" else None
