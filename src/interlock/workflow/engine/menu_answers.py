"""Menus and questions of an agent, answered: by what was decided before, the engine, the brief, and last by a human.

(FR8–FR12, decision 28.) Every answer is a decision with its reason. What the brief says never reaches a human: the
agent, which can read, is asked to answer from it first, once for each question.

A menu put to a human, no faster than a human can take it (FR55, FR56, BMAD-7.6; `personal.menu_rate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import anyio

from interlock.clock import iso, seconds
from interlock.workflow.engine import menus, prompts, questions, recovery, turns
from interlock.workflow.engine.context import RunContext
from interlock.workflow.engine.decision_log import Decision, menu_basis
from interlock.workflow.engine.ports import Asking
from interlock.workflow.engine.turn_interpreter import BLOCKED, QUESTION, Reading, asks, asks_to_go_on
from interlock.workflow.menus import menu_participation_engine, nesting, recognition
from interlock.workflow.menus import options as labels
from interlock.workflow.menus.menu_participation_engine import RISKY, SEVERAL, Situation, participate
from interlock.workflow.menus.nesting import Entry, History
from interlock.workflow.menus.options import Option
from interlock.workflow.menus.recognition import Menu
from interlock.workflow.menus.step_menus import menus_of
from interlock.workflow.party import in_a_step
from interlock.workflow.preferences import application, menu_rate
from interlock.workflow.preferences.menu_rate import Admission
from interlock.workflow.preferences.preferences import LEARNED
from interlock.workflow.state.document import FAILED, RUNNING, WAITING_USER, Waiting

PURPOSE = "menu_pause"
PACE_OPTIONS = ("continue", "stop")


@dataclass(frozen=True)
class Pending:
    """A menu on its way to a human. `known_by` is what it is recognised by after a crash, `shown` the menu itself,
    `text` what is asked, `data` what its answer is read with."""

    known_by: str
    shown: str
    text: str
    options: tuple[str, ...]
    recommended: str | None = None
    context: str | None = None
    confidence: float = 0.0
    data: Mapping[str, Any] = field(default_factory=dict)


async def present(run: RunContext, menu: Pending) -> None:
    """Put a menu to a human: at once, after the rest of the interval, or after a pause that is acknowledged."""
    admission = await _admitted(run, menu)
    if admission.pause:
        await _pause(run, menu, admission)
        return
    if admission.wait > 0:
        run.event("workflow.rate_limited", reason=menu_rate.INTERVAL_REASON, seconds=round(admission.wait, 3))
        await anyio.sleep(admission.wait)
    await _ask_whether_to_continue(run, menu)


async def acknowledged(run: RunContext, waiting: Waiting) -> None:
    """The pause is over: the count starts again, and the menu that waited is presented."""
    kept = dict(waiting.data["menu"])
    run.state.waiting = None
    run.move(RUNNING)
    await present(run, Pending(**{**kept, "options": tuple(kept["options"])}))


async def menu_answered(run: RunContext, waiting: Waiting, text: str) -> None:
    """A human has answered something: a menu gets its answer, anything else begins the count again."""
    if waiting.purpose == "menu":
        id = run.state.workflow_id
        run.session = await run.desk.change_session(lambda document: menu_rate.answered(document, text, run=id))
    elif menu_rate.counting(run.session):
        run.session = await run.desk.change_session(menu_rate.spoke)


async def _admitted(run: RunContext, menu: Pending) -> Admission:
    """Whether it may come, and its place among the others of the session, in one transaction."""
    found: list[Admission] = []
    limits, id, step = run.limits, run.state.workflow_id, run.record.id

    def admit(document: dict[str, Any]) -> None:
        now = seconds(run.desk.now())
        found[:] = [menu_rate.admit(document, now, interval=limits.menu_interval, most=limits.menu_pause)]
        if not found[0].pause:
            menu_rate.presented(document, " / ".join(menu.options), run=id, step=step, at=iso(now + found[0].wait))

    run.session = await run.desk.change_session(admit)
    return found[0]


async def _ask_whether_to_continue(run: RunContext, menu: Pending) -> None:
    state = run.state
    entry = questions.new_entry(state, run.record, "menu", menu.known_by, run.desk.now())
    state.waiting = Waiting(entry["key"], "menu", menu.shown, list(menu.options), data=dict(menu.data))
    run.move(WAITING_USER)
    question = Asking(
        entry["key"], "menu", menu.text, menu.options, menu.recommended, menu.context,
        data={"confidence": menu.confidence},
    )  # fmt: skip
    state.waiting.question_id = await run.save(question)
    state.waiting.asked_at = run.desk.now()


async def _pause(run: RunContext, menu: Pending, admission: Admission) -> None:
    """The forced pause: the menu waits in the question's data until a human says to go on."""
    state = run.state
    options = " / ".join(PACE_OPTIONS)
    text = f"{menu_rate.summary(admission.recent)}\n\nTake your time. Go on with the next one? ({options})"
    entry = questions.new_entry(state, run.record, PURPOSE, text, run.desk.now())
    state.waiting = Waiting(entry["key"], PURPOSE, text, list(PACE_OPTIONS), data={"menu": asdict(menu)})
    run.event("workflow.rate_limited", reason=menu_rate.PAUSE_REASON, menus=len(admission.recent))
    run.move(WAITING_USER)
    state.waiting.question_id = await run.save(Asking(entry["key"], "clarification", text, PACE_OPTIONS))
    state.waiting.asked_at = run.desk.now()


