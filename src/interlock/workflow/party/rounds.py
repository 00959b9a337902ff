"""The rounds of a discussion, carried out by subagents: one for each voice, or one that hosts the installed party mode.

The driver says what a round begins with and when it is over; here it is put to agents, within the limit of a round, and
written down after each one. A round ends early where a voice says an exit word: those that still speak get the grace to
end, and what they would say later is discarded (BMAD-5.4.2). Nothing here raises for what agents do; where nobody can
answer for now, the run is put off with the discussion as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import anyio

from interlock.errors import AgentError
from interlock.workflow import panel
from interlock.workflow.agents.assignment import ANALYSIS, CREATIVE, Assignment, Report
from interlock.workflow.agents.subagent_dispatcher import Subagent, SubagentDispatcher
from interlock.workflow.engine.context import Ending, Postponed, RunContext
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.examination import PRE_FINAL_REVIEW
from interlock.workflow.package.packages import Package, personas
from interlock.workflow.party import cast, contributions, leaving, party_mode_driver
from interlock.workflow.party.cast import Voice
from interlock.workflow.party.contributions import Contribution
from interlock.workflow.party.party_mode_driver import ERROR, FULL, SIMULATED, TIMEOUT, Party, RoundInput

PARTY_MODE = "party-mode"
SEED = "seed"
IDEATION = "ideation"


@dataclass(frozen=True)
class Answered:
    """What came back in a round; `failure` is (reason, detail) where nobody could answer, `left` the exit word that a
    human has said meanwhile."""

    said: tuple[Contribution, ...]
    failure: tuple[str, str] | None = None
    left: str | None = None


class Manner(Protocol):
    """A way to hold a discussion."""

    async def round(self, given: RoundInput) -> Answered:
        """Put a round to whoever takes part.

        Raises:
            Postponed: nobody has capacity, or the run is being stopped.
        """

    def so_far(self) -> tuple[Contribution, ...]:
        """Who has answered by now in a round that is under way."""

    async def close(self) -> None:
        """End whatever is still open."""


def installed(package: Package) -> str | None:
    """The path of the party mode that is installed, None where there is none."""
    return next((one.path for one in package.of_type("workflows") if one.name == PARTY_MODE), None)


def of(run: RunContext) -> Party | None:
    """The discussion that is under way in the run, or was the last one."""
    return Party.of(run.state.party)


def keep(run: RunContext, party: Party) -> None:
    """Write it into the run's state; what an earlier one left for a later step stays."""
    left = {SEED: run.state.party[SEED]} if SEED in run.state.party else {}
    run.state.party = {**party.as_dict(), **left}


async def hold(run: RunContext, party: Party) -> Party:
    """Hold a discussion from the round it is in to its end.

    Each round is written down but the last: that is saved by the caller, with what it makes of the discussion.

    Raises:
        Postponed: it cannot go on for now; it is kept in the run's state as it is.
    """
    dispatcher = run.dispatcher
    if dispatcher is None:
        return ended(run, party_mode_driver.cut(party, ERROR, "this run has no subagents"))
    path = installed(run.package)
    manner: Manner = (
        _Hosted(run, dispatcher, party, path) if party.how == FULL and path else _Voices(run, dispatcher, party)
    )
    given: RoundInput | None = party_mode_driver.input_of(party)
    keep(run, party)
    await run.save()
    if (word := await leaving.heard(run)) is not None:  # It was said before the run was killed.
        party, given = after(run, party, Answered((), left=word))
    try:
        while given is not None:
            found, word = await leaving.unless(run, partial(manner.round, given))
            if found is not None and isinstance(manner, _Hosted) and not (found.said or found.failure or found.left):
                # Its host answers, and nobody can be heard in it: each voice is asked by itself.
                await manner.close()
                quorum = len(party.voices) // 2 + 1
                party = replace(party, how=SIMULATED, quorum=quorum)
                run.decide(Decision("party", SIMULATED, "the host of party mode cannot be read", by="engine"))
                manner, given = _Voices(run, dispatcher, party), party_mode_driver.input_of(party)
                continue
            # A round that has come to its end just then counts whole.
            party, given = after(run, party, Answered(manner.so_far(), left=word) if found is None else found)
            if given is not None:
                await run.save()
    finally:
        with anyio.CancelScope(shield=True):
            await manner.close()
    return party


def after(run: RunContext, party: Party, answered: Answered) -> tuple[Party, RoundInput | None]:
    """What follows a round: kept and logged, to be written with the next save."""
    before = len(party.rounds)
    if answered.failure is not None:
        party = party_mode_driver.cut(party, *answered.failure, answered.said)
        given = None
    elif answered.left is not None:
        party, given = party_mode_driver.told(party, answered.left, answered.said), None
    else:
        went = party_mode_driver.heard(party, answered.said)
        party, given = went.party, went.input
    for one in party.rounds[before:]:
        run.event(
            "workflow.party_round", step=party.step, purpose=party.purpose, round_number=one.round_number,
            agents_responded=one.agents_responded, consensus_level=one.consensus_level,
        )  # fmt: skip
    keep(run, party)
    if not party.running:
        ended(run, party)
    return party, given


