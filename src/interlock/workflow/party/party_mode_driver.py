"""Party Mode Driver: what is said to a discussion round by round, when it ends, and what it came to (FR20, FR21).

A pure state machine over a `Party`, which a run keeps in `WorkflowState.party`, so that a discussion that was killed
continues with the round it was in. `rounds.py` and `in_a_step.py` speak to the agents.

    opening(party)               -> the first round's input
    heard(party, contributions)  -> the next round's input, or the end with its reason
    cut(party, reason, detail)   -> the end by force: what was heard is kept

A discussion ends by consensus, at its last round, when two rounds in a row bring nothing new, or by an exit word.
Positions are compared by their words; numbers and negations must agree, since "split step 2" and "do not split step 2"
differ in one word only. From the second round on positions have letters, and nothing has to be guessed.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any

from pydantic import TypeAdapter

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow import panel
from interlock.workflow.markdown import quoted
from interlock.workflow.party.contributions import Contribution
from interlock.workflow.state.document import StepId

CONSENSUS, MAX_ROUNDS, STAGNATION = "consensus_reached", "max_rounds", "stagnation"
EXIT_KEYWORD, TIMEOUT, ERROR = "exit_keyword", "timeout", "error"
ENDS = {
    CONSENSUS: "All agree",
    MAX_ROUNDS: "No consensus within the rounds there are; the best recommendation stands",
    STAGNATION: "Two rounds in a row brought nothing new",
    EXIT_KEYWORD: "It was ended",
    TIMEOUT: "Its time was up",
    ERROR: "It broke off",
}
EXIT_WORDS = ("*exit", "goodbye", "end party", "quit")
"""Literal, as whole words, in any case (FR21d, decision 33): the asterisk belongs to `*exit`."""

FULL, SIMULATED, MENU = "full", "simulated", "menu"
"""How it is held: one agent hosts the installed party mode, each voice is an agent, or the run's own agent plays it."""

ROUNDS = 5
STALE = 2
RUNNING, ENDED = "running", "ended"
REOPEN = "reopen"
"""Marks a discussion within a menu whose step begins again: it is opened again and continues with its round."""

ALIKE = 0.7  # of the words of two positions together that both have
UNSURE = 40.0  # a confidence below it is asked about
UNKNOWN = 50.0  # taken where a voice does not say how sure it is
SENTENCE = 4  # words from which a recommendation stands for itself
EXCERPT = 700  # characters of one contribution that the others are shown
CONTEXT = 9000  # of all of them
MANY = 6  # questions of one round

LABELS = string.ascii_uppercase
LABEL = re.compile(r"^(?:option|position)?\s*\(?([A-Za-z])\)?(?:[.:)–-]\s.*|[.:)])?$", re.IGNORECASE | re.DOTALL)
IDLE = frozenset(
    "a an and are as at be but by can could do does for from had has have how i if in into is it its let may must of "
    "on or our out should so than that the their then there this to up us use was we what when which who will with "
    "would you your".split()
)
NEGATES = frozenset("no not never neither nor none without dont doesnt isnt cannot cant wont shouldnt".split())


@dataclass(frozen=True, slots=True)
class Round:
    """One round as it went. `consensus_level` is the share of those who answered that hold the leading position, 0 to
    100; `progressed`: something new was said, or more agree than before. `votes` are agent: label of its position."""

    round_number: int
    agents_responded: int
    consensus_level: int
    progressed: bool
    contributions: tuple[Contribution, ...] = ()
    votes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Party:
    """A discussion, whole. `purpose` says what it was called for, `step` and `visit` where; `voices` are the names of
    those who take part, as far as they are known; `options` are label: position, in the order in which they came up.
    `form` is what a contribution's line holds beside the
    usual fields. `number` counts the discussions of the run, from 1."""

    purpose: str
    how: str
    problem: str
    context: str = ""
    step: StepId | None = None
    visit: int = 0
    why: str = ""
    questions: tuple[str, ...] = ()
    voices: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    rounds: tuple[Round, ...] = ()
    max_rounds: int = ROUNDS
    form: str = ""
    number: int = 0
    status: str = RUNNING
    exit_reason: str | None = None
    error: str | None = None

    @property
    def running(self) -> bool:
        """Whether a round is still to come."""
        return self.status == RUNNING

    def as_dict(self) -> Json:
        """The shape in which a run keeps and shows it; once it has ended with its summary."""
        shown: Json = _PARTY.dump_python(self, mode="json")
        return shown if self.running else {**shown, "summary": summary(self).as_dict()}

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Party | None:
        """The discussion that `as_dict` gave; None where there is none."""
        return _PARTY.validate_python(given) if given.get("purpose") else None


