"""Menus and questions of an agent, answered: by what was decided before, the engine, the brief, and last by a human.

(FR8–FR12, decision 28.) Every answer is a decision with its reason. What the brief says never reaches a human: the
agent, which can read, is asked to answer from it first, once for each question.
"""

from __future__ import annotations

from dataclasses import replace

from interlock.workflow.control import asking, escalation, menus, presenting, prompts, turning, wishes
from interlock.workflow.control.context import RunContext
from interlock.workflow.control.decision_log import Decision, menu_basis
from interlock.workflow.control.ports import Asking
from interlock.workflow.control.reading import BLOCKED, Reading
from interlock.workflow.menu import bmb_thresholds, forms, labels, nesting
from interlock.workflow.menu.history import Entry, History
from interlock.workflow.menu.menu_participation_engine import participate
from interlock.workflow.menu.options import Option
from interlock.workflow.menu.recognition import Menu
from interlock.workflow.menu.selection import SEVERAL, Situation
from interlock.workflow.party import menu_party, partying
from interlock.workflow.personal.preferences import LEARNED
from interlock.workflow.state.document import WAITING_USER, Waiting

DELEGATED = 2  # times that one menu or question goes back to the agent
SHOWN = 3000  # characters of a menu that a human is shown


async def menu(run: RunContext, found: Reading) -> None:
    """A menu: answer it, let the agent choose by the brief, or ask a human."""
    state, record = run.state, run.record
    participation = found.participation
    assert participation is not None and run.heard is not None
    shown = menus.shown(participation.detection)
    assert shown is not None
    own = participation.detection.step_menu is not None
    menus.arrived(state, record, shown, participation.within, own=own)
    where = menus.situation(state, record, run.settings, output=run.heard.output, exists=turning.exists(run))
    if (key := await menu_party.menu(run, found, shown, where)) is not None:
        if key:
            remember(run, shown, key, "the driver answers for Party Mode", 100, automatic=True)
        return
    where = wishes.known(run, shown, where)
    before = asking.answered_before(state, run.replay, known_by(shown))
    if where.escalation != bmb_thresholds.CONTINUE and await _called_for(run, found, shown, where):
        return
    if before is not None:
        option = asking.choose(before.answer, shown.options)
        run.decide(Decision("menu", before.answer, before.why, by=before.by))
        _answer(run, shown, option or before.answer, before.why, 100, automatic=False)
        return
    await _decide(run, found, shown, where)


async def _called_for(run: RunContext, found: Reading, shown: Menu, where: Situation) -> bool:
    """The builder's thresholds ask for help (FR9): the menu is answered with it where it offers it; where it does not
    offer Party Mode, that is held beside it."""
    if menu_party.reopens(run):
        return False
    why = f"the validation result asks for {where.escalation.replace('_', ' ')}"
    run.decide(Decision("trigger", where.escalation, why, basis={"output": found.closing.text[-2000:]}))
    if where.escalation == bmb_thresholds.PARTY_MODE and not shown.by_meaning(labels.PARTY):
        await partying.call(run, partying.THRESHOLDS, why)
        return True
    escalation.triggered(run, where.escalation, why)
    return False


async def _decide(run: RunContext, found: Reading, shown: Menu, where: Situation) -> None:
    state, record, settings = run.state, run.record, run.settings
    output = found.closing.text
    selection = participate(output, run.step.text, where).selection
    assert selection is not None
    if selection.option is not None and selection.choice == SEVERAL:
        where = replace(where, threshold=wishes.threshold(run, selection.option))
        selection = participate(output, run.step.text, where).selection or selection
    silent = found.closing.brief_silent or not known(run)
    decided = menus.decide(
        selection, shown, where, automatic_from=settings.automatic_from, yolo=state.plan.yolo,
        may_delegate=not silent and run.once(f"menu/{known_by(shown)}"),
    )  # fmt: skip
    if decided.action != menus.ASK and wishes.taken_back(run, shown, decided.option):
        decided = replace(decided, action=menus.ASK, why="you took back what was chosen here")
    if decided.action == menus.ANSWERED and decided.option is not None:
        basis = menu_basis(output, run.step.path, run.step.line, where, state.plan.yolo)
        by_rule = selection.option == decided.option and where.within is None
        source = LEARNED if selection.learned and selection.option == decided.option else None
        run.decide(
            Decision(
                "menu", decided.option.key, decided.why, confidence=decided.confidence, basis=basis if by_rule else {},
                source=source, pattern=wishes.menu(run, shown, decided.option),
            )
        )  # fmt: skip
        menus.chosen(state, record, shown, decided.option)
        _answer(run, shown, decided.option, decided.why, decided.confidence, automatic=True, source=source)
    elif decided.action == menus.DELEGATE:
        run.decide(Decision("menu", "by the brief", f"{decided.why}; the brief may say", by="brief"))
        unwanted = [f"[{one.key}] {one.label}" for one in shown.options if one.key in where.avoided]
        turning.send(run, turning.NUDGE, prompts.from_brief(text_of(found), unwanted))
    else:
        recommended = decided.option.key if decided.option else None
        source = LEARNED if selection.learned else None
        await _ask_menu(run, found, shown, recommended, decided.why, decided.confidence, source)


def _answer(
    run: RunContext,
    shown: Menu,
    option: Option | str,
    why: str,
    confidence: int,
    *,
    automatic: bool,
    source: str | None = None,
) -> None:
    """Send the choice, and keep it in the history: continues in a row take one entry."""
    key = option if isinstance(option, str) else option.key
    remember(run, shown, key, why, confidence, automatic=automatic, source=source)
    turning.send(run, *chosen(run, option, why))


