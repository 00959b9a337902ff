"""Menus and questions of an agent, answered: by what was decided before, the engine, the brief, and last by a human.

(FR8–FR12, decision 28.) Every answer is a decision with its reason. What the brief says never reaches a human: the
agent, which can read, is asked to answer from it first, once for each question. The engine's own selection stands in
`menus.menu_participation_engine`; here is what the run knows beside the menu, and what `--yolo` and nested modes add.
A menu reaches a human no faster than a human can take it (FR55, FR56, BMAD-7.6; `UserWishes.admit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow.engine import documents, prompts, questions, recovery
from interlock.workflow.engine.closing_line import BLOCKED
from interlock.workflow.engine.context import THRESHOLDS, Draft, Halting
from interlock.workflow.engine.decision_log import LEARNED_PREFERENCE, Decision, menu_basis
from interlock.workflow.engine.effects import ANSWER, NESTED, NUDGE, AdmitMenu, Pending
from interlock.workflow.engine.examination import Examined
from interlock.workflow.engine.turn_interpreter import QUESTION, Reading, asks, asks_to_go_on
from interlock.workflow.markdown import quoted
from interlock.workflow.menus import escalation, forms, meanings
from interlock.workflow.menus.forms import IN_ELICITATION, IN_PARTY
from interlock.workflow.menus.menu_participation_engine import selected
from interlock.workflow.menus.options import Option
from interlock.workflow.menus.recognition import Menu
from interlock.workflow.menus.selection import AUTOMATIC, HUMAN, RECOMMENDED, RISKY, SEVERAL, Selection, Situation
from interlock.workflow.menus.step_menus import menus_of
from interlock.workflow.state.document import FAILED, RUNNING, StepRecord, Waiting, WorkflowState

# Under --yolo, in this order: what leads on, what fixes, what says yes; then whatever else is not dangerous.
YOLO_ORDER = (
    meanings.CONTINUE,
    meanings.WAY_ON,
    meanings.YES,
    meanings.FIX,
    meanings.RETRY,
    meanings.OTHER,
    meanings.EDIT,
    meanings.NO,
)
ANSWERED, DELEGATE, ASK = "answer", "delegate", "ask"
GOES_ON = 3  # times that an agent is told in one visit to go on
DELEGATED = 2  # times that one menu or question goes back to the agent
SHOWN = 3000  # characters of a menu that a human is shown
KEPT = 100  # selections of the history
PAUSE = "menu_pause"
PACE_OPTIONS = ("continue", "stop")


@dataclass(frozen=True)
class MenuDecision:
    """`action` is `answer` (with `option`), `delegate` (the agent decides by the brief) or `ask` (a human; `option` is
    what is recommended, if anything)."""

    action: str
    option: Option | None
    why: str
    confidence: int


@dataclass(frozen=True)
class KeptSelection:
    """What was chosen in a menu. `timestamp` is ISO 8601 UTC, `confidence` 0 to 100, `count` how many equal ones it
    stands for; `decision_source` is what it came from: engine, human, or learned_preference."""

    timestamp: str
    menu_id: str
    selection: str
    confidence: int
    reason: str = ""
    automatic: bool = True
    count: int = 1
    decision_source: str = "engine"


def with_selection(history: Sequence[Json], entry: KeptSelection, *, batched: bool = False) -> list[Json]:
    """The history of menus with one more selection, at most 100 (BMAD-2b.5, FR12). A continue of a batch is added to
    the entry of the continue before it (BMAD-2b.6.6)."""
    last = history[-1] if history else {}
    known = (last.get("selection"), last.get("decision_source"), last.get("automatic"))
    if batched and known == (entry.selection, entry.decision_source, entry.automatic):
        count, least = last["count"] + entry.count, min(last["confidence"], entry.confidence)
        return [*history[:-1], asdict(replace(entry, count=count, confidence=least))]
    return [*history, asdict(entry)][-KEPT:]


def menu_id(record: StepRecord, menu: Menu) -> str:
    """What a menu is known by: its step and its keys."""
    return f"{record.id}:{'/'.join(menu.keys).lower()}"


def within(state: WorkflowState) -> str | None:
    """What the innermost open menu is nested in."""
    return state.menu_stack[-1].get("within") if state.menu_stack else None


def arrived(state: WorkflowState, record: StepRecord, menu: Menu, nested: str | None, *, own: bool) -> None:
    """A menu is shown: it is nested in what was opened, or the nested mode is over and its parent is back. `own`: it is
    one of the step's."""
    frames = list(state.menu_stack)
    id = menu_id(record, menu)
    if nested is None and not own and menu.shape != "asked" and frames and all(one["menu_id"] != id for one in frames):
        nested = frames[-1].get("within")
    if nested is None and not _asks_about_nested(menu, frames):
        known = next((n for n, frame in enumerate(frames) if frame["menu_id"] == id), None)
        frames = frames[: known + 1] if known is not None else [_frame(record, id, None)]
    elif nested is not None:
        top = frames[-1] if frames else None
        if top is None or top.get("within") != nested:
            frames.append(_frame(record, id, nested))
        elif top.get("menu_id") in ("", id):
            top["menu_id"] = id
        else:
            frames.append(_frame(record, id, nested))
    state.menu_stack = frames


