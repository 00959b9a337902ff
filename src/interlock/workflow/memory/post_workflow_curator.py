"""Post-Workflow Curator: what a run that has succeeded leaves for the next one (FR33, story 4.2).

In: the state of a run. Out: `Curated`. `analyze` is pure: the same state gives the same lessons. They come from what
the agent said is worth knowing, with the importance that it gave it, from answers of people and from failures that were
overcome; the run itself is a milestone. Then memory is let go.

The run's task has been settled by then, so nothing here can fail or delay it. A run that was killed before this was
done is `COMPLETED` with no time in `curated`; whoever lets go of memory next in that project makes up for it.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable

from interlock.clock import iso
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import InterlockError
from interlock.lazy_dataclass import dataclass
from interlock.memory.store import Log, MemoryStore, MemoryUnavailable, shortened, words
from interlock.memory.store import same as alike
from interlock.model.json import Json
from interlock.model.names import SYSTEM
from interlock.model.workflow import place_of
from interlock.workflow.entry import workflow_entry_wrapper
from interlock.workflow.memory.lesson import (
    DECISION,
    IMPORTANCE,
    MILESTONE,
    SELECTION,
    Lesson,
    lesson,
)
from interlock.workflow.memory.memory_bridge import MemoryBridge, WrittenLessons, origin_of
from interlock.workflow.state.document import COMPLETED, WorkflowState
from interlock.workflow.state.workflow_state_manager import WorkflowStateManager

MOST = 12
SECONDS = 8.0  # for everything that is done here, as far as it is a matter of choice
PLAIN = re.compile(
    r"^\W*(y|yes|no?|ok|okay|continue|confirm\w*|go on|skip|stop|retry|proceed|next|\w)\W*$", re.IGNORECASE
)


@dataclass(frozen=True)
class Curated:
    """What was made of a session: its lessons, and what became of them. `complete` says that none is left to keep."""

    lessons: tuple[Lesson, ...]
    written: WrittenLessons

    @property
    def complete(self) -> bool:
        """Whether nothing of it is left to be done."""
        return self.written.left == 0

    def as_dict(self) -> Json:
        """The shape in which it is logged."""
        return {
            "kept": len(self.written.kept), "linked": len(self.written.known), "queued": self.written.queued,
            "left": self.written.left, "kinds": dict(Counter(one.kind for one in self.lessons)),
        }  # fmt: skip


class PostWorkflowCurator:
    """`bridge` is that of the run."""

    def __init__(self, bridge: MemoryBridge) -> None:
        self._bridge = bridge

    def curate(self, state: WorkflowState, *, seconds: float = SECONDS) -> Curated:
        """Keep what the run is worth, within `seconds`. Never raises for want of memory."""
        lessons = analyze(state)
        return Curated(lessons, self._bridge.write(lessons, seconds=seconds))


def analyze(state: WorkflowState) -> tuple[Lesson, ...]:
    """The lessons of a run, at most twelve: the run itself first, then the more important ones."""
    said = [one for entry in state.learned if (one := lesson(entry)) is not None]
    unique: list[tuple[Lesson, frozenset[str]]] = []
    for one in (*said, *_answers(state)):
        own = words(one.content)
        if not any(alike(own, known) for _, known in unique):
            unique.append((one, own))
    ordered = sorted((one for one, _ in unique), key=lambda one: -one.importance)
    name = state.skill.rpartition(":")[2] or state.skill
    written = f" It wrote {', '.join(sorted(state.documents))}." if state.documents else ""
    text = f"{state.skill} is complete: {len(state.completed_steps)} steps.{written}"
    worth = IMPORTANCE[MILESTONE][bool(state.documents)]
    return (Lesson(MILESTONE, text, worth, state.updated_at or "", title=f"{name} is complete"), *ordered)[:MOST]


def _answers(state: WorkflowState) -> Iterable[Lesson]:
    """What people decided, in words; and which option of a menu they took."""
    for entry in (one for one in state.asked if one.get("answer") and one.get("by") == "human"):
        question, answer = " ".join(str(entry.get("text", "")).split()), " ".join(str(entry.get("answer", "")).split())
        at = str(entry.get("at", ""))
        if entry.get("purpose") == "menu" and answer:
            text = f"At {place_of(entry.get('step'))} of {state.skill}, asked “{question}”, a person chose {answer}."
            yield Lesson(SELECTION, text, IMPORTANCE[SELECTION][0], at, title=f"What was chosen in {state.skill}")
        elif (
            not PLAIN.match(answer)
            and len(answer) > 3
            and entry.get("purpose") in ("question", "preflight", "oversight")
        ):
            text = f"{answer} (asked: {shortened(question, 300)})"
            yield Lesson(DECISION, text, IMPORTANCE[DECISION][0], at, title=shortened(answer, 120))


LOOKED_AT = 40  # of the newest runs
LEFT_OVER = 3  # earlier runs that are made up for at once
DAYS = 7
AT_WORK = 60.0  # seconds in which somebody else may be about to do it


def let_go(
    workspace: Workspace, store: WorkflowStateManager, memory: MemoryStore, ended: WorkflowState, log: Log
) -> None:
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


def _due(workspace: Workspace, store: WorkflowStateManager, ended: WorkflowState) -> list[WorkflowState]:
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
    workspace: Workspace,
    store: WorkflowStateManager,
    memory: MemoryStore,
    state: WorkflowState,
    log: Log,
    seconds: float,
) -> None:
    workflow = workflow_entry_wrapper.locate(state.skill, state.plan.project).workflow
    curator = PostWorkflowCurator(MemoryBridge(memory, origin_of(state, workflow), log))
    found = curator.curate(state, seconds=seconds)
    with workspace.act(Principal(SYSTEM)) as act:
        now = store.load(act.rows, state.workflow_id)
        if found.complete and now.outcome == COMPLETED:
            now.curated = act.at
            if found.written.queued:
                said = f"{found.written.queued} memories of this run were queued, since memory did not answer in time"
                now.warnings = [*now.warnings, f"{said}; `interlock memory status` shows what still waits."][-5:]
            store.save(act, now)
        act.event("workflow.curated", now.task_id, workflow_id=now.workflow_id, **found.as_dict())
    if found.complete:
        store.mirror(now)