def chosen(run: RunContext, option: Option | str, why: str) -> tuple[str, str]:
    """What the agent is told of a choice, or of a human's words; where Party Mode was chosen its first round's input
    comes with it."""
    if isinstance(option, str) or nesting.opens(option.label) != nesting.PARTY:
        return turning.ANSWER, prompts.answer(option if isinstance(option, str) else option.key, why)
    here = ("party_mode", run.record.id, run.record.visit)
    asked = any((one["what"], one["step"], one["visit"]) == here for one in run.state.triggers)
    purpose = partying.THRESHOLDS if asked else partying.CHOSEN
    return turning.NESTED, f"{option.key}\n\n({why}.)\n\n{menu_party.opened(run, purpose, why)}"


def remember(
    run: RunContext, shown: Menu, key: str, why: str, confidence: int, *, automatic: bool, source: str | None = None
) -> None:
    """One selection more in the menu history."""
    state = run.state
    came = source or ("engine" if automatic else "human")
    entry = Entry(
        run.desk.now(), menus.menu_id(run.record, shown), key, confidence, why, automatic, decision_source=came
    )
    history = History.of(state.menu_history)
    batched = automatic and forms.form_of(shown) in (forms.APC, forms.LONE)
    state.menu_history = (history.batch(entry) if batched else history.add(entry)).as_list()


async def _ask_menu(
    run: RunContext,
    found: Reading,
    shown: Menu,
    recommended: str | None,
    why: str,
    confidence: int,
    source: str | None = None,
) -> None:
    ordered = wishes.last_first(run, shown)
    options = [f"{one.key}: {one.label}" for one in ordered]
    data = {
        "options": [one.as_dict() for one in ordered],
        "menu_id": menus.menu_id(run.record, shown),
        "recommended": recommended,
    }
    if ordered != list(shown.options):
        late = ", ".join(one.key for one in ordered if one.key in wishes.at(run, shown).last)
        source, why = LEARNED, f"{why}; never taken before, and shown last: {late}"
    run.decide(Decision("ask", recommended or "", why, confidence=confidence, source=source))
    advice = f"\n\nRecommended: {recommended}." if recommended else ""
    keys = ", ".join(one.key for one in ordered)
    text = f"{text_of(found)}{advice}\n\nWhich one: {keys}?"
    context = f"{why} (confidence {confidence})"
    pending = presenting.Pending(
        known_by(shown), text_of(found), text, tuple(options), recommended, context, confidence, data
    )
    await presenting.present(run, pending)


async def question(run: RunContext, found: Reading) -> None:
    """A question or a halt: what was answered before, what was given, what the brief says, and only then a human."""
    state = run.state
    text = found.text or "The agent has stopped and does not say why. What should it do?"
    mark = asking.fingerprint(text)
    # Asked again in the same visit, also by an agent that has forgotten, it has the same answer.
    before = asking.answered_before(state, asking.answered(state, run.record), text)
    given = before or asking.from_facts(text, state.plan.brief, state.plan.values)
    pattern = wishes.question(run, text)
    if before is None and wishes.is_asked(run, text):
        await _ask(run, text, blocked=found.kind == BLOCKED, why="you want to be asked this", source=LEARNED)
    elif given is not None and run.once(f"given/{mark}", DELEGATED):
        basis = {"question": text[-1000:]}
        run.decide(Decision("question", given.answer, given.why, by=given.by, basis=basis, pattern=pattern))
        turning.send(run, turning.ANSWER, prompts.answer(given.answer, given.why))
    elif state.plan.yolo and run.once(f"yolo/{mark}", DELEGATED):
        why = "--yolo: nobody is asked"
        run.decide(Decision("question", "decide yourself", why, by="agent", pattern=pattern))
        turning.send(run, turning.NUDGE, prompts.decide_yourself(text))
    elif known(run) and not found.closing.brief_silent and run.once(f"brief/{mark}"):
        why = "the agent reads the brief before anybody is asked"
        run.decide(Decision("question", "by the brief", why, by="brief", pattern=pattern))
        turning.send(run, turning.NUDGE, prompts.from_brief(text))
    else:
        await _ask(run, text, blocked=found.kind == BLOCKED)


async def _ask(run: RunContext, text: str, *, blocked: bool, why: str | None = None, source: str | None = None) -> None:
    """A free question to a human."""
    state = run.state
    entry = asking.new_entry(state, run.record, "question", text, run.desk.now())
    state.waiting = Waiting(entry["key"], "question", text, data={"blocked": blocked})
    why = why or ("the agent has halted" if blocked else "neither the brief nor a decision answers it")
    run.decide(Decision("ask", "", why, source=source))
    run.move(WAITING_USER)
    state.waiting.question_id = await run.save(Asking(entry["key"], "clarification", text))
    state.waiting.asked_at = run.desk.now()


def known(run: RunContext) -> bool:
    """Whether the user has said anything that an agent could answer from."""
    plan = run.state.plan
    return bool(plan.brief or plan.arguments or plan.values)


def text_of(found: Reading) -> str:
    """What a human, or the agent once more, is shown of a menu."""
    return found.text[-SHOWN:]


def known_by(shown: Menu) -> str:
    """By what a menu is known again after a crash: what asks for it, and its options."""
    return f"{shown.prompt}|" + "|".join(f"{one.key}={one.label}" for one in shown.options)