def taken(state: WorkflowState, record: StepRecord, menu: Menu, option: Option) -> None:
    """An option was taken: a nested mode opens, or has had one more round."""
    if forms.belongs_to(menu) is None and forms.opens(option.label):
        opened(state, record, option)
    elif state.menu_stack and state.menu_stack[-1].get("within"):
        top = {**state.menu_stack[-1], "rounds": int(state.menu_stack[-1].get("rounds", 0)) + 1}
        state.menu_stack = [*state.menu_stack[:-1], top]


def opened(state: WorkflowState, record: StepRecord, option: Option) -> None:
    """Where the option starts Party Mode or Advanced Elicitation, that is open now."""
    if within := forms.opens(option.label):
        state.menu_stack = [*state.menu_stack, _frame(record, "", within)]


def situation(run: Draft, output: str) -> Situation:
    """What is known beside the menu that `output` may end in."""
    state, settings = run.state, run.settings
    nested = within(state)
    called_for, left = escalation.CONTINUE, 0
    if settings.bmb is not None:
        result = escalation.read(output)
        wanted = escalation.escalation(result, settings.bmb)
        if not had_help(state, run.record):
            called_for = wanted
        elif wanted == escalation.PARTY_MODE:
            left = max(1, result.blocking_errors)  # Help was given, and as many are left: to go on would accept them.
    if nested is None and run.party.reopens(run):
        called_for = escalation.PARTY_MODE  # it was under way when the step was interrupted
    top: Mapping[str, Any] = state.menu_stack[-1] if state.menu_stack else {}
    return Situation(
        output_exists=exists(run),
        open_findings=0 if nested else left,
        within=nested,
        escalation=called_for,
        depth=max(1, len(state.menu_stack)),
        rounds=int(top.get("rounds", 0)),
        remembered=questions.remembered(state, str(top.get("menu_id", ""))) if top else None,
    )


