"""The rounds of a discussion, carried out by a panel of voices, or by one agent that hosts the installed party mode.

The driver says what a round begins with and when it is over; here it is put to agents, within the limit of a round, and
written down after each one. A round ends early where a voice says an exit word: those that still speak get the grace to
end, and what they would say later is discarded (BMAD-5.4.2). Nothing here raises for what agents do; where nobody can
answer for now, the run is put off with the discussion as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import anyio

from interlock.errors import AgentError
from interlock.lazy_dataclass import dataclass
from interlock.workflow import panel
from interlock.workflow.agents.assignment import ANALYSIS, CREATIVE, Assignment, Report
from interlock.workflow.agents.subagent import Subagent
from interlock.workflow.agents.subagent_dispatcher import SubagentDispatcher
from interlock.workflow.agents.watch import Limits
from interlock.workflow.engine import recovery, steps
from interlock.workflow.engine.context import STALL, THRESHOLDS, Draft, Note, Postponed
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.effects import Ending
from interlock.workflow.engine.examination import PRE_FINAL_REVIEW
from interlock.workflow.engine.runtime import Runtime
from interlock.workflow.markdown import quoted, tail
from interlock.workflow.package.packages import Package
from interlock.workflow.package.personas import personas
from interlock.workflow.party import cast, contributions, party_mode_driver
from interlock.workflow.party.cast import Voice
from interlock.workflow.party.contributions import Contribution
from interlock.workflow.party.exits import during, exit_heard
from interlock.workflow.party.party_mode_driver import (
    ERROR,
    EXIT_WORDS,
    FULL,
    SIMULATED,
    TIMEOUT,
    Party,
    RoundInput,
)

PARTY_MODE = "party-mode"
SEED = "seed"
IDEATION = "ideation"
PURPOSES = {
    PRE_FINAL_REVIEW: (cast.REVIEW, ANALYSIS, "validator"),
    IDEATION: (cast.IDEATION, CREATIVE, "brainstormer"),
}
"""The topic by which voices are chosen, and the kind and role of their work. None of the roles is put to other work
afterwards: each voice begins with its own view."""
OTHERWISE = (cast.PROBLEM, ANALYSIS, "creative")
DOUBT, CHOSEN = "low_confidence", "chosen"
LARGE = 3  # the tier from which party mode is held in full
EXCERPT = 2500  # characters of the step, and of what was said last, that voices are told

QUESTIONS: Mapping[str, tuple[str, ...]] = {
    STALL: (
        "What is the cause of the failure, as opposed to what the validation shows of it?",
        "What is to be done differently from what was tried?",
        "How will it show that it helped?",
    ),
    THRESHOLDS: (
        "Which of these errors have a cause in common?",
        "What is to be fixed first, and how?",
        "Is the plan itself right, or has the work to begin elsewhere?",
    ),
    DOUBT: (
        "What in this result is doubtful, and why?",
        "What would make it trustworthy?",
        "Can it stand as it is, and at what risk?",
    ),
    CHOSEN: ("What do you think of what was made in this step?", "What would make it better?"),
}


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back in a round; `failure` is (reason, detail) where nobody could answer, `left` the exit word that a
    human has said meanwhile."""

    said: tuple[Contribution, ...]
    failure: tuple[str, str] | None = None
    left: str | None = None


@dataclass(frozen=True, slots=True)
class Discussion:
    """One that is under way in the run `workflow_id`, and all that is needed to hold it: its voices, and whom a host
    may play (`names`) where party mode is installed, at `path`."""

    party: Party
    workflow_id: str
    voices: tuple[Voice, ...]
    names: tuple[str, ...]
    path: str | None


def installed(package: Package) -> str | None:
    """The path of the party mode that is installed, None where there is none."""
    return next((one.path for one in package.of_type("workflows") if one.name == PARTY_MODE), None)


def of(run: Draft) -> Party | None:
    """The discussion that is under way in the run, or was the last one."""
    return Party.of(run.state.party) if run.state.party else None


def keep(run: Draft, party: Party) -> None:
    """Write it into the run's state; what an earlier one left for a later step stays."""
    left = {SEED: run.state.party[SEED]} if SEED in run.state.party else {}
    run.state.party = {**party.as_dict(), **left}


