"""What is answered to a menu within a run: the engine's selection, and what `--yolo` and nested modes add to it.

The selection itself (decision 28) stands in `menu/selection.py`. Here is what the run knows beside the menu, and who
is asked when the selection alone is not enough: in this order the engine, the agent with the brief, a human.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.workflow.engine import questions
from interlock.workflow.entry.tier_suggester import AdaptiveSettings
from interlock.workflow.menus import menu_participation_engine, nesting, options, recognition
from interlock.workflow.menus.detection import Detection
from interlock.workflow.menus.menu_participation_engine import (
    AUTOMATIC,
    HUMAN,
    RECOMMENDED,
    RISKY,
    Selection,
    Situation,
)
from interlock.workflow.menus.nesting import ELICITATION, PARTY, Frame, MenuStack
from interlock.workflow.menus.options import Option
from interlock.workflow.menus.recognition import Menu
from interlock.workflow.party.party_mode_driver import REOPEN
from interlock.workflow.state.document import StepRecord, WorkflowState

# Under --yolo, in this order: what leads on, what fixes, what says yes; then whatever else is not dangerous.
YOLO_ORDER = (
    options.CONTINUE,
    options.WAY_ON,
    options.YES,
    options.FIX,
    options.RETRY,
    options.OTHER,
    options.EDIT,
    options.NO,
)
ANSWERED, DELEGATE, ASK = "answer", "delegate", "ask"


@dataclass(frozen=True)
class MenuDecision:
    """`action` is `answer` (with `option`), `delegate` (the agent decides by the brief) or `ask` (a human; `option` is
    what is recommended, if anything)."""

    action: str
    option: Option | None
    why: str
    confidence: int


def menu_id(record: StepRecord, menu: Menu) -> str:
    """What a menu is known by: its step and its keys."""
    return f"{record.id}:{'/'.join(key.lower() for key in menu.keys)}"


def stack_of(state: WorkflowState) -> MenuStack:
    """The open menus of a run."""
    return MenuStack(tuple(Frame(str(one["step"]), str(one["menu_id"]), one.get("within")) for one in state.menu_stack))


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


def chosen(state: WorkflowState, record: StepRecord, menu: Menu, option: Option) -> None:
    """An option was taken: a nested mode opens, or has had one more round."""
    if nesting.belongs_to(menu) is None and nesting.opens(option.label):
        opened(state, record, option)
    elif state.menu_stack and state.menu_stack[-1].get("within"):
        top = {**state.menu_stack[-1], "rounds": int(state.menu_stack[-1].get("rounds", 0)) + 1}
        state.menu_stack = [*state.menu_stack[:-1], top]


def opened(state: WorkflowState, record: StepRecord, option: Option) -> None:
    """Where the option starts Party Mode or Advanced Elicitation, that is open now."""
    within = nesting.opens(option.label)
    if within:
        state.menu_stack = [*state.menu_stack, _frame(record, "", within)]


def situation(
    state: WorkflowState, record: StepRecord, settings: AdaptiveSettings, *, output: str, exists: bool | None
) -> Situation:
    """What is known beside the menu that `output` may end in."""
    stack = stack_of(state)
    result = menu_participation_engine.read(output) if settings.bmb else None
    called_for = menu_participation_engine.CONTINUE
    left = 0
    if result is not None and settings.bmb is not None:
        wanted = menu_participation_engine.escalation(result, settings.bmb)
        helped = had_help(state, record)
        called_for = menu_participation_engine.CONTINUE if helped else wanted
        # Help was given and as many errors are left: to go on would accept them.
        left = max(1, result.blocking_errors) if helped and wanted == menu_participation_engine.PARTY_MODE else 0
    if state.party.get(REOPEN) and stack.within is None:
        called_for = menu_participation_engine.PARTY_MODE  # it was under way when the step was interrupted
    top: Mapping[str, Any] = state.menu_stack[-1] if state.menu_stack else {}
    return Situation(
        output_exists=exists,
        open_findings=0 if stack.within else left,
        within=stack.within,
        escalation=called_for,
        depth=max(1, stack.depth),
        rounds=int(top.get("rounds", 0)),
        remembered=questions.remembered(state, str(top.get("menu_id", ""))) if top else None,
    )


def decide(
    selection: Selection, menu: Menu, where: Situation, *, automatic_from: float, yolo: bool, may_delegate: bool
) -> MenuDecision:
    """Who answers the menu, and what."""
    option, score, why = selection.option, selection.confidence_score, selection.selection_reason
    if where.within and recognition.form_of(menu) == recognition.YES_NO:
        yes = next((one for one in menu.options if options.meaning(one.label) == options.YES), None)
        if yes is not None:
            return MenuDecision(ANSWERED, yes, f"the changes of the {where.within} that was asked for are taken", 85)
    if where.within == ELICITATION and option is None and "[x]" in menu.prompt.lower():
        # The line that asks names the way out, which is not among the numbered methods.
        leave = Option("x", "Proceed") if where.rounds else menu.options[0]
        return MenuDecision(ANSWERED, leave, "elicitation takes one round, then x returns to the parent menu", 85)
    # A human may let it answer at less than 80, never what is below 50 or dangerous.
    if selection.mode != HUMAN and selection.choice > RISKY and option is not None and score >= automatic_from:
        return MenuDecision(ANSWERED, option, why, score)
    if where.depth > nesting.DEEPEST:
        return MenuDecision(ASK, None, why, 0)
    if yolo:
        best = option if selection.mode != HUMAN and selection.choice > RISKY else _yolo(menu, where)
        if best is not None:
            return MenuDecision(ANSWERED, best, f"--yolo: {why}", score)
    if may_delegate and selection.choice != RISKY:
        return MenuDecision(DELEGATE, option, why, score)
    recommended = option if selection.mode in (RECOMMENDED, AUTOMATIC) else None
    return MenuDecision(ASK, recommended, why, score)


def shown(detection: Detection) -> Menu | None:
    """The menu that is to be answered."""
    return detection.step_menu or detection.menu


def _yolo(menu: Menu, where: Situation) -> Option | None:
    by_meaning = {one: options.meaning(one.label) for one in menu.options if one.key not in where.avoided}
    for wanted in YOLO_ORDER:
        for option, meaning in by_meaning.items():
            if meaning == wanted:
                return option
    # Only what exits, accepts or applies is left: to leave is the least of these, and never to destroy.
    return next((one for one, meaning in by_meaning.items() if meaning in (options.EXIT, options.ACCEPT)), None)


def _asks_about_nested(menu: Menu, frames: list[dict[str, Any]]) -> bool:
    """`Accept these changes? (y/n)`, `Continue exploring?`: still within the nested mode."""
    return bool(frames) and frames[-1].get("within") in (PARTY, ELICITATION) and menu.shape == "asked"


def had_help(state: WorkflowState, record: StepRecord) -> bool:
    """Whether Party Mode or elicitation was called for this step's findings already: once is enough."""
    return any(one.get("step") == record.id and one.get("visit") == record.visit for one in state.triggers)


def _frame(record: StepRecord, id: str, within: str | None) -> dict[str, Any]:
    return {"step": str(record.id), "menu_id": id, "within": within, "rounds": 0}
