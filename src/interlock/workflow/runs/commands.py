"""What people and the lead do with runs: list, show, cancel, take up again."""

from __future__ import annotations

from interlock.clock import seconds
from interlock.core.tasks import change
from interlock.core.tasks.create import create
from interlock.core.tasks.find import find as find_task
from interlock.core.tasks.transition import WORKFLOW
from interlock.core.unit_of_work import UnitOfWork
from interlock.errors import AmbiguousId, Forbidden, InvalidTransition, WorkflowNotFound
from interlock.model.json import Json
from interlock.model.progress import percent
from interlock.model.task import FINAL
from interlock.storage.ledger import Rows
from interlock.workflow.engine import machine
from interlock.workflow.engine.loop_back_handler import Loop
from interlock.workflow.engine.reducer import TURNS
from interlock.workflow.errors import NotInAWorkflow
from interlock.workflow.package.packages import Package
from interlock.workflow.runs import override_commands
from interlock.workflow.state import queue, step_tracking
from interlock.workflow.state import resume as resuming
from interlock.workflow.state.document import CANCELLED, FAILED, RUNNING, TERMINAL, WorkflowState
from interlock.workflow.state.workflow_state_manager import WorkflowStateManager


def find(rows: Rows, store: WorkflowStateManager, reference: str | None) -> WorkflowState:
    """A run by its id, the end of it, its task, or its skill's name; without a reference the newest one.

    Raises:
        WorkflowNotFound: there is none.
        AmbiguousId: several are meant.
        StateUnreadable: its state is damaged.
    """
    # The common questions read one run, not all there ever were.
    if reference is None:
        newest = store.list(rows, open_only=True) or store.list(rows, limit=1) or store.list(rows)
        if newest:
            return newest[0]
        raise WorkflowNotFound("No workflow was run here yet. `interlock workflow list` shows what can be.")
    if rows.workflows.get(reference) is not None:
        return store.load(rows, reference)  # damaged: says so
    of_task = store.list(rows, task_id=reference, limit=1)
    if of_task:
        return of_task[0]
    runs = store.list(rows)
    wanted = reference.lstrip("/")
    task = next((one for one in runs if one.task_id and one.task_id.endswith(reference)), None)
    if task is not None:
        return task
    found = [one for one in runs if one.workflow_id.endswith(reference)]
    found = found or [one for one in runs if wanted in (one.skill.lstrip("/"), one.skill.rpartition(":")[2])][:1]
    if len(found) > 1:
        names = [one.workflow_id for one in found]
        raise AmbiguousId(f"{reference!r} could be {', '.join(names[:5])}.", candidates=names)
    if not found:
        raise WorkflowNotFound(
            f"No run {reference!r} of a workflow. `interlock workflow status` shows the runs of this team.",
            workflow_id=reference,
        )
    return found[0]


TURNS_KEPT = 20  # runs of a session whose last word is kept


def led(rows: Rows, member: str, session: str | None) -> list[str]:
    """The ids of the runs through which the engine leads the agent of that session now."""
    tasks = rows.tasks.owned(member) if session else []
    mine = (one for one in tasks if one.workflow and one.state == "in-progress" and one.type == WORKFLOW)
    return [str(one.workflow) for one in mine if rows.runs.of_session(one.id, str(session)) is not None]


def say_turn(act: UnitOfWork, store: WorkflowStateManager, word: Json) -> str:
    """Keep what the agent that is led through a workflow says of its turn, for the engine, which looks at its end; the
    last word counts. The run's id.

    Raises:
        NotInAWorkflow: whoever says it is not the agent of a run, or no prompt is with it.
    """
    for id in led(act.rows, act.name, act.session):
        state = store.load(act.rows, id)
        if state.sent is None or state.sent.at is None or state.state != RUNNING:
            continue
        name = override_commands.session_of(state)
        document = act.rows.workflows.session(name)
        kept = {other: one for other, one in document.get(TURNS, {}).items() if other != id}
        said = {"sent": state.sent.at, "word": dict(word)}
        document[TURNS] = {**dict(list(kept.items())[1 - TURNS_KEPT :]), id: said}
        act.rows.workflows.keep_session(name, document, act.at)
        return id
    raise NotInAWorkflow("No workflow waits for the end of your turn. Without one, use task_complete or ask_human.")