def new(run: Draft, purpose: str, why: str, *, how: str = "", topic: str = cast.PROBLEM, problem: str = "") -> Party:
    """A discussion for the step at hand, not begun yet: in full from tier 3 on where party mode is installed."""
    record = run.record
    if not how:
        how = FULL if run.settings.tier >= LARGE and installed(run.package) else SIMULATED
    if not problem:
        trouble = f"\n\n{recovery.report(run.state)}" if run.state.recovery.get("reason") else ""
        problem = f"{steps.called(run.record)}, of {run.state.skill}: {why}.{trouble}"
    voices = tuple(one.name for one in cast.voices(personas(run.package), topic, run.workflow.module))
    return Party(
        purpose, how, problem, _context(run), record.id, record.visit, why,
        QUESTIONS.get(purpose, ()), voices,
        number=1 + int(run.state.party.get("number", 0)),
    )  # fmt: skip


def _context(run: Draft) -> str:
    """What voices are told that know nothing of the run: the step, what was said last, and where the work is."""
    state = run.state
    parts = [f"The workflow: {run.workflow.skill.description or state.skill}"]
    asked = state.plan.brief or state.plan.arguments
    if asked:
        parts.append(f"What was asked for:\n{quoted(asked[:EXCERPT])}")
    if run.step.text.strip():
        parts.append(f"What the step demands:\n{quoted(run.step.text.strip()[:EXCERPT])}")
    if state.transcript:
        parts.append(f"What its author said last:\n{quoted(tail(state.transcript[-1].get('said', ''), EXCERPT))}")
    written = list(dict.fromkeys([*state.documents, *run.record.files]))[:12]
    if written:
        parts.append("Files of the work, from the project's root: " + ", ".join(written))
    return "\n\n".join(parts)


def discussion(run: Draft, party: Party) -> Discussion:
    """Return the discussion with what is to be known of the run to hold it."""
    topic, *_ = PURPOSES.get(party.purpose, OTHERWISE)
    agents = personas(run.package)
    voices = cast.voices(agents, topic, run.workflow.module, len(party.voices) or None)
    names = tuple(dict.fromkeys([*cast.names(agents), *party.voices]))
    return Discussion(party, run.state.workflow_id, voices, names, installed(run.package))


async def hold(under_way: Discussion, runtime: Runtime, note: Note) -> Party:
    """Hold a discussion from the round it is in to its end.

    Each round is noted (`advance`) but the last: that is for the caller, with what the run makes of the discussion.

    Raises:
        Postponed: it cannot continue for now; the run knows it as it is.
    """
    party, dispatcher = under_way.party, runtime.dispatcher
    if dispatcher is None:
        return party_mode_driver.cut(party, ERROR, "this run has no subagents")
    hosted = party.how == FULL and under_way.path is not None
    manner = (_Hosted if hosted else _Voices)(under_way, dispatcher, runtime.limits)
    given: RoundInput | None = party_mode_driver.input_of(party)
    await note(advance, party)
    id, kept = under_way.workflow_id, party.as_dict()
    if (word := await exit_heard(runtime.desk, id, kept)) is not None:  # It was said before the run was killed.
        party, given = following(party, Answered((), left=word))
    try:
        while given is not None:
            manner.said = ()
            found, left = await during(id, kept, runtime, partial(manner.round, given), manner.cut)
            if isinstance(manner, _Hosted) and not (found.said or found.failure or left):
                # Its host answers, and nobody can be heard in it: each voice is asked by itself.
                await manner.close()
                party = replace(party, how=SIMULATED)
                manner, given = _Voices(under_way, dispatcher, runtime.limits), party_mode_driver.input_of(party)
                continue
            party, given = following(party, found)
            if given is not None:
                await note(advance, party)
    finally:
        with anyio.CancelScope(shield=True):
            await manner.close()
    return party


def following(party: Party, answered: Answered) -> tuple[Party, RoundInput | None]:
    """Return what follows a round: the discussion with it, and what the next one begins with, None after the last."""
    if answered.failure is not None:
        return party_mode_driver.cut(party, *answered.failure, answered.said), None
    if answered.left is not None:
        return party_mode_driver.told(party, answered.left, answered.said), None
    went = party_mode_driver.heard(party, answered.said)
    return went.party, went.input


def after(run: Draft, party: Party, answered: Answered) -> tuple[Party, RoundInput | None]:
    """Keep and log what follows a round."""
    party, given = following(party, answered)
    advance(run, party)
    return party, given


def advance(run: Draft, party: Party) -> None:
    """Keep a discussion that has gone on, and log what is new to the run, to be written with the next save."""
    known = of(run)
    if known is None or known.number != party.number:
        known = replace(party, rounds=())
    if known.how != party.how:
        run.decide(Decision("party", party.how, "the host of party mode cannot be read", by="engine"))
    for one in party.rounds[len(known.rounds) :]:
        run.event(
            "workflow.party_round", step=party.step, purpose=party.purpose, round_number=one.round_number,
            agents_responded=one.agents_responded, consensus_level=one.consensus_level,
        )  # fmt: skip
    keep(run, party)
    if not party.running:
        ended(run, party)


