"""What people chose at menus and what they said about it, kept in memory over runs (decision 28, FR63 to FR65).

Everything of a project is loaded once, when a run begins, and reduced by `personal/preferences.py`; each new choice is
one memory more. What is to count no more is noted, too: memory only ever grows. Memory may be out of reach: then
nothing is known, nothing is kept, and every menu goes its ordinary way.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from interlock.memory.store import Memory, MemoryStore, MemoryUnavailable
from interlock.workflow.memory.lesson import keywords
from interlock.workflow.preferences.preferences import KINDS, Choice, Feedback, Forgotten, Learned, Pattern

CHOICE, FORGOTTEN = "menu_choice", "forgotten"
FEEDBACK = "about:feedback"
"""The tag of everything that was said, or seen, about a choice."""
MOST = 300
"""Memories of each of the two sorts that are looked at, the newest."""
IMPORTANCE = {CHOICE: 6, FORGOTTEN: 6, "explicit_preference": 8}
TAG = 100


class DecisionMemory:
    """Of one project; `log` gets what went wrong (reason, operation), `run` is the one that is under way or meant."""

    def __init__(
        self,
        memory: MemoryStore,
        project_id: str,
        log: Callable[[str, str], None] = lambda *_: None,
        *,
        run: str = "",
    ) -> None:
        self._memory = memory
        self._project = project_id
        self._log = log
        self._run = run

    def load(self, skill: str | None = None) -> Learned:
        """What is known, oldest first; of choices only those in that workflow, or all."""
        found = self._recall([FEEDBACK])
        choices = self._recall([f"type:{CHOICE}", *([_workflow(skill)] if skill is not None else [])])
        feedback = [one for memory in found if (one := _feedback(memory)) is not None]
        gone = [
            Forgotten(id, memory.tagged("at") or memory.created_at)
            for memory in found
            if (id := memory.tagged("forgets")) is not None
        ]
        kept = [choice for memory in choices if (choice := _choice(memory)) is not None]
        return Learned(tuple(feedback), tuple(kept), tuple(gone))

    def chose(self, choice: Choice) -> bool:
        """Remember what a human chose; whether it was kept. Answers of the engine itself are never remembered: it would
        only agree with itself."""
        lines = [f"Chose: {choice.chosen}", f"Offered: {' | '.join(choice.offered)}"]
        lines += [f"Recommended: {choice.recommended}"] if choice.recommended is not None else []
        tags = (
            f"type:{CHOICE}", choice.situation, _workflow(choice.skill), _tag("step", choice.step),
            _tag("decision", choice.type), f"at:{choice.at}",
        )  # fmt: skip
        return self._keep(CHOICE, f"At {choice.step} of {choice.skill}", "\n".join(lines), tags, choice.at)

    def learn(self, given: Feedback) -> bool:
        """Remember feedback; whether it was kept."""
        pattern = given.pattern
        tags: tuple[str, ...] = (f"type:{given.kind}", FEEDBACK, f"source:{given.source}", f"at:{given.at}")
        title, content = f"The user's preference: {given.text}", given.text
        if pattern is not None:
            title = f"Feedback on {pattern.said} at {pattern.step_name or pattern.step} of {pattern.skill}"
            content = f"{given.text}\nAbout: {pattern.said}\nStep: {pattern.step_name}"
            tags += (pattern.situation, _tag("choice", pattern.choice), _workflow(pattern.skill))
            tags += (_tag("step", pattern.step), f"what:{pattern.kind}")
        return self._keep(given.kind, title, content, tags, given.at)

    def forget(self, id: str, at: str) -> bool:
        """Let what is listed under that id count no more; whether that was kept."""
        tags = (f"type:{FORGOTTEN}", FEEDBACK, f"forgets:{id}", f"at:{at}")
        return self._keep(FORGOTTEN, f"{id} is forgotten", f"{id} does not count any more, since {at}.", tags, at)

    def _recall(self, tags: list[str]) -> list[Memory]:
        try:
            found = self._memory.recall("", project_id=self._project, tags=tags, limit=MOST).memories
        except MemoryUnavailable as error:
            self._log(error.message, "recall")
            return []
        return [one for one in reversed(found) if one.project_id in (self._project, None)]

    def _keep(self, kind: str, title: str, content: str, tags: tuple[str, ...], at: str) -> bool:
        if self._run:
            tags += (_tag("workflow_id", self._run),)
        named = keywords(f"{content} {title}")
        try:
            self._memory.remember(Memory(title, content, IMPORTANCE.get(kind, 7), named, tags, self._project, at))
        except MemoryUnavailable as error:
            self._log(error.message, "remember")
            return False
        return True


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


def _workflow(skill: str) -> str:
    return _tag("workflow", skill)


def _tag(name: str, value: str) -> str:
    """A tag as memory keeps it: what is longer is cut, here as there."""
    return f"{name}:{value}"[:TAG]
