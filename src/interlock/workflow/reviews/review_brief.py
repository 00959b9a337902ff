"""What reviewers are given: the story, what was changed, the criteria, the project's standards, and the installed
review's own instructions and checklist (BMAD-5.12.2, FR44a).

Everything is bounded. What does not fit is named by its path: reviewers have the project before them and can read it.
What a run has changed is told by git where the project is in a repository, else by the run's own snapshots.
"""

from __future__ import annotations

import glob
import os
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from interlock.errors import InterlockError
from interlock.gitwork.git import Git
from interlock.lazy_dataclass import dataclass
from interlock.workflow.engine import documents
from interlock.workflow.markdown import quoted
from interlock.workflow.package import workflow as workflows
from interlock.workflow.package.packages import FOLDER, Package, Skill
from interlock.workflow.package.variables import is_set
from interlock.workflow.reviews import reviewers
from interlock.workflow.reviews.checklist import ITEMS, checklist_text, items_of
from interlock.workflow.reviews.story import Story
from interlock.workflow.state import files, status_file
from interlock.workflow.state.document import WorkflowState
from interlock.workflow.state.snapshots import Snapshots

T = TypeVar("T")
SECONDS = 30.0
DIFF = 40_000  # characters of it that are shown; the rest is read in the files
FILES = 200


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths from the project's root, and the difference as git shows it ("" where there is none). `cut`: not all of it.
    `since` is the commit that it is the difference from, `alone` that nobody else works where git looked."""

    paths: tuple[str, ...]
    diff: str = ""
    cut: bool = False
    since: str | None = None
    alone: bool = False


def of_run(state: WorkflowState, root: str) -> Changes:
    """What the run has changed so far: what git shows, and of what the run says that it wrote, what its own snapshots
    saw to be so. Never raises: where neither keeps anything of the project, what it says is what there is."""
    own = _claimed(state)
    git, kept = _seen(lambda: _by_git(state, root)), _seen(lambda: _by_snapshots(state, own))
    if git is None:
        paths = own if kept is None else kept
        return Changes(tuple([path for path in paths if _counts(path)][:FILES]))
    paths = list(dict.fromkeys([*git.paths, *(one for one in own if one in (kept or ()))]))
    return replace(git, paths=tuple([path for path in paths if _counts(path)][:FILES]))


def since_begun(state: WorkflowState, root: str) -> list[str] | None:
    """What has changed since the run began, by its snapshots and by git; None where neither of them knows."""
    kept = _seen(lambda: _by_snapshots(state, _claimed(state)))
    git = _seen(lambda: _by_git(state, root))
    if kept is None or git is None:
        known = kept if git is None else list(git.paths)
    elif git.alone:  # It takes in what others have merged, which no snapshot can tell from its own.
        tracked = Git(root, timeout=SECONDS)("ls-files", "-z").names
        known = [*git.paths, *(set(kept) - set(tracked))]
    else:  # Others work here too, and git knows no beginning: it tells of what the snapshots leave out.
        snapshots = Snapshots(state.plan.project, state.plan.output_folder, state.workflow_id)
        known = [*kept, *(path for path in git.paths if not snapshots.covers(path))]
    return None if known is None else sorted({path for path in known if _counts(path)})


def _seen(look: Callable[[], T | None]) -> T | None:
    try:
        return look()
    except (InterlockError, OSError, ValueError):
        return None


def _claimed(state: WorkflowState) -> list[str]:
    written = [path for record in state.steps.values() for path in record.files]
    return [path for path in dict.fromkeys([*written, *state.written]) if _counts(path)]


def _by_git(state: WorkflowState, root: str) -> Changes | None:
    git = Git(root, timeout=SECONDS)
    if git("rev-parse", "--is-inside-work-tree", ok=(0, 128)).text != "true":
        return None
    # What its worktree has taken in of others' work, or the last commit before the run began.
    since = own = git.taken_in()
    if since is None and git.commit_of("HEAD") is not None:
        before = git("rev-list", "-1", f"--before={state.created_at}", "HEAD").text if state.created_at else ""
        since = before or "HEAD"
    if since is None:
        return None
    untracked = git("ls-files", "--others", "--exclude-standard", "-z", "--", ".").names
    where = ["--", ".", *(f":(exclude,glob)**/{name}/**" for name in files.OURS), f":(exclude){FOLDER}"]
    changed = git("diff", "--no-renames", "--no-ext-diff", "--name-only", "--relative", "-z", since, *where).names
    diff = git("diff", "--no-renames", "--no-ext-diff", "--no-textconv", "--relative", since, *where).out
    for path in untracked:
        if len(diff) > DIFF:
            break
        diff += _new(root, path) if _counts(path) else ""
    return Changes((*changed, *untracked), diff[:DIFF], len(diff) > DIFF, since, own is not None)


def _new(root: str, path: str) -> str:
    """A file that git does not know yet, as git shows a new one."""
    text = documents.read(root, path)[: DIFF + 1]
    head = f"diff --git a/{path} b/{path}\nnew file\n"
    if "\0" in text:
        return f"{head}Binary file\n"
    lines = text.splitlines()
    added = "".join(f"+{line}\n" for line in lines)
    return f"{head}--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n{added}"


def _by_snapshots(state: WorkflowState, own: Sequence[str]) -> list[str] | None:
    return Snapshots(state.plan.project, state.plan.output_folder, state.workflow_id).since_first(own)


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


@dataclass(frozen=True, slots=True)
class Installed:
    """The review that the package brings along; without one all is ours."""

    name: str = ""
    instructions: str = ""
    items: tuple[str, ...] = ITEMS


def installed(package: Package, module: str) -> Installed:
    """The code review of the package, of the same module where it has one."""
    found = [one for one in package.of_type("workflows") if is_review(one)]
    skill = next((one for one in found if one.module == module), found[0] if found else None)
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
    listed: str,
    asked: str,
    changes: Changes,
    own: Installed,
    package: Package,
    module: str,
    *,
    before: str = "",
) -> str:
    """The whole of it. `listed` is what the project's lists say of the story, `asked` what the run was asked to do,
    `before` what earlier rounds came to."""
    context, named = standards(package, module)
    config = package.config(module)
    settings = "\n".join(f"- {name}: {config[name]}" for name in SETTINGS if is_set(config.get(name)))
    said = f"What the developer was asked:\n\n{quoted(asked[:STORY])}" if asked.strip() else ""
    if story is None:
        judge = "" if listed else " Judge the change by what it claims to be."
        about = ["## The story", f"No story file was found.{judge}", listed, said]
    else:
        criteria = story.criteria or ("" if listed else "The story names none; that is an issue of its own.")
        about = [
            "## The story", listed, f"`{story.path}`, status {story.status or 'unknown'}:", quoted(story.text[:STORY]),
            said, f"## Acceptance criteria\n\n{criteria}" if criteria else "",
        ]  # fmt: skip
    instructions = (
        f"## The project's own instructions for a review\n\nOf {own.name}; carry them out as far as they are about "
        "looking and judging. Interlock presents what you find, has it fixed, and updates story and statuses: leave "
        "out what asks the user, changes files, or launches others.\n\n"
        f"{quoted(own.instructions[:INSTRUCTIONS])}"
    )
    parts = [
        f"# Code review: {story.key if story else skill}",
        MANNER,
        *about,
        _changed(
            changes, story, [documents.relative(package.root, one) for one in status_file.paths(package.root, config)]
        ),
        f"## Project standards\n\n{settings}".rstrip(),
        f"Documents that set them (read those that bear on this change): {', '.join(named)}" if named else "",
        f"From the project's context:\n\n{quoted(context[:STANDARD])}" if context.strip() else "",
        instructions if own.instructions else "",
        f"## Checklist\n\n{checklist_text(own.items)}",
        before,
    ]
    return "\n\n".join(part for part in parts if part)


def _changed(changes: Changes, story: Story | None, statuses: Sequence[str]) -> str:
    listed = "\n".join(f"- {path}" for path in changes.paths) or "- none that is known; find them by the story"
    parts = [f"## Changed files\n\n{listed}"]
    if story is not None and story.files:
        own = [path for path in changes.paths if path not in (story.path, *statuses)]
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
