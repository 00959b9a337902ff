"""What reviewers of a story are given: the story, what was changed, the criteria, the project's standards, and the
installed review's own instructions and checklist (BMAD-5.12.2, FR44a).

Everything is bounded. What does not fit is named by its path: reviewers have the project before them and can read it.

The checklist of a code review: the installed package's own, else ours of as many items, and how it was evaluated.

What a run has changed: by git where the project is in a repository, else by what it is known to have written.
"""

from __future__ import annotations

import glob
import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interlock.errors import GitFailed
from interlock.gitwork.git import Git
from interlock.workflow.engine import steps
from interlock.workflow.engine.prompts import quoted
from interlock.workflow.package import workflow as workflows
from interlock.workflow.package.packages import FOLDER, Package, Skill
from interlock.workflow.package.variables import is_set
from interlock.workflow.reviews import reviewers
from interlock.workflow.reviews.story import Story
from interlock.workflow.state import files
from interlock.workflow.state.document import WorkflowState

ITEMS = (
    "The story was read whole, and its status allows a review",
    "Epic and story number are known",
    "The story's context and notes for its developer were read, or are noted as missing",
    "The technical specification of its epic was read, or is noted as missing",
    "Architecture and coding standards of the project were read, as far as there are any",
    "Languages, frameworks and their versions are known",
    "What is claimed of libraries and interfaces was checked against their documentation",
    "Each acceptance criterion was compared with the code that is to meet it",
    "Each task that is marked as done was found done",
    "The list of changed files is complete, and nothing else was changed",
    "Each acceptance criterion has a test; what has none is named",
    "The tests assert what they claim, and would fail without the change",
    "Errors and edge cases are handled, or named as missing",
    "The quality of the changed code was judged: structure, names, duplication",
    "The security of the changed code and its dependencies was judged",
    "The outcome was decided: Approve, Changes Requested or Blocked",
    "Notes of the review were added to the story",
    "The story's change log has an entry of the review",
    "The status of the story, and where there is one the project's status file, say what came of it",
)
PASS, FAIL, NONE, OPEN = "pass", "fail", "n/a", "not evaluated"

BOX = re.compile(r"^[^\S\n]*[-*][^\S\n]+\[[ xX]?\][^\S\n]+(\S.*)$", re.MULTILINE)
_WORD = r"(PASS(?:ED)?|FAIL(?:ED)?|PARTIAL|WARN(?:ING)?|N/?A|NOT APPLICABLE)\b\W{0,4}(.*)$"
LINES = (
    re.compile(
        r"^[ \t\r>*|-]*+(?:\[[ xX]\]\s*)?\**(?:item\s*)?#?(\d{1,3})\**\s*+[.):|-]++\W{0,6}" + _WORD,
        re.IGNORECASE | re.MULTILINE,
    ),
    re.compile(
        r"^[ \t\r>*|-]*+(?:\[[ xX]\]\s*)?(\d{1,3})[.)][^\S\n]++[^\n]{3,200}?[:|—–-]\s*\W{0,4}" + _WORD, re.MULTILINE
    ),
)
"""`3. PASS: …`, and `3. What the item says: PASS …`."""
OURS = (
    (re.compile(r"\boutcome\b.{0,200}\bdecided\b", re.IGNORECASE), "decided"),
    (re.compile(r"\bnotes\b.{0,200}\b(?:appended|added)\b", re.IGNORECASE), "notes"),
    (re.compile(r"\bchange log\b", re.IGNORECASE), "change log"),
    (re.compile(r"\bsprint status\b|\bstatus updated\b|\bstatus of the story\b", re.IGNORECASE), "status"),
    (re.compile(r"\bstory saved\b", re.IGNORECASE), "notes"),
)
"""Items about what follows from a review: Interlock does that itself, and says so."""


@dataclass(frozen=True)
class Evaluated:
    """One item and how it stands: pass, fail, n/a or not evaluated; `by` are those who looked at it."""

    number: int
    text: str
    result: str
    note: str = ""
    by: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """All fields."""
        return {
            "number": self.number,
            "text": self.text,
            "result": self.result,
            "note": self.note,
            "by": list(self.by),
        }


def items_of(text: str | None) -> tuple[str, ...]:
    """The items of a checklist: its open check boxes, in their order."""
    return tuple(" ".join(found.split()) for found in BOX.findall(text or ""))