def decide(
    selection: Selection, menu: Menu, where: Situation, *, automatic_from: float, yolo: bool, may_delegate: bool
) -> MenuDecision:
    """Who answers the menu, and what."""
    option, score, why = selection.option, selection.confidence_score, selection.selection_reason
    if where.within and forms.form_of(menu) == forms.YES_NO:
        yes = next((one for one in menu.options if meanings.meaning(one.label) == meanings.YES), None)
        if yes is not None:
            return MenuDecision(ANSWERED, yes, f"the changes of the {where.within} that was asked for are taken", 85)
    if where.within == IN_ELICITATION and option is None and "[x]" in menu.prompt.lower():
        # The line that asks names the way out, which is not among the numbered methods.
        leave = Option("x", "Proceed") if where.rounds else menu.options[0]
        return MenuDecision(ANSWERED, leave, "elicitation takes one round, then x returns to the parent menu", 85)
    # A human may let it answer at less than 80, never what is below 50 or dangerous.
    if selection.mode != HUMAN and selection.choice > RISKY and option is not None and score >= automatic_from:
        return MenuDecision(ANSWERED, option, why, score)
    if where.depth > forms.DEEPEST:
        return MenuDecision(ASK, None, why, 0)
    if yolo:
        best = option if selection.mode != HUMAN and selection.choice > RISKY else _yolo(menu, where)
        if best is not None:
            return MenuDecision(ANSWERED, best, f"--yolo: {why}", score)
    if may_delegate and selection.choice != RISKY:
        return MenuDecision(DELEGATE, option, why, score)
    recommended = option if selection.mode in (RECOMMENDED, AUTOMATIC) else None
    return MenuDecision(ASK, recommended, why, score)


def _yolo(menu: Menu, where: Situation) -> Option | None:
    by_meaning = {one: meanings.meaning(one.label) for one in menu.options if one.key not in where.avoided}
    for wanted in YOLO_ORDER:
        for option, meaning in by_meaning.items():
            if meaning == wanted:
                return option
    # Only what exits, accepts or applies is left: to leave is the least of these, and never to destroy.
    return next((one for one, meaning in by_meaning.items() if meaning in (meanings.EXIT, meanings.ACCEPT)), None)


def _asks_about_nested(menu: Menu, frames: list[Json]) -> bool:
    """`Accept these changes? (y/n)`, `Continue exploring?`: still within the nested mode."""
    return bool(frames) and frames[-1].get("within") in (IN_PARTY, IN_ELICITATION) and menu.shape == "asked"


def had_help(state: WorkflowState, record: StepRecord) -> bool:
    """Whether Party Mode or elicitation was called for this step's findings already: once is enough."""
    return any(one.get("step") == record.id and one.get("visit") == record.visit for one in state.triggers)


def _frame(record: StepRecord, id: str, within: str | None) -> Json:
    return {"step": str(record.id), "menu_id": id, "within": within, "rounds": 0}


def menu(run: Draft, found: Reading) -> None:
    """A menu: answer it, let the agent choose by the brief, or ask a human."""
    state, record = run.state, run.record
    assert found.participation is not None and run.heard is not None
    detection = found.participation.detection
    shown = detection.step_menu or detection.menu
    assert shown is not None
    arrived(state, record, shown, found.participation.within, own=detection.step_menu is not None)
    where = situation(run, run.heard.output)
    if (key := run.party.menu(run, found, shown, where)) is not None:
        if key:
            _remember(run, shown, key, "the driver answers for Party Mode", 100, automatic=True)
        return
    where = run.wishes.known(run, shown, where)
    before = questions.answered_before(state, run.replay, _known_by(shown))
    if where.escalation != escalation.CONTINUE and _called_for(run, found, shown, where):
        return
    if before is not None:
        option = questions.choose(before.answer, shown.options)
        run.decide(Decision("menu", before.answer, before.why, by=before.by))
        _answer(run, shown, option or before.answer, before.why, 100, automatic=False)
        return
    _decide(run, found, shown, where)


def exists(run: Draft) -> bool | None:
    """Whether the step's output is there; None where the step has none that is known."""
    wanted = run.outputs
    return run.observe("output exists", lambda: bool(documents.existing(run.root, wanted))) if wanted else None


def _called_for(run: Draft, found: Reading, shown: Menu, where: Situation) -> bool:
    """The builder's thresholds ask for help (FR9): the menu is answered with it where it offers it; where it does not
    offer Party Mode, that is held beside it."""
    if run.party.reopens(run):
        return False
    why = f"the validation result asks for {where.escalation.replace('_', ' ')}"
    run.decide(Decision("trigger", where.escalation, why, basis={"output": found.closing.text[-2000:]}))
    if where.escalation == escalation.PARTY_MODE and not shown.by_meaning(meanings.PARTY):
        run.party.call(run, THRESHOLDS, why)
        return True
    recovery.triggered(run, where.escalation, why)
    return False


