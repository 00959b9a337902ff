"""A human's answer to what the voices of a discussion could not settle."""

from __future__ import annotations

from interlock.workflow.control import asking, escalation, turning
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.exit_words import exit_word
from interlock.workflow.party import party_mode_driver, partying, rounds, wording
from interlock.workflow.party.menu_party import EXIT
from interlock.workflow.party.party_mode_driver import MENU, Party
from interlock.workflow.state.document import RUNNING

SHORT = 3  # words of an answer that is an exit word and nothing else
TAKEN = "taken"


async def take(run: RunContext, text: str) -> str:
    """Act on the answer: `taken`, `stop` where the run is to end, "" where it is for whoever handles failures.

    An exit word ends the discussion and not the run: the best recommendation is carried out.
    """
    party = rounds.of(run)
    ends = exit_word(text) is not None and len(text.split()) <= SHORT
    meant = asking.meaning(text, escalation.PARTY)
    if party is None or (party.purpose == partying.STALL and not ends) or (meant == asking.AGAIN and not ends):
        return ""
    if meant == asking.STOP and not ends:
        return asking.STOP
    words = text if meant == asking.TEXT_ANSWER and not ends else ""
    if party.how == MENU:
        run.state.waiting = None
        turning.send(run, turning.NESTED, wording.leave_menu(EXIT, party_mode_driver.summary(party), words))
        run.move(RUNNING)
        await run.save()
    elif words or (ends and party_mode_driver.summary(party).recommendation):
        await partying.recommend(run, _ended(run, party) if ends else party, words)
    else:
        await partying.send(run, wording.accepted(party))
    return TAKEN


def _ended(run: RunContext, party: Party) -> Party:
    """By an exit word, whatever had ended it before."""
    if party.running:
        return rounds.ended(run, party_mode_driver.told(party, "*exit"))
    return party
