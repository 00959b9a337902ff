"""A human's answer to what the voices of a discussion could not settle.

When Party Mode is called for, and what its recommendation does to the run (BMAD-5.3, FR21a, FR21b).

It is called for by a validation that stalls, by the builder's thresholds, and, from tier 2 on, by a result that its own
signals hold for doubtful. Where the step's menu offers it, it is held there (`menu_party.py`); otherwise here, between
two turns of the run's agent, which then gets the recommendation. What the voices cannot settle is put to a human, with
the positions.

Party Mode within a step: its own agent has opened it from a menu and plays it, the driver gives each round's input.

It shows `[C] Continue - Begin multi-agent conversation` once, then `[E] Exit Party Mode` after each round, or asks what
to talk about: all of that is answered by the driver, until it leaves with the exit option (FR20, BMAD-2b.4.1).
"""

from __future__ import annotations

from collections.abc import Mapping

from interlock.workflow.engine import menus, questions, recovery, steps, turns
from interlock.workflow.engine.confidence_calculator import calculate
from interlock.workflow.engine.context import RunContext
from interlock.workflow.engine.decision_log import Decision
from interlock.workflow.engine.prompts import quoted
from interlock.workflow.engine.turn_interpreter import SKIPPED, Reading
from interlock.workflow.markdown import tail
from interlock.workflow.menus import menu_participation_engine, nesting, recognition
from interlock.workflow.menus.menu_participation_engine import Situation
from interlock.workflow.menus.nesting import PARTY
from interlock.workflow.menus.recognition import Menu
from interlock.workflow.package.packages import personas
from interlock.workflow.party import cast, contributions, leaving, party_mode_driver, rounds
from interlock.workflow.party.party_mode_driver import (
    ERROR,
    FULL,
    MENU,
    REOPEN,
    SIMULATED,
    STAGNATION,
    TIMEOUT,
    Party,
    exit_word,
)
from interlock.workflow.party.rounds import Answered
from interlock.workflow.state.document import RUNNING

STALL, THRESHOLDS, DOUBT, CHOSEN = "stall", "thresholds", "low_confidence", "chosen"
HERE = frozenset({STALL, THRESHOLDS, DOUBT})
"""The purposes whose discussions are held here."""
TRIED = "party_mode"
LOW = 60.0  # of 100: a confidence below it calls for further perspectives
CAREFUL, LARGE = 2, 3  # the tiers from which doubt calls for them, and from which party mode is held in full
JUDGES = frozenset({"validation_verdict", "reviewer_agreement", "party_mode"})
"""Signals that judge the result; that memory knows little of a matter says nothing about it."""
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


def new(
    run: RunContext, purpose: str, why: str, *, how: str = "", topic: str = cast.PROBLEM, problem: str = ""
) -> Party:
    """A discussion for the step at hand, not begun yet: in full from tier 3 on where party mode is installed."""
    record = run.record
    if not how:
        how = FULL if run.settings.tier >= LARGE and rounds.installed(run.package) else SIMULATED
    voices = tuple(one.name for one in cast.voices(personas(run.package), topic, run.workflow.module))
    return Party(
        purpose, how, problem or _problem(run, why), _context(run), record.id, record.visit, why,
        QUESTIONS.get(purpose, ()), voices, quorum=2 if how != SIMULATED else len(voices) // 2 + 1,
        number=1 + int(run.state.party.get("number", 0)),
    )  # fmt: skip


async def call(run: RunContext, purpose: str, why: str, problem: str = "") -> None:
    """Party Mode is called for: recorded, and held with the next turns of the controller (FR19b, 2b.3). `problem` is
    what is discussed, by default the step's."""
    questions.triggered(run, "party_mode", why)
    if purpose == STALL:
        run.state.recovery["party"] = "running"
    await begin(run, new(run, purpose, why, problem=problem))


async def begin(run: RunContext, party: Party) -> None:
    """Let the controller hold it with its next turn."""
    rounds.keep(run, party)
    run.move(RUNNING)
    await run.save()


def under_way(run: RunContext) -> Party | None:
    """The discussion that is to be gone on with before the step's agent has its next turn."""
    party = rounds.of(run)
    if party is None or not party.running or party.how == MENU or party.purpose not in HERE:
        return None
    here = run.record
    return party if (party.step, party.visit) == (here.id, here.visit) else None


async def go_on(run: RunContext, party: Party) -> None:
    """Hold it from the round it is in, and act on what it comes to.

    Raises:
        Postponed: it cannot go on for now.
    """
    # The turn before it was over, also where the process that heard it is gone.
    run.interrupted = False
    await settle(run, await rounds.hold(run, party))


