"""What was learned of a person, where a run decides: what they do not want is not done, what they chose is known again.

Everything was loaded when the run began; what is learned here is kept in memory at once, beside it counts from the next
decision on. What was said in the session meanwhile counts, too.
"""

from __future__ import annotations

import posixpath
from dataclasses import replace

from interlock.workflow.engine import questions
from interlock.workflow.engine.context import RunContext
from interlock.workflow.menus import options as labels
from interlock.workflow.menus.menu_participation_engine import Situation
from interlock.workflow.menus.options import Option
from interlock.workflow.menus.recognition import Menu
from interlock.workflow.preferences import preferences
from interlock.workflow.preferences.preferences import (
    FIX,
    MENU,
    QUESTION,
    Choice,
    Pattern,
    Wishes,
    fix_situation,
    menu_situation,
    plain,
    question_situation,
)
from interlock.workflow.state.document import Waiting

ALONE = "alone"
"""The choice to answer a question without asking."""
SAID = 120


def at(run: RunContext, shown: Menu) -> Wishes:
    """What is wished at that menu."""
    return run.preferences.at_menu(run.state.skill, step_of(run), shown.options)


def known(run: RunContext, shown: Menu, where: Situation) -> Situation:
    """The situation, with what is known of the person. What they chose in this very run comes first."""
    found = at(run, shown)
    return replace(
        where, avoided=found.avoided, preferred=found.preferred, remembered=where.remembered or found.remembered
    )


def threshold(run: RunContext, recommended: Option) -> int:
    """The confidence of recommending such an option among several ways on."""
    return run.preferences.confidence_threshold(run.state.skill, preferences.decision_type(recommended.label))


def taken_back(run: RunContext, shown: Menu, option: Option | None) -> bool:
    """Whether a human has just rolled back what was chosen for them at that menu, where it was a choice at all, which
    to continue is not."""
    state = run.state
    if option is None or labels.meaning(option.label) == labels.CONTINUE:
        return False
    return preferences.taken_back(state.decisions, state.rollbacks, _situation(run, shown.options))


def last_first(run: RunContext, shown: Menu) -> list[Option]:
    """The options as a human is shown them: what they never take comes last, and nothing is left out."""
    late = at(run, shown).last
    return sorted(shown.options, key=lambda option: option.key in late)


def menu(run: RunContext, shown: Menu, option: Option) -> Pattern:
    """The choice of an option, as feedback knows it."""
    return _menu(run, _situation(run, shown.options), option)


def question(run: RunContext, text: str) -> Pattern:
    """That a question is answered without asking anybody, as feedback knows it."""
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    situation = question_situation(run.state.skill, step_of(run), text)
    return Pattern(QUESTION, run.state.skill, step_of(run), situation, ALONE, last[:SAID], run.record.name)


def fix(run: RunContext, strategy: str) -> Pattern:
    """That a failed step is fixed in this way, as feedback knows it."""
    situation = fix_situation(run.state.skill, step_of(run))
    said = strategy.replace("_", " ")
    return Pattern(FIX, run.state.skill, step_of(run), situation, strategy, said, run.record.name)


def unwanted_fixes(run: RunContext) -> frozenset[str]:
    """The ways of fixing this step that are not wanted."""
    return run.preferences.avoided(fix_situation(run.state.skill, step_of(run)))


def is_asked(run: RunContext, text: str) -> bool:
    """Whether the person wants to be asked that question."""
    pattern = question(run, text)
    return run.preferences.avoids(pattern.situation, pattern.choice)


async def human_chose(run: RunContext, waiting: Waiting, text: str) -> Pattern | None:
    """A human has answered a menu: remember it, and where it corrects the engine, that too. The choice, as feedback
    knows it; null where it is no option."""
    options = [Option(str(one["key"]), str(one["label"])) for one in waiting.data.get("options", [])]
    option = questions.choose(text, options) if waiting.purpose == "menu" else None
    if option is None:
        return None
    state, now, situation = run.state, run.desk.now(), _situation(run, options)
    recommended = next((one for one in options if one.key == waiting.data.get("recommended")), None)
    pattern = _menu(run, situation, option)
    choice = Choice(
        state.skill, step_of(run), situation, plain(option.label), tuple(plain(one.label) for one in options),
        plain(recommended.label) if recommended else None,
        preferences.decision_type(recommended.label) if recommended else "", now,
    )  # fmt: skip
    await run.knowledge.choices.chose(choice)
    automatic = preferences.automatic_before(state.decisions, state.rollbacks, situation)
    for one in preferences.corrected(automatic, pattern, now) or () if automatic is not None else ():
        await run.knowledge.choices.learn(one)
        run.event("workflow.feedback", id=one.id, kind=one.kind, source=one.source, text=one.text, step=run.record.id)
    return pattern


def step_of(run: RunContext) -> str:
    """What the step at hand is known by in other runs."""
    return f"{posixpath.basename(run.record.path)}#{run.record.id}"


def _menu(run: RunContext, situation: str, option: Option) -> Pattern:
    said = f"[{option.key}] {option.label}"[:SAID]
    return Pattern(MENU, run.state.skill, step_of(run), situation, plain(option.label), said, run.record.name)


def _situation(run: RunContext, options: tuple[Option, ...] | list[Option]) -> str:
    return menu_situation(run.state.skill, step_of(run), [one.label for one in options])
