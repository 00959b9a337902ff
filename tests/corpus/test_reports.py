"""What users report of unattended loops over stories (bmad-loop #156, #172, #437, #618), each as a night of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.corpus.conftest import Corpus
from tests.corpus.epics import OUT, PACKAGES, Night

SHIM = """#!/bin/bash
# Runs git, but for every {each}th call of what `{what}` matches, which is {fate}.
case " $* " in {what})
  printf . >> {count}
  if [ $(( $(stat -c %s {count}) % {each} )) -eq 0 ]; then {do}; fi;;
esac
exec {git} "$@"
"""
FATES = {
    "killed": ("*", 23, "kill -9 $$"),
    "slow": ('*" commit "*|*" merge "*|*" diff "*|*" status "*', 9, "sleep 30"),
    "refused": ('*" merge "*', 2, "echo fatal: refused >&2; exit 128"),
}

CASES = [pytest.param(one, fate, marks=pytest.mark.dosed if (one, fate) == ("6.12", "killed") else ())
         for one in PACKAGES for fate in FATES]  # fmt: skip

pytestmark = pytest.mark.timeout(600)


def night(corpus: Corpus, path: Path, package: str, **more: Any) -> Night:
    # Where no agent stalls, a busy machine is not to be taken for one that does.
    stalls = "land" in more.get("more", {}).get("kinds", ())
    settings: dict[str, Any] = {"rate": 0.0, "work": 0.05, "silence": 10 if stalls else 60, "seed": 7, **more}
    return Night(path, corpus, package, 3, 3, **settings)


def shim(path: Path, fate: str) -> dict[str, str]:
    """Variables with which one call of git in so many meets that fate."""
    what, each, do = FATES[fate]
    path.mkdir()
    text = SHIM.format(what=what, each=each, do=do, fate=fate, count=path / "count", git=shutil.which("git"))
    (path / "git").write_text(text)
    (path / "git").chmod(0o755)
    # Only where git is slow is it to be ended: on a busy machine a sound one takes seconds as well.
    return {"PATH": f"{path}:{os.environ['PATH']}"} | ({"INTERLOCK_GIT_TIMEOUT": "10"} if fate == "slow" else {})


@pytest.mark.storm
@pytest.mark.parametrize(("package", "fate"), CASES)
def test_a_git_that_is_killed_slow_or_refuses_ends_no_story(
    corpus: Corpus, tmp_path: Path, package: str, fate: str
) -> None:
    """#156: one slow git call killed the whole run. #618: a refused merge was taken for a conflict."""
    done = night(corpus, tmp_path, package, variables=shim(tmp_path / "bin", fate)).run()
    assert not done.lacking() and not done.asked, done.asked
    told = [one["prompt"] for one in done.turns() if "CONFLICT" in one["prompt"] or "in conflict" in one["prompt"]]
    assert not told, "nobody is told to resolve a conflict that there is not"


@pytest.mark.storm
@pytest.mark.parametrize("package", PACKAGES)
def test_what_was_committed_before_a_time_out_stays(corpus: Corpus, tmp_path: Path, package: str) -> None:
    """#172: the retry after a time-out reset the branch, and commits that had landed were gone."""
    done = night(corpus, tmp_path, package, rate=0.3, more={"kinds": ["land"]}).run()
    assert not done.lacking() and done.each == [0, 0, 0], done.asked
    landed = (tmp_path / "agent/landed").read_text().split()
    branch = f"interlock/{done.team.name}"
    lost = [
        one for one in landed
        if subprocess.run(["git", "merge-base", "--is-ancestor", one, branch], cwd=done.root, check=False).returncode
    ]  # fmt: skip
    assert landed and not lost


@pytest.mark.long
def test_statuses_that_an_agent_puts_back_are_right_where_the_stories_are_merged(
    corpus: Corpus, tmp_path: Path
) -> None:
    """#437: a review's session reverted what the orchestrator had written."""
    done = night(corpus, tmp_path, "a22", rate=0.3, more={"kinds": ["revert"]}).run()
    assert not done.lacking() and done.each == [0, 0, 0], done.asked
    status = done.git("show", f"interlock/{done.team.name}:{OUT}/sprint-status.yaml")
    assert all(f"  {key}: done" in status for key in done.keys), status
    assert "backlog" not in status


@pytest.mark.storm
@pytest.mark.parametrize("package", PACKAGES)
def test_a_loop_that_is_killed_goes_on_where_it_was(corpus: Corpus, tmp_path: Path, package: str) -> None:
    """#232: nothing defended the layer above the run."""
    killed = night(corpus, tmp_path / "killed", package, work=0.3, kills=(3.0, 4.0, 6.0)).run()
    assert not killed.lacking() and killed.each == [0, 0, 0], killed.asked
    plain = night(corpus, tmp_path / "plain", package).run()
    assert killed.tree() == plain.tree()
