"""Party Mode Driver: what is said to a discussion round by round, when it ends, and what it came to (FR20, FR21).

A pure state machine over a `Party`, which a run keeps in `WorkflowState.party`, so that a discussion that was killed
goes on with the round it was in. Nothing here speaks to an agent: `party_rounds.py` does, with several subagents that
each play one voice, with one that hosts the installed party mode, or within a menu of the run's own agent.

    opening(party)               -> the first round's input
    heard(party, contributions)  -> the next round's input, or the end with its reason
    cut(party, reason, detail)   -> the end by force: what was heard is kept

A discussion ends by consensus, at its last round, when two rounds in a row bring nothing new, or by an exit word.

What the rounds of a discussion come to: who holds what, what is open, and what is to be asked next (BMAD-5.1, 5.2).

Pure. Positions are compared by their words; numbers and negations must agree, since "split step 2" and "do not split
step 2" differ in one word only. From the second round on positions have letters, and nobody has to be guessed at.

Words that end a Party Mode session: literal, as whole words, in any case (BMAD-FR21d, decision 33).

The asterisk of `*exit` is an asterisk, and `quit` is not in "quite". Upstream says only that a message "contains" one.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from interlock.workflow.party.contributions import Contribution
from interlock.workflow.state.document import StepId

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


def ranking(rounds: Sequence[Round], options: Mapping[str, str]) -> tuple[Recommended, ...]:
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


def context_of(rounds: Sequence[Round], options: Mapping[str, str]) -> str:
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


def next_questions(
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


def summary_text(
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


EXIT_WORDS = ("*exit", "goodbye", "end party", "quit")


def exit_word(message: str) -> str | None:
    """The exit word that `message` contains, or None."""
    lowered = message.lower()
    for word in EXIT_WORDS:
        start = lowered.find(word)
        while start >= 0:
            if _bounded(lowered, start, start + len(word)):
                return word
            start = lowered.find(word, start + 1)
    return None


def _bounded(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    return not _in_word(before) and not _in_word(after)


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


CONSENSUS, MAX_ROUNDS, STAGNATION = "consensus_reached", "max_rounds", "stagnation"
EXIT_KEYWORD, TIMEOUT, ERROR = "exit_keyword", "timeout", "error"
EXIT_REASONS = (CONSENSUS, MAX_ROUNDS, STAGNATION, EXIT_KEYWORD, TIMEOUT, ERROR)
FORCED = frozenset({TIMEOUT, ERROR})

FULL, SIMULATED, MENU = "full", "simulated", "menu"
"""How it is held: one agent hosts the installed party mode, each voice is an agent, or the run's own agent plays it."""