def ended(run: RunContext, party: Party) -> Party:
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
    """Each voice is a subagent of its own; all of a round at once, none hears the others before the next one."""

    def __init__(self, run: RunContext, dispatcher: SubagentDispatcher, party: Party) -> None:
        self._run = run
        self._dispatcher = dispatcher
        self._party = party
        topic = _topic(party)
        found = cast.voices(personas(run.package), topic, run.workflow.module, len(party.voices) or None)
        self._voices: Sequence[Voice] = found
        self._reports: dict[int, Report] = {}

    async def round(self, given: RoundInput) -> Answered:
        limits = self._run.limits
        kind, role = _work(self._party)
        assignments = [
            Assignment(
                f"party-{one.name.split()[0].lower()}", cast.voice(one, self._voices, given), kind,
                time_limit=limits.party_round, role=role, data={"round": given.round_number},
            )
            for one in self._voices
        ]  # fmt: skip
        self._reports = {}

        async def heard(place: int, report: Report) -> float | None:
            self._reports[place] = report
            return limits.exit_grace if party_mode_driver.leaves(report.text) else None

        # The dispatcher ends each for its time; the grace more is for those that had to wait for a place.
        limit = limits.party_round + limits.exit_grace if limits.party_round else 0.0
        await panel.ask(self._dispatcher, assignments, limit=limit, heard=heard)
        said = self.so_far()
        return Answered(said, None if said else _failure(list(self._reports.values()), limits.party_round))

    def so_far(self) -> tuple[Contribution, ...]:
        """See the protocol."""
        return tuple(
            contributions.alone(self._voices[place].name, report.text)
            for place, report in sorted(self._reports.items())
            if report.status == "completed" and report.text.strip()
        )

    async def close(self) -> None:
        """Each was closed when it had answered."""


class _Hosted:
    """One subagent hosts the installed party mode and plays all its agents; its session lives as long as the party."""

    def __init__(self, run: RunContext, dispatcher: SubagentDispatcher, party: Party, path: str) -> None:
        self._run = run
        self._dispatcher = dispatcher
        self._party = party
        self._path = path
        self._names = list(dict.fromkeys([*cast.names(personas(run.package)), *party.voices]))
        self._host: Subagent | None = None

    async def round(self, given: RoundInput) -> Answered:
        limit = self._run.limits.party_round
        until = anyio.current_time() + limit
        text = cast.host(self._path, self._party.voices, given)
        try:
            if self._host is None:
                kind, role = _work(self._party)
                self._host = await self._dispatcher.open(Assignment("party-host", text, kind, role=role))
            report = await self._host.say(text, limit)
            said = contributions.hosted(report.text, self._names)
            if report.status == "completed" and not said and until > anyio.current_time():
                # It has shown who is there, and asks whether to begin.
                report = await self._host.say(f"C\n\n{given.text}", until - anyio.current_time())
                said = contributions.hosted(report.text, self._names)
        except AgentError as error:
            return Answered((), (ERROR, error.message))
        if report.status != "completed":
            return Answered(said, _failure([report], limit))
        return Answered(said)

    def so_far(self) -> tuple[Contribution, ...]:
        """Nothing is known of a turn before its end."""
        return ()

    async def close(self) -> None:
        """Leave by the exit word; its farewell gets the grace and is not waited for longer."""
        host, self._host = self._host, None
        if host is None:
            return
        with anyio.move_on_after(self._run.limits.exit_grace):
            await host.say(cast.LEAVE, self._run.limits.exit_grace)
        await host.close()


def _failure(reports: Sequence[Report], limit: float) -> tuple[str, str]:
    """Why nobody answered.

    Raises:
        Postponed: for want of capacity, or because the run is being stopped.
    """
    by_status = {one.status: one for one in reports}
    if "capacity" in by_status:
        lacking = by_status["capacity"]
        raise Postponed(Ending("capacity", lacking.detail or "no capacity is left", lacking.retry_at))
    if "cancelled" in by_status:
        raise Postponed(Ending("stopped"))
    if not reports or "timeout" in by_status:
        return TIMEOUT, f"nobody answered within {limit:g} s"
    return ERROR, next((one.detail for one in reports if one.detail), "nobody answered")


def _work(party: Party) -> tuple[str, str]:
    """(kind, role) of what is asked of a voice. None of the roles is put to other work afterwards: each voice begins
    with its own view."""
    known = {PRE_FINAL_REVIEW: (ANALYSIS, "validator"), IDEATION: (CREATIVE, "brainstormer")}
    return known.get(party.purpose, (ANALYSIS, "creative"))


def _topic(party: Party) -> str:
    return {PRE_FINAL_REVIEW: cast.REVIEW, IDEATION: cast.IDEATION}.get(party.purpose, cast.PROBLEM)
