"""Party Mode within a run, the plug-in `engine.context.PartyMode`: when it is called for, and what its recommendation
does to the run (BMAD-5.3, FR21a, FR21b).

It is called for by a validation that stalls, by the builder's thresholds, and, from tier 2 on, by a result that its own
signals hold for doubtful. Where the step's menu offers it, it is held there; otherwise between two turns of the run's
agent, which then gets the recommendation. What the voices cannot settle is put to a human, with the positions.

Within a step its own agent has opened it from a menu and plays it, and the driver gives each round's input. The agent
shows `[C] Continue - Begin multi-agent conversation` once, then `[E] Exit Party Mode` after each round, or asks what to
talk about: all of that is answered by the driver, until it leaves with the exit option (FR20, BMAD-2b.4.1).
"""

from __future__ import annotations

from interlock.workflow.engine import confidence_signals, menus, questions, recovery
from interlock.workflow.engine.closing_line import SKIPPED
from interlock.workflow.engine.confidence_calculator import calculate
from interlock.workflow.engine.context import STALL, THRESHOLDS, Draft
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.effects import FIX, NESTED, PromptReady, Save
from interlock.workflow.engine.turn_interpreter import Reading
from interlock.workflow.menus import escalation, forms
from interlock.workflow.menus.forms import IN_PARTY
from interlock.workflow.menus.recognition import Menu
from interlock.workflow.menus.selection import Situation
from interlock.workflow.package.personas import personas
from interlock.workflow.party import brainstorming, cast, contributions, exits, party_mode_driver, rounds
from interlock.workflow.party.brainstorming import prepare as prepare
from interlock.workflow.party.contributions import Contribution
from interlock.workflow.party.exits import during as during
from interlock.workflow.party.party_mode_driver import (
    ERROR,
    MENU,
    REOPEN,
    STAGNATION,
    TIMEOUT,
    Party,
    exit_word,
)
from interlock.workflow.party.rounds import CHOSEN, DOUBT, Answered, Discussion
from interlock.workflow.party.rounds import hold as hold
from interlock.workflow.state.document import RUNNING

HERE = frozenset({STALL, THRESHOLDS, DOUBT})
"""The purposes whose discussions are held here."""
PURPOSE = "party_mode"
OPTIONS = ("continue", "retry", "stop")
LOW = 60.0  # of 100: a confidence below it calls for further perspectives
CAREFUL = 2  # the tier from which doubt calls for them
JUDGES = frozenset({"validation_verdict", "reviewer_agreement", "party_mode"})
"""Signals that judge the result; that memory knows little of a matter says nothing about it."""
ASKED = 2  # times that the host may ask what to talk about
EXIT = "E"
SHORT = 3  # words of an answer that is an exit word and nothing else
TAKEN = "taken"


def call(run: Draft, purpose: str, why: str, problem: str = "") -> None:
    """Party Mode is called for: recorded, and held with the next turns of the controller (FR19b, 2b.3). `problem` is
    what is discussed, by default the step's."""
    recovery.triggered(run, "party_mode", why)
    if purpose == STALL:
        run.state.recovery["party"] = "running"
    begin(run, rounds.new(run, purpose, why, problem=problem))


def begin(run: Draft, party: Party) -> None:
    """Let the controller hold it with its next turn."""
    rounds.keep(run, party)
    run.move(RUNNING)
    run.effect(Save())


def under_way(run: Draft) -> bool:
    """Whether a discussion continues before the step's agent has its next turn."""
    party = _here(run)
    return party is not None and party.how != MENU and party.purpose in HERE


def menu_party_under_way(run: Draft) -> Party | None:
    """The discussion within the step at hand."""
    party = _here(run)
    return party if party is not None and party.how == MENU else None


def _here(run: Draft) -> Party | None:
    party = rounds.of(run)
    return party if party is not None and party.running and _is_here(run, party) else None


def _is_here(run: Draft, party: Party) -> bool:
    here = run.record
    return (party.step, party.visit) == (here.id, here.visit)


def discussion(run: Draft) -> Discussion:
    """See `PartyMode`."""
    party = rounds.of(run)
    assert party is not None
    return rounds.discussion(run, party)


def held(run: Draft, came: object) -> None:
    """Act on what it came to."""
    assert isinstance(came, Party)
    rounds.advance(run, came)
    if came.purpose == rounds.IDEATION:
        brainstorming.seed(run, came)
    else:
        settle(run, came)


def settle(run: Draft, party: Party) -> None:
    """The recommendation goes to the agent; what they cannot agree on, or a stall without any, goes to a human."""
    found = party_mode_driver.summary(party)
    alone = run.state.plan.yolo
    if found.recommendation and (party.exit_reason != STAGNATION or alone):
        recommend(run, party)
    elif not found.recommendation and (party.purpose == DOUBT or (alone and party.purpose == THRESHOLDS)):
        send(run, cast.without(party))
    else:
        ask(run, party)


