"""What a run has changed: by git where the project is in a repository, else by what it is known to have written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from interlock.errors import GitFailed
from interlock.gitwork.git import Git
from interlock.workflow.definition.package import FOLDER
from interlock.workflow.state import files
from interlock.workflow.state.document import WorkflowState

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