GOES_ON = 3  # times that an agent is told in one visit to go on
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
    where = menus.situation(state, record, run.settings, output=run.heard.output, exists=turns.exists(run))
    if (key := await in_a_step.menu(run, found, shown, where)) is not None:
        if key:
            remember(run, shown, key, "the driver answers for Party Mode", 100, automatic=True)
        return
    where = application.known(run, shown, where)
    before = questions.answered_before(state, run.replay, known_by(shown))
    if where.escalation != menu_participation_engine.CONTINUE and await _called_for(run, found, shown, where):
        return
    if before is not None:
        option = questions.choose(before.answer, shown.options)
        run.decide(Decision("menu", before.answer, before.why, by=before.by))
        _answer(run, shown, option or before.answer, before.why, 100, automatic=False)
        return
    await _decide(run, found, shown, where)


async def _called_for(run: RunContext, found: Reading, shown: Menu, where: Situation) -> bool:
    """The builder's thresholds ask for help (FR9): the menu is answered with it where it offers it; where it does not
    offer Party Mode, that is held beside it."""
    if in_a_step.reopens(run):
        return False
    why = f"the validation result asks for {where.escalation.replace('_', ' ')}"
    run.decide(Decision("trigger", where.escalation, why, basis={"output": found.closing.text[-2000:]}))
    if where.escalation == menu_participation_engine.PARTY_MODE and not shown.by_meaning(labels.PARTY):
        await in_a_step.call(run, in_a_step.THRESHOLDS, why)
        return True
    questions.triggered(run, where.escalation, why)
    return False


async def _decide(run: RunContext, found: Reading, shown: Menu, where: Situation) -> None:
    state, record, settings = run.state, run.record, run.settings
    output = found.closing.text
    selection = participate(output, run.step.text, where).selection
    assert selection is not None
    if selection.option is not None and selection.choice == SEVERAL:
        where = replace(where, threshold=application.threshold(run, selection.option))
        selection = participate(output, run.step.text, where).selection or selection
    silent = found.closing.brief_silent or not known(run)
    decided = menus.decide(
        selection, shown, where, automatic_from=settings.automatic_from, yolo=state.plan.yolo,
        may_delegate=not silent and run.once(f"menu/{known_by(shown)}"),
    )  # fmt: skip
    if decided.action != menus.ASK and application.taken_back(run, shown, decided.option):
        decided = replace(decided, action=menus.ASK, why="you took back what was chosen here")
    if decided.action == menus.ANSWERED and decided.option is not None:
        basis = menu_basis(output, run.step.path, run.step.line, where, state.plan.yolo)
        by_rule = selection.option == decided.option and where.within is None
        source = LEARNED if selection.learned and selection.option == decided.option else None
        run.decide(
            Decision(
                "menu", decided.option.key, decided.why, confidence=decided.confidence, basis=basis if by_rule else {},
                source=source, pattern=application.menu(run, shown, decided.option),
            )
        )  # fmt: skip
        menus.chosen(state, record, shown, decided.option)
        _answer(run, shown, decided.option, decided.why, decided.confidence, automatic=True, source=source)
    elif decided.action == menus.DELEGATE:
        run.decide(Decision("menu", "by the brief", f"{decided.why}; the brief may say", by="brief"))
        unwanted = [f"[{one.key}] {one.label}" for one in shown.options if one.key in where.avoided]
        turns.send(run, turns.NUDGE, prompts.from_brief(text_of(found), unwanted))
    elif selection.choice != RISKY and _shows_another(run, found, where) and run.once("menu/not_own"):
        keys = [f"[{one.key}] {one.label}" for one in menus_of(run.step.text)[-1].options]
        run.decide(Decision("menu", "the step's own", "the menu that is shown is not the step's"))
        turns.send(run, turns.NUDGE, prompts.own_menu(run.step, keys))
    else:
        recommended = decided.option.key if decided.option else None
        source = LEARNED if selection.learned else None
        await _ask_menu(run, found, shown, recommended, decided.why, decided.confidence, source)


def _shows_another(run: RunContext, found: Reading, where: Situation) -> bool:
    """Whether what is shown is meant to be the step's menu, and is not: it offers some of the same, and something
    else."""
    shown = found.participation
    if shown is None or shown.detection.menu is None or shown.detection.step_menu is not None or where.within:
        return False
    if shown.detection.menu.by_meaning(labels.DESTRUCTIVE, labels.ACCEPT, labels.EXIT):
        return False
    offered = {labels.head(one.label).casefold() for one in shown.detection.menu.options}
    return any(
        offered & {labels.head(one.label).casefold() for one in menu.options} for menu in menus_of(run.step.text)
    )


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
    turns.send(run, *chosen(run, option, why))


