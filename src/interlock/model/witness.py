"""What a witness of a team's work says: figures, and the rows of the ledger that each can be derived from again.

`core.reports.witness` takes the rows from a ledger and derives the figures; this module holds their values and words.
How each figure is counted is said at its field, so that a stranger with the rows comes to the same.
"""

from __future__ import annotations

from dataclasses import field

from interlock.lazy_dataclass import dataclass
from interlock.model.event import Event
from interlock.model.json import Json
from interlock.model.question import Question
from interlock.model.run import Run
from interlock.model.text import count, span


@dataclass(slots=True, frozen=True)
class WitnessedTask:
    """Of a task: its state, its rows of evidence (without what checks printed), the branch that it was done on, the
    commit that merged it, and how many files of it are kept beside git."""

    id: str
    state: str
    evidence: list[Json]
    branch: str | None
    merged: str | None
    kept: int


@dataclass(slots=True, frozen=True)
class Account:
    """The rows that a witness derives everything from, as they were `at` that time.

    Texts of questions and answers are digests, and what names processes and sessions is left out. `check_limit` is for
    how many seconds a check may run (setting `verify_timeout`), `people` are the names of the team's persons.
    """

    team: str
    at: str
    check_limit: float
    people: list[str]
    events: list[Event]
    tasks: list[WitnessedTask]
    runs: list[Run]
    questions: list[Question]


@dataclass(slots=True, frozen=True)
class Unwitnessed:
    """A task that is done, and what its evidence lacks."""

    task_id: str
    lacks: str


@dataclass(slots=True, frozen=True)
class Silence:
    """Seconds without an event about the work although work was due and no row says why it waited, and since when."""

    seconds: float
    since: str


@dataclass(slots=True, frozen=True)
class Witness:
    """The figures. The period is from the first `task.claimed` to the last event that made a task final, or to the
    moment of the account while any task is neither final nor in deadletter."""

    team: str
    began_at: str | None
    ended_at: str | None
    claimed: int
    """Tasks in the state done."""
    witnessed: int
    """Those whose newest check passed on the merged tree, with tree, command and exit code in its row of evidence,
    `red_before` not null, and, where the merge made a commit, a row `diff` with the same tree."""
    green_before: int
    """Those witnessed ones whose check had passed before the work, too (`red_before` false): it proves no change."""
    changed_check: int
    """Those whose work changed or deleted files of its own check (`changed_check` not empty)."""
    unwitnessed: list[Unwitnessed]
    verified: int
    """Tasks in the state done whose newest check passed, on whatever tree."""
    refused: int
    """Claims that a check refused: `verify.finished` with `passed` false, and `merge.finished` with outcome red."""
    touches: int
    """Times at which a person acted within the period: distinct (actor, at) of events by a person, but those of
    `PASSIVE` types."""
    human_minutes: int
    """Minutes of the UTC clock in which a person acted, from the first event to the end of the period: the time that
    people gave is in no row, so each minute that they touched counts whole."""
    silence: Silence | None
    """The longest; see `core.reports.witness.silences`. None where work was never due without a reason."""
    questions: int
    genuine: int
    """Questions that a person answered, otherwise than by the default that was offered with it, and that did not
    repeat an answered question (same task, kind and text)."""
    open_questions: int
    """Those still open: whether they are genuine is not known."""
    redone: int
    """Runs that ended without completing (see `REDONE`) and whose task was run again."""
    redone_seconds: float
    lost: list[str]
    """Tasks that came to nothing (deadletter, cancelled, deleted) after a run had taken turns, and of whose work no row
    says where it is: no branch and no kept file."""
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    tokens_unknown: list[str] = field(default_factory=list)
    """Members some of whose turns nobody measured; the sums are then lower bounds."""
    cost_unknown: int = 0
    """Runs that took turns and reported no cost."""
    verified_per_human_minute: float | None = None
    """`verified` by `human_minutes`; None where nobody was needed at all."""
    tokens_per_verified: float | None = None
    """Tokens of all runs by `verified`; None where either is not known."""
    pruned_at: str | None = None
    """When history was last deleted: acts of people, refused claims and silences of finished work may be missing."""


PASSIVE = frozenset(
    "session.began session.ended message.offered message.delivered message.acknowledged member.updated".split()
)
"""Events that looking leaves behind."""
REDONE = frozenset("failed expired reclaimed superseded rejected".split())
"""Outcomes of runs whose work has to be done again where the task is run again."""


def as_text(found: Witness) -> list[str]:
    """The figures as people read them, one a line."""
    tokens, silence = _tokens(found), found.silence
    lines = [
        f"Witness of {found.team}, {found.began_at} to {found.ended_at}",
        f"  witnessed completions  {found.witnessed} of {found.claimed}"
        + (f", {found.green_before} of them green before the work, too" if found.green_before else "")
        + (f", {found.changed_check} by a check that the work changed" if found.changed_check else "")
        + f"; {count(found.verified, 'task')} verified; {count(found.refused, 'claim')} refused by a check",
        f"  human touches          {found.touches}, in {count(found.human_minutes, 'minute')} (start included)",
        "  longest silence        "
        + ("none without a stored reason" if silence is None else f"{span(silence.seconds)} from {silence.since}"),
        f"  genuine questions      {found.genuine} of {found.questions}"
        + (f", {found.open_questions} still open" if found.open_questions else ""),
        f"  work redone            {count(found.redone, 'run')}, {span(found.redone_seconds)}",
        f"  work lost, or nowhere  {', '.join(found.lost) or 'none'}",
        f"  tokens                 {tokens}",
        f"  cost                   {_cost(found)}",
        f"  verified tasks a human minute  {_figure(found.verified_per_human_minute, 'nobody was needed')}",
        f"  tokens a verified task         {_figure(found.tokens_per_verified, 'unknown')}",
    ]
    lines += [f"  not witnessed: {one.task_id} {one.lacks}" for one in found.unwitnessed]
    return lines + ([f"  {pruned(found)}"] if found.pruned_at else [])


def pruned(found: Witness) -> str:
    """What history that was deleted means for the figures."""
    return (
        f"history was pruned at {found.pruned_at}: human touches, refused claims and silences of work finished before "
        "may be missing"
    )


def _tokens(found: Witness) -> str:
    unknown = f"unknown for some turns of {', '.join(found.tokens_unknown)}" if found.tokens_unknown else ""
    if found.input_tokens is None:
        return unknown or "unknown"
    known = f"{found.input_tokens:,} sent, {found.output_tokens or 0:,} received"
    return f"at least {known}; {unknown}" if unknown else known


def _cost(found: Witness) -> str:
    if found.cost_usd is None:
        return "unknown"
    more = f"; unknown for {count(found.cost_unknown, 'run')}" if found.cost_unknown else ""
    return f"{'at least ' if more else ''}${found.cost_usd:.2f}{more}"


def _figure(value: float | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value:,.2f}"