def ended(run: Draft, party: Party) -> Party:
    """Keep and log the end of a discussion."""
    found = party_mode_driver.summary(party)
    keep(run, party)
    run.event(
        "workflow.party_ended", step=party.step, purpose=party.purpose, exit_reason=party.exit_reason,
        rounds=found.rounds, recommendation=found.recommendation, confidence=found.confidence, error=party.error,
    )  # fmt: skip
    run.decide(Decision("party", str(party.exit_reason), found.text[:500], by="agent", confidence=found.confidence))
    return party


class _Voices:
    """Each voice is a subagent of its own; all of a round at once, none hears the others before the next one. `said` is
    what was said in the round so far."""

    said: tuple[Contribution, ...] = ()

    def __init__(self, under_way: Discussion, dispatcher: SubagentDispatcher, limits: Limits) -> None:
        self._limits = limits
        self._dispatcher = dispatcher
        _, self._kind, self._role = PURPOSES.get(under_way.party.purpose, OTHERWISE)
        self._under_way = under_way
        self._voices = under_way.voices

    def cut(self) -> Answered:
        """What a round came to that an exit word has ended."""
        return Answered(self.said, left=EXIT_WORDS[0])

    async def round(self, given: RoundInput, stop: anyio.Event) -> Answered:
        """Put a round to all voices.

        Raises:
            Postponed: nobody has capacity, or the run is being stopped.
        """
        limit, grace = self._limits.party_round, self._limits.exit_grace
        reports: dict[int, Report] = {}
        assignments = [
            Assignment(
                f"party-{one.name.split()[0].lower()}", cast.voice(one, self._voices, given), self._kind,
                time_limit=limit, role=self._role, data={"round": given.round_number},
            )
            for one in self._voices
        ]  # fmt: skip

        async def heard(place: int, report: Report) -> float | None:
            reports[place] = report
            self.said = tuple(
                contributions.alone(self._voices[at].name, one.text)
                for at, one in sorted(reports.items())
                if one.status == "completed" and one.text.strip()
            )
            return grace if party_mode_driver.leaves(report.text) else None

        # The dispatcher ends each for its time; the grace more is for those that had to wait for a place.
        await panel.ask(self._dispatcher, assignments, panel.VOICES, limit=limit + grace if limit else 0.0, heard=heard)
        return Answered(self.said, None if self.said else _failure(list(reports.values()), limit))

    async def close(self) -> None:
        """Each was closed when it had answered."""


class _Hosted(_Voices):
    """One subagent hosts the installed party mode and plays all its agents; its session lives as long as the party.
    Nothing is known of a turn before its end."""

    _host: Subagent | None = None

    async def round(self, given: RoundInput, stop: anyio.Event) -> Answered:
        limit = self._limits.party_round
        until = anyio.current_time() + limit
        names = self._under_way.names
        text = cast.host(str(self._under_way.path), self._under_way.party.voices, given)
        try:
            if self._host is None:
                assignment = Assignment("party-host", text, self._kind, role=self._role)
                self._host = await self._dispatcher.open(assignment)
            report = await self._host.say(text, limit)
            said = contributions.hosted(report.text, names)
            if report.status == "completed" and not said and until > anyio.current_time():
                # It has shown who is there, and asks whether to begin.
                report = await self._host.say(f"C\n\n{given.text}", until - anyio.current_time())
                said = contributions.hosted(report.text, names)
        except AgentError as error:
            return Answered((), (ERROR, error.message))
        return Answered(said, _failure([report], limit) if report.status != "completed" else None)

    async def close(self) -> None:
        """Leave by the exit word; its farewell gets the grace and is not waited for longer."""
        host, self._host = self._host, None
        if host is None:
            return
        with anyio.move_on_after(self._limits.exit_grace):
            await host.say(cast.LEAVE, self._limits.exit_grace)
        await host.close()


def _failure(reports: Sequence[Report], limit: float) -> tuple[str, str]:
    """Why nobody answered.

    Raises:
        Postponed: for want of capacity, or because the run is being stopped.
    """
    hindrance = panel.hindrance(reports)
    if hindrance is not None and hindrance.status == "capacity":
        raise Postponed(Ending("capacity", hindrance.detail or "no capacity is left", hindrance.retry_at))
    if hindrance is not None:
        raise Postponed(Ending("stopped"))
    if not reports or any(one.status == "timeout" for one in reports):
        return TIMEOUT, f"nobody answered within {limit:g} s"
    return ERROR, next((one.detail for one in reports if one.detail), "nobody answered")
