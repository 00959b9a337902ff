"""What a workflow is for: the document that it must leave, whatever its steps say about themselves (decision 0820).

Steps are held to what their own text names (`evidence`); many name nothing, and a workflow that is a single prompt has
no steps to hold. What such a workflow leaves is known by its name, in every generation: a file whose path has a certain
word in it, among the project's documents, with certain content. Pure but for reading files.
"""

from __future__ import annotations

import glob
import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence

from interlock.lazy_dataclass import dataclass
from interlock.workflow.engine import documents
from interlock.workflow.markdown import COMMENT, lines
from interlock.workflow.package.packages import FOLDER
from interlock.workflow.package.step import Step
from interlock.workflow.package.workflow import Workflow
from interlock.workflow.state import files, status_file

FOLDERS = ("planning_artifacts", "implementation_artifacts", "output_folder")
PLANNING, IMPLEMENTATION, OUTPUT = FOLDERS
LOOKS_ONLY = frozenset(("validate", "analyze", "review", "check", "readiness", "status", "show", "help"))
"""Arguments with which a workflow looks at what is there, and is to leave nothing."""
SECTIONS = 2  # with something below their heading; any of these documents has more
MATCHING = 2000  # files that are looked at
EMPTY = re.compile(r"\{\{[^{}]*\}\}")
STORY_KEY = re.compile(r"^\d+[-.]\d+[a-z]?\b")


@dataclass(frozen=True, slots=True)
class Deliverable:
    """A file of `folder` (the name of a setting) whose path has `word` in it. `holds` are headings that it must have,
    each with how it is called. `named` is the variable by which its name is known to the run, and `kept` says that one
    from before the run will do where the agent says that nothing had to change."""

    word: str
    folder: str = PLANNING
    holds: tuple[tuple[str, str], ...] = ()
    named: str = ""
    kept: bool = True

    @property
    def line(self) -> str:
        """What it must hold, as the agent is told of it."""
        if self.word == STATUSES:
            return "with the status of at least one story under `development_status`"
        parts = [f"at least {SECTIONS} sections that say something", *(f"a heading `{name}`" for name, _ in self.holds)]
        return f"with {', '.join(parts)}"


STATUSES = "sprint-status.yaml"
PRD, ARCHITECTURE = Deliverable("prd"), Deliverable("architecture")
TECH_SPEC = Deliverable("spec", IMPLEMENTATION)
DELIVERABLES: Mapping[str, Deliverable] = {
    "prd": PRD,
    "create-prd": PRD,
    "edit-prd": PRD,
    "architecture": ARCHITECTURE,
    "create-architecture": ARCHITECTURE,
    "product-brief": Deliverable("brief"),
    "create-product-brief": Deliverable("brief"),
    "ux": Deliverable("ux"),
    "create-ux-design": Deliverable("ux"),
    "spec": Deliverable("spec", OUTPUT),
    "create-tech-spec": TECH_SPEC,
    "quick-spec": TECH_SPEC,
    "create-epics-and-stories": Deliverable(
        "epic", holds=(("Epic 1", r"\bEpic\s+\d"), ("Story 1.1", r"\bStory\s+\d+[.-]\d"))
    ),
    "correct-course": Deliverable("change-proposal"),
    "sprint-planning": Deliverable(STATUSES, IMPLEMENTATION),
    "create-story": Deliverable(
        "", IMPLEMENTATION, (("Acceptance Criteria", r"\bAcceptance\s+Criteria\b"),), named="story"
    ),
    "retrospective": Deliverable("retro", IMPLEMENTATION, named="epic_number", kept=False),
}
"""By the name of the workflow, without `bmad-`."""


def of(workflow: Workflow, arguments: str) -> Deliverable | None:
    """What a workflow that was given these arguments must leave; None where that is not known by its name, or where it
    is only to look at something."""
    words = [word for word in arguments.lower().split() if not word.startswith("-")]
    if words[:1] and words[0].strip("`'\"(),.:") in LOOKS_ONLY:
        return None
    return DELIVERABLES.get(workflow.skill.name.removeprefix("bmad-"))


def told(workflow: Workflow, step: Step, arguments: str, values: Mapping[str, str]) -> str:
    """What the agent is told of it, with the last step; "" for every other step, and where nothing is known."""
    one = of(workflow, arguments) if step in workflow.steps and not workflow.after(step) else None
    if one is None:
        return ""
    name = _name(one, values, arguments)
    called = " and ".join(f"`{part}`" for part in (one.word, name) if part) or "the story's number"
    return (
        "## What this workflow must leave\n\n"
        f"A file in `{_folder(workflow, one.folder)}` whose path has {called} in it, {one.line}.\n\n"
        "Interlock looks at it at the end of the workflow, and at what was changed since the beginning."
        + (' Where nothing had to change, add `"unchanged": "why"` to the closing line.' if one.kept else "")
    )


