"""`interlock plan "GOAL"` and `interlock run "GOAL"`: an agent proposes, a person decides."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.surfaces.cli.conftest import Interlock

SOUND = """members: {shell: {agent: shell}}
tasks:
  write: {subject: Write it, run: echo done > it, verify: test -s it}
  look: {run: cat it, blocked_by: [write]}
"""
FAULTY = SOUND.replace("blocked_by: [write]", "blocked_by: [wrote]")
PROGRAM = """
import json, pathlib, sys
asked = pathlib.Path(sys.argv[1])
heard = json.loads(asked.read_text()) if asked.exists() else []
asked.write_text(json.dumps([*heard, sys.stdin.read()]))
answers = sys.argv[2:]
print(answers[min(len(heard), len(answers) - 1)])
"""

Agent = Callable[..., str]


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    """An agent program that gives these answers, one a prompt; as `--agent` takes it."""
    program = tmp_path / "agent.py"
    program.write_text(PROGRAM)

    def make(*answers: str) -> str:
        return json.dumps([sys.executable, str(program), str(tmp_path / "asked"), *answers])

    return make


@pytest.fixture
def asked(tmp_path: Path) -> Callable[[], list[str]]:
    """The prompts that it got."""
    return lambda: json.loads((tmp_path / "asked").read_text()) if (tmp_path / "asked").exists() else []


def fenced(plan: str) -> str:
    return f"I looked around.\n\n```yaml\n{plan}```"


def test_a_plan_is_proposed_checked_shown_and_written_and_nothing_starts(
    interlock: Interlock, here: Path, agent: Agent, asked: Callable[[], list[str]]
) -> None:
    answer = interlock("plan", "Write it down", "-o", "it.yaml", "--agent", agent(fenced(SOUND)))
    assert answer.code == 0, answer.err
    assert (here / "it.yaml").read_text() == SOUND
    for word in ("team it", "write", "echo done > it", "test -s it", "after write", "nothing was started"):
        assert word in answer.out
    assert "> Write it down" in asked()[0]
    assert interlock("--json", "team", "list").json == {"teams": []}
    assert interlock("run", "it.yaml").code == 0 and (here / "it").exists()


def test_a_plan_that_is_proposed_is_shown_with_the_team_that_it_will_have(
    interlock: Interlock, here: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, team, more in (("a", "plan", ()), ("b", "plan-2", ()), ("c", "own", ("--team", "own"))):
        (here / place).mkdir()
        monkeypatch.chdir(here / place)
        answer = interlock("plan", "Write it down", "-o", "plan.yaml", *more, "--agent", agent(fenced(SOUND)))
        assert f"team {team} in {here / place}" in answer.out
        line = answer.out.strip().rpartition("Next: interlock ")[2]
        assert interlock(*line.split()).code == 0 and (here / place / "it").exists()
        assert interlock("--json", "status").json["team"] == team


def test_without_a_file_the_plan_is_all_that_stands_on_stdout(interlock: Interlock, here: Path, agent: Agent) -> None:
    answer = interlock("plan", "Write it down", "--agent", agent(fenced(SOUND)))
    assert (answer.code, answer.out) == (0, SOUND)
    assert list(here.iterdir()) == []
    document = interlock("--json", "plan", "Write it down", "--agent", agent(fenced(SOUND))).json
    assert document == {"goal": "Write it down", "path": None, "plan": SOUND}


def test_the_agent_is_told_what_is_wrong_and_asked_again(
    interlock: Interlock, agent: Agent, asked: Callable[[], list[str]]
) -> None:
    answer = interlock("plan", "Write it down", "--agent", agent("I will.", fenced(FAULTY), fenced(SOUND)))
    assert (answer.code, answer.out) == (0, SOUND)
    first, second, third = asked()
    assert "no fenced block" in second and first in second
    assert "wrote" in third and FAULTY in third


@pytest.mark.parametrize("check", ["true", ":", "exit 0", "echo fine"])
def test_a_proposal_whose_check_cannot_fail_is_refused(
    interlock: Interlock, agent: Agent, asked: Callable[[], list[str]], check: str
) -> None:
    blind = SOUND.replace("test -s it", json.dumps(check))
    assert blind != SOUND
    answer = interlock("plan", "Write it down", "--agent", agent(fenced(blind), fenced(SOUND)))
    assert (answer.code, answer.out) == (0, SOUND)
    assert f"`verify: {check}` succeeds whatever was done" in asked()[1]


@pytest.mark.parametrize("start", ["", "---\n"])
def test_a_proposal_that_is_written_elsewhere_works_where_its_agent_looked(
    interlock: Interlock, here: Path, agent: Agent, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    (here / "project").mkdir()
    monkeypatch.chdir(here / "project")
    answer = interlock("plan", "Write it down", "-o", "../it.yaml", "--agent", agent(fenced(start + SOUND)))
    assert answer.code == 0 and f"in {here / 'project'}" in answer.out, answer.err
    assert interlock("run", "../it.yaml").code == 0
    assert (here / "project" / "it").exists() and not (here / "it").exists()


@pytest.mark.parametrize("permissions", ["unattended", "workspace", "ask"])
def test_a_proposal_does_not_widen_what_its_members_may_do(
    interlock: Interlock, here: Path, agent: Agent, asked: Callable[[], list[str]], permissions: str
) -> None:
    wide = SOUND.replace("{agent: shell}", f"{{agent: shell, permissions: {permissions}}}")
    answer = interlock("run", "Write it down", "--yes", "--agent", agent(fenced(wide)))
    assert answer.code == 1 and f"leave out `permissions: {permissions}`" in answer.err
    assert len(asked()) == 3 and "the user's to decide" in asked()[1] and list(here.iterdir()) == []


def test_what_a_proposed_plan_may_do_is_shown_before_it_starts(interlock: Interlock, here: Path, agent: Agent) -> None:
    answer = interlock("plan", "Write it down", "-o", "it.yaml", "--agent", agent(fenced(SOUND)))
    for line in (f"team it in {here}", "shell (shell)  permissions: ask", "isolation: ", "env: none", "test -s it"):
        assert line in answer.out
    assert "permissions: ask" in interlock("run", "Write it down", "--yes", "--agent", agent(fenced(SOUND))).out


def test_nothing_proposed_is_started_unattended_that_nobody_saw(interlock: Interlock, here: Path, agent: Agent) -> None:
    for more in (["--unattended"], ["--unattended", "--yes"]):
        answer = interlock("run", "Write it down", *more, "--agent", agent(fenced(SOUND)))
        assert answer.code == 1 and "when a person has seen it" in answer.err
    assert list(here.iterdir()) == []


def test_after_three_rounds_the_faults_are_the_users(
    interlock: Interlock, here: Path, agent: Agent, asked: Callable[[], list[str]]
) -> None:
    answer = interlock("plan", "Write it down", "-o", "it.yaml", "--agent", agent(fenced(FAULTY)))
    assert answer.code == 1 and "wrote" in answer.err and "in 3 rounds" in answer.err
    assert len(asked()) == 3 and not (here / "it.yaml").exists()


def test_an_agent_that_fails_is_an_error(interlock: Interlock, here: Path) -> None:
    false = json.dumps([sys.executable, "-c", "print('no credit'); raise SystemExit(1)"])
    answer = interlock("plan", "Write it down", "--agent", false)
    assert answer.code == 1 and "no credit" in answer.err


def test_a_plan_is_not_overwritten_and_no_agent_is_asked_for_it(
    interlock: Interlock, here: Path, agent: Agent, asked: Callable[[], list[str]]
) -> None:
    (here / "it.yaml").write_text("mine")
    assert interlock("plan", "Write it down", "-o", "it.yaml", "--agent", agent(fenced(SOUND))).code == 1
    assert (here / "it.yaml").read_text() == "mine" and asked() == []


@pytest.mark.parametrize("agent", ["[1]", "[", "{}", '{"shell": ["a"]}', "shell", "clod"])
def test_an_agent_that_makes_no_sense_is_refused(interlock: Interlock, here: Path, agent: str) -> None:
    assert interlock("plan", "Write it down", "--agent", agent).code == 1


def test_without_a_terminal_a_goal_is_not_started_unseen(
    interlock: Interlock, here: Path, agent: Agent, asked: Callable[[], list[str]]
) -> None:
    answer = interlock("run", "Write it down", "--agent", agent(fenced(SOUND)))
    assert answer.code == 1 and "--yes" in answer.err
    assert asked() == [] and list(here.iterdir()) == []


def test_with_yes_it_is(interlock: Interlock, here: Path, agent: Agent) -> None:
    answer = interlock("run", "Write it down", "--yes", "--agent", agent(fenced(SOUND)))
    assert answer.code == 0, answer.err
    assert (here / "it").exists() and (here / "write-it-down.yaml").read_text() == SOUND
    again = interlock("run", "Write it down", "--yes", "--agent", agent(fenced(SOUND)))
    assert again.code == 0 and (here / "write-it-down-2.yaml").exists()


def test_dry_run_shows_what_would_be_created(interlock: Interlock, here: Path, agent: Agent) -> None:
    answer = interlock("run", "Write it down", "--dry-run", "--agent", agent(fenced(SOUND)))
    assert answer.code == 0 and "+ write" in answer.out
    assert interlock("--json", "team", "list").json == {"teams": []}


def test_a_path_that_is_misspelt_is_no_goal(interlock: Interlock, here: Path) -> None:
    for path in ("plam.yaml", "my plan.yaml", "nowhere/plan"):
        assert f"{path} was not found" in interlock("run", path).err


@pytest.mark.long
@pytest.mark.parametrize(("typed", "started"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_on_a_terminal_a_person_is_asked(here: Path, agent: Agent, typed: str, started: bool) -> None:
    ours, theirs = pty.openpty()
    line = [sys.executable, "-m", "interlock.surfaces.cli", "run", "Write it down", "--agent", agent(fenced(SOUND))]
    process = subprocess.Popen(
        line, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "dumb", "NO_COLOR": "1"}
    )
    os.close(theirs)
    shown = b""
    while b"Start it?" not in shown:
        shown += os.read(ours, 4096)
    assert b"echo done > it" in shown
    os.write(ours, typed.encode())
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the terminal is closed: the process has ended
            break
    assert process.wait() == (0 if started else 1)
    os.close(ours)
    assert (here / "it").exists() is started
    assert (here / "write-it-down.yaml").exists()
