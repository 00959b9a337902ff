"""Memory Bridge: the one store of what a project has taught and of what its people choose and say (FR32, FR34, FR63).

Each memory is one concept with its project, run, keywords and tags, of a kind of the table below: a lesson, an answer
to a menu, feedback, or the word that something is forgotten. Memory only ever grows, so what is to count no more is
noted too, and `preferences.Preferences` reduces it all. What is known already is linked with the new instead of being
kept twice. Memory may be out of reach: nothing here raises, what cannot be kept now waits in the queue
(`memory.retrying`), and what cannot be asked is unknown.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence

from interlock.lazy_dataclass import dataclass
from interlock.memory.store import Log, Memory, MemoryStore, MemoryUnavailable, same, words
from interlock.workflow.memory import lesson as lessons_of
from interlock.workflow.memory.lesson import FIX, Lesson, keywords, problem_solution
from interlock.workflow.package.variables import is_set
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.preferences.patterns import (
    KINDS,
    NEGATIVE,
    POSITIVE,
    PREFERENCE,
    Choice,
    Feedback,
    Forgotten,
    Learned,
    Pattern,
)
from interlock.workflow.state.document import WorkflowState

CHOICE, FORGOTTEN = "menu_choice", "forgotten"
IMPORTANCE = {**lessons_of.IMPORTANCE, **dict.fromkeys((CHOICE, FORGOTTEN), (6, 6)), PREFERENCE: (8, 8)}
IMPORTANCE |= dict.fromkeys((NEGATIVE, POSITIVE), (7, 7))
"""Every kind of memory that runs write, and the range of its importance."""
FEEDBACK = "about:feedback"
"""The tag of everything that was said, or seen, about a choice."""
MOST = 300
"""Choices, and as many words of feedback, that are looked at: the newest."""
TAG = 100  # characters

RELEVANT = 50.0  # of 100: what fits a failure less is no fix for it
SIGNATURE_CHARS = 400
LOOKED_AT = 5  # memories that a new one is compared with
ASKED_CHARS = 500


@dataclass(frozen=True)
class Origin:
    """Where a memory comes from: the project by its name, the run, and its workflow."""

    project_id: str
    workflow_id: str = ""
    skill: str = ""


@dataclass(frozen=True)
class WrittenLessons:
    """What became of lessons: `kept` again, `known` already and linked with them, `queued` for later (of those kept),
    `left` because time was up, or memory would not have them."""

    kept: tuple[Memory, ...] = ()
    known: tuple[Memory, ...] = ()
    queued: int = 0
    left: int = 0


class MemoryBridge:
    """Of one run; `log` gets what went wrong (reason, operation)."""

    def __init__(self, memory: MemoryStore, origin: Origin, log: Log = lambda *_: None) -> None:
        self._memory = memory
        self._origin = origin
        self._log = log

    def fix(self, failure: str) -> str | None:
        """What resolved that failure before: the same one, else one that is much like it."""
        for tag, least in ((_failure(failure), 0.0), (f"type:{FIX}", RELEVANT)):
            found = self._recall(failure, [tag], 1)
            if found is None:
                break
            if found and found[0].relevance >= least:
                return found[0].content
        return None

    def fixed(self, failure: str, solution: str) -> Memory | None:
        """Keep what resolved a failure, as a memory of the type `fix_pattern` with the failure's signature and the
        solution; the one that says the same where it is known. Null where it could not even be queued."""
        lesson = problem_solution(failure, solution, kind=FIX)
        return self.similar(memory_of(lesson, self._origin)) or self.keep(lesson)

    def learned(self, skill: str | None = None) -> Learned:
        """What people chose and said, oldest first; of choices only those in that workflow, or all."""
        said = (self._recall("", [FEEDBACK], MOST) or [])[::-1]
        tags = [f"type:{CHOICE}", *([_tag("workflow", skill)] if skill is not None else [])]
        choices = [_choice(memory) for memory in reversed(self._recall("", tags, MOST) or [])]
        gone = ((memory.tagged("forgets"), memory.tagged("at") or memory.created_at) for memory in said)
        return Learned(
            tuple(one for memory in said if (one := _feedback(memory)) is not None),
            tuple(one for one in choices if one is not None),
            tuple(Forgotten(id, at) for id, at in gone if id is not None),
        )

    def keep(self, one: Lesson | Choice | Feedback | Forgotten) -> Memory | None:
        """Keep one thing; null where it could not even be queued. Of choices only those of people are ever kept: the
        engine would only agree with itself."""
        try:
            return self._memory.remember(memory_of(one, self._origin))
        except MemoryUnavailable as error:
            self._log(error.message, "remember")
            return None

    def write(
        self, lessons: Sequence[Lesson], *, seconds: float = 30.0, now: Callable[[], float] = time.monotonic
    ) -> WrittenLessons:
        """Keep lessons, the most important first; one that is known already is linked with the first new one. Nothing
        begins after `seconds`."""
        end = now() + seconds
        kept, known = list[Memory](), list[Memory]()
        refused = taken = 0
        for lesson in lessons:
            if now() >= end:
                break
            taken += 1
            similar = self.similar(memory_of(lesson, self._origin))
            if similar is not None:
                known.append(similar)
                continue
            found = self.keep(lesson)
            if found is None:
                refused += 1
            else:
                kept.append(found)
        self._link(kept, known)
        queued = sum(not one.id for one in kept)
        return WrittenLessons(tuple(kept), tuple(known), queued, len(lessons) - taken + refused)

    def similar(self, memory: Memory) -> Memory | None:
        """The memory of the same kind that says the same, if there is one."""
        asked = f"{memory.title} {memory.content}"[:ASKED_CHARS]
        found = self._recall(asked, [f"type:{memory.tagged('type')}"], LOOKED_AT)
        own = words(memory.content)
        return next((one for one in found or () if same(own, words(one.content))), None)

    def _recall(self, asked: str, tags: list[str], limit: int) -> list[Memory] | None:
        """What memory knows; None where it cannot be asked."""
        project = self._origin.project_id
        try:
            found = self._memory.recall(asked, project_id=project, tags=tags, limit=limit).memories
        except MemoryUnavailable as error:
            self._log(error.message, "recall")
            return None
        return [one for one in found if one.project_id in (project, None)]

    def _link(self, kept: Iterable[Memory], known: Iterable[Memory]) -> None:
        """The memories of one run are linked with its first one; where all were known, with the first of those."""
        ids = list(dict.fromkeys(one.id for one in (*kept, *known) if one.id))
        if len(ids) < 2:
            return
        try:
            self._memory.link(ids[0], ids[1:])
        except MemoryUnavailable as error:
            self._log(error.message, "link")


def memory_of(one: Lesson | Choice | Feedback | Forgotten, origin: Origin) -> Memory:
    """The memory that something is kept as."""
    tags: list[str] = []
    if isinstance(one, Lesson):
        kind, title, content, importance = one.kind, one.heading, one.content, one.importance
        tags = [_tag("workflow", origin.skill)] if origin.skill else []
        tags += [_failure(one.signature)] if one.signature else []
    elif isinstance(one, Choice):
        kind, title = CHOICE, f"At {one.step} of {one.skill}"
        lines = [f"Chose: {one.chosen}", f"Offered: {' | '.join(one.offered)}"]
        content = "\n".join(lines + ([f"Recommended: {one.recommended}"] if one.recommended is not None else []))
        tags = [one.situation, _tag("workflow", one.skill), _tag("step", one.step), _tag("decision", one.type)]
    elif isinstance(one, Feedback):
        kind, title, content, pattern = one.kind, f"The user's preference: {one.text}", one.text, one.pattern
        tags = [FEEDBACK, f"source:{one.source}"]
        if pattern is not None:
            title = f"Feedback on {pattern.said} at {pattern.step_name or pattern.step} of {pattern.skill}"
            content = f"{one.text}\nAbout: {pattern.said}\nStep: {pattern.step_name}"
            tags += [pattern.situation, _tag("choice", pattern.choice), _tag("workflow", pattern.skill)]
            tags += [_tag("step", pattern.step), f"what:{pattern.kind}"]
    else:
        kind, title = FORGOTTEN, f"{one.id} is forgotten"
        content, tags = f"{one.id} does not count any more, since {one.at}.", [FEEDBACK, f"forgets:{one.id}"]
    if not isinstance(one, Lesson):
        importance = IMPORTANCE[kind][0]
        tags.append(f"at:{one.at}")
    named = one.keywords if isinstance(one, Lesson) else keywords(f"{content} {title}")
    tags += [_tag("workflow_id", origin.workflow_id)] if origin.workflow_id else []
    return Memory(title, content, importance, named, (f"type:{kind}", *tags), origin.project_id, one.at)


def _feedback(memory: Memory) -> Feedback | None:
    kind = memory.tagged("type")
    if kind not in KINDS:
        return None
    text, at, source = memory.content, memory.tagged("at") or memory.created_at, memory.tagged("source") or "explicit"
    lines = dict(re.findall(r"^(About|Step): (.*)$", text, re.MULTILINE))
    what, choice = memory.tagged("what"), memory.tagged("choice")
    if what is None or choice is None:
        return Feedback(kind, text, None, source, at)
    situation = f"{what}:{memory.tagged(what) or ''}"
    pattern = Pattern(
        what, memory.tagged("workflow") or "", memory.tagged("step") or "", situation, choice, lines.get("About", ""),
        lines.get("Step", ""),
    )  # fmt: skip
    return Feedback(kind, text.partition("\n")[0], pattern, source, at)


def _choice(memory: Memory) -> Choice | None:
    lines = dict(re.findall(r"^(Chose|Offered|Recommended): (.*)$", memory.content, re.MULTILINE))
    menu = memory.tagged("menu")
    if menu is None or "Chose" not in lines:
        return None
    offered = tuple(one for one in lines.get("Offered", "").split(" | ") if one)
    return Choice(
        memory.tagged("workflow") or "", memory.tagged("step") or "", f"menu:{menu}", lines["Chose"], offered,
        lines.get("Recommended"), memory.tagged("decision") or "", memory.tagged("at") or memory.created_at,
    )  # fmt: skip


def _tag(name: str, value: str) -> str:
    """A tag as memory keeps it: what is longer is cut, here as there."""
    return f"{name}:{value}"[:TAG]


def _failure(text: str) -> str:
    """The tag that a failure is known by: its words, without numbers, paths and quotes, which change each time."""
    plain = re.sub(r"(?:/[\w.-]+)+|0x[0-9a-f]+|\d+|[\"'`].*?[\"'`]", "#", text.lower())
    plain = " ".join(plain.split())[:SIGNATURE_CHARS]
    return f"failure:{hashlib.sha256(plain.encode('utf-8', 'replace')).hexdigest()[:32]}"


def origin_of(state: WorkflowState, workflow: Workflow) -> Origin:
    """Where the memories of a run come from: its project has the name of its configuration, else of its directory."""
    name = workflow.variables.value("project_name")
    project = name if name is not None and is_set(name) else os.path.basename(state.plan.project)
    return Origin(project, state.workflow_id, state.skill)
