"""What tests of worktrees share: a user's repository, and everything about it that nobody may touch."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Any

from interlock.model.task import Task
from tests.behaviours.driving import Place


class Repository:
    """A repository with a checkout, as a user has it: with things in it that git does not track."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "Una User")
        self.git("config", "user.email", "una@example.org")
        self.commit("first", **{"story.txt": "one\ntwo\nthree\n", ".gitignore": "*.pyc\n.env\nbuild/\n"})

    def git(self, *words: str, check: bool = True) -> str:
        """Git, as the user types it; what it prints."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "GIT_OPTIONAL_LOCKS": "0"}
        done = subprocess.run(
            ["git", *words], cwd=self.path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout.rstrip("\n")

    def commit(self, message: str, **files: str) -> str:
        """Write these files and commit them; the commit."""
        for name, text in files.items():
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.head()

    def head(self, name: str = "HEAD") -> str:
        """The commit that a name stands for."""
        return self.git("rev-parse", name)

    def show(self, name: str, path: str) -> str:
        """A file as it is in that commit."""
        return self.git("show", f"{name}:{path}")

    def files(self, name: str) -> list[str]:
        """The files of that commit."""
        return self.git("ls-tree", "-r", "--name-only", name).split("\n")

    def log(self, name: str) -> list[str]:
        """The subjects of the commits that `name` has beyond the first line of main, newest first."""
        return self.git("log", "--format=%s", "--first-parent", name).split("\n")

    def branches(self) -> list[str]:
        """All branches."""
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split("\n")

    def untouchable(self) -> dict[str, object]:
        """HEAD, the user's branches, the index and every file of the checkout, byte by byte."""
        dot = self.path / ".git"
        refs = self.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags", "refs/stash")
        files = {
            str(file.relative_to(self.path)): (file.lstat().st_mtime_ns, file.lstat().st_mode, _content(file))
            for file in sorted(self.path.rglob("*"))
            if dot not in file.parents and file != dot and not file.is_dir()
        }
        return {
            "head": (dot / "HEAD").read_bytes(),
            "index": hashlib.sha256((dot / "index").read_bytes()).hexdigest(),
            "config": (dot / "config").read_bytes(),
            "refs": [line for line in refs.split("\n") if "/interlock" not in line],
            "status": self.git("status", "--porcelain"),
            "files": files,
        }


def _content(file: Path) -> bytes:
    return os.readlink(file).encode() if file.is_symlink() else file.read_bytes()


def stage(place: Place, tasks: dict[str, Any], members: dict[str, Any] | None = None, **more: Any) -> None:
    """Stage a plan whose tasks work in worktrees."""
    place.stage(tasks, members, **{"isolation": "worktree", **more})


def kept_path(task: Task) -> Path:
    """Where the worktree of a task lies, or lay."""
    assert task.worktree is not None
    return Path(str(task.worktree["path"]))


def checkout(path: Path) -> Repository:
    """Another checkout of it, as its user."""
    found = Repository.__new__(Repository)
    found.path = path
    return found
