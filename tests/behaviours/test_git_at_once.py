"""Several gits of one repository at once, and one that was killed in the middle of making a worktree."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interlock.errors import GitFailed
from interlock.gitwork.git import Git
from interlock.gitwork.repository import open_repository
from interlock.gitwork.staging import write_rules
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


def test_a_worktree_whose_head_another_git_is_writing_is_waited_for(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "project")
    git = Git(str(repository.path), timeout=60)
    git("worktree", "add", "--quiet", "--detach", str(tmp_path / "new"))
    head = repository.path / ".git" / "worktrees" / "new" / "HEAD"
    text = head.read_text()
    head.write_text("1" * 40 + "\n")
    other = threading.Timer(0.2, head.write_text, (text,))
    other.start()
    try:
        assert git("rev-list", "--all").text
    finally:
        other.join()


def test_a_worktree_is_made_while_the_last_other_one_is_removed(tmp_path: Path) -> None:
    """With the last worktree git removes the directory of all, which another git has just made for its own."""
    repository = Repository(tmp_path / "project")
    git = Git(str(repository.path), timeout=60)
    gone = repository.path / ".git" / "worktrees"
    gone.symlink_to("nowhere")  # A directory that is there for the one who makes it, and not for the one below it.
    other = threading.Timer(0.2, gone.unlink)
    other.start()
    try:
        git("worktree", "add", "--quiet", "--detach", str(tmp_path / "new"))
    finally:
        other.join()
    assert str(tmp_path / "new") in git("worktree", "list", "--porcelain").out


def test_tasks_that_begin_at_once_write_down_the_same_rules(tmp_path: Path) -> None:
    repository = open_repository(str(Repository(tmp_path / "project").path), timeout=60)
    rules = tmp_path / "home" / "worktrees.ignored"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: write_rules(repository, str(rules)), range(100)))
    assert "__pycache__/" in rules.read_text() and list(rules.parent.iterdir()) == [rules]


def test_what_a_killed_git_left_of_a_worktree_holds_nobody_up(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "project")
    git = Git(str(repository.path), timeout=60)
    git("worktree", "add", "--quiet", "--detach", str(tmp_path / "half"))
    left = repository.path / ".git" / "worktrees" / "half"
    (left / "commondir").write_text("")
    os.utime(left, (1, 1))
    assert "half" not in git("worktree", "list", "--porcelain").out
    assert not left.exists()


def test_what_a_git_that_was_not_scheduled_has_begun_is_left_alone(tmp_path: Path) -> None:
    """On a busy machine a git may not run for seconds; what it makes is somebody's worktree."""
    repository = Repository(tmp_path / "project")
    git = Git(str(repository.path), timeout=60)
    git("worktree", "add", "--quiet", "--detach", str(tmp_path / "half"))
    for name in ("begun", "go"):
        os.mkfifo(tmp_path / name)
    hook = repository.path / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho >{tmp_path}/begun\nread line <{tmp_path}/go\n")
    hook.chmod(0o755)
    words = ["git", "worktree", "add", "--quiet", "--detach", str(tmp_path / "slow")]
    slow = subprocess.Popen(words, cwd=repository.path)
    try:
        (tmp_path / "begun").read_text()
        left = repository.path / ".git" / "worktrees" / "half"
        (left / "commondir").write_text("")
        os.utime(left, (1, 1))
        with pytest.raises(GitFailed, match="commondir"):
            git("worktree", "list", "--porcelain")
        assert left.exists()
    finally:
        (tmp_path / "go").write_text("\n")
        slow.wait()
    assert str(tmp_path / "slow") in git("worktree", "list", "--porcelain").out
    assert not left.exists()


@pytest.mark.long
def test_a_look_that_took_too_long_is_repeated_and_a_change_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk is slow once; but what a change that was cut off has done is for its caller to see."""
    repository = Repository(tmp_path / "project")
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    count = tmp_path / "count"
    slow.write_text(f'#!/bin/bash\nif mkdir {count} 2>/dev/null; then sleep 30; fi\nexec {shutil.which("git")} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    git = Git(str(repository.path), timeout=2)
    assert git("status", "--porcelain").code == 0 and count.exists()
    count.rmdir()
    with pytest.raises(GitFailed, match="`git update-ref` took longer than 2 seconds"):
        git("update-ref", "refs/heads/new", "HEAD")
