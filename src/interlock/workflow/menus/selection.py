"""Which option is chosen, and how sure that is (BMAD-2b.2, FR8, FR10, decision 28).

A menu is answered automatically when both its detection and its choice are at 80 or more, recommended at 50 to 79,
and otherwise put to a human as it is. The choice is

    100   one label is continue, proceed or next, the step's output exists, and nothing is open
     85   the only option, or the one that the step marks as the way on
     60   several ways on; a remembered answer, a preference, or recommendations that were always taken raise it to 85
     30   the label accepts open findings, exits, overwrites, deletes or applies; nothing raises it

What a person does not want here is not chosen; what is left is recommended at most, unless they prefer it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from interlock.lazy_dataclass import dataclass
from interlock.workflow.menus import forms, meanings
from interlock.workflow.menus.escalation import CONTINUE, PARTY_MODE
from interlock.workflow.menus.forms import DEEPEST, IN_ELICITATION, IN_PARTY
from interlock.workflow.menus.options import Option
from interlock.workflow.menus.recognition import Menu

AUTOMATIC, RECOMMENDED, HUMAN = "automatic", "recommended", "human"
AUTOMATIC_FROM, RECOMMENDED_FROM = 80, 50
CERTAIN, ONLY_WAY, SEVERAL, RISKY, NONE = 100, 85, 60, 30, 0


@dataclass(frozen=True)
class Situation:
    """What is known beside the menu.

    `output_exists`: the step's document is written (None: not known). `way_on`: the key that the step's own text marks
    as the way on. `remembered`: the key a human chose here before. `within`: the nested mode that shows this menu.
    `escalation`: what the builder's thresholds ask for. `depth`: how many menus are open. `rounds`: how often the
    nested mode has answered already. `avoided` and `preferred`: keys that a person does not want here, and the one they
    do; `threshold`: the confidence of several ways on, more than 60 where such recommendations were always taken.
    `own`: the menu is one of the step's.
    """

    output_exists: bool | None = None
    open_findings: int = 0
    way_on: str | None = None
    remembered: str | None = None
    within: str | None = None
    escalation: str = CONTINUE
    depth: int = 1
    rounds: int = 0
    avoided: tuple[str, ...] = ()
    preferred: str | None = None
    threshold: int = SEVERAL
    own: bool = False


@dataclass(frozen=True)
class Selection:
    """The option to take or to recommend; None when only a human can say. `confidence_score` is 0 to 100; `learned`
    says that it is not what it would have been without what was learned of a person."""

    mode: str
    option: Option | None
    confidence_score: int
    selection_reason: str
    choice: int = 0
    detection: int = 0
    learned: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The shape in which it is logged."""
        return {
            "mode": self.mode,
            "selection": self.option.key if self.option else None,
            "label": self.option.label if self.option else None,
            "selection_reason": self.selection_reason,
            "confidence_score": self.confidence_score,
        }


def select(menu: Menu, detection: int, situation: Situation) -> Selection:
    """What to answer to `menu`, which was detected with that certainty (0–100)."""
    if situation.depth > DEEPEST:
        return Selection(HUMAN, None, 0, f"menus are nested more than {DEEPEST} deep", 0, detection)
    found = _choice(menu, situation)
    option, choice, reason = wished = _learned(menu, situation, found)
    learned, score = wished != found, min(detection, choice)
    if option is None or score < RECOMMENDED_FROM:
        return Selection(HUMAN, None, score, reason, choice, detection, learned)
    mode = AUTOMATIC if score >= AUTOMATIC_FROM else RECOMMENDED
    return Selection(mode, option, score, reason, choice, detection, learned)


Choice = tuple[Option | None, int, str]


def _choice(menu: Menu, situation: Situation) -> Choice:
    nested = _nested(menu, situation)
    if nested:
        return nested
    if situation.escalation != CONTINUE:
        return _escalated(menu, situation.escalation)
    if situation.open_findings:
        return _with_findings(menu, situation.open_findings)
    safe = [option for option in menu.options if not _danger(menu, option)]
    go_on = [option for option in safe if _goes_on(menu, option)]
    marked = _by_key(menu, situation.way_on)
    if len(go_on) == 1 and situation.output_exists:
        return go_on[0], CERTAIN, "one option continues, the step's output exists and nothing is open"
    if len(menu.options) == 1:
        return _only(menu)
    if marked is not None:
        if danger := _danger(menu, marked):
            return marked, RISKY, f"the step marks {marked.key} as the way on, but it {danger}"
        return marked, ONLY_WAY, f"the step marks {marked.key} as the way on"
    if len(go_on) == 1 and situation.own:
        return go_on[0], ONLY_WAY, "it is the step's own menu, and one option continues"
    if len(go_on) == 1:
        return go_on[0], SEVERAL, "one option continues, but that the step's output exists is not known"
    ways = go_on or [option for option in safe if meanings.meaning(option.label) in {meanings.WAY_ON, meanings.YES}]
    if ways:
        return ways[0], SEVERAL, f"{len(ways)} way{'' if len(ways) == 1 else 's'} on; none is marked as the one"
    if not safe:
        return menu.options[0], RISKY, "every option exits, overwrites, deletes, applies or accepts something"
    return None, NONE, "no option says that it leads on"


