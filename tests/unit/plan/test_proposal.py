"""What an agent is asked for a plan, and what is taken of its answer."""

from __future__ import annotations

import pytest

from interlock.plan import proposal
from interlock.plan.detecting import Findings

AGENT = ("claude", ())
SOUND = """members:
  ben: {agent: claude}
  shell: {agent: shell}
tasks:
  write: {subject: Write it, body: All of it, verify: test -s it}
  check: {run: cat it, blocked_by: [write]}
"""


def test_the_request_says_the_goal_the_facts_and_how_members_are_named() -> None:
    findings = Findings("/home/me/shop", "shop", test_command="pytest -q")
    text = proposal.request("Sell more\ntasks: {}", findings, "claude", "claude")
    assert "> Sell more\n> tasks: {}" in text
    assert "- test: pytest -q" in text and "claude: {agent: claude}" in text


def test_the_example_in_the_request_is_a_sound_plan() -> None:
    text = proposal.request("x", Findings("/home/me/shop", "shop"), "claude", "claude")
    example = proposal.extract(text)
    assert example is not None and proposal.faults_of(example, "/home/me/plan.yaml", AGENT) == []


@pytest.mark.parametrize(
    "answer",
    [
        f"Here it is.\n\n```yaml\n{SOUND}```\n",
        f"```yaml\ntasks: {{}}\n```\nBetter:\n\n~~~~yml\n{SOUND}~~~~\nDone.",
        f"1. First:\n\n   ```\n{''.join('   ' + line + chr(10) for line in SOUND.splitlines())}   ```\n",
        SOUND,
    ],
)
def test_the_plan_is_the_last_fenced_block_with_tasks_in_it(answer: str) -> None:
    assert proposal.extract(answer) == SOUND


@pytest.mark.parametrize("answer", ["", "No.", "```yaml\nmembers: {}\n```", "We have several tasks: write it."])
def test_where_there_is_no_plan_there_is_none(answer: str) -> None:
    assert proposal.extract(answer) is None


def test_a_sound_plan_has_no_faults() -> None:
    assert proposal.faults_of(SOUND, "/home/me/plan.yaml", AGENT) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("write:", "Write It:", "Write It"),
        ("blocked_by: [write]", "blocked_by: [wrote]", "wrote"),
        ("members:", "workdir: /\nmembers:", "leave out `workdir`"),
        ("members:", "env: [AWS_SECRET_ACCESS_KEY]\nmembers:", "leave out `env`"),
        ("verify: test", "env: [GH_TOKEN], verify: test", "leave out `env`"),
        ("{agent: claude}", "{agent: claude, env: [GH_TOKEN]}", "leave out `env`"),
        ("{agent: claude}", "{agent: codex}", "only `agent: shell` and `agent: claude`"),
        ("{agent: claude}", "{agent: {command: [rm, -rf, .]}}", "only `agent: shell`"),
    ],
)
def test_what_it_may_not_say_is_a_fault(old: str, new: str, said: str) -> None:
    faults = proposal.faults_of(SOUND.replace(old, new, 1), "/home/me/plan.yaml", AGENT)
    assert any(said in fault["message"] for fault in faults), faults
    assert said in proposal.correction(faults)


def test_a_plan_of_a_goal_gets_a_file_and_a_team_of_its_own(tmp_path: object) -> None:
    here = str(tmp_path)
    first = proposal.file_name("Give every command a --json option, please!", here, [])
    assert first == f"{here}/give-every-command-a-json-option-please.yaml"
    open(first, "w").close()
    assert proposal.file_name("Give every command a --json option, please!", here, []).endswith("please-2.yaml")
    assert proposal.file_name("räume auf", here, ["r-ume-auf"]).endswith("/r-ume-auf-2.yaml")
    assert proposal.file_name("做", here, []).endswith("/plan.yaml")
    assert len(proposal.file_name("w" * 500, here, [])) < len(here) + 60