_PARTY = TypeAdapter(Party)


@dataclass(frozen=True, slots=True)
class RoundInput:
    """What a round begins with (BMAD-5.1.3)."""

    round_number: int
    problem: str
    context: str
    questions: tuple[str, ...]
    expected_format: str
    max_rounds: int = ROUNDS

    @property
    def text(self) -> str:
        """As it is said."""
        listed = "\n".join(f"{number}. {one}" for number, one in enumerate(self.questions, 1))
        parts = [
            f"# Round {self.round_number} of at most {self.max_rounds}",
            f"## The problem\n\n{self.problem}",
            f"## {'What is known' if self.round_number == 1 else 'The discussion so far'}\n\n{self.context}",
            f"## Questions of this round\n\n{listed}",
            f"## How to answer\n\n{self.expected_format}",
        ]
        return "\n\n".join(part for part in parts if not part.endswith("\n\n"))


@dataclass(frozen=True, slots=True)
class Recommended:
    """One recommendation, those who hold it, and how far it can be trusted (0 to 100)."""

    recommendation: str
    supporters: tuple[str, ...]
    confidence: float


@dataclass(frozen=True, slots=True)
class Summary:
    """What a discussion came to; the same however it was held. `confidence` is 0 to 100: how sure those are who hold
    the recommendation, by their share of all. `positions` are agent: what it holds last."""

    exit_reason: str
    rounds: int
    recommendation: str
    confidence: float
    consensus_level: int
    recommendations: tuple[Recommended, ...] = ()
    positions: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None

    def as_dict(self) -> Json:
        """All fields."""
        return {**asdict(self), "recommendations": [asdict(one) for one in self.recommendations]}

    @property
    def text(self) -> str:
        """For people and for the agent that acts on it."""
        counted = f"{self.rounds} round{'' if self.rounds == 1 else 's'}{f'; {self.error}' if self.error else ''}"
        lines = [f"{ENDS.get(self.exit_reason, self.exit_reason)} ({counted})."]
        if self.recommendation:
            lines.append(f"Recommendation: {self.recommendation} (confidence {self.confidence:g})")
        held = self.recommendations
        if len(held) > 1 or (held and self.exit_reason != CONSENSUS):
            lines.append("Positions:")
            lines += [
                f"- {one.recommendation} ({', '.join(one.supporters)}; confidence {one.confidence:g})" for one in held
            ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Went:
    """A discussion after a round: the next round's input, or None where it has ended."""

    party: Party
    input: RoundInput | None


def opening(party: Party) -> RoundInput:
    """The first round's input."""
    options = [f"{label}: {text}" for label, text in party.options.items()]
    context = "\n\n".join([party.context, *(["Positions to choose from:\n" + "\n".join(options)] if options else [])])
    return RoundInput(1, party.problem, context.strip(), party.questions, _form(party), party.max_rounds)


def input_of(party: Party) -> RoundInput:
    """The input of the round that a running discussion is in."""
    if not party.rounds:
        return opening(party)
    number = len(party.rounds) + 1
    return RoundInput(number, party.problem, _synthesis(party), _follow_ups(party), _form(party), party.max_rounds)


def heard(party: Party, contributions: Sequence[Contribution]) -> Went:
    """What follows a round in which that was said."""
    party = _with_round(party, contributions)
    last = party.rounds[-1]
    votes = {one.agent: last.votes.get(one.agent, "") for one in contributions}
    rule = panel.VOICES if party.how == SIMULATED else panel.DISCUSSION
    agreed = rule.missed(len(votes), len(party.voices)) is None and rule.verdict(votes.values())
    stale = len(party.rounds) >= STALE and not any(one.progressed for one in party.rounds[-STALE:])
    ends = (
        (EXIT_KEYWORD, any(leaves(one.text) for one in contributions)),
        (CONSENSUS, bool(agreed)),
        (STAGNATION, stale),
        (MAX_ROUNDS, len(party.rounds) >= party.max_rounds),
    )
    reason = next((reason for reason, reached in ends if reached), None)
    return Went(party, input_of(party)) if reason is None else Went(_end(party, reason), None)


def told(party: Party, message: str, contributions: Sequence[Contribution] = ()) -> Party:
    """After a person has said something to it: an exit word ends it, whatever else is said (decision 33). What was
    heard of the round by then is kept."""
    return _end(party, EXIT_KEYWORD, contributions) if party.running and exit_word(message) else party


def cut(party: Party, reason: str, detail: str, contributions: Sequence[Contribution] = ()) -> Party:
    """Ended by force (`timeout` or `error`); what was heard so far is kept (BMAD-5.4.4)."""
    return replace(_end(party, reason, contributions), error=detail[:1000]) if party.running else party


def exit_word(message: str) -> str | None:
    """The exit word that `message` contains as a whole word, or None."""
    lowered = message.lower()
    return next((word for word in EXIT_WORDS if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", lowered)), None)


def leaves(said: str) -> str | None:
    """The exit word that stands alone on a line of what a voice said. Within a sentence it is spoken about: an agent
    that discusses a `quit` command does not leave."""
    for line in said.splitlines():
        alone = line.lstrip(" \t>\"'“_-").rstrip(" \t.!\"'”_")
        if 4 <= len(alone) <= 12 and exit_word(alone) == alone.lower():
            return alone.lower()
    return None


def summary(party: Party) -> Summary:
    """What it has come to so far, or in the end."""
    held: dict[str, list[Contribution]] = {}
    for one, label in latest(party).values():
        held.setdefault(label, []).append(one)
    everybody = sum(len(supporters) for supporters in held.values())
    ranked = []
    for label, supporters in held.items():
        sure = sum(UNKNOWN if one.confidence is None else one.confidence for one in supporters) / len(supporters)
        # The words of the surest; who only follows another says its letter, or "as she says".
        own = [one for one in supporters if len(one.recommendation.split()) >= SENTENCE]
        text = max(own, key=lambda one: one.confidence or 0.0).recommendation if own else ""
        confidence = round(sure * len(supporters) / everybody, 1)
        names = tuple(one.agent for one in supporters)
        ranked.append((label, Recommended(text or party.options.get(label, ""), names, confidence)))
    ranked.sort(key=lambda one: (-len(one[1].supporters), -one[1].confidence, one[0]))
    recommendations = tuple(one for _, one in ranked)
    best = recommendations[0] if recommendations else Recommended("", (), 0.0)
    return Summary(
        party.exit_reason or "",
        len(party.rounds),
        best.recommendation,
        best.confidence,
        party.rounds[-1].consensus_level if party.rounds else 0,
        recommendations,
        {agent: f"{label}: {party.options.get(label, '')}" for agent, (_, label) in latest(party).items()},
        party.error,
    )


def latest(party: Party) -> dict[str, tuple[Contribution, str]]:
    """agent: what it said last that was clear, and the label of that."""
    said = ((one, round.votes.get(one.agent, "")) for round in party.rounds for one in round.contributions)
    return {one.agent: (one, label) for one, label in said if label}


def _synthesis(party: Party) -> str:
    """What was said so far: the positions with who holds them, and the latest words of each."""
    last = party.rounds[-1]
    holders: dict[str, list[str]] = {}
    for agent, (_, label) in latest(party).items():
        holders.setdefault(label, []).append(agent)
    lines = [
        f"- {label}: {text} ({', '.join(holders[label]) if label in holders else 'nobody now'})"
        for label, text in party.options.items()
    ]
    parts = [f"After round {last.round_number} {last.consensus_level} % agree. The positions:", "\n".join(lines)]
    parts += [f"{one.agent} said:\n{quoted(one.text[-EXCERPT:])}" for one in last.contributions if one.text]
    return "\n\n".join(part for part in parts if part)[:CONTEXT]


def _follow_ups(party: Party) -> tuple[str, ...]:
    """What the next round is asked: first of those who were unclear or spoke of something else, then what divides."""
    last, options, found = party.rounds[-1], party.options, []
    known = _words(f"{party.problem} {party.context}")
    letters = ", ".join(options)
    for one in last.contributions:
        of_others = _words(" ".join(text for label, text in options.items() if label != last.votes.get(one.agent)))
        if not one.clear:
            wanted = f"do you recommend one of {letters}, or something else" if options else "what do you recommend"
            found.append(f"{one.agent}: it is not clear what you recommend about this problem; {wanted}, and why?")
        elif known and not (known | of_others) & _words(f"{one.text} {one.recommendation}"):
            found.append(f"{one.agent}: what does what you said mean for this problem? Come back to it.")
        elif one.confidence is not None and one.confidence < UNSURE:
            found.append(f"{one.agent}: what would you have to know to be sure, and where can it be found?")
    held = list(dict.fromkeys(last.votes.values()))
    if len(held) > 1:
        against = " and against ".join(held[:3])
        found.append(f"What speaks against {against}, and which one would you give up yours for?")
    elif held and len(last.votes) < len(party.voices):
        found.append(f"Does anything speak against {held[0]}? Who has not answered yet: do you hold it too?")
    found.append("Is there a way that keeps what is right in several positions?")
    return tuple(found[:MANY])


def _with_round(party: Party, contributions: Sequence[Contribution]) -> Party:
    options, votes = dict(party.options), {}
    for one in contributions:
        if label := _label(one, options):
            votes[one.agent] = label
    answered = len({one.agent for one in contributions})
    most = max((list(votes.values()).count(label) for label in votes.values()), default=0)
    level = round(100 * most / answered) if answered else 0
    before = max((one.consensus_level for one in party.rounds), default=0)
    # A position that was given beforehand is new when it is taken for the first time.
    taken = {label for one in party.rounds for label in one.votes.values()}
    progressed = bool(set(votes.values()) - taken) or level > before
    last = Round(len(party.rounds) + 1, answered, level, progressed, tuple(contributions), votes)
    return replace(party, options=options, rounds=(*party.rounds, last))


def _label(one: Contribution, options: dict[str, str]) -> str:
    """The label of the position that a contribution takes; a new one is added to `options`. "" for none."""
    if not one.clear:
        return ""
    named = LABEL.match(one.position)
    if named and named[1].upper() in options:
        return named[1].upper()
    for label, text in options.items():
        if any(said and _alike(said, text) for said in (one.position, one.recommendation)):
            return label
    if len(options) >= len(LABELS):
        return ""
    label = LABELS[len(options)]
    options[label] = one.recommendation or one.position
    return label


def _end(party: Party, reason: str, contributions: Sequence[Contribution] = ()) -> Party:
    party = _with_round(party, contributions) if contributions else party
    return replace(party, status=ENDED, exit_reason=reason)


def _form(party: Party) -> str:
    more = f", {party.form}" if party.form else ""
    line = f'"recommendation": "WHAT TO DO, IN ONE SENTENCE", "position": "…", "confidence": 0-100{more}'
    position = (
        "`position` is the letter of one of the positions above, or a new one in a few words."
        if party.options
        else "`position` is what you stand for, in a few words."
    )
    if party.how == SIMULATED:
        return f"Say what you think and why, in at most 250 words. {position} End with this line of JSON:\n\n{{{line}}}"
    return (
        "Let two or three of the agents whose competence it is speak, each in its own manner, in at most 150 words. "
        f"{position} Each ends with a line of JSON of its own:\n\n"
        f'{{"agent": "NAME", {line}}}'
    )


def _alike(one: str, other: str) -> bool:
    """Whether two texts recommend the same."""
    first, second = _words(one), _words(other)
    if not first or not second:
        return " ".join(one.split()).casefold() == " ".join(other.split()).casefold()
    exact, its_exact = (
        {"not" if word in NEGATES else word for word in words if word in NEGATES or word.isdigit()}
        for words in (first, second)
    )
    return exact == its_exact and len(first & second) / len(first | second) >= ALIKE


def _words(text: str) -> frozenset[str]:
    plain = text.casefold().replace("'", "").replace("’", "").replace("_", " ")
    return frozenset(one.removesuffix("s") if len(one) > 3 else one for one in re.findall(r"\w+", plain)) - IDLE
