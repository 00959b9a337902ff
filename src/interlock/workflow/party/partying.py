"""When Party Mode is called for, and what its recommendation does to the run (BMAD-5.3, FR21a, FR21b).

It is called for by a validation that stalls, by the builder's thresholds, and, from tier 2 on, by a result that its own
signals hold for doubtful. Where the step's menu offers it, it is held there (`menu_party.py`); otherwise here, between
two turns of the run's agent, which then gets the recommendation. What the voices cannot settle is put to a human, with
the positions.
"""

from __future__ import annotations

from collections.abc import Mapping

from interlock.workflow.control import escalation, menus, recovering, stepping, turning
from interlock.workflow.control.confidence_calculator import calculate
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.prompts import quoted
from interlock.workflow.control.reading import SKIPPED, Reading
from interlock.workflow.definition.personas import personas
from interlock.workflow.markdown import tail
from interlock.workflow.menu import bmb_thresholds
from interlock.workflow.party import cast, party_mode_driver, rounds, wording
from interlock.workflow.party.party_mode_driver import FULL, MENU, SIMULATED, STAGNATION, Party
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
        "What is to be mended first, and how?",
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
    escalation.triggered(run, "party_mode", why)
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
        await send(run, wording.without(party))
    else:
        await ask(run, party)


async def recommend(run: RunContext, party: Party, words: str = "") -> None:
    """Have the run's agent carry out what was recommended; `words` are a human's."""
    state, record = run.state, run.record
    await run.checkpoints.create(state, step=record.id, reason=f"before what was recommended for step {record.id}")
    if party.purpose == STALL:
        recovering.trying(state, TRIED)
        state.recovery["advice"] = words or party_mode_driver.summary(party).recommendation
    await send(run, wording.recommended(party, words))


async def send(run: RunContext, text: str) -> None:
    """The next turn of the run's agent; what others found in its work is to be mended in it too."""
    name = run.examination.name if run.examination is not None else ""
    found = run.state.examinations.get(name, {}).get("mend")
    text = f"{text}\n\n{found}" if found else text
    run.record.status, run.record.error = "in_progress", None
    run.state.waiting = None
    turning.send(run, turning.FIX, text)
    run.move(RUNNING)
    await run.save()


async def ask(run: RunContext, party: Party) -> None:
    """The positions are put to a human, who decides (BMAD-5.2.4)."""
    record = run.record
    trouble = recovering.report(run.state) if run.state.recovery else ""
    text = wording.question(party, f"{record.id} ({record.name})", trouble)
    await escalation.ask(run, escalation.PARTY, "escalation", text, escalation.PARTY_OPTIONS)


async def beyond_thresholds(run: RunContext, reading: Reading) -> bool:
    """Whether a step of the builder that shows no menu reports more errors than it may: then Party Mode is called."""
    limits = run.settings.bmb
    if limits is None or reading.kind == SKIPPED or menus.had_help(run.state, run.record):
        return False
    found = bmb_thresholds.read(reading.closing.text)
    if bmb_thresholds.escalation(found, limits) != bmb_thresholds.PARTY_MODE:
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
    trouble = f"\n\n{recovering.report(state)}" if state.recovery.get("reason") else ""
    return f"{stepping.called(record)}, of {state.skill}: {why}.{trouble}"


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