async def settle(run: RunContext, party: Party) -> None:
    """The recommendation goes to the agent; what they cannot agree on, or a stall without any, goes to a human."""
    found = party_mode_driver.summary(party)
    alone = run.state.plan.yolo
    if found.recommendation and (party.exit_reason != STAGNATION or alone):
        await recommend(run, party)
    elif not found.recommendation and (party.purpose == DOUBT or (alone and party.purpose == THRESHOLDS)):
        await send(run, cast.without(party))
    else:
        await ask(run, party)


async def recommend(run: RunContext, party: Party, words: str = "") -> None:
    """Have the run's agent carry out what was recommended; `words` are a human's."""
    state, record = run.state, run.record
    await run.checkpoints.create(state, step=record.id, reason=f"before what was recommended for step {record.id}")
    if party.purpose == STALL:
        recovery.trying(state, TRIED)
        state.recovery["advice"] = words or party_mode_driver.summary(party).recommendation
    await send(run, cast.recommended(party, words))


async def send(run: RunContext, text: str) -> None:
    """The next turn of the run's agent; what others found in its work is to be fixed in it too."""
    name = run.examination.name if run.examination is not None else ""
    found = run.state.examinations.get(name, {}).get("mend")
    text = f"{text}\n\n{found}" if found else text
    run.record.status, run.record.error = "in_progress", None
    run.state.waiting = None
    turns.send(run, turns.FIX, text)
    run.move(RUNNING)
    await run.save()


async def ask(run: RunContext, party: Party) -> None:
    """The positions are put to a human, who decides (BMAD-5.2.4)."""
    record = run.record
    trouble = recovery.report(run.state) if run.state.recovery else ""
    text = cast.question(party, f"{record.id} ({record.name})", trouble)
    await questions.ask(run, questions.PARTY, "escalation", text, questions.PARTY_OPTIONS)


async def beyond_thresholds(run: RunContext, reading: Reading) -> bool:
    """Whether a step of the builder that shows no menu reports more errors than it may: then Party Mode is called."""
    limits = run.settings.bmb
    if limits is None or reading.kind == SKIPPED or menus.had_help(run.state, run.record):
        return False
    found = menu_participation_engine.read(reading.closing.text)
    if menu_participation_engine.escalation(found, limits) != menu_participation_engine.PARTY_MODE:
        return False
    why = f"the validation found {found.blocking_errors} blocking errors and {found.major_issues} major issues"
    await call(run, THRESHOLDS, why)
    return True


async def doubted(run: RunContext, reading: Reading, signals: Mapping[str, float | None]) -> bool:
    """Whether the signals of a result hold it for doubtful, once in a visit: then Party Mode is called (FR21b).

    Judged by what the signals say, before the cap for a single one and the tier's adjustment: with these nearly every
    result of a large project would be doubtful, whatever its verdict.
    """
    if run.settings.tier < CAREFUL or reading.kind == SKIPPED or menus.had_help(run.state, run.record):
        return False
    present = {name: value for name, value in signals.items() if value is not None}
    if not JUDGES & present.keys():
        return False
    average = calculate(present).breakdown.get("average")
    if not isinstance(average, (int, float)) or average >= LOW:
        return False
    await call(run, DOUBT, f"the confidence in the result is {average:g} of 100")
    return True


def signal(run: RunContext) -> float | None:
    """How sure the voices of this visit's discussion were of what they recommended; None where there was none."""
    party, here = rounds.of(run), run.record
    if party is None or party.running or (party.step, party.visit) != (here.id, here.visit):
        return None
    found = party_mode_driver.summary(party)
    return found.confidence if found.recommendation else None


def _problem(run: RunContext, why: str) -> str:
    state, record = run.state, run.record
    trouble = f"\n\n{recovery.report(state)}" if state.recovery.get("reason") else ""
    return f"{steps.called(record)}, of {state.skill}: {why}.{trouble}"


def _context(run: RunContext) -> str:
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


ASKED = 2  # times that the host may ask what to talk about
EXIT = "E"


def menu_party_under_way(run: RunContext) -> Party | None:
    """The discussion within the step at hand."""
    party = rounds.of(run)
    here = run.record
    if party is None or not party.running or party.how != MENU:
        return None
    return party if (party.step, party.visit) == (here.id, here.visit) else None


def opened(run: RunContext, purpose: str, why: str) -> str:
    """Party Mode was chosen: what the agent is told beside the choice."""
    party = menu_party_under_way(run) or new(run, purpose, why, how=MENU)
    rounds.keep(run, party)
    return cast.in_menu(party_mode_driver.input_of(party))


def reopens(run: RunContext) -> bool:
    """Whether the step's menu is to open the discussion again."""
    return bool(run.state.party.get(REOPEN)) and menu_party_under_way(run) is not None


