"""What was learned of a project's wishes, brought together: later beats earlier, explicit beats implicit.

Nothing here decides: `menus.menu_participation_engine` takes what it says into account, within the bounds of decision
28, and every decision that it changed says so (`decision_source: "learned_preference"`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow.menus import meanings
from interlock.workflow.menus.options import Option
from interlock.workflow.preferences.explicit import where, wish
from interlock.workflow.preferences.implicit import USUAL, confidence_threshold, deprioritised
from interlock.workflow.preferences.patterns import (
    EXPLICIT,
    NEGATIVE,
    POSITIVE,
    PREFERENCE,
    Feedback,
    Learned,
    Pattern,
    choice_id,
    menu_situation,
    plain,
    type_id,
)

LEARNED = "learned_preference"
_AGAINST = re.compile(r"(?:please\s+)?(?:never|avoid|no|skip|do\s?n[o']?t|do not)\b", re.IGNORECASE)
_FOR = re.compile(r"(?:please\s+)?(?:always|prefer)\b", re.IGNORECASE)
_VERB = re.compile(r"^(?:to\s+)?(?:choose|pick|select|take|use|do|go for|call)?\s*(?:the\s+|option\s+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Wishes:
    """What is wished at one menu, by the keys of its options: those to avoid, the one to prefer, the one a human chose
    last, and those that are shown last. `why` is for whom a preference is applied to."""

    avoided: tuple[str, ...] = ()
    preferred: str | None = None
    remembered: str | None = None
    last: tuple[str, ...] = ()
    why: str = ""


class Preferences:
    """Of one project. `said` is what was said in the session that is under way."""

    def __init__(self, learned: Learned, said: Iterable[Feedback] = ()) -> None:
        gone: dict[str, str] = {}
        for one in learned.forgotten:
            gone[one.id] = max(gone.get(one.id, ""), one.at)
        every = sorted([*learned.feedback, *said], key=lambda one: one.at)
        self._feedback = {one.id: one for one in every if one.at > gone.get(one.id, "")}
        choices = sorted(learned.choices, key=lambda one: one.at)
        self._choices = [one for one in choices if one.at > gone.get(one.id, "")]
        self._gone = gone

    @property
    def words(self) -> list[str]:
        """The preferences in words, which agents are told."""
        return [one.text for one in self._feedback.values() if one.kind == PREFERENCE]

    def about(self, situation: str, choice: str) -> Feedback | None:
        """What is known about a choice: what was said about it, else what was seen (BMAD-7.9.4)."""
        known = [
            one
            for one in self._feedback.values()
            if one.pattern is not None and (one.pattern.situation, one.pattern.choice) == (situation, choice)
        ]
        return _strongest(known)

    def avoids(self, situation: str, choice: str) -> bool:
        """Whether that choice is not to be made again."""
        found = self.about(situation, choice)
        return found is not None and found.kind == NEGATIVE

    def avoided(self, situation: str) -> frozenset[str]:
        """The choices not to be made again in a situation."""
        known = {one.pattern.choice for one in self._feedback.values() if _in(one, situation) and one.pattern}
        return frozenset(choice for choice in known if self.avoids(situation, choice))

    def at_menu(self, skill: str, step: str, options: Sequence[Option]) -> Wishes:
        """What is wished at a menu of a step."""
        situation = menu_situation(skill, step, [one.label for one in options])
        known = {one.key: self._of_option(situation, one) for one in options} if self._feedback else {}
        avoided = tuple(key for key, found in known.items() if found is not None and found.kind == NEGATIVE)
        best = _strongest([one for one in known.values() if one is not None and one.kind == POSITIVE])
        preferred = next((key for key, found in known.items() if found is best), None) if best is not None else None
        chosen = next((one.chosen for one in reversed(self._choices) if one.situation == situation), None)
        labels = [(one.key, plain(one.label)) for one in options]
        remembered = next((key for key, label in labels if label == chosen), None)
        late = deprioritised(self._choices, situation)
        last = tuple([key for key, label in labels if label in late])
        why = "; ".join(one.text for one in known.values() if one is not None)
        return Wishes(avoided, preferred, remembered if remembered not in avoided else None, last, why)

    def confidence_threshold(self, skill: str, type: str) -> int:
        """The confidence of recommendations of that kind: 60, or 85 once they are always taken (BMAD-7.9.3)."""
        since = self._gone.get(type_id(skill, type), "")
        counted = [one for one in self._choices if one.at > since]
        return confidence_threshold(counted, skill, type)

    def listed(self) -> list[Json]:
        """Everything that is in force, as every face shows it: `{id, kind, source, text, at}`."""
        found: list[Json] = []
        for given in self._feedback.values():
            pattern = given.pattern
            text = given.text if pattern is None else f"at {where(pattern)} of {pattern.skill}: {wish(given)}"
            shown = {"id": given.id, "kind": given.kind, "source": given.source, "at": given.at, "text": text}
            # Of two that contradict each other the stronger one counts.
            overruled = pattern is not None and self.about(pattern.situation, pattern.choice) is not given
            found.append({**shown, "overruled": True} if overruled else shown)
        last = {one.situation: one for one in self._choices}
        found += [
            {"id": one.id, "kind": "choice", "source": "chosen", "at": one.at,
             "text": f"at {one.step} of {one.skill} you chose “{one.chosen}”"}
            for one in last.values()
        ]  # fmt: skip
        for skill, type in sorted({(one.skill, one.type) for one in self._choices if one.type}):
            if self.confidence_threshold(skill, type) > USUAL:
                text = f"recommendations of the kind {type} in {skill} are taken without asking"
                at = max(one.at for one in self._choices if one.skill == skill)
                entry = {"id": type_id(skill, type), "kind": "confidence_threshold", "source": "implicit", "at": at}
                found.append({**entry, "text": text})
        for situation, one in last.items():
            for label in sorted(deprioritised(self._choices, situation)):
                text = f"at {one.step} of {one.skill} “{label}” is shown last: you never take it"
                entry = {"id": choice_id(situation), "kind": "deprioritised", "source": "implicit", "at": one.at}
                found.append({**entry, "text": text})
        return found

    def _of_option(self, situation: str, option: Option) -> Feedback | None:
        label = plain(option.label)
        worded = [one for one in self._feedback.values() if one.kind == PREFERENCE and _names(one.text, option)]
        known = [one for one in self._feedback.values() if _in(one, situation) and one.pattern]
        mine = [one for one in known if one.pattern is not None and one.pattern.choice == label]
        return _strongest([*mine, *(_as_pattern(one, situation, label) for one in worded)])


def _strongest(found: Sequence[Feedback]) -> Feedback | None:
    """Explicit before implicit, then the latest."""
    return max(found, key=lambda one: (one.source == EXPLICIT, one.at), default=None)


def _in(given: Feedback, situation: str) -> bool:
    return given.pattern is not None and given.pattern.situation == situation


def _names(text: str, option: Option) -> bool:
    """Whether a preference in words is about an option: `never Party Mode`, `always choose Continue`."""
    found = _AGAINST.match(text) or _FOR.match(text)
    rest = _VERB.sub("", text[found.end() :].strip(), count=1) if found else ""
    return bool(rest) and plain(rest) in (plain(option.label), plain(meanings.head(option.label)))


def _as_pattern(given: Feedback, situation: str, label: str) -> Feedback:
    kind = NEGATIVE if _AGAINST.match(given.text) else POSITIVE
    return Feedback(kind, given.text, Pattern("menu", "", "", situation, label), given.source, given.at)