def documented(state: WorkflowState) -> Json:
    """The contract's fields, with its loops as people count them and how far it is."""
    whole = state.as_dict()
    whole["loops"] = {key: Loop.of(one).status() for key, one in state.loops.items()}
    whole["progress"] = step_tracking.progress(state).as_dict()
    return whole


def shown(state: WorkflowState, rows: Rows, at: str, mode: str) -> Json:
    """A run as every face shows it at that moment: its document, what was said about it, and whether its next menu
    waits. `mode` is how talkative it is unless somebody said otherwise."""
    whole = documented(state)
    whole |= override_commands.shown(state, rows, seconds(at), mode)
    whole["estimated_percent"] = percent(whole, seconds(at))
    return whole


def installed(package: Package) -> list[Json]:
    """The workflows of a package, as every face lists them."""
    return [
        {"skill": one.invocation, "module": one.module, "name": one.name, "description": one.description}
        for one in package.of_type("workflows")
    ]


def cancel(
    act: UnitOfWork, store: WorkflowStateManager, state: WorkflowState, reason: str = "as a human asked"
) -> WorkflowState:
    """Call a run off: its task is cancelled, its programs are ended by their runner, its state says so.

    Raises:
        InvalidTransition: it has ended already.
        Forbidden: only its task's maker, the lead or a human may.
    """
    if state.state == TERMINAL:
        raise InvalidTransition(f"{state.workflow_id} has ended already ({state.outcome}).", state=state.outcome)
    if state.task_id is not None:
        task = find_task(act.rows, state.task_id)
        if task.state not in FINAL:
            change.cancel(act, task, reason=reason)
    elif not act.leads:
        raise Forbidden("Only the lead or a human may cancel it.")
    machine.end(state, CANCELLED)
    store.save(act, state)
    act.event("workflow.ended", state.task_id, workflow_id=state.workflow_id, outcome=CANCELLED, reason=reason)
    return state


def take_up(act: UnitOfWork, store: WorkflowStateManager, state: WorkflowState) -> str:
    """Let a run that was interrupted, or failed, go on; answers what it goes on with.

    Raises:
        InvalidTransition: it is done, or was cancelled.
    """
    if state.state == TERMINAL and state.outcome != FAILED:
        raise InvalidTransition(
            f"{state.workflow_id} has ended ({state.outcome}); `interlock workflow run {state.skill}` begins another.",
            state=state.outcome,
        )
    offered = resuming.offer(state)
    if state.outcome == FAILED:
        machine.reopen(state)
        state.resumed = offered.indicator
        store.save(act, state)
        act.event("workflow.resumed", state.task_id, workflow_id=state.workflow_id, text=offered.indicator)
    task = find_task(act.rows, state.task_id) if state.task_id is not None else None
    if task is not None and task.state == "deadletter":
        change.retry(act, task)
    elif task is None or task.state in FINAL:
        # Its task is over, as after a rollback of a finished run: another one carries it on.
        member = task.assignee or task.owner if task is not None else None
        group, project = (task.group_id, task.project_id) if task is not None else (None, None)
        made = create(
            act, state.skill, body=f"Go on with {state.workflow_id}.", type=WORKFLOW, review="none", assignee=member,
            group_id=group, project_id=project,
        )  # fmt: skip
        act.rows.tasks.update(made, workflow=state.workflow_id, retries=0)
        state.task_id = made.id
        store.save(act, state)
        queue.add(act, made, skill=state.skill, data={"workflow_id": state.workflow_id})
    return offered.indicator
