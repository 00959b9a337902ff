"""What reviewers of a story are given: the story, what was changed, the criteria, the project's standards, and the
installed review's own instructions and checklist (BMAD-5.12.2, FR44a).

Everything is bounded. What does not fit is named by its path: reviewers have the project before them and can read it.
"""

from __future__ import annotations

import glob
import os
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.workflow.control import documents
from interlock.workflow.control.examination import Examined
from interlock.workflow.control.prompts import quoted
from interlock.workflow.definition import workflow as workflows
from interlock.workflow.definition.package import FOLDER, Package, Skill
from interlock.workflow.definition.variables import is_set
from interlock.workflow.examinations import checklist
from interlock.workflow.examinations.changes import Changes, missing
from interlock.workflow.examinations.story import Story

NAMES = ("code-review", "bmad-code-review")
LEAST, MOST = 3, 10
"""Issues that an adversarial review finds in a story (FR44a)."""
STORY, INSTRUCTIONS, STANDARD = 14_000, 30_000, 8_000  # characters of each that are shown
DOCUMENTS = 6
STANDARDS = ("architecture", "ux", "epic")
SETTINGS = (
    *("project_name", "user_skill_level", "communication_language", "document_output_language"),
    *("planning_artifacts", "implementation_artifacts"),
)

MANNER = f"""\
You review work that somebody else has done and calls finished. Your purpose is to find what is wrong or missing in it.
Believe no claim: compare each with the code. Read every changed file, and what it calls and is called by.

- Find {LEAST} to {MOST} specific issues. Each is in the actual code, tests or documents of this change, at a place
  that you have read (`path:line`), with what would mend it. "Looks good" is no review.
- Invent nothing. When you have looked at everything and there are fewer, report those, and say where you looked.
- A task that is marked as done and is not, and an acceptance criterion that is not met, are blocking.
- Judge: `approve` where nothing above minor is open, `changes_requested` where the developer can mend it, `blocked`
  where they cannot: a decision of the user is missing, or requirements contradict one another.
- Change no file, ask nobody, launch nobody. You may run what changes nothing, such as the tests."""


@dataclass(frozen=True)
class Installed:
    """The review that the package brings along; without one all is ours."""

    name: str = ""
    instructions: str = ""
    items: tuple[str, ...] = checklist.ITEMS


def installed(package: Package, module: str) -> Installed:
    """The code review of the package, of the same module where it has one."""
    skill = _skill(package, module)
    if skill is None:
        return Installed()
    workflow = workflows.read(package, skill)
    parts = [workflow.text, *(one.text for one in workflow.steps if one.path not in workflow.files)]
    text = workflow.variables.resolve("\n\n".join(parts)).text
    named = workflow.variables.value("validation")
    beside = posixpath.join(posixpath.dirname(skill.path), "checklist.md")
    listed = package.files.text(named) if named else package.files.text(beside)
    items = tuple(workflow.variables.resolve(one).text for one in checklist.items_of(listed))
    return Installed(skill.invocation, text.strip(), items or checklist.ITEMS)


def _skill(package: Package, module: str) -> Skill | None:
    found = [one for one in package.of_type("workflows") if one.name in NAMES]
    return next((one for one in found if one.module == module), found[0] if found else None)


def standards(package: Package, module: str) -> tuple[str, list[str]]:
    """The project's coding standards (`project-context.md`), and the paths of the documents that set others."""
    root, config = package.root, package.config(module)
    contexts = _found(root, [f"{depth}project-context.md" for depth in ("", "*/", "*/*/")])
    planning = str(config.get("planning_artifacts") or config.get("output_folder") or "_bmad-output")
    planning = planning.replace("{project-root}/", "")
    wanted = [f"{planning}/*{name}*{end}" for name in STANDARDS for end in (".md", "/*.md")]
    return (documents.read(root, contexts[0]) if contexts else ""), [*contexts, *_found(root, wanted)]


def _found(root: str, patterns: Sequence[str]) -> list[str]:
    found = [
        path.replace(os.sep, "/")
        for pattern in patterns
        for path in sorted(glob.iglob(pattern, root_dir=root, recursive=True))
        if not path.startswith(FOLDER) and "node_modules" not in path
    ]
    return list(dict.fromkeys(found))[:DOCUMENTS]


