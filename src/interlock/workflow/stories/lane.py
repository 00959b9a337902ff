"""The lane of a story: the installed generation's own way to implement one, as the body of its task (decision 47).

    6.12       bmad-build-auto, rendered, by spec folder and id, or by the key of `sprint-status.yaml`
    earlier    create-story, where the story is only planned, then dev-story, in one worktree; reviewed by others than
               its maker, with the installed code review's instructions

The task's body is what is run, a line for each skill, then what its author wants said. Its first line names the story:

    /bmad:bmm:workflows:create-story 1-2-login --set story=1-2-login --yolo
    /bmad:bmm:workflows:dev-story 1-2-login --set story=1-2-login --set story_path=… --yolo

A lane's status is nobody's business but ours: what its skills write into `sprint-status.yaml` of their worktree is put
back before it is merged, so that stories that are implemented at once do not conflict in it, and `settling` writes the
status into the merge. A retrospective may write all else there, such as what is to be done next.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from interlock.errors import InterlockError, InvalidRequest, WorkflowNotFound
from interlock.gitwork.git import Git
from interlock.gitwork.inventory import TAG
from interlock.model.plan import key_of
from interlock.model.task import Task
from interlock.workflow.package.packages import Invocation, Package, Skill
from interlock.workflow.reviews.code_review import PLAN_ONLY
from interlock.workflow.runs.starting import Lane, Link
from interlock.workflow.state import files, status_file
from interlock.workflow.stories.inventory import BACKLOG, LISTED, SPRINT, PlannedStory, folders, sprint_path

RETROSPECTIVE = "retrospective"
GIT_SECONDS = 60.0
SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55\n"
"""By which other programs know a directory for one that need not be kept (bford.info/cachedir)."""


def task_key(key: str) -> str:
    """The key of a story's task."""
    return key_of(key, "story")


def retrospective_key(epic: str) -> str:
    """The key of an epic's retrospective, as `sprint-status.yaml` has it."""
    return f"epic-{epic}-{RETROSPECTIVE}"


def plan_key(key: str) -> str:
    """The key of what plans a story, for a person to look at before it is implemented."""
    return f"{key}-plan"


def is_retrospective(key: str) -> bool:
    """Whether that is the key of a retrospective."""
    return key.startswith("epic-") and key.endswith(f"-{RETROSPECTIVE}")


def of_story(package: Package, story: PlannedStory) -> Lane:
    """The lane that implements a story.

    Raises:
        WorkflowNotFound: the package has no skill for it.
    """
    built = _built(package, story, story.key)
    if built is not None:
        return built
    create, dev = _skill(package, "create-story"), _skill(package, "dev-story")
    if dev is None or (create is None and story.status == BACKLOG):
        raise WorkflowNotFound(
            f"The package in {package.root} has neither bmad-build-auto nor create-story and dev-story, so nothing can "
            f"implement {story.key}. Install its module bmm.",
            story=story.key,
        )
    config = dict(package.config("bmm"))
    folder = files.relative(package.root, folders(package.root, config, "implementation_artifacts"))
    path = f"{folder}/{story.key}.md"
    links = [Link(f"{dev.invocation} {path}", {"story": story.key, "story_path": path}, True)]
    if create is not None and story.status == BACKLOG:
        values = {"story": story.key, "story_key": story.key}
        links.insert(0, Link(f"{create.invocation} {story.key}", values, True))
    return Lane(story.key, tuple(links), story.guidance)


def of_plan(package: Package, story: PlannedStory) -> Lane | None:
    """The lane that plans a story and implements nothing; None where the package has no skill that does."""
    return _built(package, story, plan_key(story.key), f". {PLAN_ONLY}")


def _built(package: Package, story: PlannedStory, key: str, more: str = "") -> Lane | None:
    auto = _skill(package, "build-auto")
    if auto is None:
        return None
    values, said = {"story": key}, f"story {story.key}"
    if story.folder:
        values |= {"spec_folder": story.folder, "story_id": story.id}
        said = f"spec folder {story.folder}, story id {story.id}"
    return Lane(key, (Link(f"{auto.invocation} {said}{more}", values, True),), story.guidance)