def checklist_text(items: Sequence[str]) -> str:
    """The checklist as reviewers are given it."""
    listed = "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))
    return (
        "Evaluate every item, each on a line of its own, before the JSON block: its number, PASS, FAIL or N/A, and the "
        "evidence, so: `3. PASS: src/login.py:12 does`. What Interlock does after the review (notes, change log, "
        f"statuses) is N/A to you.\n\n{listed}"
    )


def evaluated(items: Sequence[str], answers: Mapping[str, str]) -> tuple[Evaluated, ...]:
    """Every item as the reviewers' answers (label: text) have it: one FAIL outweighs others, a verdict an N/A."""
    said: dict[int, list[tuple[str, str, str]]] = {}
    for label, text in answers.items():
        for number, word, note in (found for line in LINES for found in line.findall(text)):
            said.setdefault(int(number), []).append((_result(word), " ".join(note.split())[:300], label))
    return tuple(_one(number, item, said.get(number, [])) for number, item in enumerate(items, 1))


def _one(number: int, item: str, said: Sequence[tuple[str, str, str]]) -> Evaluated:
    for result in (FAIL, PASS, NONE):
        mine = [one for one in said if one[0] == result]
        if mine:
            return Evaluated(number, item, result, mine[0][1], tuple(dict.fromkeys(label for _, _, label in mine)))
    return Evaluated(number, item, OPEN)


def settled(found: Sequence[Evaluated], done: Mapping[str, str]) -> tuple[Evaluated, ...]:
    """The same with the items about what Interlock did itself: notes, change log, status, decided (name: how it went,
    "" for not at all)."""
    return tuple(_ours(one, done) for one in found)


def _ours(one: Evaluated, done: Mapping[str, str]) -> Evaluated:
    name = next((name for pattern, name in OURS if pattern.search(one.text)), None)
    if name is None or name not in done:
        return one
    note = done[name] or "not done: there is no such file, or it could not be written"
    return Evaluated(one.number, one.text, PASS if done[name] else NONE, note, ("Interlock",))


def is_ours(item: str) -> bool:
    """Whether an item is about what Interlock does itself after a review."""
    return any(pattern.search(item) for pattern, _ in OURS)


def open_items(found: Sequence[Evaluated]) -> list[Evaluated]:
    """Those that nobody has evaluated."""
    return [one for one in found if one.result == OPEN]


def _result(word: str) -> str:
    first = word.upper()
    if first.startswith("PASS"):
        return PASS
    return NONE if first.startswith("N") else FAIL


SECONDS = 30.0
DIFF = 40_000  # characters of it that are shown; the rest is read in the files
FILES = 200


@dataclass(frozen=True)
class Changes:
    """Paths from the project's root, and the difference as git shows it ("" where there is none). `cut`: not all of it.
    `since` is the commit that it is the difference from."""

    paths: tuple[str, ...]
    diff: str = ""
    cut: bool = False
    since: str | None = None


def of_run(state: WorkflowState, root: str) -> Changes:
    """What the run has changed so far. Never raises: without git its own records are what there is."""
    written = [path for record in state.steps.values() for path in record.files]
    own = [path for path in dict.fromkeys([*written, *state.written]) if _counts(path)]
    try:
        found = _by_git(state, root)
    except (GitFailed, OSError):
        found = None
    if found is None:
        return Changes(tuple(own[:FILES]))
    paths = [path for path in dict.fromkeys([*found.paths, *own]) if _counts(path)]
    return Changes(tuple(paths[:FILES]), found.diff, found.cut, found.since)


def _by_git(state: WorkflowState, root: str) -> Changes | None:
    git = Git(root, timeout=SECONDS)
    if git("rev-parse", "--is-inside-work-tree", ok=(0, 128)).text != "true":
        return None
    untracked = git("ls-files", "--others", "--exclude-standard", "-z", "--", ".").names
    since = _base(git, state)
    if since is None:
        return Changes(tuple(untracked))
    where = ["--", ".", *(f":(exclude,glob)**/{name}/**" for name in files.OURS), f":(exclude){FOLDER}"]
    changed = git("diff", "--no-renames", "--no-ext-diff", "--name-only", "--relative", "-z", since, *where).names
    diff = git("diff", "--no-renames", "--no-ext-diff", "--no-textconv", "--relative", since, *where).out
    return Changes((*changed, *untracked), diff[:DIFF], len(diff) > DIFF, since)


