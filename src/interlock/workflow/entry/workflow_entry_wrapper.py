"""Workflow Entry Wrapper: which workflow a message asks for (BMAD-2a.1, FR1).

Three generations of packages write the same thing in three ways:

    /bmad:bmm:workflows:dev-story        module, type and name
    /bmad-bmm-dev-story                  the same, flat; agents are /bmad-agent-bmm-dev
    /bmad-dev-story                      a skill; its module is known to the manifest only

A message invokes at most one workflow: the first that is written as a word of its own. Within code, a quotation or
backticks an invocation is only mentioned; a template (`/bmad:bmm:workflows:{{next}}`) is none at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence

from interlock.errors import InvalidRequest, InvalidSkillPath, WorkflowNotFound
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.workflow import markdown
from interlock.workflow.package import packages
from interlock.workflow.package import workflow as workflows
from interlock.workflow.package.packages import Invocation, Package, Skill
from interlock.workflow.package.workflow import Workflow

TYPES = ("workflows", "agents", "tasks", "tools")
MODULES = ("core", "bmm", "bmb", "bmgd", "cis", "gds", "tea")
EXAMPLES = (
    "/bmad:bmm:workflows:dev-story",
    "/bmad:core:workflows:brainstorming",
    "/bmad:bmm:agents:dev",
    "/bmad-bmm-dev-story",
)

COLON = re.compile(r"(?<![^\s(\[\"'])/bmad:(\S*)", re.IGNORECASE)
FLAT = re.compile(r"(?<![^\s(\[\"'])/bmad-([a-z0-9][a-z0-9-]*+)(?![\w/:{]|\.\w)", re.IGNORECASE)
MODULE = re.compile(r"[a-z][a-z0-9_-]*")
NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
TRAILING = ".,;:!?)]\"'*_"


@dataclass(frozen=True, slots=True)
class Malformed:
    """Something that begins like an invocation and is none."""

    text: str
    reason: str

    def as_dict(self) -> Json:
        """The shape that `interlock analyze skill` shows."""
        message = f"{self.text!r} {self.reason}. Write it like {EXAMPLES[0]}."
        return {"detected": False, "error": "invalid_skill_path", "message": message, "examples": list(EXAMPLES)}

    def error(self) -> InvalidSkillPath:
        """The refusal of it."""
        found = self.as_dict()
        return InvalidSkillPath(str(found["message"]), field="skill", examples=found["examples"])


def detect(message: str, names: Collection[tuple[str, str, str]] = ()) -> Invocation | Malformed | None:
    """The invocation in `message`, if there is one.

    `names` are the (module, type, name) that are installed; with them a name may contain spaces ("Meal Prep &
    Nutrition Plan"), and the longest that fits is taken.
    """
    # Blanks before all that is said are nobody's code block.
    message = message.strip()
    # Cut at the very same line ends twice, so that the two lists run side by side.
    kinds = [line.kind for line in markdown.lines("\n".join(message.splitlines()))]
    blank = "".join(
        raw if kind == markdown.TEXT else " " * len(raw)
        for raw, kind in zip(message.splitlines(keepends=True), kinds, strict=False)
    )
    parts, done = [], 0
    for start, end, _ in markdown.code_spans(blank):
        parts += [blank[done:start], " " * (end - start)]
        done = end
    said = "".join([*parts, blank[done:]])
    flat = FLAT.search(said)
    # What has a placeholder in it is a template.
    colon = next((found for found in COLON.finditer(said) if not re.search(r"[{}<>*]", found[1])), None)
    if colon and not (flat and flat.start() < colon.start()):
        return _colon(message, colon, names)
    return _flat(message, flat) if flat else None


def _colon(message: str, found: re.Match[str], names: Collection[tuple[str, str, str]]) -> Invocation | Malformed:
    start, rest = found.start(), message[found.start(1) :]
    path = found[1].rstrip(TRAILING)
    shown = f"/bmad:{path}"
    parts = path.split(":")
    if len(parts) != 3:
        return Malformed(shown, "does not have the three parts module, type and name")
    module, kind, name = parts[0].lower(), parts[1].lower(), parts[2]
    if not MODULE.fullmatch(module):
        return Malformed(shown, f"has no module name in its first part ({parts[0]!r})")
    if kind not in TYPES:
        return Malformed(shown, f"has {parts[1]!r} where one of {', '.join(TYPES)} must stand")
    if not NAME.fullmatch(name):
        return Malformed(shown, f"has no name in its last part ({name!r})")
    lead = len(parts[0]) + len(parts[1]) + 2
    after = rest[lead:]
    known = [one for its_module, its_type, one in names if (its_module, its_type) == (module, kind)]
    fits = [one for one in known if after.startswith(one) and not re.match(r"[\w-]", after[len(one) :])]
    name = max(fits, key=len, default=name)
    end = found.start(1) + lead + len(name)
    return Invocation(module, kind, name, message[start:end], _arguments(message, end))


def _flat(message: str, found: re.Match[str]) -> Invocation:
    words = found[1].lower().rstrip("-").split("-")
    kind, module = "workflows", None
    if words[0] == "agent" and len(words) > 1:
        kind, words = "agents", words[1:]
    if words[0] in MODULES and len(words) > 1:
        module, words = words[0], words[1:]
    end = found.end()
    return Invocation(module, kind, "-".join(words), message[found.start() : end], _arguments(message, end))


def _arguments(message: str, end: int) -> str:
    return message[end:].lstrip(TRAILING).strip()


@dataclass(frozen=True)
class Located:
    """A workflow that is installed, read."""

    package: Package
    skill: Skill
    workflow: Workflow
    arguments: str = ""


def namesakes(package: Package, asked: Invocation) -> list[str]:
    """The skills that a bare name may mean, where it is that of several."""
    same = [one.invocation for one in package.skills if one.type == asked.type and one.name == asked.name]
    return same if asked.module is None and len(same) > 1 else []


def several(text: str, same: Sequence[str]) -> str:
    """What is said of a name that is that of several."""
    return f"{text} is the name of several: {', '.join(same)}. Say which one."


def locate(text: str, directory: str) -> Located:
    """The workflow that `text` invokes, among those installed in the project at or above `directory`.

    Raises:
        InvalidRequest: it invokes none. InvalidSkillPath: it begins like an invocation and is none.
        WorkflowNotFound: no package is installed there, or none with a workflow of that name; the message names the
            nearest.
    """
    package = packages.find(directory)
    words = text.strip()
    asked = detect(words, [skill.key for skill in package.skills] if package is not None else ())
    if isinstance(asked, Malformed):
        raise asked.error()
    if package is None:
        raise WorkflowNotFound(
            f"No workflow package is installed in {os.path.abspath(directory)} or above it (no `_bmad` directory). "
            "Install one there, or name the project with --dir.",
            field="dir",
        )
    if asked is None and words and not words.startswith("/"):
        # A person at a terminal may leave everything out but the name, where only one workflow has it.
        module, colon, name = words.partition(":")
        asked = Invocation(module if colon else None, "workflows", name or words, words)
    if asked is None:
        raise InvalidRequest(f"{words[:100]!r} names no workflow. `interlock workflow list` shows them.", field="skill")
    skill = package.find(asked)
    if skill is None:
        if same := namesakes(package, asked):
            raise WorkflowNotFound(several(asked.text, same), skill=asked.text, nearest=same)
        near = package.nearest(asked.name)
        hint = f" Did you mean {' or '.join(near)}?" if near else " `interlock workflow list` shows what there is."
        raise WorkflowNotFound(f"{asked.text} is not installed here.{hint}", skill=asked.text, nearest=list(near))
    if skill.type != "workflows":
        raise InvalidRequest(
            f"{skill.invocation} is one of the {skill.type}, not a workflow: there are no steps to run.", field="skill"
        )
    return Located(package, skill, workflows.read(package, skill), asked.arguments)
