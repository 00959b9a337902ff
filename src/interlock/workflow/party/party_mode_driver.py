"""Party Mode Driver: what is said to a discussion round by round, when it ends, and what it came to (FR20, FR21).

A pure state machine over a `Party`, which a run keeps in `WorkflowState.party`, so that a discussion that was killed
goes on with the round it was in. Nothing here speaks to an agent: `party_rounds.py` does, with several subagents that
each play one voice, with one that hosts the installed party mode, or within a menu of the run's own agent.

    opening(party)               -> the first round's input
    heard(party, contributions)  -> the next round's input, or the end with its reason
    cut(party, reason, detail)   -> the end by force: what was heard is kept

A discussion ends by consensus, at its last round, when two rounds in a row bring nothing new, or by an exit word.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from interlock.workflow.control.exit_words import exit_word
from interlock.workflow.party import synthesis
from interlock.workflow.party.contributions import Contribution
from interlock.workflow.party.synthesis import Recommended
from interlock.workflow.state.document import StepId

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
        return synthesis.told(
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
    questions = synthesis.questions(party.problem, party.context, party.rounds[-1], party.options, party.voices)
    context = synthesis.context(party.rounds, party.options)
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
    ranked = synthesis.ranked(party.rounds, party.options)
    best = ranked[0] if ranked else None
    last = party.rounds[-1] if party.rounds else None
    return Summary(
        party.exit_reason or "",
        len(party.rounds),
        best.recommendation if best else "",
        best.confidence if best else 0.0,
        last.consensus_level if last else 0,
        ranked,
        synthesis.positions(party.rounds, party.options),
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
        if any(said and synthesis.alike(said, text) for said in (one.position, one.recommendation)):
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