def _nested(menu: Menu, situation: Situation) -> Choice | None:
    """Within Advanced Elicitation only `x` returns; Party Mode ends by its exit option."""
    form = forms.form_of(menu)
    if situation.within == IN_ELICITATION and form == forms.ELICITATION:
        first = _by_key(menu, "1")
        if situation.rounds == 0 and first is not None:
            return first, ONLY_WAY, "the first elicitation method was selected for this content"
        leave = _by_key(menu, "x")
        return leave, CERTAIN if leave else NONE, "elicitation has had its round; x returns to the parent menu"
    if situation.within == IN_PARTY and form == forms.PARTY:
        leave = menu.options[0]
        if meanings.meaning(leave.label) == meanings.EXIT:
            return leave, CERTAIN, "Party Mode has had its rounds; its exit returns to the parent menu"
    return None


def _escalated(menu: Menu, escalation: str) -> Choice:
    wanted = meanings.PARTY if escalation == PARTY_MODE else meanings.ELICITATION
    offered = menu.by_meaning(wanted)
    if offered:
        return offered[0], ONLY_WAY, f"the validation result asks for {escalation.replace('_', ' ')}"
    return None, NONE, f"the validation result asks for {escalation.replace('_', ' ')}, which this menu does not offer"


def _with_findings(menu: Menu, count: int) -> Choice:
    findings = f"{count} finding{'' if count == 1 else 's'} still open"
    fixes = menu.by_meaning(meanings.FIX)
    if fixes:
        return fixes[0], SEVERAL, f"{findings}; {fixes[0].key} fixes them"
    ways = menu.by_meaning(*meanings.WAYS_ON)
    return (ways[0] if ways else None), RISKY, f"to go on would accept {findings}"


def _only(menu: Menu) -> Choice:
    option = menu.options[0]
    if danger := _danger(menu, option):
        return option, RISKY, f"the only option {danger}"
    return option, ONLY_WAY, "the only option"


def _goes_on(menu: Menu, option: Option) -> bool:
    if menu.shape == "asked":
        onward = re.search(r"\b(?:continue|proceed|next step|go on)\b[^.?!]*\??\W*$", menu.prompt, re.IGNORECASE)
        return meanings.meaning(option.label) == meanings.YES and onward is not None
    return meanings.meaning(option.label) == meanings.CONTINUE


def _danger(menu: Menu, option: Option) -> str:
    """What is dangerous about an option, as the end of a sentence; "" when nothing is."""
    meaning = meanings.meaning(option.label)
    if menu.shape == "asked" and meaning == meanings.YES:
        about = f"{menu.prompt}"
        if meanings.DESTROYS.search(about) or re.search(
            r"\b(?:apply|accept|publish|deploy|push|merge|exit|quit)\b", about, re.I
        ):
            return "says yes to something that cannot be taken back"
        return ""
    return {
        meanings.DESTRUCTIVE: "overwrites, deletes or applies something",
        meanings.ACCEPT: "accepts what is open",
        meanings.EXIT: "exits",
    }.get(meaning, "")


def _learned(menu: Menu, situation: Situation, found: Choice) -> Choice:
    """What is known of a person raises 60 to 85, never 30; and what they do not want is left out."""
    option, choice, reason = found
    open_, unwanted = choice == SEVERAL, option is not None and option.key in situation.avoided
    if option is not None and unwanted:
        open_ = choice >= SEVERAL
        option, choice, reason = _without(menu, situation, option)
    for key, why in ((situation.preferred, "is preferred here"), (situation.remembered, "was chosen here before")):
        known = _by_key(menu, key)
        if open_ and known is not None and known.key not in situation.avoided and not _danger(menu, known):
            return known, ONLY_WAY, f"{known.key} {why}"
    if choice == SEVERAL and situation.threshold > SEVERAL and not unwanted and option is not None:
        return option, min(situation.threshold, ONLY_WAY), f"{reason}; such recommendations were always taken"
    return option, choice, reason


def _without(menu: Menu, situation: Situation, unwanted: Option) -> Choice:
    """The choice among the options that are not unwanted: recommended at most, for a human has not seen it yet."""
    rest = tuple(option for option in menu.options if option.key not in situation.avoided)
    why = f"you do not want {unwanted.key} here"
    if not rest:
        return None, NONE, why
    option, choice, reason = _choice(replace(menu, options=rest), replace(situation, escalation=CONTINUE, way_on=None))
    return option, min(choice, SEVERAL), f"{why}; {reason}"


def _by_key(menu: Menu, key: str | None) -> Option | None:
    if key is None:
        return None
    return next((option for option in menu.options if option.key.lower() == key.lower()), None)