ROUNDS = 5
STALE = 2
RUNNING, ENDED = "running", "ended"
REOPEN = "reopen"
"""Marks a discussion within a menu whose step begins again: it is opened again and goes on with the round it was in."""
LABELS = string.ascii_uppercase
LABEL = re.compile(r"^(?:option|position)?\s*\(?([A-Za-z])\)?(?:[.:)–-]\s.*|[.:)])?$", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Round:
    """One round as it went. `consensus_level` is the share of those who answered that hold the leading position, 0 to
    100; `progressed`: something new was said, or more agree than before. `votes` are agent: label of its position."""

    round_number: int
    agents_responded: int
    consensus_level: int
    progressed: bool
    contributions: tuple[Contribution, ...] = ()
    votes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Party:
    """A discussion, whole. `purpose` says what it was called for, `step` and `visit` where; `voices` are the names of
    those who take part, as far as they are known; `options` are label: position, in the order in which they came up.
    `quorum` is how many must have answered for a consensus. `form` is what a contribution's line holds beside the
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
    quorum: int = 2
    form: str = ""
    number: int = 0
    status: str = RUNNING
    exit_reason: str | None = None
    error: str | None = None

    @property
    def running(self) -> bool:
        """Whether a round is still to come."""
        return self.status == RUNNING

    def as_dict(self) -> dict[str, Any]:
        """The shape in which a run keeps and shows it; once it has ended with its summary."""
        shown = asdict(self)
        for name in ("questions", "voices", "rounds"):
            shown[name] = list(shown[name])
        for one in shown["rounds"]:
            one["contributions"] = list(one["contributions"])
        if not self.running:
            shown["summary"] = summary(self).as_dict()
        return shown

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Party | None:
        """The discussion that `as_dict` gave; None where there is none."""
        if not given.get("purpose"):
            return None
        known = {one.name: given[one.name] for one in fields(cls) if one.name in given}
        known |= {name: tuple(known.get(name, ())) for name in ("questions", "voices")}
        known["rounds"] = tuple(
            Round(**{**one, "contributions": tuple(Contribution(**said) for said in one["contributions"])})
            for one in known.get("rounds", ())
        )
        return cls(**known)


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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

    def as_dict(self) -> dict[str, Any]:
        """All fields."""
        return {**asdict(self), "recommendations": [asdict(one) for one in self.recommendations]}

    @property
    def text(self) -> str:
        """For people and for whoever acts on it."""
        return summary_text(
            self.exit_reason, self.rounds, self.recommendation, self.confidence, self.recommendations, self.error
        )


@dataclass(frozen=True)
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
    questions = next_questions(party.problem, party.context, party.rounds[-1], party.options, party.voices)
    context = context_of(party.rounds, party.options)
    return RoundInput(len(party.rounds) + 1, party.problem, context, questions, _form(party), party.max_rounds)


def heard(party: Party, contributions: Sequence[Contribution]) -> Went:
    """What follows a round in which that was said."""
    party, round = _with_round(party, contributions)
    if any(leaves(one.text) for one in contributions):
        return Went(_end(party, EXIT_KEYWORD), None)
    answered, votes = round.agents_responded, set(round.votes.values())
    if answered >= max(2, party.quorum) and len(votes) == 1 and len(round.votes) == answered:
        return Went(_end(party, CONSENSUS), None)
    if len(party.rounds) >= STALE and not any(one.progressed for one in party.rounds[-STALE:]):
        return Went(_end(party, STAGNATION), None)
    if len(party.rounds) >= party.max_rounds:
        return Went(_end(party, MAX_ROUNDS), None)
    return Went(party, input_of(party))


def told(party: Party, message: str, contributions: Sequence[Contribution] = ()) -> Party:
    """After a person has said something to it: an exit word ends it, whatever else is said (decision 33). What was
    heard of the round by then is kept."""
    if not (party.running and exit_word(message)):
        return party
    if contributions:
        party, _ = _with_round(party, contributions)
    return _end(party, EXIT_KEYWORD)


def cut(party: Party, reason: str, detail: str, contributions: Sequence[Contribution] = ()) -> Party:
    """Ended by force (`timeout` or `error`); what was heard so far is kept (BMAD-5.4.4)."""
    if not party.running:
        return party
    if contributions:
        party, _ = _with_round(party, contributions)
    return replace(_end(party, reason), error=detail[:1000])


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
    ranked = ranking(party.rounds, party.options)
    best = ranked[0] if ranked else None
    last = party.rounds[-1] if party.rounds else None
    return Summary(
        party.exit_reason or "",
        len(party.rounds),
        best.recommendation if best else "",
        best.confidence if best else 0.0,
        last.consensus_level if last else 0,
        ranked,
        positions(party.rounds, party.options),
        party.error,
    )


def _with_round(party: Party, contributions: Sequence[Contribution]) -> tuple[Party, Round]:
    options, votes = dict(party.options), {}
    for one in contributions:
        label = _label(one, options)
        if label:
            votes[one.agent] = label
    answered = len({one.agent for one in contributions})
    counts = [list(votes.values()).count(label) for label in set(votes.values())]
    level = round(100 * max(counts, default=0) / answered) if answered else 0
    before = max((one.consensus_level for one in party.rounds), default=0)
    # A position that was given beforehand is new when it is taken for the first time.
    taken = {label for one in party.rounds for label in one.votes.values()}
    progressed = bool(set(votes.values()) - taken) or level > before
    number = len(party.rounds) + 1
    latest = Round(number, answered, level, progressed, tuple(contributions), votes)
    return replace(party, options=options, rounds=(*party.rounds, latest)), latest


def _label(one: Contribution, options: dict[str, str]) -> str:
    """The label of the position that a contribution takes; a new one is added to `options`. "" for none."""
    if not one.clear:
        return ""
    named = LABEL.match(one.position)
    if named and named[1].upper() in options:
        return named[1].upper()
    for label, text in options.items():
        if any(said and alike(said, text) for said in (one.position, one.recommendation)):
            return label
    if len(options) >= len(LABELS):
        return ""
    label = LABELS[len(options)]
    options[label] = one.recommendation or one.position
    return label


def _end(party: Party, reason: str) -> Party:
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
