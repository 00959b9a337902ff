"""A run's desk in a team's ledger: its state, its events and its questions, each save one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from interlock.clock import iso
from interlock.core.mailbox import notify
from interlock.core.tasks import answer
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.errors import Conflict, Forbidden
from interlock.model.names import HUMAN
from interlock.model.task import Task
from interlock.runner.executor import HumanWait
from interlock.runner.threads import in_thread
from interlock.workflow.control.ports import WARNING, Asking, Events, Superseded
from interlock.workflow.running.holding import HeldQuestion, taken
from interlock.workflow.state.checkpoint_keeper import CheckpointKeeper
from interlock.workflow.state.document import RUNNING, StepId, WorkflowState
from interlock.workflow.state.store import Store

if TYPE_CHECKING:
    from interlock.clock import Clock


class LedgerDesk:
    """See `control.ports.Desk`. `caller` is the session and run that the task belongs to while it is worked on;
    `session` and `life` are under which names is kept what runs share. `patience`: how people are waited for; without
    it every question is parked at once."""

    def __init__(
        self,
        workspace: Workspace,
        caller: Principal,
        task_id: str,
        store: Store,
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

    async def save(self, state: WorkflowState, events: Events = (), asking: Asking | None = None) -> str | None:
        """See the port. The state's file is written after the commit; that it could not be is a warning."""
        return await in_thread(partial(self._write, state, events, asking))

    def _write(self, state: WorkflowState, events: Events, asking: Asking | None) -> str | None:
        question = self._save(state, events, asking)
        if asking is not None or state.sent is None or state.state != RUNNING:
            # The file shows steps, pauses and ends. That a prompt is on its way is for the row alone: a file that is
            # durable costs as much as a commit, and nothing is resumed from it.
            state.warnings = list(self._store.mirror(state))
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
                        self._tell(act, task, str(payload["text"]))
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

    def _tell(self, act: UnitOfWork, task: Task, text: str) -> None:
        for one in dict.fromkeys((task.created_by, HUMAN)):
            notify(act, one, f"{task.id}: {text}", summary=f"{task.id}: {text}")

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

    async def reply(self, question: str) -> tuple[str, str] | None:
        """See the port."""
        return await in_thread(partial(self._reply, question))

    def _reply(self, question: str) -> tuple[str, str] | None:
        try:
            return taken(self._workspace, self._caller, self._task_id, question)
        except (Conflict, Forbidden) as error:
            raise Superseded(error.message) from error

    async def wait(self, question: str, seconds: float) -> tuple[str, str] | None:
        """See the port."""
        if self._patience is None:
            return None
        return await HeldQuestion(self._workspace, self._caller, self._task_id, question, self._patience).wait(seconds)

    async def session(self) -> dict[str, Any]:
        """See the port."""
        return await in_thread(self._read_session)

    def _read_session(self) -> dict[str, Any]:
        with self._workspace.ledger.snapshot() as rows:
            return rows.workflows.session(self._session)

    async def change_session(self, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """See the port."""
        return await in_thread(partial(self._change, self._session, change))

    async def change_life(self, change: Callable[[dict[str, Any]], None]) -> None:
        """See the port."""
        await in_thread(partial(self._change, self._life, change))

    def _change(self, session: str, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        try:
            with self._workspace.act(self._caller, acknowledge=False) as act:
                document = act.rows.workflows.session(session)
                change(document)
                act.rows.workflows.keep_session(session, document, act.at)
        except (Conflict, Forbidden) as error:
            raise Superseded(error.message) from error
        return document


class ThreadedCheckpoints:
    """See `control.ports.Checkpoints`: `keeper` does the work, in a thread, since it reads and copies files."""

    def __init__(self, keeper: CheckpointKeeper, clock: Clock) -> None:
        self._keeper = keeper
        self._clock = clock

    async def create(self, state: WorkflowState, *, step: StepId, reason: str) -> None:
        """See the port."""
        at = iso(self._clock.now())
        await anyio.to_thread.run_sync(partial(self._keeper.create, state, step=step, reason=reason, at=at))

    async def restore(self, state: WorkflowState) -> Sequence[str] | None:
        """See the port."""
        return await anyio.to_thread.run_sync(self._keeper.restore, state)

    async def wrote(self, state: WorkflowState, paths: Sequence[str]) -> None:
        """See the port."""
        if paths:
            await anyio.to_thread.run_sync(self._keeper.wrote, state, paths)
