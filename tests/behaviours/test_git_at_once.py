"""Several gits of one repository at once, and one that was killed in the middle of making a worktree."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from interlock.gitwork.git import Git
from tests.behaviours.repository import Repository


def test_a_worktree_that_another_git_is_making_is_waited_for(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "project")
    git = Git(str(repository.path), timeout=60)
    git("worktree", "add", "--quiet", "--detach", str(tmp_path / "new"))
    written = repository.path / ".git" / "worktrees" / "new" / "commondir"
    text = written.read_text()
    written.write_text("")  # As it is for a moment while a worktree is made.
    other = threading.Timer(0.2, written.write_text, (text,))
    other.start()
    try:
        assert str(tmp_path / "new") in git("worktree", "list", "--porcelain").out
    finally:
        other.join()


def test_what_a_killed_git_left_of_a_worktree_holds_nobody_up(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "project")
    git = Git(str(repository.path), timeout=60)
    git("worktree", "add", "--quiet", "--detach", str(tmp_path / "half"))
    left = repository.path / ".git" / "worktrees" / "half"
    (left / "commondir").write_text("")
    os.utime(left, (1, 1))
    assert "half" not in git("worktree", "list", "--porcelain").out
    assert not left.exists()