def _decide(run: Draft, found: Reading, shown: Menu, where: Situation) -> None:
    state, step, record, settings = run.state, run.step, run.record, run.settings
    assert found.participation is not None
    detection = found.participation.detection
    selection = selected(detection, step.text, where)
    assert selection is not None
    if selection.option is not None and selection.choice == SEVERAL:
        where = replace(where, threshold=run.wishes.threshold(run, selection.option))
        selection = selected(detection, step.text, where) or selection
    silent = found.closing.brief_silent or not _known(run)
    decided = decide(
        selection, shown, where, automatic_from=settings.automatic_from, yolo=state.plan.yolo,
        may_delegate=not silent and run.once(f"menu/{_known_by(shown)}"),
    )  # fmt: skip
    if decided.action != ASK and run.wishes.taken_back(run, shown, decided.option):
        decided = replace(decided, action=ASK, why="you took back what was chosen here")
    learned = LEARNED_PREFERENCE if selection.learned else None
    if decided.action == ANSWERED and decided.option is not None:
        basis = menu_basis(found.closing.text, step.path, step.line, where, state.plan.yolo)
        by_rule = selection.option == decided.option and where.within is None
        source = learned if selection.option == decided.option else None
        run.decide(
            Decision(
                "menu", decided.option.key, decided.why, confidence=decided.confidence, basis=basis if by_rule else {},
                source=source, pattern=run.wishes.menu(run, shown, decided.option),
            )
        )  # fmt: skip
        taken(state, record, shown, decided.option)
        _answer(run, shown, decided.option, decided.why, decided.confidence, automatic=True, source=source)
    elif decided.action == DELEGATE and (own := _own_choice(found, shown, where)) is not None:
        run.decide(Decision("menu", own.key, "the agent chooses it, and knows the brief", by="agent"))
        taken(state, record, shown, own)
        _answer(run, shown, own, "your own choice, by the brief", decided.confidence, automatic=True)
    elif decided.action == DELEGATE:
        run.decide(Decision("menu", "by the brief", f"{decided.why}; the brief may say", by="brief"))
        unwanted = [f"[{one.key}] {one.label}" for one in shown.options if one.key in where.avoided]
        run.send(NUDGE, prompts.from_brief(found.text[-SHOWN:], unwanted))
    elif selection.choice != RISKY and _shows_another(run, found, where) and run.once("menu/not_own"):
        keys = [f"[{one.key}] {one.label}" for one in menus_of(run.step.text)[-1].options]
        run.decide(Decision("menu", "the step's own", "the menu that is shown is not the step's"))
        run.send(NUDGE, prompts.own_menu(run.step, keys))
    else:
        _ask_menu(run, found, shown, decided, learned)


def _own_choice(found: Reading, shown: Menu, where: Situation) -> Option | None:
    """What the agent said with its menu that it would choose, where the user does not object to it."""
    option = questions.choose(found.closing.option, shown.options) if found.closing.option else None
    return None if option is None or option.key in where.avoided else option


def _shows_another(run: Draft, found: Reading, where: Situation) -> bool:
    """Whether what is shown is meant to be the step's menu, and is not: it offers some of the same, and something
    else."""
    shown = found.participation
    if shown is None or shown.detection.menu is None or shown.detection.step_menu is not None or where.within:
        return False
    if shown.detection.menu.by_meaning(meanings.DESTRUCTIVE, meanings.ACCEPT, meanings.EXIT):
        return False
    offered = {meanings.head(one.label).casefold() for one in shown.detection.menu.options}
    return any(
        offered & {meanings.head(one.label).casefold() for one in menu.options} for menu in menus_of(run.step.text)
    )


