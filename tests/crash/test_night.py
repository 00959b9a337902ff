"""What a storm looks for in the night it had: each of its rules is broken here once."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

from tests.crash.night import LEFT, NIGHT, Night


def test_what_went_wrong_is_named(tmp_path: Path) -> None:
    night = Night(tmp_path, str(tmp_path / "home"))
    night.grow(Random(1), 2)
    assert night.check() == []
    git, branch = night.repository.git, f"interlock/{NIGHT}"
    tip, subject = night.repository.head(branch), git("log", "-1", "--format=%s", branch)

    def says(words: str) -> None:
        (problem,) = night.judge()
        assert words in problem

    night.tasks["forgotten"] = {}
    says("forgotten is None")
    del night.tasks["forgotten"]
    git("checkout", "--quiet", branch)
    git("rm", "--quiet", "t0")
    git("commit", "--quiet", "--message", "Tidy")
    says("t0 is done, and its file is not in")
    git("reset", "--quiet", "--hard", tip)
    git("commit", "--quiet", "--allow-empty", "--message", subject)
    says("was merged 2 times")
    git("reset", "--quiet", "--hard", tip)
    git("worktree", "add", "--quiet", "--detach", str(tmp_path / "left"))
    says(f"left in the repository: ['worktree {night.repository.path}")
    git("worktree", "remove", str(tmp_path / "left"))
    git("branch", "interlock-work/left")
    says("left in the repository: ['  interlock-work/left']")
    git("branch", "--quiet", "-D", "interlock-work/left")
    process = subprocess.Popen(["sleep", LEFT])
    try:
        says(f"processes are left: [{process.pid}]")
    finally:
        process.kill()
        process.wait()
    assert night.judge() == []