def lacking(
    workflow: Workflow,
    one: Deliverable,
    arguments: str,
    values: Mapping[str, str],
    changed: Sequence[str] | None,
    unchanged: bool,
) -> tuple[str, str]:
    """(what is missing, where): "" where the deliverable is there.

    `changed` are the paths that the run has changed, from the project's root; None where that is not known, so that
    what is there is taken for the run's. `unchanged`: the agent says that nothing had to change."""
    root, name = workflow.variables.project_root, _name(one, values, arguments)
    place = _folder(workflow, one.folder)
    what = f"no file in {place} whose path has {name or one.word or 'the number of a story'} in it"
    if changed is None or (unchanged and one.kept):
        every = {path for folder in FOLDERS for path in _below(root, _folder(workflow, folder))}
        found = [path for path in sorted({*every, *(changed or ())}) if _fits(one, name, path)]
        missing = f"there is {what}"
    else:
        found = [path for path in changed if _fits(one, name, path) and os.path.isfile(os.path.join(root, path))]
        missing = f"{what} was written or changed by this run"
    if not found:
        return missing, place
    english = str(workflow.variables.value("document_output_language") or "English").casefold().startswith("english")
    faults = {path: _fault(root, path, one, english) for path in found}
    path = min(found, key=lambda path: (bool(faults[path]), path))
    return faults[path], path


def is_document(workflow: Workflow, path: str) -> bool:
    """Whether a file lies where documents do, so that it is no work on the project itself."""
    return any(f"{path}/".startswith(f"{_folder(workflow, name)}/") for name in FOLDERS)


def _fault(root: str, path: str, one: Deliverable, english: bool) -> str:
    """What the content of a file lacks; "" for nothing."""
    if one.word == STATUSES:
        listed = status_file.read(os.path.join(root, path)) or {}
        return "" if any(STORY_KEY.match(key) for key in listed) else f"{path} has the status of no story"
    said, headings = _sections(documents.read(root, path))
    if said < SECTIONS:
        noun = "section says" if said == 1 else "sections say"
        return f"{path} is not written: {said or 'no'} {noun} something, of at least {SECTIONS}"
    for name, pattern in one.holds if english else ():
        if not any(re.search(pattern, heading, re.IGNORECASE) for heading in headings):
            return f"{path} has no heading like “{name}”"
    return ""


def _sections(text: str) -> tuple[int, list[str]]:
    """How many headings of a text have something below them, and all of them."""
    headings: list[str] = []
    filled: set[int] = set()
    for line in lines(text):
        if line.heading:
            headings.append(line.text.strip("# "))
        elif headings and line.kind != COMMENT and re.search(r"\w", EMPTY.sub("", line.text)):
            filled.add(len(headings))
    return len(filled), headings


def _fits(one: Deliverable, name: str, path: str) -> bool:
    """Whether a path may be that of the deliverable."""
    if path.startswith(f"{FOLDER}/") or any(f"{ours}/" in path for ours in files.OURS):
        return False
    if one.word == STATUSES:
        return posixpath.basename(path) == STATUSES
    if not path.lower().endswith(".md"):
        return False
    file = posixpath.basename(path).lower().removeprefix("story-").replace(".", "-")
    if not one.word:
        return file.startswith(f"{name}-") if name else STORY_KEY.match(file) is not None
    if re.search(rf"(?<![a-z]){one.word}", path, re.IGNORECASE) is None:
        return False
    return not name or re.search(rf"(?<!\d){re.escape(name)}(?!\d)", file) is not None


def _name(one: Deliverable, values: Mapping[str, str], arguments: str) -> str:
    """What the deliverable's own name is known by: the story's key or the epic's number; "" where it is not known."""
    if one.named == "story":
        given = [values.get("story", ""), values.get("story_key", ""), *arguments.split()[:1]]
        known = (word.lower().removeprefix("story-").replace(".", "-") for word in given)
        return next((word.removesuffix("-md") for word in known if STORY_KEY.match(word)), "")
    return values.get(one.named, "") if one.named else ""


def _folder(workflow: Workflow, name: str) -> str:
    """A folder of documents, from the project's root."""
    found = workflow.variables.value(name) or workflow.variables.value(OUTPUT) or "_bmad-output"
    return documents.relative(workflow.variables.project_root, found) or "_bmad-output"


def _below(root: str, folder: str) -> Iterable[str]:
    found: list[str] = []
    for path in glob.iglob(f"{glob.escape(folder)}/**/*", root_dir=root, recursive=True):
        if os.path.isfile(os.path.join(root, path)):
            found.append(path.replace(os.sep, "/"))
            if len(found) >= MATCHING:
                break
    return found
