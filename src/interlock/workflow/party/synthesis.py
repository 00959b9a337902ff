"""What the rounds of a discussion come to: who holds what, what is open, and what is to be asked next (BMAD-5.1, 5.2).

Pure. Positions are compared by their words; numbers and negations must agree, since "split step 2" and "do not split
step 2" differ in one word only. From the second round on positions have letters, and nobody has to be guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlock.workflow.party.contributions import Contribution

if TYPE_CHECKING:
    from interlock.workflow.party.party_mode_driver import Round

ALIKE = 0.7  # of the words of two positions together that both have
UNSURE = 40.0  # a confidence below it is asked about
UNKNOWN = 50.0  # taken where a voice does not say how sure it is
SENTENCE = 4  # words from which a recommendation stands for itself
EXCERPT = 700  # characters of one contribution that the others are shown
CONTEXT = 9000  # of all of them
MANY = 6  # questions of one round

IDLE = frozenset(
    "a an and are as at be but by can could do does for from had has have how i if in into is it its let may must of "
    "on or our out should so than that the their then there this to up us use was we what when which who will with "
    "would you your".split()
)
NEGATES = frozenset("no not never neither nor none without dont doesnt isnt cannot cant wont shouldnt".split())


@dataclass(frozen=True)
class Recommended:
    """One recommendation, those who hold it, and how far it can be trusted (0 to 100)."""

    recommendation: str
    supporters: tuple[str, ...]
    confidence: float


def alike(one: str, other: str) -> bool:
    """Whether two texts recommend the same."""
    first, second = _words(one), _words(other)
    if not first or not second:
        return " ".join(one.split()).casefold() == " ".join(other.split()).casefold()
    if _exact(first) != _exact(second):
        return False
    return len(first & second) / len(first | second) >= ALIKE


def latest(rounds: Sequence[Round]) -> dict[str, tuple[Contribution, str]]:
    """agent: what it said last that was clear, and the label of that."""
    found: dict[str, tuple[Contribution, str]] = {}
    for round in rounds:
        for one in round.contributions:
            label = round.votes.get(one.agent, "")
            if label:
                found[one.agent] = (one, label)
    return found


def positions(rounds: Sequence[Round], options: Mapping[str, str]) -> dict[str, str]:
    """agent: the position it holds last."""
    return {agent: f"{label}: {options.get(label, '')}" for agent, (_, label) in latest(rounds).items()}


def ranked(rounds: Sequence[Round], options: Mapping[str, str]) -> tuple[Recommended, ...]:
    """The recommendations, the best first: held by most, then by the surest."""
    held: dict[str, list[Contribution]] = {}
    for one, label in latest(rounds).values():
        held.setdefault(label, []).append(one)
    everybody = sum(len(supporters) for supporters in held.values())
    found = []
    for label, supporters in held.items():
        sure = sum(UNKNOWN if one.confidence is None else one.confidence for one in supporters) / len(supporters)
        # The words of the surest; who only follows another says its letter, or "as she says".
        own = [one for one in supporters if len(one.recommendation.split()) >= SENTENCE]
        text = max(own, key=lambda one: one.confidence or 0.0).recommendation if own else ""
        names = tuple(one.agent for one in supporters)
        confidence = round(sure * len(supporters) / everybody, 1)
        found.append((label, Recommended(text or options.get(label, ""), names, confidence)))
    found.sort(key=lambda one: (-len(one[1].supporters), -one[1].confidence, one[0]))
    return tuple(one for _, one in found)


def context(rounds: Sequence[Round], options: Mapping[str, str]) -> str:
    """The synthesis of what was said so far: the positions with who holds them, and the latest words of each."""
    last = rounds[-1]
    holders: dict[str, list[str]] = {}
    for agent, (_, label) in latest(rounds).items():
        holders.setdefault(label, []).append(agent)
    lines = [
        f"- {label}: {text} ({', '.join(holders[label]) if label in holders else 'nobody now'})"
        for label, text in options.items()
    ]
    parts = [f"After round {last.round_number} {last.consensus_level} % agree. The positions:", "\n".join(lines)]
    parts += [f"{one.agent} said:\n{_quoted(one.text[-EXCERPT:])}" for one in last.contributions if one.text]
    return "\n\n".join(part for part in parts if part)[:CONTEXT]


def questions(
    problem: str, about: str, last: Round, options: Mapping[str, str], voices: Sequence[str]
) -> tuple[str, ...]:
    """What the next round is asked: first of those who were unclear or spoke of something else, then what divides."""
    found = []
    known = _words(f"{problem} {about}")
    letters = ", ".join(options)
    for one in last.contributions:
        if not one.clear:
            wanted = f"do you recommend one of {letters}, or something else" if options else "what do you recommend"
            found.append(f"{one.agent}: it is not clear what you recommend about this problem; {wanted}, and why?")
        elif known and not (known | _others(one, last, options)) & _words(f"{one.text} {one.recommendation}"):
            found.append(f"{one.agent}: what does what you said mean for this problem? Come back to it.")
        elif one.confidence is not None and one.confidence < UNSURE:
            found.append(f"{one.agent}: what would you have to know to be sure, and where can it be found?")
    held = list(dict.fromkeys(last.votes.values()))
    if len(held) > 1:
        found.append(
            f"What speaks against {' and against '.join(held[:3])}, and which one would you give up yours for?"
        )
    elif held and len(last.votes) < len(voices):
        found.append(f"Does anything speak against {held[0]}? Who has not answered yet: do you hold it too?")
    found.append("Is there a way that keeps what is right in several positions?")
    return tuple(found[:MANY])


def _others(one: Contribution, last: Round, options: Mapping[str, str]) -> frozenset[str]:
    """The words of the positions that it has not brought up itself."""
    own = last.votes.get(one.agent)
    return _words(" ".join(text for label, text in options.items() if label != own))


def told(
    reason: str, rounds: int, recommendation: str, confidence: float, all_: Sequence[Recommended], error: str | None
) -> str:
    """The summary in words."""
    ended = {
        "consensus_reached": "All agree",
        "max_rounds": "No consensus within the rounds there are; the best recommendation stands",
        "stagnation": "Two rounds in a row brought nothing new",
        "exit_keyword": "It was ended",
        "timeout": "Its time was up",
        "error": "It broke off",
    }.get(reason, reason)
    counted = f"{rounds} round{'' if rounds == 1 else 's'}"
    lines = [f"{ended} ({counted}{f'; {error}' if error else ''})."]
    if recommendation:
        lines.append(f"Recommendation: {recommendation} (confidence {confidence:g})")
    if len(all_) > 1 or (all_ and reason != "consensus_reached"):
        lines.append("Positions:")
        lines += [
            f"- {one.recommendation} ({', '.join(one.supporters)}; confidence {one.confidence:g})" for one in all_
        ]
    return "\n".join(lines)


def _words(text: str) -> frozenset[str]:
    plain = text.casefold().replace("'", "").replace("’", "").replace("_", " ")
    return frozenset(one.removesuffix("s") if len(one) > 3 else one for one in re.findall(r"\w+", plain)) - IDLE


def _exact(words: frozenset[str]) -> frozenset[str]:
    return frozenset("not" if one in NEGATES else one for one in words if one in NEGATES or one.isdigit())


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.strip().splitlines())
