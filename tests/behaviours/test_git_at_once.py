"""Several gits of one repository at once, and one that was killed in the middle of making a worktree."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from interlock.worktrees.git import Git
from tests.behaviours.repository import Repository


def test_worktrees_are_made_and_listed_by_many_at_once(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "project")
    failed: list[BaseException] = []

    def work(name: str) -> None:
        git = Git(str(repository.path), timeout=60)
        try:
            for number in range(8):
                git("worktree", "add", "--quiet", "--detach", str(tmp_path / f"{name}-{number}"))
                git("worktree", "list", "--porcelain")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    assert len(repository.git("worktree", "list").splitlines()) == 1 + 4 * 8


def test_what_a_killed_git_left_of_a_worktree_holds_nobody_up(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "project")
    git = Git(str(repository.path), timeout=60)
    git("worktree", "add", "--quiet", "--detach", str(tmp_path / "half"))
    left = repository.path / ".git" / "worktrees" / "half"
    (left / "commondir").write_text("")
    os.utime(left, (1, 1))
    assert "half" not in git("worktree", "list", "--porcelain").out
    assert not left.exists()
