"""The review before a large project's workflow is closed: at least two perspectives (BMAD-5.3.4, FR21c).

From tier 3 on. A discussion about the whole of the work, in which each voice approves, requests changes or blocks, with
its findings. It is approved where most approve and nobody has found anything blocking; it is blocked where most block,
where fewer than two could be heard, and where its maker has not satisfied it in three rounds. Nothing skips it but a
human who was shown what it found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.workflow import panel
from interlock.workflow.engine.context import Draft, Note
from interlock.workflow.engine.examination import (
    APPROVE,
    BLOCKED,
    BLOCKING,
    CHANGES,
    MAJOR,
    PRE_FINAL_REVIEW,
    Examined,
    Finding,
)
from interlock.workflow.engine.runtime import Runtime
from interlock.workflow.party import cast, party_mode_driver, rounds
from interlock.workflow.party.contributions import Contribution
from interlock.workflow.party.party_mode_driver import Party, summary
from interlock.workflow.party.rounds import PARTY_MODE
from interlock.workflow.reviews import reviewers
from interlock.workflow.reviews.reviewers import Answer

ROUNDS = 2  # of the discussion: a look by oneself, and one at what the others have found
PATIENCE = 3  # examinations before a human is asked
FINDINGS = 40

FORM = (
    '"findings": [{"severity": "blocking|major|minor", "title": "…", "location": "path:line", "fix": "…"}], '
    '"earlier": [{"finding": "id or title of an open finding", "verdict": "fixed|open|withdrawn", "why": "…"}]'
)
OPTIONS = {"A": "approve", "B": "request changes", "C": "block"}
QUESTIONS = (
    "Is everything there that was asked for, and does it fit together?",
    "What would those who go on with this work stumble over?",
    "Is there anything that must not leave here as it is? Approve where there is not.",
)
VERDICTS = (
    (BLOCKED, re.compile(r"\bblock\w*|\breject\w*", re.IGNORECASE)),
    (CHANGES, re.compile(r"\bchange\w*|\brequest\w*|\bneeds? work|\bfix\w*|\bnot ready|\brevise\w*", re.IGNORECASE)),
    (APPROVE, re.compile(r"\bapprov\w*|\baccept\w*|\bready\b|\bpass\w*|\bship\b|\blgtm\b", re.IGNORECASE)),
)


class PreFinalReview:
    """See the module and `engine.examination.Examination`."""

    name = PRE_FINAL_REVIEW
    title = "Pre-final review"

    def called_for(self, run: Draft) -> str | None:
        """From tier 3 on, also where a lower one was asked for; not of Party Mode itself, which leaves no work."""
        tier = run.settings.safety_tier
        if tier < rounds.LARGE or run.workflow.skill.name == PARTY_MODE:
            return None
        return f"tier {tier} demands a review by several perspectives before the end"

    def begin(self, run: Draft, round: int) -> Perspectives:
        """Have several perspectives look at the whole of the work."""
        party = rounds.of(run)
        if party is None or not party.running or (party.purpose, party.visit) != (self.name, round):
            party = _new(run, round)
        return Perspectives(rounds.discussion(run, party))


@dataclass(frozen=True, slots=True)
class Perspectives:
    """One such review. See `engine.context.Inquiry`."""

    discussion: rounds.Discussion

    async def ask(self, runtime: Runtime, note: Note) -> Party:
        """Hold the discussion.

        Raises:
            Postponed: nobody has capacity for now.
        """
        return await rounds.hold(self.discussion, runtime, note)

    def judge(self, run: Draft, said: Party) -> Examined:
        """See the port."""
        rounds.advance(run, said)
        return _examined(said, run.state.rounds_of(PRE_FINAL_REVIEW)[: said.visit - 1], said.visit)


def _new(run: Draft, round: int) -> Party:
    state = run.state
    steps = [f"- {one.name}: {one.summary or one.status}" for one in state.steps.values() if one.completed_at]
    problem = (
        f"The workflow {state.skill} is about to be closed. Review the whole of what it has made, as it now is in its "
        "files, before it is."
    )
    party = rounds.new(
        run, PRE_FINAL_REVIEW, "large work is reviewed before it is closed", topic=cast.REVIEW, problem=problem
    )
    context = "\n\n".join([party.context, *(["The steps that were done:\n" + "\n".join(steps[-40:])] if steps else [])])
    known = _earlier(run.state.rounds_of(PRE_FINAL_REVIEW))
    return replace(
        party, visit=round, questions=QUESTIONS, options=dict(OPTIONS), form=FORM, max_rounds=ROUNDS,
        context="\n\n".join(part for part in (context, known) if part),
    )  # fmt: skip


def _earlier(rounds: Sequence[Mapping[str, Any]]) -> str:
    """What was found before, and is said to be fixed now."""
    found = reviewers.open_after(rounds)[:FINDINGS]
    listed = "\n".join(f"- {one.data['id']}, {one.severity}: {one.title} {one.location}".rstrip() for one in found)
    if not listed:
        return ""
    return (
        "Found in an earlier round, and said to be fixed now. Check each, and give a verdict on it by its id in "
        f'"earlier": one without a verdict stays open.\n{listed}'
    )


def _examined(party: Party, rounds: Sequence[Mapping[str, Any]], round: int) -> Examined:
    said = {agent: one for agent, (one, _) in party_mode_driver.latest(party).items()}
    verdicts = {agent: verdict_of(one) for agent, one in said.items()}
    followed = reviewers.followed(rounds, _answers(party))
    findings = followed.open[:FINDINGS]
    came_to = summary(party)
    details = {
        "perspectives": verdicts,
        **followed.beyond(FINDINGS),
        "discussion": {"exit_reason": party.exit_reason, "rounds": len(party.rounds), "error": party.error},
    }
    if (missed := panel.PRE_FINAL.missed(len(verdicts), len(party.voices))) is not None:
        heard = f"{len(verdicts)} of at least {panel.PRE_FINAL.quorum} perspectives could be heard"
        why = f"The review needs more: {heard}{f' ({party.error})' if party.error else ''}."
        return Examined(missed, why, findings, details)
    known = {one.data["id"] for one in reviewers.open_after(rounds)}
    serious = any(
        one.severity == BLOCKING or (one.severity == MAJOR and one.data["id"] in known) for one in followed.open
    )
    verdict = panel.PRE_FINAL.verdict(verdicts.values())
    verdict = CHANGES if verdict == APPROVE and serious else verdict
    told = ", ".join(f"{agent}: {one.replace('_', ' ')}" for agent, one in verdicts.items())
    if verdict == CHANGES and round >= PATIENCE:
        verdict, told = BLOCKED, f"{told}; {round} rounds of changes have not satisfied it"
    if verdict == CHANGES and not findings:
        findings = tuple(
            Finding(MAJOR, one.recommendation or one.position, found_by=(agent,), data={"id": f"F{n}"})
            for n, (agent, one) in enumerate(said.items(), 1 + reviewers.highest(rounds))
            if verdicts[agent] != APPROVE
        )
    return Examined(verdict, told, findings, details, signals={"party_mode": came_to.confidence})


def verdict_of(one: Contribution) -> str:
    """What a voice says to the work: approve, changes_requested or blocked; what is unclear asks for changes."""
    letter = one.position.strip()[:1].upper() if re.match(r"^\W*[A-Ca-c]\b(?!\w)", one.position.strip()) else ""
    if letter in OPTIONS and (len(one.position.strip()) < 3 or one.position.strip()[1:2] in ":.)"):
        return {"A": APPROVE, "B": CHANGES, "C": BLOCKED}[letter]
    for text in (one.position, one.recommendation):
        for verdict, pattern in VERDICTS:
            if text and pattern.search(text):
                return verdict
    return CHANGES


def _answers(party: Party) -> dict[str, Answer]:
    """What each voice has found over all rounds of the discussion: a later one adds to an earlier one."""
    said: dict[str, list[Answer]] = {}
    for round in party.rounds:
        for one in round.contributions:
            found = reviewers.findings_of(one.data.get("findings"), one.agent)
            earlier = reviewers.verdicts_of(one.data.get("earlier"))
            said.setdefault(one.agent, []).append(Answer(True, found, earlier=earlier))
    return {agent: reviewers.combined(answers) for agent, answers in said.items()}
