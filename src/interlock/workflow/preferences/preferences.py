"""What was learned of a project's wishes, brought together: later beats earlier, explicit beats implicit.

Nothing here decides: `menus.menu_participation_engine` takes what it says into account, within the bounds of decision
28, and every decision that it changed says so (`decision_source: "learned_preference"`).

What can be learned of a person's wishes, as values: a choice in a situation, and what was said or seen about it.

A *situation* is what asked for a choice, known again by its words and never by letters or numbers, which change
between versions: a menu by the labels of its options, a question by its text, a failure by the step it was in. A choice
is known by its label for the same reason.

Implicit feedback: what a person does says what they want (Story 7.9, FR65). Pure: from choices to what they mean.

    the engine chose A, and at once the human chooses B  ──> not A here, and B
    an option was offered three times and never taken    ──> it is shown after the others, and never hidden
    five recommendations of a kind were taken as they were ──> the next are taken without asking

The last is how we read "the confidence threshold for that decision type is increased" (decision page 0171).

Explicit feedback: what a person says about the last thing a run did, or wants remembered (Story 7.8, FR63).

Only a whole message counts: "good choice" within a sentence is conversation, and no command.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from interlock.model.json import Json
from interlock.workflow.menus import options as labels
from interlock.workflow.menus import recognition
from interlock.workflow.menus.options import Option

NEGATIVE, POSITIVE, PREFERENCE = "negative_pattern", "positive_pattern", "explicit_preference"
KINDS = (NEGATIVE, POSITIVE, PREFERENCE)
EXPLICIT, IMPLICIT = "explicit", "implicit"
MENU, QUESTION, FIX = "menu", "question", "fix"
LABEL = 80  # characters of a label that it is known by


@dataclass(frozen=True)
class Pattern:
    """A choice in a situation of a step. `situation` and `choice` are what they are known by, `said` is the choice as a
    person reads it, `step_name` the step's title."""

    kind: str
    skill: str
    step: str
    situation: str
    choice: str
    said: str = ""
    step_name: str = ""

    def as_dict(self) -> Json:
        """All fields."""
        return asdict(self)

    @classmethod
    def of(cls, given: object) -> Pattern | None:
        """What `as_dict` gave; null where it is none."""
        if not isinstance(given, Mapping) or not {"kind", "skill", "step", "situation", "choice"} <= set(given):
            return None
        return cls(**{name: str(given.get(name, "")) for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class Feedback:
    """What a person said (`explicit`), or did (`implicit`), about a choice; `pattern` is null for a preference in
    words. `at` is ISO 8601 UTC. Feedback of the same `id` replaces what came before it."""

    kind: str
    text: str
    pattern: Pattern | None = None
    source: str = EXPLICIT
    at: str = ""

    @property
    def id(self) -> str:
        """What it is listed and forgotten by."""
        if self.pattern is None:
            return f"F-{_hash(plain(self.text))[:8]}"
        return f"F-{_hash(self.source, self.pattern.situation, self.pattern.choice)[:8]}"

    def as_dict(self) -> Json:
        """All fields."""
        pattern = self.pattern.as_dict() if self.pattern is not None else None
        whole = {"id": self.id, "kind": self.kind, "text": self.text}
        return {**whole, "pattern": pattern, "source": self.source, "at": self.at}

    @classmethod
    def of(cls, given: object) -> Feedback | None:
        """What `as_dict` gave; null where it is none."""
        if not isinstance(given, Mapping) or given.get("kind") not in KINDS:
            return None
        words = {name: str(given.get(name) or "") for name in ("kind", "text", "source", "at")}
        return cls(words["kind"], words["text"], Pattern.of(given.get("pattern")), words["source"], words["at"])


@dataclass(frozen=True)
class Choice:
    """What a human chose at a menu. `offered` are the labels of its options, `recommended` the one that was recommended
    to them, `type` the kind of decision that the recommendation was."""

    skill: str
    step: str
    situation: str
    chosen: str
    offered: tuple[str, ...] = ()
    recommended: str | None = None
    type: str = ""
    at: str = ""

    @property
    def id(self) -> str:
        """What all choices at this menu are listed and forgotten by."""
        return choice_id(self.situation)


@dataclass(frozen=True)
class Forgotten:
    """What is not to count any more: everything of that `id` up to `at`."""

    id: str
    at: str


@dataclass(frozen=True)
class Learned:
    """Everything that is known of a project's wishes, oldest first."""

    feedback: tuple[Feedback, ...] = ()
    choices: tuple[Choice, ...] = ()
    forgotten: tuple[Forgotten, ...] = field(default=())


def menu_situation(skill: str, step: str, labels: Sequence[str]) -> str:
    """What a menu of a step is known by."""
    return f"menu:{_hash(skill, step, *sorted(plain(label) for label in labels))}"


def question_situation(skill: str, step: str, text: str) -> str:
    """What a question of a step is known by."""
    return f"question:{_hash(skill, step, plain(text))}"


def fix_situation(skill: str, step: str) -> str:
    """What the failures of a step are known by."""
    return f"fix:{_hash(skill, step)}"


def choice_id(situation: str) -> str:
    """The id of what was chosen in a situation."""
    return f"C-{_hash(situation)[:8]}"


def type_id(skill: str, type: str) -> str:
    """The id of what is taken without asking, since it was accepted so often."""
    return f"T-{_hash(skill, type)[:8]}"


def plain(label: str) -> str:
    """A label by its words alone."""
    return " ".join(re.findall(r"\w+", label.lower()))[:LABEL]


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


SKIPS = 3
ACCEPTS = 5
USUAL, INCREASED = 60, 85
"""The confidence of a choice among several ways on (decision 28), and what acceptance raises it to."""


def decision_type(recommended: str) -> str:
    """The kind of decision that recommending that label is."""
    return f"menu:{labels.meaning(recommended)}"


def corrected(automatic: Pattern, chosen: Pattern, at: str) -> tuple[Feedback, Feedback] | None:
    """Against what was chosen automatically and for what the human chose instead; null where both are the same choice,
    or are not about the same situation."""
    if automatic.situation != chosen.situation or automatic.choice == chosen.choice:
        return None
    text = f"chosen instead of {automatic.said}"
    return (
        Feedback(NEGATIVE, f"{chosen.said} was chosen instead", automatic, IMPLICIT, at),
        Feedback(POSITIVE, text, chosen, IMPLICIT, at),
    )


def automatic_before(
    decisions: Sequence[Mapping[str, Any]], rollbacks: Iterable[Mapping[str, Any]], situation: str
) -> Pattern | None:
    """What the engine chose by itself the last time in that situation, where a human's other choice would correct it:
    it was rolled back, or nothing else was chosen since.

    An option that opens a nested mode is no answer that could be corrected at once: its menu comes back by design.
    """
    last = _last(decisions, situation)
    pattern = Pattern.of(last.get("pattern")) if last is not None and last.get("by") == "engine" else None
    if last is None or pattern is None:
        return None
    if taken_back(decisions, rollbacks, situation):
        return pattern
    since = decisions[list(decisions).index(last) + 1 :]
    if any(one.get("kind") in ("menu", "question", "next_step") for one in since) or recognition.opens(pattern.choice):
        return None
    return pattern


def taken_back(decisions: Sequence[Mapping[str, Any]], rollbacks: Iterable[Mapping[str, Any]], situation: str) -> bool:
    """Whether a human has at once rolled back what the engine chose in that situation: it was the last that it chose
    before the rollback, and nobody has chosen there since."""
    back = [one for one in rollbacks if one.get("kind", "rollback") == "rollback" and not one.get("undone")]
    if not back:
        return False
    moment = str(back[-1].get("at", ""))
    before = [one for one in decisions if Pattern.of(one.get("pattern")) and str(one.get("at", "")) <= moment]
    if not before or before[-1] is not _last(decisions, situation):
        return False
    return bool(before[-1].get("by") == "engine")


def skips(choices: Iterable[Choice], situation: str) -> dict[str, int]:
    """How often each option of a menu was offered to a human and not taken, since it was taken last."""
    counts: dict[str, int] = {}
    for one in choices:
        if one.situation != situation:
            continue
        for label in one.offered:
            counts[label] = 0 if label == one.chosen else counts.get(label, 0) + 1
    return counts


def deprioritised(choices: Iterable[Choice], situation: str) -> frozenset[str]:
    """The options of a menu that come last from now on."""
    return frozenset(label for label, count in skips(choices, situation).items() if count >= SKIPS)


def accepts(choices: Iterable[Choice], skill: str) -> dict[str, int]:
    """How many recommendations of each kind were taken in a row, as they were, in that workflow."""
    counts: dict[str, int] = {}
    for one in choices:
        if one.skill == skill and one.recommended is not None and one.type:
            counts[one.type] = counts.get(one.type, 0) + 1 if one.chosen == one.recommended else 0
    return counts


def confidence_threshold(choices: Iterable[Choice], skill: str, type: str) -> int:
    """The confidence of decisions of that kind, 0 to 100."""
    return INCREASED if accepts(choices, skill).get(type, 0) >= ACCEPTS else USUAL


def _last(decisions: Sequence[Mapping[str, Any]], situation: str) -> Mapping[str, Any] | None:
    """The last decision about that situation."""
    for one in reversed(decisions):
        pattern = Pattern.of(one.get("pattern"))
        if pattern is not None and pattern.situation == situation:
            found: Mapping[str, Any] = one
            return found
    return None


LONGEST = 1000  # characters of a preference
ABOUT = frozenset({"menu", "question", "recovery"})
"""The kinds of decisions that feedback is about."""

_AGAIN = r"(?:\s+(?:again|any\s?more|ever again|next time))"
_THAT = r"(?:\s+(?:that|this|it|so))?"
WORDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(rf"(?:please,?\s+)?(?:{pattern})(?:,?\s+please)?[\s.!]*", re.IGNORECASE))
    for kind, pattern in (
        (NEGATIVE, rf"(?:do\s?n[o']?t|do not|never)(?: ever)?\s+(?:do|choose|pick|select){_THAT}{_AGAIN}"),
        (NEGATIVE, rf"never\s+(?:do|choose|pick|select)\s+(?:that|this|it){_AGAIN}?"),
        (NEGATIVE, r"(?:that was (?:a |the )?)?(?:bad|wrong|poor|not a good) (?:choice|decision|call)"),
        (
            POSITIVE,
            r"(?:(?:that was|that's) (?:a |the )?)?(?:very )?(?:good|great|nice|excellent|right|perfect) "
            r"(?:choice|decision|call|pick|selection)",
        ),
        (POSITIVE, r"(?:always )?(?:do|choose|pick) (?:that|this|it) (?:again|next time|every time)"),
        (POSITIVE, r"keep doing (?:that|this|it)"),
    )
)
_REMEMBER = re.compile(
    r"\s*(?:please,?\s+)?(?:remember|note|save|keep)\s+(?:this|my|the following|that|a)?\s*(?:preference)s?\s*"
    r"(?::|[-–—]|,?\s+that\b)\s*(\S.*?)\s*|"
    r"\s*(?:my\s+)?preference\s*:\s*(\S.*?)\s*|\s*(?:please,?\s+)?remember\s*:\s*(\S.*?)\s*",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Said:
    """Feedback as it was said; `text` is the preference itself, else the message."""

    kind: str
    text: str


def understood(message: str) -> Said | None:
    """The feedback that a message is, null where it is something else."""
    text = " ".join(message.replace("’", "'").split()).strip('"“” ')
    found = _REMEMBER.fullmatch(text)
    if found is not None:
        preference = next(group for group in found.groups() if group)
        return Said(PREFERENCE, preference.strip('"“” '))
    return next((Said(kind, text) for kind, pattern in WORDS if pattern.fullmatch(text)), None)


def last_action(decisions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The last thing that a run did by itself and could do otherwise: its last decision about a menu, a question or a
    fix. What a human chose is theirs, and no matter for feedback."""
    own = [one for one in decisions if one.get("kind") in ABOUT and one.get("by") != "human"]
    return next((one for one in reversed(own) if Pattern.of(one.get("pattern")) is not None), None)


def feedback(said: Said, decisions: Iterable[Mapping[str, Any]], at: str) -> Feedback | None:
    """The feedback, with what it is about; null where there is nothing yet that it could be about."""
    if said.kind == PREFERENCE:
        return Feedback(PREFERENCE, said.text[:LONGEST], at=at)
    action = last_action(decisions)
    pattern = Pattern.of(action.get("pattern")) if action is not None else None
    return Feedback(said.kind, said.text, pattern, at=at) if pattern is not None else None


def noted(given: Feedback) -> str:
    """What was understood, said back."""
    if given.pattern is None:
        return f"Noted for every workflow of this project: {given.text}"
    return f"Noted: at {where(given.pattern)} {wish(given)}."


def where(pattern: Pattern) -> str:
    """The step, as a person knows it."""
    name = pattern.step_name or pattern.step
    return name if name.lower().startswith("step") else f"step {name}"


def wish(given: Feedback) -> str:
    """What feedback about a choice asks for."""
    pattern = given.pattern
    assert pattern is not None
    if given.kind == NEGATIVE:
        return {
            "menu": f"I will not choose {pattern.said} again",
            "question": f"I will not answer “{pattern.said}” by myself again, but ask you",
            "fix": f"I will not try {pattern.said} again",
        }[pattern.kind]
    return {
        "menu": f"{pattern.said} was right, and I will choose it again",
        "question": f"“{pattern.said}” was answered well, and will be so again",
        "fix": f"{pattern.said} was right, and will be tried again",
    }[pattern.kind]


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
        known = {one.key: self._of_option(situation, one) for one in options}
        avoided = tuple(key for key, found in known.items() if found is not None and found.kind == NEGATIVE)
        best = _strongest([one for one in known.values() if one is not None and one.kind == POSITIVE])
        preferred = next((key for key, found in known.items() if found is best), None) if best is not None else None
        chosen = next((one.chosen for one in reversed(self._choices) if one.situation == situation), None)
        remembered = next((one.key for one in options if plain(one.label) == chosen), None)
        late = deprioritised(self._choices, situation)
        last = tuple(one.key for one in options if plain(one.label) in late)
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
    return bool(rest) and plain(rest) in (plain(option.label), plain(labels.head(option.label)))


def _as_pattern(given: Feedback, situation: str, label: str) -> Feedback:
    kind = NEGATIVE if _AGAINST.match(given.text) else POSITIVE
    return Feedback(kind, given.text, Pattern("menu", "", "", situation, label), given.source, given.at)


__all__ = ["LEARNED", "Choice", "Preferences", "Wishes"]