def chosen(run: RunContext, option: Option | str, why: str) -> tuple[str, str]:
    """What the agent is told of a choice, or of a human's words; where Party Mode was chosen its first round's input
    comes with it."""
    if isinstance(option, str) or nesting.opens(option.label) != nesting.PARTY:
        return turns.ANSWER, prompts.answer(option if isinstance(option, str) else option.key, why)
    here = ("party_mode", run.record.id, run.record.visit)
    asked = any((one["what"], one["step"], one["visit"]) == here for one in run.state.triggers)
    purpose = in_a_step.THRESHOLDS if asked else in_a_step.CHOSEN
    return turns.NESTED, f"{option.key}\n\n({why}.)\n\n{in_a_step.opened(run, purpose, why)}"


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
    batched = automatic and recognition.form_of(shown) in (recognition.APC, recognition.LONE)
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
    ordered = application.last_first(run, shown)
    options = [f"{one.key}: {one.label}" for one in ordered]
    data = {
        "options": [one.as_dict() for one in ordered],
        "menu_id": menus.menu_id(run.record, shown),
        "recommended": recommended,
    }
    if ordered != list(shown.options):
        late = ", ".join(one.key for one in ordered if one.key in application.at(run, shown).last)
        source, why = LEARNED, f"{why}; never taken before, and shown last: {late}"
    run.decide(Decision("ask", recommended or "", why, confidence=confidence, source=source))
    advice = f"\n\nRecommended: {recommended}." if recommended else ""
    keys = ", ".join(one.key for one in ordered)
    text = f"{text_of(found)}{advice}\n\nWhich one: {keys}?"
    context = f"{why} (confidence {confidence})"
    pending = Pending(known_by(shown), text_of(found), text, tuple(options), recommended, context, confidence, data)
    await present(run, pending)


async def question(run: RunContext, found: Reading) -> None:
    """A question or a halt: what was answered before, what was given, what the brief says, and only then a human."""
    state = run.state
    text = found.text or "The agent has stopped and does not say why. What should it do?"
    mark = questions.fingerprint(text)
    # Asked again in the same visit, also by an agent that has forgotten, it has the same answer.
    before = questions.answered_before(state, questions.answered(state, run.record), text)
    given = before or questions.from_facts(text, state.plan.brief, state.plan.values)
    pattern = application.question(run, text)
    if before is None and application.is_asked(run, text):
        await _ask(run, text, blocked=found.kind == BLOCKED, why="you want to be asked this", source=LEARNED)
    elif found.kind == QUESTION and before is None and asks_to_go_on(text):
        _go_on(run)
    elif found.kind == QUESTION and not asks(text) and run.once("asks_nothing"):
        run.decide(Decision("unclear", "ask the agent", "it waits for an answer and asks nothing"))
        turns.send(run, turns.NUDGE, prompts.asks_nothing(run.step))
    elif given is not None and run.once(f"given/{mark}", DELEGATED):
        basis = {"question": text[-1000:]}
        run.decide(Decision("question", given.answer, given.why, by=given.by, basis=basis, pattern=pattern))
        turns.send(run, turns.ANSWER, prompts.answer(given.answer, given.why))
    elif state.plan.yolo and run.once(f"yolo/{mark}", DELEGATED):
        why = "--yolo: nobody is asked"
        run.decide(Decision("question", "decide yourself", why, by="agent", pattern=pattern))
        turns.send(run, turns.NUDGE, prompts.decide_yourself(text))
    elif known(run) and not found.closing.brief_silent and run.once(f"brief/{mark}"):
        why = "the agent reads the brief before anybody is asked"
        run.decide(Decision("question", "by the brief", why, by="brief", pattern=pattern))
        turns.send(run, turns.NUDGE, prompts.from_brief(text))
    else:
        await _ask(run, text, blocked=found.kind == BLOCKED)


def _go_on(run: RunContext) -> None:
    """Whether to go on is no question for a person: the workflow says what comes next. An agent that asks nothing else
    does not say how its step stands."""
    if run.once("go_on", GOES_ON):
        why = "going on is what the run is for"
        run.decide(Decision("question", "yes", why, confidence=100))
        turns.send(run, turns.ANSWER, prompts.answer("Yes, go on.", why))
        return
    recovery.failed(run.state, recovery.UNCLEAR, "the agent only asks whether to go on")
    run.move(FAILED)


async def _ask(run: RunContext, text: str, *, blocked: bool, why: str | None = None, source: str | None = None) -> None:
    """A free question to a human."""
    state = run.state
    entry = questions.new_entry(state, run.record, "question", text, run.desk.now())
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
