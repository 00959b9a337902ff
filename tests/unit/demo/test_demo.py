"""The demo's project, plan and agents do what they say, each on its own, without a runner."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock import demo
from interlock.errors import InvalidRequest
from interlock.model.plan import Plan, in_order
from interlock.plan import reading


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return reading.load(demo.materialise(str(tmp_path / "a demo's place")))


def shell(plan: Plan, command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command], cwd=plan.workdir, capture_output=True, text=True, timeout=60, check=False
    )


def run(plan: Plan, key: str) -> subprocess.CompletedProcess[str]:
    command = plan.tasks[key].run
    assert command
    return shell(plan, command)


def verified(plan: Plan, key: str) -> bool:
    command = plan.tasks[key].verify
    return command is None or shell(plan, command).returncode == 0


def prompted(plan: Plan, key: str, findings: str = "") -> str:
    """One turn of the agent that the task is assigned to."""
    task = plan.tasks[key]
    assert task.assignee
    command = plan.members[task.assignee].command
    assert command
    ran = subprocess.run(
        command,
        cwd=plan.workdir,
        input=f"{task.subject}\n\n{task.body}{findings}",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ran.stdout


def kill_ben_halfway(plan: Plan) -> None:
    command = plan.members["ben"].command
    assert command
    ben = subprocess.Popen(
        command,
        cwd=plan.workdir,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert ben.stdin
    assert ben.stdout
    ben.stdin.write("Fix it")
    ben.stdin.close()
    try:
        assert any(line.strip() == demo.HALFWAY for line in ben.stdout)
        assert ben.stdout.readline().startswith("[ben] thinking")
        assert ben.poll() is None
    finally:
        os.killpg(ben.pid, signal.SIGKILL)
        ben.stdout.close()
    assert ben.wait(60) == -signal.SIGKILL


def test_the_plan_is_ten_tasks_for_three_members(plan: Plan) -> None:
    assert len(plan.tasks) == 10
    assert list(plan.members) == ["ada", "ben", "cleo"]
    assert plan.workdir == os.path.join(os.path.dirname(plan.path), "project")


@pytest.mark.long
def test_the_whole_release_comes_about_with_a_kill_and_a_lie_on_the_way(plan: Plan) -> None:
    assert run(plan, "lint").returncode == 0
    assert run(plan, "test").returncode == 1
    assert run(plan, "find").returncode == 0
    failing = Path(plan.workdir, "build/failing.txt").read_text().split()
    assert failing == ["test_amounts.Amounts.test_an_amount_in_parentheses_is_a_refund"]

    kill_ben_halfway(plan)
    assert not verified(plan, "fix")
    assert run(plan, "lint").returncode == 0
    again = prompted(plan, "fix")
    assert "an earlier attempt ended halfway" in again
    assert demo.HALFWAY not in again
    assert failing[0] in again
    assert verified(plan, "fix")
    assert "nothing to do" in prompted(plan, "fix")
    assert not list(Path(plan.workdir).glob(".ben*"))

    assert "done. CHANGELOG.md is complete." in prompted(plan, "changelog")
    check = shell(plan, plan.tasks["changelog"].verify or "")
    assert check.returncode == 1
    assert "missing: fix: ignore blank lines in the file" in check.stdout
    findings = f"\n## Findings of the last check\n\n$ check\n{check.stdout}"
    assert "wrote all 6 entries of 1.1.0" in prompted(plan, "changelog", findings)
    assert verified(plan, "changelog")

    for key in ("test", "usage", "version", "package", "try", "checksum"):
        assert key == "test" or plan.tasks[key].verify is None or not verified(plan, key)
        ran = run(plan, key)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert verified(plan, key)
    assert shell(plan, f"'{sys.executable}' dist/tally.pyz --version").stdout == "tally 1.1.0\n"
    assert "1,080.00" in shell(plan, f"'{sys.executable}' dist/tally.pyz --share expenses.csv").stdout


def test_commands_stand_in_the_order_that_the_plan_demands(plan: Plan) -> None:
    order = in_order({key: task.blocked_by for key, task in plan.tasks.items()})
    assert order.index("find") < order.index("fix") < order.index("test") < order.index("package") < order.index("try")
    assert order.index("changelog") < order.index("version") < order.index("checksum")


def test_the_bug_is_real_the_package_is_wrong_without_the_fix(plan: Plan) -> None:
    assert run(plan, "package").returncode == 0
    ran = run(plan, "try")
    assert ran.returncode == 1
    assert "1,160.00" in ran.stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_project_is_a_clean_repository_whatever_the_users_git_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text("[commit]\n\tgpgsign = true\n[core]\n\thooksPath = /nowhere\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    project = Path(demo.materialise(str(tmp_path / "demo"))).parent / "project"
    monkeypatch.delenv("GIT_DIR")
    ran = subprocess.run(["git", "log", "--format=%s"], cwd=project, capture_output=True, text=True, check=True)
    assert ran.stdout == "tally, as we found it\n"
    ran = subprocess.run(["git", "status", "--porcelain"], cwd=project, capture_output=True, text=True, check=True)
    assert ran.stdout == ""


def test_git_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert reading.load(demo.materialise(str(tmp_path / "demo"))).team == "tally-release"


def test_a_directory_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    with pytest.raises(InvalidRequest, match="is not empty"):
        demo.materialise(str(tmp_path))
    assert os.listdir(tmp_path) == ["mine"]


@pytest.mark.parametrize(
    "python", ["/usr/bin/python3", "/opt/my py/bin/python", '/o\'dd/"q"/py\\thon', "/größe/python"]
)
def test_any_path_of_a_python_survives_the_plan(python: str) -> None:
    plan = reading.parse(demo.plan_text(python), "/d/plan.yaml")
    command = plan.members["ben"].command
    assert command
    assert command[0] == python
    said = subprocess.run(
        ["sh", "-c", f"printf %s {(plan.tasks['lint'].run or '').removesuffix(' tools/lint.py')}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == python
