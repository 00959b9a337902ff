"""A run's desk in a team's ledger: its state, its events and its questions, each save one transaction.

A question of a run that is held: the session stays open, and an answer goes on in the same run (decision 30).

    asked ──> held ──answer──────────────────────────────────> the same session, the same run
                └──`workflow_selection` seconds, or somebody needs the worker, or it is to stop──> parked

A held run takes no place among those at work (`workflow_parallel`, `parallel`), but its member can do nothing else. So
where a task has been ready for that member for `YIELD` seconds, time enough for any other that is free, the run is
parked early: an answer costs it a new session then, and nobody has waited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from functools import cache, partial, wraps
from typing import Any, ParamSpec, TypeVar

from interlock.clock import iso
from interlock.core.mailbox import notify
from interlock.core.tasks import answer
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.core.waiting import HumanWait, StillWaiting, Wait, in_thread
from interlock.errors import Conflict, Forbidden
from interlock.model.json import Json
from interlock.model.names import HUMAN
from interlock.model.task import WAITING
from interlock.storage.ledger import Rows
from interlock.workflow.engine.ports import WARNING, Asking, Events, Superseded
from interlock.workflow.state.document import RUNNING, WorkflowState
from interlock.workflow.state.workflow_state_manager import UNWRITTEN, WorkflowStateManager

YIELD = 2.0
"""Seconds that a task is left to others before a held run makes way for it."""

Answer = tuple[str, str]
Given = ParamSpec("Given")
Result = TypeVar("Result")


def threaded(call: Callable[Given, Result]) -> Callable[Given, Coroutine[Any, Any, Result]]:
    """A verb of the synchronous core, to be awaited: it runs in a thread."""

    @wraps(call)
    def run(*args: Given.args, **named: Given.kwargs) -> Coroutine[Any, Any, Result]:
        return in_thread(partial(call, *args, **named))

    return run


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
        self._needed_since = 0.0

    async def wait(self, seconds: float) -> Answer | None:
        """The answer and who gave it, the run being ours; None where it did not come in that time.

        Raises:
            Superseded: it was withdrawn, or the run is not ours any more.
        """
        ends = time.monotonic() + seconds

        def park(over: str | None) -> Answer | None:
            early = time.monotonic() < ends
            needed = f"{self._needed_by} waits for this member"
            return self._park(over or (needed if early else f"nobody answered within {seconds:.0f} s"))

        wait = Wait(self._workspace, ["tasks", "questions"], lambda: self._look(ends))
        try:
            return await wait.held(self._patience, park)
        except (Conflict, Forbidden) as error:
            raise Superseded(error.message) from error

    def _look(self, ends: float) -> Answer | StillWaiting | None:
        with self._workspace.ledger.snapshot() as rows:
            asked = rows.questions.get(self._question)
            said, task = answer_of(rows, self._question), find(rows, self._task_id)
            if task.run != self._caller.run:
                raise Superseded(f"{task.id} is not this run's any more.")
            if said is None or task.state in WAITING:
                self._note_need(rows)
                if said is None and not (asked and asked.held and asked.session == self._caller.session):
                    return None
                until = ends if self._needed_by is None else min(ends, self._needed_since + YIELD)
                return StillWaiting(until - time.monotonic())
        return taken(self._workspace, self._caller, self._task_id, self._question)

    def _note_need(self, rows: Rows) -> None:
        """Remember which task could be this member's, were it free."""
        ready = rows.tasks.next_ready(self._caller.name, shell=False, now=iso(self._workspace.clock.now()))
        paused = self._workspace.settings(rows).get("paused")
        needed_by = None if ready is None or paused else ready.id
        if needed_by != self._needed_by:
            self._needed_by, self._needed_since = needed_by, time.monotonic()

    def _park(self, why: str) -> Answer | None:
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


