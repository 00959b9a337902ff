"""After a run has ended: what it taught is kept, and memory is let go (story 4.2).

The run's task has been settled by then, so nothing here can fail or delay it. A run that was killed before this was
done is `COMPLETED` with no time in `curated`; whoever lets go of memory next in that project makes up for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from interlock.clock import iso
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import InterlockError
from interlock.memory.store import Log, MemoryStore, MemoryUnavailable
from interlock.model.names import SYSTEM
from interlock.workflow.memory.memory_bridge import MemoryBridge
from interlock.workflow.memory.post_workflow_curator import Curated, PostWorkflowCurator, Session
from interlock.workflow.running import starting
from interlock.workflow.running.known import origin_of
from interlock.workflow.state.document import COMPLETED, WorkflowState
from interlock.workflow.state.store import Store

SECONDS = 8.0
"""For everything that is done here, as far as it is a matter of choice."""
LOOKED_AT = 40  # of the newest runs
LEFT_OVER = 3  # earlier runs that are made up for at once
DAYS = 7
AT_WORK = 60.0  # seconds in which somebody else may be about to do it
DOCUMENTS, DOCUMENT_BYTES = 5, 400_000


def let_go(workspace: Workspace, store: Store, memory: MemoryStore, ended: WorkflowState, log: Log) -> None:
    """Curate the run that has ended here, if it has succeeded, and those left over; then close memory. Never raises."""
    end = time.monotonic() + SECONDS
    try:
        for state in _due(workspace, store, ended):
            if time.monotonic() < end:
                _curate(workspace, store, memory, state, log, end - time.monotonic())
        if time.monotonic() < end:
            memory.flush(end - time.monotonic())
    except MemoryUnavailable as error:
        log(error.message, "flush")
    except InterlockError as error:
        log(error.message, "curate")
    finally:
        memory.close()


def _due(workspace: Workspace, store: Store, ended: WorkflowState) -> list[WorkflowState]:
    """The run itself, and the completed ones of its project that nobody has curated."""
    now = workspace.clock.now()
    oldest, newest = iso(now - DAYS * 86_400), iso(now - AT_WORK)
    with workspace.ledger.snapshot() as rows:
        waiting = [one for one in store.list(rows, limit=LOOKED_AT) if one.outcome == COMPLETED and one.curated is None]
    mine = [one for one in waiting if one.workflow_id == ended.workflow_id]
    others = [
        one
        for one in waiting
        if one.workflow_id != ended.workflow_id
        and one.plan.project == ended.plan.project
        and oldest < str(one.updated_at or "") < newest
    ]
    return [*mine, *others[:LEFT_OVER]]


def _curate(
    workspace: Workspace, store: Store, memory: MemoryStore, state: WorkflowState, log: Log, seconds: float
) -> Curated | None:
    workflow = starting.locate(state.skill, state.plan.project).workflow
    curator = PostWorkflowCurator(MemoryBridge(memory, origin_of(state, workflow), log))
    found = curator.curate(session_of(state), seconds=seconds)
    with workspace.act(Principal(SYSTEM)) as act:
        now = store.load(act.rows, state.workflow_id)
        if found.complete and now.outcome == COMPLETED:
            now.curated = act.at
            store.save(act, now)
        act.event("workflow.curated", now.task_id, workflow_id=now.workflow_id, **found.as_dict())
    if found.complete:
        store.mirror(now)
    return found


def session_of(state: WorkflowState) -> Session:
    """What the curator looks at: the run's state, and the documents it has written."""
    answers = [one for one in state.asked if one.get("answer") and one.get("by") == "human"]
    return Session(
        skill=state.skill,
        workflow_id=state.workflow_id,
        ended_at=state.updated_at or "",
        steps=len(state.completed_steps),
        learned=tuple(state.learned),
        answers=tuple(answers),
        summaries=tuple(one.summary for one in state.steps.values() if one.summary),
        documents=_documents(state),
    )


def _documents(state: WorkflowState) -> Mapping[str, str]:
    found: dict[str, str] = {}
    root = os.path.realpath(state.plan.project)
    for path in state.documents[-DOCUMENTS:]:
        whole = os.path.realpath(os.path.join(root, path))
        if not whole.startswith(root + os.sep) or not os.path.isfile(whole):
            continue
        text = ""
        if whole.endswith(".md"):
            try:
                with open(whole, encoding="utf-8", errors="replace") as file:
                    text = file.read(DOCUMENT_BYTES)
            except OSError:
                continue
        found[path] = text
    return found
