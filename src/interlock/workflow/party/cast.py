"""Who takes part in a discussion: three to five voices that look at a matter from different sides (FR25b).

Installed agents come first, those of the run's module before their namesakes, in an order that depends on what is to be
discussed. Where a package has none that fit, voices of our own fill the table, each with a view that the others lack.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.workflow.definition.personas import Persona

FEWEST, MOST = 3, 5
PROBLEM, REVIEW, IDEATION = "problem", "review", "ideation"
BUILDER = "bmb"
"""The module whose work its own three builders discuss (BMAD-5.3.1)."""

_BUILDERS = ("agent-builder", "workflow-builder", "module-builder")
_GAMES = ("game-architect", "game-dev", "game-qa", "game-designer")
_PREFERRED: dict[str, tuple[str, ...]] = {
    PROBLEM: ("architect", "dev", "tea", "analyst", "pm"),
    REVIEW: ("tea", "architect", "pm", "analyst", "ux-designer"),
    IDEATION: ("brainstorming-coach", "ux-designer", "analyst", "innovation-strategist", "architect", "pm"),
}
_SIZES = {PROBLEM: 3, REVIEW: 3, IDEATION: 4}


@dataclass(frozen=True)
class Voice:
    """One who takes part: its name in the discussion, and what somebody is told who is to be it."""

    name: str
    title: str
    text: str


def _own(name: str, title: str, view: str) -> Voice:
    return Voice(name, title, f"You are {name}, {title}. {view}")


OWN: dict[str, tuple[Voice, ...]] = {
    PROBLEM: (
        _own("Rowan", "the skeptic", "You look for the cause behind the symptom, and doubt what is taken for given."),
        _own("Ines", "the builder", "You look for the smallest change that works, and say what it costs."),
        _own("Noor", "the user's advocate", "You ask whom it serves, and what the people who use it would want."),
        _own("Tomas", "the operator", "You think of what happens later: upkeep, failure, what has to be undone again."),
    ),
    REVIEW: (
        _own("Rowan", "the skeptic", "You look for what is wrong or unproven, and believe nothing that is not shown."),
        _own("Noor", "the user's advocate", "You read the result as those will who have to work with it."),
        _own("Leif", "the keeper of the whole", "You look for gaps, contradictions and promises that were not kept."),
    ),
    IDEATION: (
        _own("Mika", "the dreamer", "You think of what nobody would dare: opposites, exaggerations, other fields."),
        _own("Noor", "the user's advocate", "You begin with the day and the trouble of one person who would use it."),
        _own("Ines", "the builder", "You begin with what could be tried this week, with what is there."),
        _own("Rowan", "the skeptic", "You begin with what will fail, and turn each danger into an idea."),
        _own("Vera", "the strategist", "You begin with what others offer, and with what they cannot."),
    ),
}  # fmt: skip


def voices(installed: Sequence[Persona], topic: str, module: str = "", size: int | None = None) -> tuple[Voice, ...]:
    """The voices for a discussion of that kind, `size` of them within 3 to 5."""
    wanted = min(max(size or _SIZES[topic], FEWEST), MOST)
    order = (*_BUILDERS, *_PREFERRED[topic]) if module == BUILDER and topic != IDEATION else _PREFERRED[topic]
    order = (*_GAMES, *order) if module == "bmgd" else order
    by_name: dict[str, Persona] = {}
    for one in sorted(installed, key=lambda one: one.module != module):
        by_name.setdefault(one.name, one)
    chosen = [_of(by_name[name]) for name in order if name in by_name and by_name[name].text]
    taken = {one.name for one in chosen}
    own = [one for one in OWN[topic] if one.name not in taken]
    return tuple([*chosen, *own][:wanted])


def names(installed: Sequence[Persona]) -> tuple[str, ...]:
    """What the installed agents may be called by in a discussion that one agent hosts."""
    return tuple(dict.fromkeys(called for one in installed for called in (one.display, one.name) if called))


def _of(persona: Persona) -> Voice:
    return Voice(persona.display or persona.name, persona.title, persona.text)