def left(run: RunContext) -> Party | None:
    """The agent has left by itself: what was heard is kept; the discussion, where there was one."""
    party = menu_party_under_way(run)
    if party is None or run.state.party.get(REOPEN):
        return None
    return rounds.ended(run, party_mode_driver.cut(party, ERROR, "the agent left it by itself"))


def timed_out(run: RunContext, output: str) -> str:
    """A limit has ended a round: what is left of it, for the agent; "" where there was no discussion."""
    party = menu_party_under_way(run)
    if party is None:
        return ""
    said = contributions.hosted(output, cast.names(personas(run.package)))
    detail = f"a round took longer than {run.limits.party_round:g} s"
    party = rounds.ended(run, party_mode_driver.cut(party, TIMEOUT, detail, said))
    return party_mode_driver.summary(party).text


async def ended(run: RunContext) -> bool:
    """Whether a human's exit word ends the discussion now: what was heard of the round counts, and its agent leaves."""
    party, word = menu_party_under_way(run), leaving.said(run.session, run.state)
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
    party = menu_party_under_way(run)
    if party is None or where.depth > nesting.DEEPEST:
        return None
    if where.within != PARTY:
        if any(one.get("within") == PARTY for one in run.state.menu_stack):
            return None  # something else was opened within it
        gone = left(run)
        if gone is None or gone.purpose != THRESHOLDS or party_mode_driver.summary(gone).recommendation:
            return None
        # Its agent did not hold it, and the errors stand: then others do.
        await begin(run, new(run, THRESHOLDS, gone.why))
        return ""
    if recognition.form_of(shown) == recognition.PARTY:
        await _round(run, party, found.closing.text, shown.options[0].key)
        return shown.options[0].key
    if recognition.form_of(shown) == recognition.LONE:
        key = shown.options[0].key
        text = cast.in_menu(party_mode_driver.input_of(party))
        run.decide(Decision("menu", key, "Party Mode may begin", confidence=100))
        turns.send(run, turns.NESTED, f"{key}\n\n{text}")
        return key
    return None


async def said(run: RunContext, found: Reading) -> bool:
    """A turn of the host that ends without a menu: a round too, or it asks what to talk about."""
    party = menu_party_under_way(run)
    if party is None or not _inside(run):
        return False
    nobody = not contributions.hosted(found.closing.text, cast.names(personas(run.package)))
    if nobody and run.once("party/asked", ASKED):
        turns.send(run, turns.NESTED, cast.in_menu(party_mode_driver.input_of(party)))
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
        turns.send(run, turns.NESTED, cast.in_menu(given))
        return
    found = party_mode_driver.summary(party)
    matters = bool(found.recommendation) or party.purpose == THRESHOLDS
    if party.exit_reason == STAGNATION and matters and not run.state.plan.yolo:
        _outside(run)
        await ask(run, party)
        return
    _leave(run, party, key)


def _leave(run: RunContext, party: Party, key: str) -> None:
    """Have its agent leave, with what it came to."""
    _outside(run)
    run.decide(Decision("menu", key, f"Party Mode has ended: {party.exit_reason}", confidence=100))
    turns.send(run, turns.NESTED, cast.leave_menu(key, party_mode_driver.summary(party)))


def _outside(run: RunContext) -> None:
    run.state.menu_stack = [one for one in run.state.menu_stack if one.get("within") is None]


def _inside(run: RunContext) -> bool:
    stack = run.state.menu_stack
    return bool(stack) and stack[-1].get("within") == PARTY


SHORT = 3  # words of an answer that is an exit word and nothing else
TAKEN = "taken"


async def take(run: RunContext, text: str) -> str:
    """Act on the answer: `taken`, `stop` where the run is to end, "" where it is for whoever handles failures.

    An exit word ends the discussion and not the run: the best recommendation is carried out.
    """
    party = rounds.of(run)
    ends = exit_word(text) is not None and len(text.split()) <= SHORT
    meant = questions.meaning(text, questions.PARTY)
    if party is None or (party.purpose == STALL and not ends) or (meant == questions.AGAIN and not ends):
        return ""
    if meant == questions.STOP and not ends:
        return questions.STOP
    words = text if meant == questions.TEXT_ANSWER and not ends else ""
    if party.how == MENU:
        run.state.waiting = None
        turns.send(run, turns.NESTED, cast.leave_menu(EXIT, party_mode_driver.summary(party), words))
        run.move(RUNNING)
        await run.save()
    elif words or (ends and party_mode_driver.summary(party).recommendation):
        await recommend(run, _ended(run, party) if ends else party, words)
    else:
        await send(run, cast.accepted(party))
    return TAKEN


def _ended(run: RunContext, party: Party) -> Party:
    """By an exit word, whatever had ended it before."""
    if party.running:
        return rounds.ended(run, party_mode_driver.told(party, "*exit"))
    return party