def brief(
    skill: str,
    story: Story | None,
    asked: str,
    changes: Changes,
    own: Installed,
    package: Package,
    module: str,
    before: str = "",
) -> str:
    """The whole of it. `asked` is what the run was asked to do, `before` what earlier rounds came to."""
    context, named = standards(package, module)
    config = package.config(module)
    settings = "\n".join(f"- {name}: {config[name]}" for name in SETTINGS if is_set(config.get(name)))
    parts = [
        f"# Code review: {story.key if story else skill}",
        MANNER,
        _story(story, asked),
        _changed(changes, story),
        f"## Project standards\n\n{settings}".rstrip(),
        f"Documents that set them (read those that bear on this change): {', '.join(named)}" if named else "",
        f"From the project's context:\n\n{quoted(context[:STANDARD])}" if context.strip() else "",
        _instructions(own),
        f"## Checklist\n\n{checklist.asked(own.items)}",
        before,
    ]
    return "\n\n".join(part for part in parts if part)


def _story(story: Story | None, asked: str) -> str:
    if story is None:
        said = f"What the developer was asked:\n\n{quoted(asked[:STORY])}" if asked.strip() else ""
        return f"## The story\n\nNo story file was found. Judge the change by what it claims to be.\n\n{said}".rstrip()
    criteria = story.criteria or "The story names none; that is an issue of its own."
    return (
        f"## The story\n\n`{story.path}`, status {story.status or 'unknown'}:\n\n{quoted(story.text[:STORY])}\n\n"
        f"## Acceptance criteria\n\n{criteria}"
    )


def _changed(changes: Changes, story: Story | None) -> str:
    listed = "\n".join(f"- {path}" for path in changes.paths) or "- none that is known; find them by the story"
    parts = [f"## Changed files\n\n{listed}"]
    if story is not None and story.files:
        own = [path for path in changes.paths if path != story.path]
        unnamed, unchanged = missing(own, story.files), missing(story.files, changes.paths)
        if unnamed:
            parts.append(f"Changed, but not in the story's File List: {', '.join(unnamed[:40])}")
        if unchanged:
            parts.append(f"In the story's File List, but no change is known: {', '.join(unchanged[:40])}")
    if changes.diff:
        more = "\n\nThis is the beginning of it; read the rest in the files." if changes.cut else ""
        fence = "`" * 4
        parts.append(f"The difference from {changes.since}:\n\n{fence}diff\n{changes.diff}\n{fence}{more}")
    return "\n\n".join(parts)


def _instructions(own: Installed) -> str:
    if not own.instructions:
        return ""
    return (
        f"## The project's own instructions for a review\n\nOf {own.name}; carry them out as far as they are about "
        "looking and judging. Interlock presents what you find, has it mended, and updates story and statuses: leave "
        "out what asks the user, changes files, or launches others.\n\n"
        f"{quoted(own.instructions[:INSTRUCTIONS])}"
    )


def before(rounds: Sequence[Mapping[str, Any]], answer: str, advice: str) -> str:
    """What earlier rounds came to, for those who look again."""
    parts = []
    if rounds:
        last = Examined.of(rounds[-1])
        listed = "\n".join(f"- {one.severity}: {one.title} ({one.location or 'no place'})" for one in last.findings)
        parts.append(
            f"## This is round {len(rounds) + 1}\n\nThe round before found:\n\n{listed or '- nothing'}\n\n"
            "Look at each: an issue that still stands is reported again, with the same title; one that was mended is "
            "not. Then look at what the mending changed. There need not be new issues."
        )
    if answer.strip():
        parts.append(f"What the developer says to it:\n\n{quoted(answer)}")
    if advice.strip():
        parts.append(f"What the user says:\n\n{quoted(advice)}")
    return "\n\n".join(parts)


def harder(base: str, said: str, wanted: Sequence[str]) -> str:
    """The same again, for a reviewer whose first answer was not enough; `wanted` says in which way."""
    listed = "\n".join(f"- {one}" for one in wanted)
    return f"{base}\n\n## Your answer so far\n\n{quoted(said[-STORY:])}\n\n## What is missing in it\n\n{listed}"
