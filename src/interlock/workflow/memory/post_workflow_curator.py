"""Post-Workflow Curator: what a run that has succeeded leaves for the next one (FR33, story 4.2).

In: a `Session`, what the run's state and documents say. Out: `Curated`. `analyze` is pure: the same session gives the
same lessons. They come from what the agent said was decided and learned, from answers of people, from failures that
were overcome, from the lists of decisions in its documents and from the steps' own words; the run itself is a
milestone.

After a run has ended: what it taught is kept, and memory is let go (story 4.2).

The run's task has been settled by then, so nothing here can fail or delay it. A run that was killed before this was
done is `COMPLETED` with no time in `curated`; whoever lets go of memory next in that project makes up for it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from interlock.clock import iso
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import InterlockError
from interlock.memory.store import Log, MemoryStore, MemoryUnavailable, shortened, words
from interlock.memory.store import same as alike
from interlock.model.names import SYSTEM
from interlock.model.workflow import place_of
from interlock.workflow.memory.lesson import (
    DECISION,
    IMPORTANCE,
    MILESTONE,
    SELECTION,
    Lesson,
    lesson,
    problem_solution,
)
from interlock.workflow.memory.lesson import FIX as FIX_PATTERN
from interlock.workflow.memory.memory_bridge import MemoryBridge, Written
from interlock.workflow.runs import starting
from interlock.workflow.runs.opening import origin_of
from interlock.workflow.state.document import COMPLETED, WorkflowState
from interlock.workflow.state.workflow_state_manager import WorkflowStateManager

MOST = 12
OF_DOCUMENTS = 8
SECONDS = 8.0
HEADING = re.compile(r"^(#{1,6})\s+(\S.*)$")
ITEM = re.compile(r"^\s{0,3}(?:[-*+]|\d{1,2}[.)])\s+(?!\[[ x]\])(\S.*)$")
FENCE = re.compile(r"^\s{0,3}(```|~~~)")
DECISIONS = re.compile(r"\bdecisions?\b", re.IGNORECASE)
LEARNINGS = re.compile(r"\b(lessons?( learned)?|learnings?|patterns?)\b", re.IGNORECASE)
MARKUP = re.compile(r"[*_`]{1,3}")
SHORTEST = 20  # characters of a sentence that may be a lesson
PLAIN = re.compile(
    r"^\W*(y|yes|no?|ok|okay|continue|confirm\w*|go on|skip|stop|retry|proceed|next|\w)\W*$", re.IGNORECASE
)


@dataclass(frozen=True)
class Session:
    """A run as the curator sees it. `learned` are the entries of `engine.recovery`, `answers` those of people to
    questions (`{purpose, text, answer, step, at}`), `summaries` the steps' first words, `documents` the texts of what
    was written, by path."""

    skill: str
    workflow_id: str
    ended_at: str = ""
    steps: int = 0
    learned: Sequence[Mapping[str, Any]] = ()
    answers: Sequence[Mapping[str, Any]] = ()
    summaries: Sequence[str] = ()
    documents: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Curated:
    """What was made of a session: its lessons, and what became of them. `complete` says that none is left to keep."""

    lessons: tuple[Lesson, ...]
    written: Written

    @property
    def complete(self) -> bool:
        """Whether nothing of it is left to be done."""
        return self.written.left == 0

    def as_dict(self) -> dict[str, Any]:
        """The shape in which it is logged."""
        kinds: dict[str, int] = {}
        for one in self.lessons:
            kinds[one.kind] = kinds.get(one.kind, 0) + 1
        return {
            "kept": len(self.written.kept), "linked": len(self.written.known), "queued": self.written.queued,
            "left": self.written.left, "kinds": kinds,
        }  # fmt: skip


class PostWorkflowCurator:
    """`bridge` is that of the run."""

    def __init__(self, bridge: MemoryBridge) -> None:
        self._bridge = bridge

    def curate(self, session: Session, *, seconds: float = SECONDS) -> Curated:
        """Keep what the session is worth, within `seconds`. Never raises for want of memory."""
        lessons = analyze(session)
        return Curated(lessons, self._bridge.write(lessons, seconds=seconds))


def analyze(session: Session) -> tuple[Lesson, ...]:
    """The lessons of a session, at most twelve: the run itself first, then the more important ones."""
    found = [*_learned(session), *_answers(session), *_documents(session), *_summaries(session)]
    unique: list[tuple[Lesson, frozenset[str]]] = []
    for one in found:
        own = words(one.content)
        if not any(alike(own, known) for _, known in unique):
            unique.append((one, own))
    ordered = sorted((one for one, _ in unique), key=lambda one: -one.importance)
    return (_milestone(session), *ordered)[:MOST]


def _milestone(session: Session) -> Lesson:
    name = session.skill.rpartition(":")[2] or session.skill
    written = f" It wrote {', '.join(sorted(session.documents))}." if session.documents else ""
    text = f"{session.skill} is complete: {session.steps} steps.{written}"
    low, high = IMPORTANCE[MILESTONE]
    return Lesson(MILESTONE, text, high if session.documents else low, session.ended_at, title=f"{name} is complete")


def _learned(session: Session) -> Iterable[Lesson]:
    for entry in session.learned:
        text, at = str(entry.get("text", "")), str(entry.get("at", ""))
        if not text:
            continue
        if entry.get("kind") == "fixed":
            yield problem_solution(text, str(entry.get("solution", "")), kind=FIX_PATTERN, at=at)
            continue
        one = lesson(text, decided=entry.get("kind") == "decided", at=at)
        if one is not None:
            yield one


def _answers(session: Session) -> Iterable[Lesson]:
    """What people decided, in words; and which option of a menu they took."""
    for entry in session.answers:
        question, answer = " ".join(str(entry.get("text", "")).split()), " ".join(str(entry.get("answer", "")).split())
        at = str(entry.get("at", ""))
        if entry.get("purpose") == "menu" and answer:
            text = f"At {place_of(entry.get('step'))} of {session.skill}, asked “{question}”, a person chose {answer}."
            yield Lesson(SELECTION, text, IMPORTANCE[SELECTION][0], at, title=f"What was chosen in {session.skill}")
        elif (
            not PLAIN.match(answer)
            and len(answer) > 3
            and entry.get("purpose") in ("question", "preflight", "oversight")
        ):
            found = lesson(answer, decided=True, at=at)
            kind = found.kind if found is not None else DECISION
            importance = found.importance if found is not None else IMPORTANCE[DECISION][0]
            text = f"{answer} (asked: {shortened(question, 300)})"
            yield Lesson(kind, text, importance, at, title=shortened(answer, 120))


def _documents(session: Session) -> Iterable[Lesson]:
    found = [one for text in session.documents.values() for one in _listed(text)]
    return found[:OF_DOCUMENTS]


def _listed(text: str) -> Iterable[Lesson]:
    """The items below headings about decisions and lessons."""
    level, decided, fenced = 0, None, False
    for line in text.splitlines():
        if FENCE.match(line):
            fenced = not fenced
        if fenced:
            continue
        heading = HEADING.match(line)
        if heading is not None:
            depth = len(heading[1])
            if decided is None or depth <= level:
                level = depth
                decided = True if DECISIONS.search(heading[2]) else False if LEARNINGS.search(heading[2]) else None
            continue
        item = ITEM.match(line)
        if decided is None or item is None:
            continue
        said = MARKUP.sub("", item[1]).strip()
        one = lesson(said, decided=decided) if len(said) >= SHORTEST else None
        if one is not None:
            yield one


def _summaries(session: Session) -> Iterable[Lesson]:
    for text in session.summaries:
        one = lesson(text, certain=False) if len(text) >= SHORTEST else None
        if one is not None:
            yield one


"""For everything that is done here, as far as it is a matter of choice."""
LOOKED_AT = 40  # of the newest runs
LEFT_OVER = 3  # earlier runs that are made up for at once
DAYS = 7
AT_WORK = 60.0  # seconds in which somebody else may be about to do it
DOCUMENTS, DOCUMENT_BYTES = 5, 400_000


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
) -> Curated | None:
    workflow = starting.locate(state.skill, state.plan.project).workflow
    curator = PostWorkflowCurator(MemoryBridge(memory, origin_of(state, workflow), log))
    found = curator.curate(session_of(state), seconds=seconds)
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
        documents=_documents_of(state),
    )


def _documents_of(state: WorkflowState) -> Mapping[str, str]:
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