def _answer(
    run: Draft,
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
    _remember(run, shown, key, why, confidence, automatic=automatic, source=source)
    choose(run, option, why)


def choose(run: Draft, option: Option | str, why: str) -> None:
    """Tell the agent of a choice, or of a human's words; where Party Mode was chosen its first round's input comes with
    it."""
    if isinstance(option, str) or forms.opens(option.label) != IN_PARTY:
        run.send(ANSWER, prompts.answer(option if isinstance(option, str) else option.key, why))
        return
    here = (escalation.PARTY_MODE, run.record.id, run.record.visit)
    asked = any((one["what"], one["step"], one["visit"]) == here for one in run.state.triggers)
    run.send(NESTED, f"{option.key}\n\n({why}.)\n\n{run.party.opened(run, asked, why)}")


def _remember(
    run: Draft, shown: Menu, key: str, why: str, confidence: int, *, automatic: bool, source: str | None = None
) -> None:
    """One selection more in the menu history."""
    came = source or ("engine" if automatic else "human")
    entry = KeptSelection(run.now, menu_id(run.record, shown), key, confidence, why, automatic, decision_source=came)
    batched = automatic and forms.form_of(shown) in (forms.APC, forms.LONE)
    run.state.menu_history = with_selection(run.state.menu_history, entry, batched=batched)


def _ask_menu(run: Draft, found: Reading, shown: Menu, decided: MenuDecision, source: str | None) -> None:
    recommended, why = decided.option.key if decided.option else None, decided.why
    late = run.wishes.shown_last(run, shown)
    ordered = sorted(shown.options, key=lambda option: option.key in late)
    if ordered != list(shown.options):
        last = ", ".join(one.key for one in ordered if one.key in late)
        source, why = LEARNED_PREFERENCE, f"{why}; never taken before, and shown last: {last}"
    run.decide(Decision("ask", recommended or "", why, confidence=decided.confidence, source=source))
    advice = f"\n\nRecommended: {recommended}." if recommended else ""
    text = found.text[-SHOWN:]
    data = {
        "options": [one.as_dict() for one in ordered],
        "menu_id": menu_id(run.record, shown),
        "recommended": recommended,
    }
    pending = Pending(
        _known_by(shown), text, f"{text}{advice}\n\nWhich one: {', '.join(one.key for one in ordered)}?",
        tuple(f"{one.key}: {one.label}" for one in ordered), recommended,
        f"{why} (confidence {decided.confidence})", decided.confidence, data,
    )  # fmt: skip
    run.effect(AdmitMenu(pending))


def admitted(run: Draft, menu: Pending, pause: str | None, limited: Mapping[str, Any] | None) -> None:
    """Put a menu to a human, or first have them acknowledge that many came before it: it waits in that question's
    data."""
    if limited is not None:
        run.event("workflow.rate_limited", **limited)
    if pause is None:
        run.ask(
            "menu", "menu", menu.text, menu.options, about=run.record, known_by=menu.known_by, shown=menu.shown,
            default=menu.recommended, context=menu.context, data=menu.data, told={"confidence": menu.confidence},
        )  # fmt: skip
    else:
        run.ask(PAUSE, "clarification", pause, PACE_OPTIONS, about=run.record, data={"menu": asdict(menu)})


def acknowledged(run: Draft, waiting: Waiting) -> None:
    """The pause is over: the count starts again, and the menu that waited is presented."""
    kept = dict(waiting.data["menu"])
    run.state.waiting = None
    run.move(RUNNING)
    run.effect(AdmitMenu(Pending(**{**kept, "options": tuple(kept["options"])})))


def question(run: Draft, found: Reading) -> None:
    """A question or a halt: what was answered before, what was given, what the brief says, and only then a human. A
    halt is nobody's to decide, so it is a human's unless it was answered before."""
    state = run.state
    text = found.text or "The agent has stopped and does not say why. What should it do?"
    mark = questions.fingerprint(text)
    blocked = found.kind == BLOCKED
    # Asked again in the same visit, also by an agent that has forgotten, it has the same answer.
    before = questions.answered_before(state, questions.answered(state, run.record), text)
    given = before or (None if blocked else questions.from_facts(text, state.plan.brief, state.plan.values))
    pattern = run.wishes.question(run, text)
    if before is None and run.wishes.is_asked(run, text):
        _ask(run, text, "you want to be asked this", LEARNED_PREFERENCE, blocked=blocked)
    elif blocked and before is None:
        _ask(run, text, "the agent has halted", None, blocked=True)
    elif before is None and asks_to_go_on(text):
        # Whether to go on is no question for a person: the workflow says what comes next. An agent that asks nothing
        # else does not say how its step stands.
        why = "going on is what the run is for"
        if run.once("go_on", GOES_ON):
            run.decide(Decision("question", "yes", why, confidence=100))
            run.send(ANSWER, prompts.answer("Yes, go on.", why))
        else:
            recovery.failed(state, recovery.UNCLEAR, "the agent only asks whether to go on")
            run.move(FAILED)
    elif found.kind == QUESTION and not found.structured and not asks(text) and run.once("asks_nothing"):
        run.decide(Decision("unclear", "ask the agent", "it waits for an answer and asks nothing"))
        run.send(NUDGE, prompts.asks_nothing(run.step))
    elif given is not None and run.once(f"given/{mark}", DELEGATED):
        basis = {"question": text[-1000:]}
        run.decide(Decision("question", given.answer, given.why, by=given.by, basis=basis, pattern=pattern))
        run.send(ANSWER, prompts.answer(given.answer, given.why))
    elif state.plan.yolo and run.once(f"yolo/{mark}", DELEGATED):
        run.decide(Decision("question", "decide yourself", "--yolo: nobody is asked", by="agent", pattern=pattern))
        run.send(NUDGE, prompts.decide_yourself(text))
    elif _known(run) and not found.closing.brief_silent and run.once(f"brief/{mark}"):
        why = "the agent reads the brief before anybody is asked"
        run.decide(Decision("question", "by the brief", why, by="brief", pattern=pattern))
        run.send(NUDGE, prompts.from_brief(text))
    else:
        _ask(run, text, "neither the brief nor a decision answers it", None, blocked=blocked)


def _ask(run: Draft, text: str, why: str, source: str | None, *, blocked: bool) -> None:
    """A free question to a human; of a halt, with what is on record of it, what is to become of the step."""
    run.decide(Decision("ask", "", why, source=source))
    if not blocked:
        run.ask("question", "clarification", text, about=run.record, data={"blocked": False})
        return
    found = run.observe("halt", lambda: _on_record(run))
    recorded, answers, then = list[str](), list[str](), ""
    for one in found.findings if found is not None else ():
        recorded.append(f"{one.location} says why: {one.title}")
        then = one.fix
    if found is not None and found.details.get("says"):
        recorded.append(quoted(found.details["says"]))
        answers = list(found.details.get("answers", ()))
    said = text if asks(text) else f"{text}\n\n{recovery.WHAT_NOW}"
    run.ask(
        "question", "clarification", said, (*answers, *recovery.OPTIONS), about=run.record, known_by=text,
        context="\n\n".join(recorded) or None, data={"blocked": True, "then": then},
    )  # fmt: skip


def _on_record(run: Draft) -> Examined | None:
    """What the first examination that knows of a halt has on record."""
    found = (one.halted(run) for one in run.examinations if isinstance(one, Halting) and one.called_for(run))
    return next((one for one in found if one is not None), None)


def _known(run: Draft) -> bool:
    """Whether the user has said anything that an agent could answer from."""
    plan = run.state.plan
    return bool(plan.brief or plan.arguments or plan.values)


def _known_by(shown: Menu) -> str:
    """By what a menu is known again after a crash: what asks for it, and its options."""
    return f"{shown.prompt}|" + "|".join(f"{one.key}={one.label}" for one in shown.options)