def _base(git: Git, state: WorkflowState) -> str | None:
    """The commit that the run began from: its first checkpoint's, else the last one before it began."""
    for checkpoint in state.checkpoints[:1]:
        commit = checkpoint.get("files", {}).get("commit")
        if checkpoint.get("id") == "cp-1" and isinstance(commit, str) and git.commit_of(commit):
            return commit
    if git.commit_of("HEAD") is None:
        return None
    if state.created_at is None:
        return "HEAD"
    before = git("rev-list", "-1", f"--before={state.created_at}", "HEAD").text
    return before or "HEAD"


def _counts(path: str) -> bool:
    """Whether a path is work of the run: nothing of the installed package, nothing that the engine keeps."""
    return not path.startswith(f"{FOLDER}/") and not any(f"{name}/" in path for name in files.OURS)


def missing(paths: Iterable[str], listed: Iterable[str]) -> list[str]:
    """Those of `paths` that `listed` does not name."""
    known = {one.removeprefix("./") for one in listed}
    return [path for path in paths if path not in known]


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
  that you have read (`path:line`), with what would fix it. "Looks good" is no review.
- Invent nothing. When you have looked at everything and there are fewer, report those, and say where you looked.
- A task that is marked as done and is not, and an acceptance criterion that is not met, are blocking.
- Judge: `approve` where nothing above minor is open, `changes_requested` where the developer can fix it, `blocked`
  where they cannot: a decision of the user is missing, or requirements contradict one another.
- Change no file, ask nobody, launch nobody. You may run what changes nothing, such as the tests."""


@dataclass(frozen=True)
class Installed:
    """The review that the package brings along; without one all is ours."""

    name: str = ""
    instructions: str = ""
    items: tuple[str, ...] = ITEMS


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
    items = tuple(workflow.variables.resolve(one).text for one in items_of(listed))
    return Installed(skill.invocation, text.strip(), items or ITEMS)


def is_review(skill: Skill) -> bool:
    """Whether a skill is a code review by itself."""
    return skill.name.endswith("code-review")


def _skill(package: Package, module: str) -> Skill | None:
    found = [one for one in package.of_type("workflows") if is_review(one)]
    return next((one for one in found if one.module == module), found[0] if found else None)


def standards(package: Package, module: str) -> tuple[str, list[str]]:
    """The project's coding standards (`project-context.md`), and the paths of the documents that set others."""
    root, config = package.root, package.config(module)
    contexts = _found(root, [f"{depth}project-context.md" for depth in ("", "*/", "*/*/")])
    planning = str(config.get("planning_artifacts") or config.get("output_folder") or "_bmad-output")
    planning = planning.replace("{project-root}/", "")
    wanted = [f"{planning}/*{name}*{end}" for name in STANDARDS for end in (".md", "/*.md")]
    return (steps.read(root, contexts[0]) if contexts else ""), [*contexts, *_found(root, wanted)]


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
        f"## Checklist\n\n{checklist_text(own.items)}",
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
        "looking and judging. Interlock presents what you find, has it fixed, and updates story and statuses: leave "
        "out what asks the user, changes files, or launches others.\n\n"
        f"{quoted(own.instructions[:INSTRUCTIONS])}"
    )


def before(rounds: Sequence[Mapping[str, Any]], answer: str, advice: str) -> str:
    """What earlier rounds came to, for those who look again."""
    parts = []
    if rounds:
        listed = "\n".join(
            f"- {one.data['id']}, {one.severity}: {one.title} ({one.location or 'no place'})"
            for one in reviewers.open_after(rounds)
        )
        parts.append(
            f"## This is round {len(rounds) + 1}\n\nOpen from the rounds before:\n\n{listed or '- nothing'}\n\n"
            'Look at each and give a verdict on it by its id in "earlier": `fixed` where you have read what fixed it, '
            "`open` where it still stands, `withdrawn` where it never was a problem. Without a verdict it stays open. "
            "Then look at what the fixing changed. There need not be new issues."
        )
    if answer.strip():
        parts.append(f"What the developer says to it:\n\n{quoted(answer)}")
    if advice.strip():
        parts.append(f"What the user says:\n\n{quoted(advice)}")
    return "\n\n".join(parts)


def harder(base: str, said: str, wanted: Sequence[str]) -> str:
    """The same again, for a reviewer whose first answer was not enough; `wanted` says in which way."""
    listed = "\n".join(f"- {one}" for one in wanted)
    return (
        f"{base}\n\n## Your answer so far\n\n{quoted(said[-STORY:])}\n\nIt stands, with all its findings: what you say "
        'now adds to it. One that was a mistake is withdrawn in "earlier", by its title.\n\n'
        f"## What is missing in it\n\n{listed}"
    )