class LedgerDesk:
    """See `engine.ports.Desk`. `caller` is the session and run that the task belongs to while it is worked on;
    `session` and `life` are under which names is kept what runs share. `patience`: how people are waited for; without
    it every question is parked at once."""

    def __init__(
        self,
        workspace: Workspace,
        caller: Principal,
        task_id: str,
        store: WorkflowStateManager,
        session: str,
        life: str,
        patience: HumanWait | None = None,
    ) -> None:
        self._patience = patience
        self._life = life
        self._session = session
        self._workspace = workspace
        self._caller = caller
        self._task_id = task_id
        self._store = store

    def now(self) -> str:
        """See the port."""
        return iso(self._workspace.clock.now())

    @threaded
    def save(self, state: WorkflowState, events: Events = (), asking: Asking | None = None) -> str | None:
        """See the port. The state's file is written after the commit; that it could not be is a warning."""
        question = self._save(state, events, asking)
        if asking is not None or state.sent is None or state.state != RUNNING:
            # The file shows steps, pauses and ends. That a prompt is on its way is for the row alone: a file that is
            # durable costs as much as a commit, and nothing is resumed from it.
            others = [one for one in state.warnings if UNWRITTEN not in one]
            state.warnings = [*others, *self._store.mirror(state)]
        return question

    def _save(self, state: WorkflowState, events: Events, asking: Asking | None) -> str | None:
        # A save that comes to nothing leaves the state as it was, so that it can be tried again.
        version, waiting = state.version, state.waiting.question_id if state.waiting else None
        question: str | None = None
        try:
            with self._workspace.act(self._caller, acknowledge=False) as act:
                task = find(act.rows, self._task_id)
                if task.run != self._caller.run or task.owner != act.name:
                    raise Superseded(f"{task.id} is not this run's any more; nothing was written.")
                for type, payload in events:
                    act.event(type, task.id, **payload)
                    if type == WARNING:
                        said = f"{task.id}: {payload['text']}"
                        for one in dict.fromkeys((task.created_by, HUMAN)):
                            notify(act, one, said, summary=said)
                if asking is not None:
                    question = self._ask(act, state, asking)
                self._store.save(act, state)
        except BaseException as error:
            state.version = version
            if state.waiting:
                state.waiting.question_id = waiting
            if isinstance(error, (Conflict, Forbidden)):
                raise Superseded(error.message) from error
            raise
        return question

    def _ask(self, act: UnitOfWork, state: WorkflowState, asking: Asking) -> str:
        task = find(act.rows, self._task_id)
        held = asking.held and self._patience is not None and not act.settings.get("unattended")
        asked = answer.ask(
            act, task, kind=asking.kind, text=asking.text[: answer.TEXT_LIMIT], options=asking.options,
            default=asking.default, context=asking.context, held=held, key=asking.key, reversible=asking.reversible,
            data={**asking.data, "workflow_id": state.workflow_id, "step": state.current_step},
        )  # fmt: skip
        if state.waiting is not None:
            state.waiting.question_id, state.waiting.asked_at = asked.id, asked.asked_at
        return asked.id

    @threaded
    def reply(self, question: str) -> tuple[str, str] | None:
        """See the port."""
        try:
            return taken(self._workspace, self._caller, self._task_id, question)
        except (Conflict, Forbidden) as error:
            raise Superseded(error.message) from error

    async def wait(self, question: str, seconds: float) -> tuple[str, str] | None:
        """See the port."""
        if self._patience is None:
            return None
        return await HeldQuestion(self._workspace, self._caller, self._task_id, question, self._patience).wait(seconds)

    def session(self) -> Coroutine[Any, Any, Json]:
        """See the port."""
        return in_thread(self._shared)

    def apart(self, work: Callable[[], Result]) -> Coroutine[Any, Any, tuple[Result, Json]]:
        """See the port."""
        done = cache(work)  # Where the ledger is busy, only the reading is tried again.
        return in_thread(lambda: (done(), self._shared()))

    def _shared(self) -> Json:
        with self._workspace.ledger.snapshot() as rows:
            return rows.workflows.session(self._session)

    @threaded
    def change_session(self, change: Callable[[Json], None]) -> Json:
        """See the port."""
        return self._change(self._session, change)

    @threaded
    def change_life(self, change: Callable[[Json], None]) -> None:
        """See the port."""
        self._change(self._life, change)

    def _change(self, session: str, change: Callable[[Json], None]) -> Json:
        try:
            with self._workspace.act(self._caller, acknowledge=False) as act:
                document = act.rows.workflows.session(session)
                change(document)
                act.rows.workflows.keep_session(session, document, act.at)
        except (Conflict, Forbidden) as error:
            raise Superseded(error.message) from error
        return document
