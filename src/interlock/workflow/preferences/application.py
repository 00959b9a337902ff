"""What was learned of a person, where a run decides: what they do not want is not done, what they chose is known again.

The module is the plug-in `engine.context.UserWishes`. Everything was loaded when the run began; what is learned
here is kept in memory at once, beside it counts from the next decision on. What was said in the session meanwhile
counts, too.
"""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import field, replace
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow.engine import questions
from interlock.workflow.engine.context import Draft
from interlock.workflow.engine.effects import Remember
from interlock.workflow.engine.ports import Knowledge
from interlock.workflow.menus import meanings
from interlock.workflow.menus.options import Option
from interlock.workflow.menus.recognition import Menu
from interlock.workflow.menus.selection import Situation
from interlock.workflow.preferences import implicit
from interlock.workflow.preferences.adjustment import adjusted as adjusted
from interlock.workflow.preferences.adjustment import admit as admit
from interlock.workflow.preferences.adjustment import heard as heard
from interlock.workflow.preferences.adjustment import look as look
from interlock.workflow.preferences.adjustment import overridden as overridden
from interlock.workflow.preferences.adjustment import settings as settings
from interlock.workflow.preferences.patterns import (
    FIX,
    MENU,
    QUESTION,
    Choice,
    Feedback,
    Forgotten,
    Learned,
    Pattern,
    fix_situation,
    menu_situation,
    plain,
    question_situation,
)
from interlock.workflow.preferences.preferences import Preferences, Wishes

ALONE = "alone"
"""The choice to answer a question without asking."""
SAID = 120


async def _keeps_none(one: Choice | Feedback) -> None:
    return None


@dataclass
class Choices:
    """What people chose and said, of this project, as it was when the run began and as it was learned since. `keep`
    writes one more to memory."""

    learned: Learned = field(default_factory=Learned)
    keep: Callable[[Choice | Feedback], Awaitable[None]] = _keeps_none


def of(run: Draft) -> Preferences:
    """What is known of people's wishes, with what was said in this session."""
    feedback = run.session.get("feedback") or {}
    said = filter(None, map(Feedback.of, feedback.get("said", ())))
    gone = (Forgotten(str(one["id"]), str(one["at"])) for one in feedback.get("forgotten", ()))
    learned = run.observe("learned", lambda: _choices(run).learned)
    forgotten = replace(learned, forgotten=(*learned.forgotten, *gone))
    return Preferences(forgotten, said)


def _choices(run: Draft) -> Choices:
    if not isinstance(run.learned, Choices):
        run.learned = run.knowledge.choices if isinstance(run.knowledge.choices, Choices) else Choices()
    return run.learned


def words(run: Draft) -> Sequence[str]:
    """What the user wants remembered, as they said it."""
    return of(run).words


def at(run: Draft, shown: Menu) -> Wishes:
    """What is wished at that menu."""
    return of(run).at_menu(run.state.skill, step_of(run), shown.options)


def known(run: Draft, shown: Menu, where: Situation) -> Situation:
    """The situation, with what is known of the person. What they chose in this very run comes first."""
    found = at(run, shown)
    return replace(
        where, avoided=found.avoided, preferred=found.preferred, remembered=where.remembered or found.remembered
    )


def threshold(run: Draft, recommended: Option) -> int:
    """The confidence of recommending such an option among several ways on."""
    return of(run).confidence_threshold(run.state.skill, implicit.decision_type(recommended.label))


def taken_back(run: Draft, shown: Menu, option: Option | None) -> bool:
    """Whether a human has just rolled back what was chosen for them at that menu, where it was a choice at all, which
    to continue is not."""
    state = run.state
    if option is None or meanings.meaning(option.label) == meanings.CONTINUE:
        return False
    return implicit.taken_back(state.decisions, state.rollbacks, _situation(run, shown.options))


def shown_last(run: Draft, shown: Menu) -> Collection[str]:
    """The keys of what they never take: it is shown last, and nothing is left out."""
    return at(run, shown).last


def menu(run: Draft, shown: Menu, option: Option) -> Json:
    """The choice of an option, as feedback knows it."""
    return _menu(run, _situation(run, shown.options), option).as_dict()


def question(run: Draft, text: str) -> Json:
    """That a question is answered without asking anybody, as feedback knows it."""
    return _question(run, text).as_dict()


def _question(run: Draft, text: str) -> Pattern:
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    situation = question_situation(run.state.skill, step_of(run), text)
    return Pattern(QUESTION, run.state.skill, step_of(run), situation, ALONE, last[:SAID], run.record.name)


def fix(run: Draft, strategy: str) -> Json:
    """That a failed step is fixed in this way, as feedback knows it."""
    situation = fix_situation(run.state.skill, step_of(run))
    said = strategy.replace("_", " ")
    return Pattern(FIX, run.state.skill, step_of(run), situation, strategy, said, run.record.name).as_dict()


def unwanted_fixes(run: Draft) -> frozenset[str]:
    """The ways of fixing this step that are not wanted."""
    return of(run).avoided(fix_situation(run.state.skill, step_of(run)))


def is_asked(run: Draft, text: str) -> bool:
    """Whether the person wants to be asked that question."""
    pattern = _question(run, text)
    return of(run).avoids(pattern.situation, pattern.choice)


def chosen(run: Draft, text: str) -> Json | None:
    """See `UserWishes`. The choice of a menu's option is remembered, and where it corrects the engine, that too."""
    waiting = run.state.waiting
    if waiting is None or waiting.purpose != "menu":
        return None
    options = [Option(str(one["key"]), str(one["label"])) for one in waiting.data.get("options", [])]
    option = questions.choose(text, options)
    if option is None:
        return None
    state, now, situation, kept = run.state, run.now, _situation(run, options), _choices(run)
    recommended = next((one for one in options if one.key == waiting.data.get("recommended")), None)
    pattern = _menu(run, situation, option)
    choice = Choice(
        state.skill, step_of(run), situation, plain(option.label), tuple(plain(one.label) for one in options),
        plain(recommended.label) if recommended else None,
        implicit.decision_type(recommended.label) if recommended else "", now,
    )  # fmt: skip
    automatic = implicit.automatic_before(state.decisions, state.rollbacks, situation)
    feedback = (implicit.corrected(automatic, pattern, now) or ()) if automatic is not None else ()
    learned = kept.learned
    kept.learned = replace(learned, choices=(*learned.choices, choice), feedback=(*learned.feedback, *feedback))
    run.effect(Remember((choice, *feedback)))
    for one in feedback:
        run.event("workflow.feedback", id=one.id, kind=one.kind, source=one.source, text=one.text, step=run.record.id)
    return pattern.as_dict()


async def remember(knowledge: Knowledge, learned: Sequence[Any]) -> None:
    """See `UserWishes`."""
    if isinstance(knowledge.choices, Choices):
        for one in learned:
            await knowledge.choices.keep(one)


def step_of(run: Draft) -> str:
    """What the step at hand is known by in other runs."""
    record = run.record
    return f"{posixpath.basename(record.path)}#{record.id}"


def _menu(run: Draft, situation: str, option: Option) -> Pattern:
    said = f"[{option.key}] {option.label}"[:SAID]
    return Pattern(MENU, run.state.skill, step_of(run), situation, plain(option.label), said, run.record.name)


def _situation(run: Draft, options: tuple[Option, ...] | list[Option]) -> str:
    return menu_situation(run.state.skill, step_of(run), [one.label for one in options])
