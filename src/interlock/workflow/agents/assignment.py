"""A piece of work for a subagent of a run, what comes back, which model it gets and who does it (epic 5). Pure.

Which class of model (FR23a, story 5.7): work is weighed by its complexity, the project's tier and its kind. Little goes
to the fast model, much to the one that thinks deepest, the rest to the one between. Writing code is never left to the
smallest, whatever the tier, and code that is complex goes to the largest. `max_model` caps it all. Haiku, Sonnet and
Opus are classes: what an agent program calls them its profile says (`models`); a program that knows none works with its
own default.

Who does it (FR23): the role that fits its kind, and the installed agent that plays it best. A role has a stance of our
own; where the project's package has an agent that fits, its persona comes first, so that the work is done in the manner
the team knows. What nobody is specialised in goes to the general-purpose role, with a warning.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from interlock.model.json import Json
from interlock.settings import MODEL_CLASSES
from interlock.workflow.package.packages import Persona

KINDS = VALIDATION, CODE_REVIEW, CREATIVE, ANALYSIS, IMPLEMENTATION = (
    "validation", "code_review", "creative", "analysis", "implementation",
)  # fmt: skip
HIGH, NORMAL, LOW = "high", "normal", "low"
PRIORITIES = (HIGH, NORMAL, LOW)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Work for one subagent, which knows nothing but `prompt`: what others found is not in it, so that it judges by
    itself.

    `label` names it among the others of its run ("08a", "reviewer-security", "winston"); `kind` is what it is routed
    and its model chosen by; `complexity` is simple, standard or complex. `writes`: whether it may change files.
    `time_limit` is for its whole work, in seconds; 0 for none but the session's own. `agent_id` resumes a subagent that
    was tracked before. `role` names who is to do it, where its kind and label do not say (see `routing`). A
    prompt that begins with "You are" says itself who is asked; before any other one the dispatcher puts who it is.
    """

    label: str
    prompt: str
    kind: str = ANALYSIS
    complexity: Literal["simple", "standard", "complex"] = "standard"
    priority: str = NORMAL
    writes: bool = False
    time_limit: float = 0.0
    model: str | None = None
    agent_id: str | None = None
    role: str | None = None
    data: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """What a subagent said. `completed` is the only status with a usable `text`; `detail` says why it is another one.
    `agent_id` is what it can be resumed by, None where its program cannot."""

    label: str
    status: Literal["completed", "failed", "timeout", "cancelled", "preempted", "capacity"]
    text: str = ""
    agent_id: str | None = None
    model: str | None = None
    detail: str | None = None
    seconds: float = 0.0
    retry_at: float | None = None


CLASSES = HAIKU, SONNET, OPUS = MODEL_CLASSES

COMPLEXITIES = ("simple", "standard", "complex")
UNKNOWN_TIER = 2  # decision 32
LIGHT, HEAVY = 1, 4  # up to, and from, which weight the smallest and the largest are chosen


@dataclass(frozen=True, slots=True)
class Model:
    """A class of model with the reason. `wanted` is what it would have been without `max_model`; `name` what the
    program calls it, None for the program's own default."""

    cls: str
    why: str
    wanted: str
    name: str | None = None

    @property
    def signal(self) -> float:
        """The optional fifth signal of the confidence calculator, 0 to 100: how far a result may be trusted for the
        model it came from. A model below what the work called for is trusted less."""
        short = CLASSES.index(self.wanted) - CLASSES.index(self.cls)
        return max(0.0, (70.0, 85.0, 100.0)[CLASSES.index(self.cls)] - 25.0 * short)


def select(
    kind: str,
    complexity: str = "standard",
    tier: int | None = None,
    max_model: str | None = None,
    models: Mapping[str, str] | None = None,
) -> Model:
    """The model for work of that kind. `models` are the program's names of the classes."""
    band = tier if tier is not None else UNKNOWN_TIER
    weight = COMPLEXITIES.index(complexity) if complexity in COMPLEXITIES else 1
    weight += 0 if band <= 1 else 1 if band == 2 else 2
    weight += kind != VALIDATION
    wanted = HAIKU if weight <= LIGHT else SONNET if weight < HEAVY else OPUS
    why = f"{complexity} {kind} at tier {band}"
    if kind == IMPLEMENTATION:
        shifted = OPUS if complexity == "complex" else max(wanted, SONNET, key=CLASSES.index)
        why += ", which writes code" if shifted != wanted else ""
        wanted = shifted
    chosen = wanted
    if max_model in CLASSES and CLASSES.index(max_model) < CLASSES.index(wanted):
        chosen, why = max_model, f"{why}; no larger than max_model"
    return Model(chosen, why, wanted, (models or {}).get(chosen))


def class_of(name: str | None, models: Mapping[str, str]) -> str | None:
    """The class that a program's model belongs to, where its name tells; None otherwise."""
    if name is None:
        return None
    mapped = next((cls for cls, known in models.items() if known.casefold() == name.casefold()), None)
    return mapped or next((cls for cls in CLASSES if cls in name.casefold()), None)


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


WORKING, INTERRUPTED = "working", "interrupted"
"""At work; and stopped because the run was, so that it can be taken up again with it."""


@dataclass
class SubagentRecord:
    """One subagent as the run knows it. `n` is its number in the run, 0 while it has none; `status` is `working` until
    it is that of its report. `input` is the hash of what it was asked: only the same question is taken up again by the
    session that was asked it. `model_signal` is `Model.signal` where its model was chosen by class, None where the
    program uses its own. Times are ISO 8601 UTC."""

    label: str
    kind: str
    role: str
    model: str | None = None
    agent_id: str | None = None
    status: str = WORKING
    started: str | None = None
    ended: str | None = None
    attempts: int = 0
    input: str = ""
    n: int = 0
    model_signal: float | None = None

    def as_dict(self) -> Json:
        """All fields."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RoutingTerms:
    """What work is routed and models are chosen by, as it is now."""

    tier: int | None = None
    max_model: str | None = None
    module: str = ""
    installed: Sequence[Persona] = ()


class SubagentRegistry:
    """A registry that knows nothing and keeps nothing: for subagents without a run."""

    def terms(self) -> RoutingTerms:
        """The terms that hold now."""
        return RoutingTerms()

    def left_open(self, input: str, label: str) -> SubagentRecord | None:
        """The record of an earlier process for the very same work that never ended, given out once."""
        return None

    def assigned(self, record: SubagentRecord, why: str, warning: str | None) -> None:
        """A subagent was chosen for a piece of work, for these reasons; `warning` where nobody is specialised in it."""

    def note(self, record: SubagentRecord) -> None:
        """It is another one than before; written with whatever is written next."""

    async def keep(self, record: SubagentRecord) -> None:
        """Note it, and write it down at once."""


def input_of(assignment: Assignment) -> str:
    """What an assignment asks, as a short hash."""
    asked = "\0".join((assignment.label, assignment.kind, assignment.prompt))
    return hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()[:16]