def of_finding(package: Package, task: Task, key: str) -> Lane:
    """The lane that does what a finding of another build asks for. Its words are a brief, and no arguments.

    Raises:
        WorkflowNotFound: the package has no skill for it.
    """
    auto = _skill(package, "build-auto")
    if auto is None:
        raise WorkflowNotFound(
            f"The package in {package.root} has no bmad-build-auto, so nothing can take up {task.id}. Give it to a "
            f"member instead: interlock task assign {task.id} NAME.",
            task=task.id,
        )
    asked = f"fix what an earlier build found and left, {task.id}, as it is described in the brief"
    return Lane(key, (Link(f"{auto.invocation} {asked}", {"story": key}, True),), f"{task.subject}\n\n{task.body}")


def of_retrospective(package: Package, epic: str, folder: str = "") -> Lane | None:
    """The lane of an epic's retrospective, without anybody to talk to; None where the package has none."""
    skill = _skill(package, RETROSPECTIVE)
    if skill is None:
        return None
    headless = "-H " if package.generation == 3 else ""
    values = {"story": retrospective_key(epic), "epic_number": epic}
    return Lane(retrospective_key(epic), (Link(f"{skill.invocation} {headless}{folder or epic}", values, True),))


def _skill(package: Package, name: str) -> Skill | None:
    for module in (None, "bmm"):
        found = package.find(Invocation(module, "workflows", name, f"/bmad-{name}"))
        if found is not None and found.type == "workflows" and package.files.exists(found.path):
            return found
    return None


def enter(root: str, output: str) -> None:
    """Keep the engine's own files out of the story's branch, since a skill that demands a clean working copy gets one,
    and out of what is kept of its worktree.

    Raises:
        StorageError: they could not be.
    """
    if not os.path.isfile(os.path.join(root, ".git")):
        return  # Not a worktree: whether they are kept is its owner's choice.
    for name in files.OURS:
        for mark, text in ((".gitignore", b"*\n"), (TAG, SIGNATURE)):
            path = os.path.join(files.output_folder(root, output), name, mark)
            if not os.path.exists(path):
                files.put(path, text)


def leave(root: str, base: str | None, config: Mapping[str, object], *, whole: bool = True) -> None:
    """Put `sprint-status.yaml` back as it was at `base`, the commit that the worktree began with, or as others left it
    in what was merged since; where it is not `whole`, its statuses alone.

    Raises:
        StorageError, GitFailed: it could not be.
    """
    if base is None:
        return
    git = Git(root, timeout=GIT_SECONDS)
    base = git.taken_in() or base
    for path in status_file.paths(root, config):
        name = files.relative(root, path)
        if not name.endswith(SPRINT) or not os.path.isfile(path):
            continue
        before = git("show", f"{base}:./{name}", ok=(0, 128))
        if before.code == 0 and files.get(path) != before.out.encode():
            text = before.out if whole else _with_statuses_of(before.out, files.get(path) or b"")
            files.put(path, text.encode(), os.stat(path).st_mode & 0o7777)


def _with_statuses_of(before: str, now: bytes) -> str:
    """The text as it is now with the statuses that it had before; the text before where that cannot be told apart."""
    try:
        text, statuses = now.decode(), status_file.statuses(before)
        for key, status in status_file.statuses(text).items():
            if key in statuses and statuses[key] != status:
                text = status_file.changed(text, key, statuses[key])
    except (InterlockError, UnicodeDecodeError):
        return before
    return text


def copied(package: Package, stories: Sequence[PlannedStory]) -> list[str]:
    """Return what the skills need and git ignores, so that a worktree gets a copy of it.

    Raises:
        InvalidRequest: the package, or the list of one of these stories, is neither committed nor ignored, so no
            worktree would have it.
    """
    root = package.root
    git = Git(root, timeout=GIT_SECONDS)
    found: list[str] = []
    there: list[str] = []
    for name in ("_bmad", ".claude", ".agents", ".github/skills", "_bmad-output"):
        if os.path.isdir(os.path.join(root, name)):
            ignored = git("check-ignore", "-q", name, ok=(0, 1, 128)).code == 0
            found += [name] if ignored else []
            there += [name] if name == "_bmad" and not ignored else []
    sprint = sprint_path(root, dict(package.config("bmm")))
    lists = {f"{one.folder}/{LISTED}" if one.folder else files.relative(root, sprint or root) for one in stories}
    there += sorted(one for one in lists if not any(one.startswith(f"{name}/") for name in found))
    for name in there:
        if git("check-ignore", "-q", name, ok=(0, 1, 128)).code == 0:
            found.append(name)
        elif not git("ls-tree", "HEAD", "--", name).text:
            raise InvalidRequest(
                f"{name} is not committed, so a story's worktree would be without it. Commit it with what belongs to "
                "it (the whole package, all that was planned), then start again.",
                field="dir",
            )
    return found
