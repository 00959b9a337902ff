"""Who does a piece of work (FR23): the role that fits its kind, and the installed agent that plays it best. Pure.

A role has a stance of our own; where the project's package has an agent that fits, its persona comes first, so that the
work is done in the manner the team knows. What nobody is specialised in goes to the general-purpose role, with a
warning.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from interlock.lazy_dataclass import dataclass
from interlock.workflow.agents.assignment import ANALYSIS, CODE_REVIEW, CREATIVE, IMPLEMENTATION, VALIDATION, Assignment
from interlock.workflow.package.personas import Persona


@dataclass(frozen=True, slots=True)
class Role:
    """What somebody is for. `words` in the label or role of an assignment call for it, `played_by` are the installed
    agents that may play it, best first. `reuse`: whether one who did such work before may do more of it; nobody who
    judges may, since what was found before would colour what is found next."""

    name: str
    stance: str
    words: tuple[str, ...] = ()
    played_by: tuple[str, ...] = ()
    reuse: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """Where a piece of work goes. `warning` says that nobody is specialised in it."""

    role: Role
    persona: Persona | None = None
    warning: str | None = None

    @property
    def preamble(self) -> str:
        """What the first prompt begins with."""
        played = self.persona.text if self.persona is not None else ""
        return "\n\n".join(part for part in (played, self.role.stance) if part)


_EVIDENCE = "Judge what is there, not what was meant, and name the place of everything you report."

_VALIDATORS = (
    Role(
        "cross-reference",
        f"You check references: that every file, section, requirement and name that is mentioned exists. {_EVIDENCE}",
        ("cross-reference", "crossref", "reference"),
        ("tech-writer", "analyst"),
    ),
    Role(
        "preflight",
        "You check, before work begins, that everything it needs is there: documents, configuration, tools. "
        f"{_EVIDENCE}",
        ("preflight", "pre-flight", "readiness"),
        ("architect", "sm"),
    ),
    Role(
        "plan-traceability",
        f"You check that what was planned was built: each item of the plan, one by one. {_EVIDENCE}",
        ("08a", "traceability", "plan"),
        ("pm", "analyst"),
    ),
    Role(
        "metadata",
        f"You check metadata: that fields are complete, well-formed and agree with each other. {_EVIDENCE}",
        ("08b", "metadata"),
        ("agent-builder", "tech-writer"),
    ),
    Role(
        "persona",
        f"You check personas: that role, identity, style and principles are distinct and do not repeat. {_EVIDENCE}",
        ("08c", "persona"),
        ("agent-builder",),
    ),
    Role(
        "menu",
        f"You check menus: that each item is well-formed, unambiguous and leads somewhere that exists. {_EVIDENCE}",
        ("08d", "menu"),
        ("agent-builder",),
    ),
    Role(
        "structure",
        f"You check structure: syntax, required parts and their order, against the rules you are given. {_EVIDENCE}",
        ("08e", "structure", "compliance"),
        ("agent-builder", "workflow-builder"),
    ),
    Role(
        "sidecar",
        f"You check the files that belong to an agent: that they exist, are complete and are referred to. {_EVIDENCE}",
        ("08f", "sidecar"),
        ("agent-builder",),
    ),
)
VALIDATOR = Role(
    "validator",
    "You validate finished work against its requirements, item by item. An item is met, not met, or cannot be judged; "
    f"say which. {_EVIDENCE}",
    (),
    ("tea", "qa", "game-qa"),
)

_DOUBT = (
    "You are an adversarial reviewer. You assume that something is wrong and look for it: you read the code itself, "
    "not what is said about it, and do not praise. You report only what you can show, with the place and a way to fix "
    "it. That you found nothing is an answer too, after a real search."
)
_REVIEWERS = (
    Role("reviewer-tests", _DOUBT, ("tests", "testing"), ("tea", "qa", "game-qa")),
    Role("reviewer-security", _DOUBT, ("security",), ("architect", "game-architect")),
    Role("reviewer-maintainability", _DOUBT, ("maintainability", "performance"), ("architect", "game-architect")),
    Role("reviewer-correctness", _DOUBT, ("correctness", "acceptance"), ("dev", "game-dev")),
)
REVIEWER = Role("reviewer", _DOUBT, (), ("dev", "tea", "qa", "game-dev"))

BRAINSTORMER = Role(
    "brainstormer",
    "You think in many directions before you judge any: unlikely ideas, opposites, other fields. Then you say which "
    "few are worth more thought, and why.",
    ("brainstorm", "ideation", "ideas"),
    ("brainstorming-coach", "innovation-strategist", "analyst"),
)
CREATOR = Role(
    "creative",
    "You bring ideas of your own and a point of view; you build on what others say, and disagree where you do.",
    (),
    ("analyst", "brainstorming-coach", "ux-designer", "game-designer"),
)
ANALYST = Role(
    "analyst",
    "You analyse: take the matter apart, weigh what speaks for and against, and come to a conclusion that others can "
    "follow. You say what you do not know.",
    (),
    ("analyst", "architect"),
    reuse=True,
)
DEVELOPER = Role(
    "developer",
    "You make the change you are asked for, and no other. You keep to the manner of the code around it, and check "
    "that it works.",
    (),
    ("dev", "quick-flow-solo-dev", "game-dev"),
    reuse=True,
)
GENERAL = Role("general-purpose", "You do the work described below, and nothing beyond it.", reuse=True)

_OF_KIND: dict[str, tuple[tuple[Role, ...], Role]] = {
    VALIDATION: (_VALIDATORS, VALIDATOR),
    CODE_REVIEW: (_REVIEWERS, REVIEWER),
    CREATIVE: ((BRAINSTORMER,), CREATOR),
    ANALYSIS: ((), ANALYST),
    IMPLEMENTATION: ((), DEVELOPER),
}
ROLES = (*(role for special, usual in _OF_KIND.values() for role in (*special, usual)), GENERAL)


def route(assignment: Assignment, installed: Sequence[Persona] = (), module: str = "") -> Route:
    """Where an assignment goes. `installed` are the package's agents; those of `module` come before their namesakes.

    `assignment.role` names a role of `ROLES`, or an installed agent, that is to do it whatever its kind says.
    """
    by_name: dict[str, Persona] = {}
    for one in sorted(installed, key=lambda one: one.module != module):
        by_name.setdefault(one.name, one)
    wanted = assignment.role or ""
    role = next((one for one in ROLES if one.name == wanted), None)
    warning = None
    if role is None and assignment.kind in _OF_KIND:
        special, usual = _OF_KIND[assignment.kind]
        called = f"{wanted} {assignment.label}".casefold()
        # The first whose words are in what it is called, each as a whole word.
        words = {one: rf"(?<![a-z0-9])(?:{'|'.join(map(re.escape, one.words))})(?![a-z0-9])" for one in special}
        role = next((one for one, pattern in words.items() if re.search(pattern, called)), usual)
    elif role is None:
        role = GENERAL
        warning = f"nobody is specialised in {assignment.kind!r}: {assignment.label} goes to a general-purpose agent"
    players = (wanted, *role.played_by)
    return Route(role, next((by_name[one] for one in players if one in by_name), None), warning)
