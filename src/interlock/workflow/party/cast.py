"""Who takes part in a discussion, and what is said in and about it (FR25b).

Three to five voices look at a matter from different sides. Installed agents come first, those of the run's module
before their namesakes, in an order that depends on what is to be discussed. Where a package has none that fit, voices
of our own fill the table, each with a view that the others lack. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.lazy_dataclass import dataclass
from interlock.workflow.markdown import quoted
from interlock.workflow.package.personas import Persona
from interlock.workflow.party.party_mode_driver import Party, RoundInput, Summary, summary

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


@dataclass(frozen=True, slots=True)
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
    players = [by_name[name] for name in order if name in by_name and by_name[name].text]
    chosen = [Voice(one.display or one.name, one.title, one.text) for one in players]
    taken = {one.name for one in chosen}
    own = [one for one in OWN[topic] if one.name not in taken]
    return tuple([*chosen, *own][:wanted])


def names(installed: Sequence[Persona]) -> tuple[str, ...]:
    """What the installed agents may be called by in a discussion that one agent hosts."""
    return tuple(dict.fromkeys(called for one in installed for called in (one.display, one.name) if called))


LEAVE = "*exit\n\n(The session is over. Say goodbye in one line, and do nothing else.)"

READ_ONLY = "You may read the files of the project. Change none, run nothing that does, and ask nobody."


def voice(one: Voice, everybody: Sequence[Voice], given: RoundInput) -> str:
    """One who takes part, alone with its view. It begins with who it is."""
    others = ", ".join(f"{other.name} ({other.title})" for other in everybody if other.name != one.name)
    return (
        f"{one.text}\n\nYou take part in a discussion with {others}. Each answers for itself; you hear the others "
        "after the round. Stay with your own view where you have reasons, and give it up where theirs are better. "
        f"{READ_ONLY}\n\n{given.text}"
    )


def host(path: str, voices: Sequence[str], given: RoundInput) -> str:
    """The agent that hosts the installed party mode. Each round repeats who it is: its session may know nothing."""
    called = f" Begin with {', '.join(voices)}; let others speak where it is theirs." if voices else ""
    return (
        f"You are the host of Party Mode, the workflow `{path}` of this project. Read it and the agents that it lists, "
        f"and play them, each in its own manner.{called}\n\n"
        "Interlock speaks for the user. It says what each round is about: welcome nobody, ask for nothing, and begin "
        "with the round below. Nobody else is there to answer; where an agent would ask the user, it says what it "
        f"assumes. {READ_ONLY} The session ends when Interlock says `*exit`.\n\n{given.text}"
    )


def in_menu(given: RoundInput) -> str:
    """A round's input for the agent that has opened party mode from its own step's menu."""
    return (
        "Interlock speaks for the user. Begin the round at once, and end it with the menu of party mode "
        f"(`[E] Exit Party Mode`).\n\n{given.text}"
    )


def leave_menu(key: str, found: Summary, words: str = "") -> str:
    """The way out of party mode within a step, with what it came to. Its first line is the answer alone."""
    decided = f"\n\nThe user decides:\n\n{quoted(words)}" if words else ""
    return (
        f"{key}\n\nThe discussion is over.\n\n{quoted(found.text)}{decided}\n\nLeave party mode. Take over into the "
        "work of this step what was recommended, then show the step's own menu again."
    )


def recommended(party: Party, words: str = "") -> str:
    """What was recommended, for the agent whose work it was about; `words` are a human's, which come first."""
    decided = f"The user decides:\n\n{quoted(words)}\n\n" if words else ""
    return (
        f"Several perspectives were asked about this step: {party.why}.\n\n{decided}{quoted(summary(party).text)}\n\n"
        "Carry out what is recommended in the work itself, as far as it holds; where it does not, say why. Where the "
        "step has a menu that is still open, show it again. Otherwise validate the result once more and end with "
        '{"step": "completed", "verdict": "PASSED"}, or "FAILED" with what is left in "issues".'
    )


def accepted(party: Party) -> str:
    """The user takes the work as it is."""
    return (
        f"Several perspectives were asked about this step: {party.why}. The user accepts its result as it is. Change "
        "nothing more; where the step's menu is open, show it, otherwise end with "
        '{"step": "completed", "verdict": "PASSED"}.'
    )


def without(party: Party) -> str:
    """Nothing came of it: whoever made the work looks once more."""
    return (
        f"Several perspectives were asked about this step: {party.why}. They came to no recommendation "
        f"({party.error or party.exit_reason}). Look over the result once more yourself, fix what you find, and end "
        'with the JSON line, with the "verdict" that you stand for.'
    )


def known_before(party: Party) -> str:
    """What was recommended before a step was interrupted, beside what it is told when it begins again."""
    found = summary(party)
    return f"\n\nSeveral perspectives have discussed it before:\n\n{quoted(found.text)}" if found.recommendation else ""


def question(party: Party, step: str, trouble: str) -> str:
    """What a human is asked when the voices cannot settle it."""
    found = summary(party)
    where = f"Step {step} calls for several perspectives: {party.why}."
    told = f"{found.text}" if found.rounds else f"They could not be asked: {party.error or 'no agent could be opened'}."
    parts = [where, trouble, told, "Say what to do differently, or choose: retry / continue / stop?"]
    return "\n\n".join(part for part in parts if part.strip())


def seed(party: Party, prompts: Sequence[str]) -> str:
    """What a step that ideates is given beforehand (BMAD-5.11)."""
    found = summary(party)
    parts = ["## Material for this step"]
    if prompts:
        parts.append("Questions that belong to the domain:\n\n" + "\n".join(f"- {one}" for one in prompts))
    if found.recommendations:
        parts.append(
            "Ideas of several perspectives, gathered beforehand. Build on them, leave what does not fit, and add your "
            f"own:\n\n{quoted(found.text)}"
        )
        said = [f"{one.agent}:\n{quoted(one.text)}" for one in party.rounds[-1].contributions if one.text]
        parts += said
    return "\n\n".join(parts) if len(parts) > 1 else ""