def recommend(run: Draft, party: Party, words: str = "") -> None:
    """Have the run's agent carry out what was recommended; `words` are a human's."""
    stalled = party.purpose == STALL
    if stalled:
        run.state.recovery["advice"] = words or party_mode_driver.summary(party).recommendation
    text = _with_findings(run, cast.recommended(party, words))
    prompt = PromptReady(FIX, text, PURPOSE if stalled else None)
    run.keep(f"before what was recommended for step {run.record.id}", prompt)


def send(run: Draft, text: str) -> None:
    """The next turn of the run's agent."""
    run.record.status, run.record.error = "in_progress", None
    run.state.waiting = None
    run.send(FIX, _with_findings(run, text))
    run.move(RUNNING)
    run.effect(Save())


def _with_findings(run: Draft, text: str) -> str:
    """What others found in the work of the run's agent is to be fixed in its next turn, too."""
    name = run.examination.name if run.examination is not None else ""
    found = run.state.examinations.get(name, {}).get("mend")
    return f"{text}\n\n{found}" if found else text


def ask(run: Draft, party: Party) -> None:
    """The positions are put to a human, who decides (BMAD-5.2.4)."""
    record = run.record
    trouble = recovery.report(run.state) if run.state.recovery else ""
    text = cast.question(party, f"{record.id} ({record.name})", trouble)
    run.ask(PURPOSE, "escalation", text, OPTIONS, about=record)


def beyond_thresholds(run: Draft, reading: Reading) -> bool:
    """Whether a step of the builder that shows no menu reports more errors than it may: then Party Mode is called."""
    limits = run.settings.bmb
    if limits is None or reading.kind == SKIPPED or menus.had_help(run.state, run.record):
        return False
    found = escalation.read(reading.closing.text)
    if escalation.escalation(found, limits) != escalation.PARTY_MODE:
        return False
    why = f"the validation found {found.blocking_errors} blocking errors and {found.major_issues} major issues"
    call(run, THRESHOLDS, why)
    return True


def doubted(run: Draft, reading: Reading, outcome: str) -> bool:
    """Whether the signals of a result hold it for doubtful, once in a visit: then Party Mode is called (FR21b).

    Judged by what the signals say, before the cap for a single one and the tier's adjustment: with these nearly every
    result of a large project would be doubtful, whatever its verdict.
    """
    if run.settings.tier < CAREFUL or reading.kind == SKIPPED or menus.had_help(run.state, run.record):
        return False
    signals = confidence_signals.signals(run, outcome)
    present = {name: value for name, value in signals.items() if value is not None}
    if not JUDGES & present.keys():
        return False
    average = calculate(present).breakdown.get("average")
    if not isinstance(average, (int, float)) or average >= LOW:
        return False
    call(run, DOUBT, f"the confidence in the result is {average:g} of 100")
    return True


def signal(run: Draft) -> float | None:
    """How sure the voices of this visit's discussion were of what they recommended; None where there was none."""
    party = _ended_here(run)
    found = party_mode_driver.summary(party) if party is not None else None
    return found.confidence if found is not None and found.recommendation else None


def _ended_here(run: Draft) -> Party | None:
    party = rounds.of(run)
    return party if party is not None and not party.running and _is_here(run, party) else None


def _hosted(run: Draft, text: str) -> tuple[Contribution, ...]:
    return contributions.hosted(text, cast.names(personas(run.package)))


def opened(run: Draft, asked: bool, why: str) -> str:
    """Party Mode was chosen: what the agent is told beside the choice. `asked`: the builder's thresholds called for
    it."""
    party = menu_party_under_way(run) or rounds.new(run, THRESHOLDS if asked else CHOSEN, why, how=MENU)
    rounds.keep(run, party)
    return cast.in_menu(party_mode_driver.input_of(party))


def interrupted(run: Draft) -> None:
    """A discussion within the step is opened again from the step's menu, unless a human's exit word has ended it."""
    party, state = rounds.of(run), run.state
    if party is None or party.how != MENU or not party.running:
        return
    word = exits.exit_said(run.session, state)
    if word is None:
        state.party = {**state.party, REOPEN: True}
    else:
        rounds.after(run, party, Answered((), left=word))


def known_before(run: Draft) -> str:
    """What was said of the step that begins again, "" where nothing was."""
    party = _ended_here(run)
    return cast.known_before(party) if party is not None else ""


def reopens(run: Draft) -> bool:
    """Whether the step's menu is to open the discussion again."""
    return bool(run.state.party.get(REOPEN)) and menu_party_under_way(run) is not None


def left(run: Draft) -> Party | None:
    """The agent has left by itself: what was heard is kept; the discussion, where there was one."""
    party = menu_party_under_way(run)
    if party is None or run.state.party.get(REOPEN):
        return None
    return rounds.ended(run, party_mode_driver.cut(party, ERROR, "the agent left it by itself"))


