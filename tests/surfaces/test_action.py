"""action.yml: its steps, carried out in their order as GitHub's runners do, on a repository with a remote."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.docs.terminal import commands

ROOT = Path(__file__).parents[2]
PLAN = """\
team: night
isolation: worktree
retries: 0
members: {ada: {agent: shell}}
tasks:
  greet: {subject: Say hello, run: "echo hello > hello.txt", verify: "grep -q hello hello.txt"}
"""
FAILING = "  fail: {subject: Cannot be done, run: 'false'}\n"
# GitHub's own program is on its runners alone; what it is told is what is tested.
GH = """#!/bin/sh
echo "$@" > "$RUNNER_TEMP/gh"
while [ $# -gt 0 ]; do
  if [ "$1" = --body-file ]; then cat "$2" > "$RUNNER_TEMP/body"; fi
  shift
done
"""


def git(directory: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(directory), *words], check=True, capture_output=True, text=True).stdout


class Runner:
    """One job: a checkout with a remote, the runner's own files, and the steps' outputs."""

    def __init__(self, directory: Path, plan: str) -> None:
        self.remote, self.checkout, self.temp = directory / "remote", directory / "checkout", directory / "temp"
        self.outputs: dict[str, dict[str, str]] = {}
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(self.remote)], check=True)
        subprocess.run(["git", "clone", "-q", str(self.remote), str(self.checkout)], check=True, capture_output=True)
        git(self.checkout, "switch", "-q", "-c", "main")
        git(self.checkout, "config", "user.name", "A test")
        git(self.checkout, "config", "user.email", "test@example.org")
        (self.checkout / "plan.yaml").write_text(plan)
        git(self.checkout, "add", ".")
        git(self.checkout, "commit", "-q", "-m", "A plan")
        git(self.checkout, "push", "-q", "origin", "main")
        (self.temp / "bin").mkdir(parents=True)
        (self.temp / "bin" / "gh").write_text(GH)
        (self.temp / "bin" / "gh").chmod(0o755)

    def job(self, **inputs: str) -> int:
        """Carry the steps out; the exit code of the first that failed."""
        action = YAML(typ="safe").load((ROOT / "action.yml").read_text())
        known = {"github.token": "t0ken", "github.run_id": "7", "github.run_attempt": "1"}
        known |= {f"inputs.{name}": inputs.get(name, one["default"]) for name, one in action["inputs"].items()}
        code = 0
        for step in action["runs"]["steps"]:
            assert set(step) <= {"id", "if", "shell", "run", "env"} and step["shell"] == "bash"
            if self._wanted(step.get("if", ""), known, code):
                ended = self._step(step, known)
                code = code or ended
        return code

    def _wanted(self, condition: str, known: dict[str, str], code: int) -> bool:
        if condition == "always()":
            return True
        met = all(
            (self._value(name, known) == value) == (sign == "==")
            for name, sign, value in re.findall(r"([\w.-]+) (==|!=) '([^']*)'", condition)
        )
        return code == 0 and met

    def _value(self, name: str, known: dict[str, str]) -> str:
        if name.startswith("steps."):
            _, step, _, output = name.split(".")
            return self.outputs.get(step, {}).get(output, "")
        return known[name]

    def _step(self, step: dict[str, Any], known: dict[str, str]) -> int:
        def given(text: str) -> str:
            return re.sub(
                r"\$\{\{ ([\w.-]+) \}\}",
                lambda found: given(self._value(found[1], known)), text,
            )  # fmt: skip

        output = self.temp / f"output-{step['id']}"
        output.touch()
        environment = {
            "PATH": os.pathsep.join([str(self.temp / "bin"), os.environ["PATH"]]), "HOME": str(self.temp),
            "RUNNER_TEMP": str(self.temp), "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary.md"), "GITHUB_REF_NAME": "main",
            **{name: given(str(value)) for name, value in step.get("env", {}).items()},
        }  # fmt: skip
        if step["id"] == "install":  # Not from PyPI: the package under test, where the step would have put it.
            place = self.temp / "interlock" / "bin"
            place.parent.mkdir()
            place.symlink_to(commands(self.temp))
            return 0
        ran = subprocess.run(
            ["bash", "-e", "-c", step["run"]], cwd=self.checkout, env=environment, capture_output=True, text=True
        )
        print(ran.stdout, ran.stderr)
        lines = [line.partition("=") for line in output.read_text().splitlines()]
        self.outputs[step["id"]] = {name: value for name, _, value in lines}
        return ran.returncode


@pytest.mark.long
def test_a_night_ends_as_a_pull_request_with_the_report(tmp_path: Path) -> None:
    runner = Runner(tmp_path, PLAN)
    assert runner.job() == 0
    branch = "night-7-1"
    assert runner.outputs["branch"] == {"branch": branch} and runner.outputs["run"] == {"code": "0"}
    assert git(runner.remote, "show", f"{branch}:hello.txt") == "hello\n"
    assert "hello.txt" not in git(runner.remote, "ls-tree", "--name-only", "main"), "main is left to those who review"
    summary, body = (runner.temp / "summary.md").read_text(), (runner.temp / "body").read_text()
    assert "Say hello" in summary and "grep -q hello hello.txt" in summary and body == summary
    assert f"pr create --base main --head {branch} --title Interlock: plan.yaml" in (runner.temp / "gh").read_text()


@pytest.mark.long
def test_what_failed_fails_the_job_and_what_was_finished_is_there_all_the_same(tmp_path: Path) -> None:
    runner = Runner(tmp_path, PLAN + FAILING)
    assert runner.job(**{"pull-request": "false"}) == 1
    assert "Cannot be done" in (runner.temp / "summary.md").read_text() and not (runner.temp / "gh").exists()
    assert git(runner.remote, "show", "night-7-1:hello.txt") == "hello\n"


@pytest.mark.long
def test_a_plan_that_cannot_be_read_pushes_nothing_and_says_so(tmp_path: Path) -> None:
    runner = Runner(tmp_path, "tasks: [")
    assert runner.job() != 0
    assert "the log of the run says why" in (runner.temp / "summary.md").read_text()
    assert git(runner.remote, "branch", "--format=%(refname:short)").split() == ["main"]
