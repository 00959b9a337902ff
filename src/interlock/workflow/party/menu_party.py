"""Party Mode within a step: its own agent has opened it from a menu and plays it, the driver gives each round's input.

It shows `[C] Continue - Begin multi-agent conversation` once, then `[E] Exit Party Mode` after each round, or asks what
to talk about: all of that is answered by the driver, until it leaves with the exit option (FR20, BMAD-2b.4.1).
"""

from __future__ import annotations

from interlock.workflow.control import turning
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.decision_log import Decision
from interlock.workflow.control.reading import Reading
from interlock.workflow.definition.personas import personas
from interlock.workflow.menu import forms, nesting
from interlock.workflow.menu.nesting import PARTY
from interlock.workflow.menu.recognition import Menu
from interlock.workflow.menu.selection import Situation
from interlock.workflow.party import cast, contributions, leaving, party_mode_driver, partying, rounds, wording
from interlock.workflow.party.party_mode_driver import ERROR, MENU, REOPEN, STAGNATION, TIMEOUT, Party
from interlock.workflow.party.rounds import Answered

ASKED = 2  # times that the host may ask what to talk about
EXIT = "E"


def under_way(run: RunContext) -> Party | None:
    """The discussion within the step at hand."""
    party = rounds.of(run)
    here = run.record
    if party is None or not party.running or party.how != MENU:
        return None
    return party if (party.step, party.visit) == (here.id, here.visit) else None


def opened(run: RunContext, purpose: str, why: str) -> str:
    """Party Mode was chosen: what the agent is told beside the choice."""
    party = under_way(run) or partying.new(run, purpose, why, how=MENU)
    rounds.keep(run, party)
    return wording.in_menu(party_mode_driver.input_of(party))


def reopens(run: RunContext) -> bool:
    """Whether the step's menu is to open the discussion again."""
    return bool(run.state.party.get(REOPEN)) and under_way(run) is not None


def left(run: RunContext) -> Party | None:
    """The agent has left by itself: what was heard is kept; the discussion, where there was one."""
    party = under_way(run)
    if party is None or run.state.party.get(REOPEN):
        return None
    return rounds.ended(run, party_mode_driver.cut(party, ERROR, "the agent left it by itself"))


def timed_out(run: RunContext, output: str) -> str:
    """A limit has ended a round: what is left of it, for the agent; "" where there was no discussion."""
    party = under_way(run)
    if party is None:
        return ""
    said = contributions.hosted(output, cast.names(personas(run.package)))
    detail = f"a round took longer than {run.limits.party_round:g} s"
    party = rounds.ended(run, party_mode_driver.cut(party, TIMEOUT, detail, said))
    return party_mode_driver.summary(party).text


async def ended(run: RunContext) -> bool:
    """Whether a human's exit word ends the discussion now: what was heard of the round counts, and its agent leaves."""
    party, word = under_way(run), leaving.said(run.session, run.state)
    if party is None or word is None or not _inside(run):
        return False
    output, run.left = run.heard.output if run.left and run.heard is not None else "", False
    said = contributions.hosted(output, cast.names(personas(run.package)))
    party, _ = rounds.after(run, party, Answered(said, left=word))
    _leave(run, party, EXIT)
    await run.save()
    return True


async def menu(run: RunContext, found: Reading, shown: Menu, where: Situation) -> str | None:
    """The key that a menu was answered with, "" where something else is done first; None where it is not one of the
    discussion's."""
    party = under_way(run)
    if party is None or where.depth > nesting.DEEPEST:
        return None
    if where.within != PARTY:
        if any(one.get("within") == PARTY for one in run.state.menu_stack):
            return None  # something else was opened within it
        gone = left(run)
        if gone is None or gone.purpose != partying.THRESHOLDS or party_mode_driver.summary(gone).recommendation:
            return None
        # Its agent did not hold it, and the errors stand: then others do.
        await partying.begin(run, partying.new(run, partying.THRESHOLDS, gone.why))
        return ""
    if forms.form_of(shown) == forms.PARTY:
        await _round(run, party, found.closing.text, shown.options[0].key)
        return shown.options[0].key
    if forms.form_of(shown) == forms.LONE:
        key = shown.options[0].key
        text = wording.in_menu(party_mode_driver.input_of(party))
        run.decide(Decision("menu", key, "Party Mode may begin", confidence=100))
        turning.send(run, turning.NESTED, f"{key}\n\n{text}")
        return key
    return None


async def said(run: RunContext, found: Reading) -> bool:
    """A turn of the host that ends without a menu: a round too, or it asks what to talk about."""
    party = under_way(run)
    if party is None or not _inside(run):
        return False
    nobody = not contributions.hosted(found.closing.text, cast.names(personas(run.package)))
    if nobody and run.once("party/asked", ASKED):
        turning.send(run, turning.NESTED, wording.in_menu(party_mode_driver.input_of(party)))
        return True
    await _round(run, party, found.closing.text, EXIT)
    return True


async def _round(run: RunContext, party: Party, text: str, key: str) -> None:
    """One round is over: the next one's input, or the way out."""
    said_ = contributions.hosted(text, cast.names(personas(run.package)))
    party, given = rounds.after(run, party, Answered(said_, left=leaving.said(run.session, run.state)))
    if given is not None:
        run.decide(
            Decision("menu", f"round {given.round_number}", "Party Mode goes on with the driver's input", "engine")
        )
        turning.send(run, turning.NESTED, wording.in_menu(given))
        return
    found = party_mode_driver.summary(party)
    matters = bool(found.recommendation) or party.purpose == partying.THRESHOLDS
    if party.exit_reason == STAGNATION and matters and not run.state.plan.yolo:
        _outside(run)
        await partying.ask(run, party)
        return
    _leave(run, party, key)


def _leave(run: RunContext, party: Party, key: str) -> None:
    """Have its agent leave, with what it came to."""
    _outside(run)
    run.decide(Decision("menu", key, f"Party Mode has ended: {party.exit_reason}", confidence=100))
    turning.send(run, turning.NESTED, wording.leave_menu(key, party_mode_driver.summary(party)))


def _outside(run: RunContext) -> None:
    run.state.menu_stack = [one for one in run.state.menu_stack if one.get("within") is None]


def _inside(run: RunContext) -> bool:
    stack = run.state.menu_stack
    return bool(stack) and stack[-1].get("within") == PARTY