def timed_out(run: Draft, output: str) -> str:
    """A limit has ended a round: what is left of it, for the agent; "" where there was no discussion."""
    party = menu_party_under_way(run)
    if party is None:
        return ""
    said = _hosted(run, output)
    detail = f"a round took longer than {run.limits.party_round:g} s"
    party = rounds.ended(run, party_mode_driver.cut(party, TIMEOUT, detail, said))
    return party_mode_driver.summary(party).text


def ended(run: Draft) -> bool:
    """Whether a human's exit word ends the discussion now: what was heard of the round counts, and its agent leaves."""
    party, word = menu_party_under_way(run), exits.exit_said(run.session, run.state)
    if party is None or word is None or not _inside(run):
        return False
    output, run.left = run.heard.output if run.left and run.heard is not None else "", False
    said = _hosted(run, output)
    party, _ = rounds.after(run, party, Answered(said, left=word))
    _leave(run, party, EXIT)
    run.effect(Save())
    return True


def menu(run: Draft, found: Reading, shown: Menu, where: Situation) -> str | None:
    """The key that a menu was answered with, "" where something else is done first; None where it is not one of the
    discussion's."""
    party = menu_party_under_way(run)
    if party is None or where.depth > forms.DEEPEST:
        return None
    if where.within != IN_PARTY:
        if any(one.get("within") == IN_PARTY for one in run.state.menu_stack):
            return None  # something else was opened within it
        gone = left(run)
        if gone is None or gone.purpose != THRESHOLDS or party_mode_driver.summary(gone).recommendation:
            return None
        # Its agent did not hold it, and the errors stand: then others do.
        begin(run, rounds.new(run, THRESHOLDS, gone.why))
        return ""
    if forms.form_of(shown) == forms.PARTY:
        _round(run, party, found.closing.text, shown.options[0].key)
        return shown.options[0].key
    if forms.form_of(shown) == forms.LONE:
        key = shown.options[0].key
        text = cast.in_menu(party_mode_driver.input_of(party))
        run.decide(Decision("menu", key, "Party Mode may begin", confidence=100))
        run.send(NESTED, f"{key}\n\n{text}")
        return key
    return None


def said(run: Draft, found: Reading) -> bool:
    """A turn of the host that ends without a menu: a round too, or it asks what to talk about."""
    party = menu_party_under_way(run)
    if party is None or not _inside(run):
        return False
    nobody = not _hosted(run, found.closing.text)
    if nobody and run.once("party/asked", ASKED):
        run.send(NESTED, cast.in_menu(party_mode_driver.input_of(party)))
        return True
    _round(run, party, found.closing.text, EXIT)
    return True


def _round(run: Draft, party: Party, text: str, key: str) -> None:
    """One round is over: the next one's input, or the way out."""
    said_ = _hosted(run, text)
    party, given = rounds.after(run, party, Answered(said_, left=exits.exit_said(run.session, run.state)))
    if given is not None:
        run.decide(
            Decision("menu", f"round {given.round_number}", "Party Mode goes on with the driver's input", "engine")
        )
        run.send(NESTED, cast.in_menu(given))
        return
    found = party_mode_driver.summary(party)
    matters = bool(found.recommendation) or party.purpose == THRESHOLDS
    if party.exit_reason == STAGNATION and matters and not run.state.plan.yolo:
        _leave_menus(run)
        ask(run, party)
        return
    _leave(run, party, key)


def _leave(run: Draft, party: Party, key: str) -> None:
    """Have its agent leave, with what it came to."""
    _leave_menus(run)
    run.decide(Decision("menu", key, f"Party Mode has ended: {party.exit_reason}", confidence=100))
    run.send(NESTED, cast.leave_menu(key, party_mode_driver.summary(party)))


def _leave_menus(run: Draft) -> None:
    run.state.menu_stack = [one for one in run.state.menu_stack if one.get("within") is None]


def _inside(run: Draft) -> bool:
    stack = run.state.menu_stack
    return bool(stack) and stack[-1].get("within") == IN_PARTY


def take(run: Draft, text: str) -> str:
    """Act on the answer: `taken`, `stop` where the run is to end, "" where it is for whoever handles failures.

    An exit word ends the discussion and not the run: the best recommendation is carried out.
    """
    party = rounds.of(run)
    ends = exit_word(text) is not None and len(text.split()) <= SHORT
    meant = questions.meaning(text, PURPOSE)
    if party is None or (party.purpose == STALL and not ends) or (meant == questions.AGAIN and not ends):
        return ""
    if meant == questions.STOP and not ends:
        return questions.STOP
    words = text if meant == questions.TEXT_ANSWER and not ends else ""
    if party.how == MENU:
        run.state.waiting = None
        run.send(NESTED, cast.leave_menu(EXIT, party_mode_driver.summary(party), words))
        run.move(RUNNING)
        run.effect(Save())
    elif words or (ends and party_mode_driver.summary(party).recommendation):
        if ends and party.running:  # By an exit word, whatever had ended it before.
            party = rounds.ended(run, party_mode_driver.told(party, "*exit"))
        recommend(run, party, words)
    else:
        send(run, cast.accepted(party))
    return TAKEN
