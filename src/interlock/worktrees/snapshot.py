"""The git tree of what lies in a directory now: by it, evidence says what was looked at.

Nothing is written into the repository: index and objects go to a temporary directory.
"""

from __future__ import annotations

import os
import shutil
import tempfile

from interlock.errors import GitFailed, WorktreeRefused
from interlock.plan.surroundings import checkout_of
from interlock.worktrees.repository import open_repository
from interlock.worktrees.staging import stage, write_rules

PATIENCE = 20.0
"""Seconds for each call of git: what takes longer is not known."""


def tree_of(directory: str) -> str | None:
    """The tree that a commit of everything in `directory`'s repository would have now, what git ignores and what
    programs leave behind left out; null outside git, or where it cannot be told in good time."""
    if checkout_of(directory) is None:  # Asking git costs a process.
        return None
    try:
        repository = open_repository(directory, timeout=PATIENCE)
        git = repository.git.at(repository.top)
        index, objects = (os.path.join(repository.top, git("rev-parse", "--git-path", name).text)
                          for name in ("index", "objects"))  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="interlock-tree-") as scratch:
            ignored = os.path.join(scratch, "ignored")
            write_rules(repository, ignored)
            own = {
                "GIT_INDEX_FILE": os.path.join(scratch, "index"),
                "GIT_OBJECT_DIRECTORY": os.path.join(scratch, "objects"),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects,
            }
            os.mkdir(own["GIT_OBJECT_DIRECTORY"])
            if os.path.exists(index):
                shutil.copy2(index, own["GIT_INDEX_FILE"])  # Whatever it knows need not be read again.
            stage(git, ignored, own)
            return git("write-tree", variables=own).text
    except (GitFailed, WorktreeRefused, OSError):
        return None
