"""`interlock agents list` and `check`, with an agent of the user's own that speaks ACP."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock import connect
from interlock.serve import team_threads
from tests.agents.acting import acp_command
from tests.behaviours import driving
from tests.surfaces.cli.conftest import Interlock
from tests.waiting import until

GOOD = [
    [
        {"ask": {"title": "{command}", "kind": "execute"}, "allowed": [{"run": ["sh", "-c", "{command}"]}]},
        {"call": "task_complete", "with": {"task_id": "{task_id}", "summary": "checked"}},
        {"say": "READY"},
    ]
]


def play(directory: Path, **script: Any) -> list[str]:
    """An agent that reads the task and the command out of the prompt, then plays the script."""
    file = directory / "agent.py"
    file.write_text(
        "import re\n"
        f"SCRIPT = {script!r}\n"
        "async def play(turn, prompt):\n"
        "    turn.known['task_id'] = re.search('task_id \"([^\"]+)\"', prompt)[1]\n"
        "    turn.known['command'] = re.search('as it stands: (.*)', prompt)[1]\n"
        "    await turn.do(SCRIPT['turns'][0])\n"
    )
    return [*acp_command(directory)[:2], str(file)]


def profile(command: list[str]) -> None:
    home = Path(os.environ["INTERLOCK_HOME"])
    home.mkdir(exist_ok=True)
    (home / "agents.toml").write_text(f"[mine]\ntitle = 'My Agent'\nacp = {json.dumps(command)}\n")


def one(found: dict[str, Any], name: str = "mine") -> dict[str, Any]:
    return next(agent for agent in found["agents"] if agent["name"] == name)


def test_the_list_shows_what_is_installed_and_how_to_install_the_rest(
    interlock: Interlock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    profile(acp_command(tmp_path))
    found = interlock("--json", "agents", "list").json
    assert [agent["name"] for agent in found["agents"]] == ["claude", "codex", "gemini", "opencode", "mine"]
    mine, claude = one(found), one(found, "claude")
    assert mine["installed"] and mine["own"] and (mine["how"], mine["tested"]) == ("acp", "untested")
    assert mine["guarantees"] == [] and mine["checked"] is None
    assert not claude["installed"] and claude["how"] is None and "npm install" in claude["install"]
    text = interlock("agents", "list").out
    assert "untested" in text and "NOT INSTALLED" in text and "agents check NAME" in text


def test_only_what_was_tried_is_proven_and_the_version_is_that_of_what_is_driven(
    interlock: Interlock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    package, brought = (
        tmp_path / "lib" / "node_modules" / one for one in ("@agentclientprotocol/codex-acp", "@openai/codex")
    )
    for place in (tmp_path / "bin", package, brought):
        place.mkdir(parents=True)
    for file, says in ((package / "index.js", "adapter"), (tmp_path / "bin" / "codex", "codex-cli 0.171.0")):
        file.write_text(f"#!/bin/sh\necho {says}\n")
        file.chmod(0o755)
    (brought / "package.json").write_text('{"name": "@openai/codex", "version": "0.166.0"}')
    (tmp_path / "bin" / "codex-acp").symlink_to(package / "index.js")

    def codex(**about: str) -> tuple[Any, str]:
        (package / "package.json").write_text(json.dumps(about))
        text = next(line for line in interlock("agents", "list").out.splitlines() if line.startswith("codex "))
        return one(interlock("--json", "agents", "list").json, "codex"), text

    tried, text = codex(name="@agentclientprotocol/codex-acp", version="2.6.0")
    assert (tried["tested"], tried["version"], tried["adapter"]) == (
        "proven", "0.166.0", "@agentclientprotocol/codex-acp 2.6.0",
    )  # fmt: skip
    assert text.split()[1:6] == ["codex-acp", "2.6.0", "(ACP)", "codex", "0.166.0"] and "resume" in text
    newer, text = codex(name="@agentclientprotocol/codex-acp", version="2.7.0")
    assert (newer["tested"], newer["guarantees"], newer["version"]) == ("untested", [], "0.166.0")
    other, text = codex(name="somebody-elses", version="2.6.0")
    assert (other["tested"], other["version"], other["adapter"]) == ("untested", None, None)
    assert text.split()[1:5] == ["codex-acp", "(ACP)", "codex", "unknown"]


def test_a_home_that_a_check_makes_is_its_owners_alone(
    interlock: Interlock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = Path(os.environ["INTERLOCK_HOME"])
    shutil.rmtree(home, ignore_errors=True)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "claude-agent-acp").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "bin" / "claude-agent-acp").chmod(0o755)
    assert "cannot take part" in interlock("agents", "check", "claude").out
    assert home.stat().st_mode & 0o777 == 0o700


@pytest.mark.long
def test_a_check_says_what_worked_and_the_list_remembers_it(interlock: Interlock, tmp_path: Path) -> None:
    profile(play(tmp_path, turns=GOOD, state=str(tmp_path / "state"), can=["load"]))
    answer = interlock("agents", "check", "mine")
    assert "My Agent" in answer.out and "works" in answer.out and "uses our tools" in answer.out
    found = interlock("--json", "agents", "check", "mine").json
    assert found["works"] and found["checked"]["abilities"] == dict.fromkeys(
        ["session", "prompt", "updates", "mcp", "permission", "sandbox", "resume"], True
    )
    listed = one(interlock("--json", "agents", "list").json)
    assert listed["tested"] == "checked" and "resume" in listed["guarantees"]
    assert interlock("--json", "team", "list").json["teams"] == []


def test_a_check_says_what_did_not_work(interlock: Interlock, tmp_path: Path) -> None:
    profile(play(tmp_path, turns=[[{"say": "I am too tired"}]]))
    answer = interlock("--json", "agents", "check", "mine")
    found = json.loads(answer.out)
    assert answer.code == 1 and not found["works"]
    assert found["checked"]["abilities"]["mcp"] is False and found["checked"]["abilities"]["permission"] is None
    assert "through our tools is in-progress" in found["checked"]["details"]["mcp"]
    assert one(interlock("--json", "agents", "list").json)["guarantees"] == ["session", "prompt", "updates"]


def test_an_agent_that_does_not_start_is_told_apart_from_one_that_does_not_work(
    interlock: Interlock, tmp_path: Path
) -> None:
    profile(acp_command(tmp_path, start="crash"))
    answer = interlock("agents", "check", "mine")
    assert answer.code == 1 and "cannot take part" in answer.out and "a bad day" in answer.out
    refused = interlock("agents", "check", "mien")
    assert refused.code == 1 and "Did you mean 'mine'" in refused.err
    assert interlock("--json", "team", "list").json["teams"] == []


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_check_that_is_killed_leaves_no_team_and_the_next_look_tidies_up(
    interlock: Interlock, here: Path, number: signal.Signals
) -> None:
    profile(play(here, turns=[[{"run": ["sh", "-c", f"echo $PPID > {here}/pid"]}, {"hang": True}]]))
    pid, home = here / "pid", Path(os.environ["INTERLOCK_HOME"])
    with subprocess.Popen(
        [sys.executable, "-m", "interlock.surfaces.cli", "agents", "check", "mine"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as check:  # fmt: skip
        try:
            driving.until(lambda: pid.exists() and pid.read_text().strip() != "", patience=90.0)
        except BaseException:
            check.kill()
            raise
        assert interlock("--json", "team", "list").json["teams"] == []
        looked = interlock("--json", "doctor", "--repair").json["findings"]
        assert not [one for one in looked if ".checking" in str(one["path"])], "what is under way is left alone"
        check.send_signal(number)
    driving.until(lambda: not driving.running(int(pid.read_text())))
    assert interlock("--json", "team", "list").json["teams"] == []
    left = list(home.glob(".checking-*"))
    found = [one["path"] for one in interlock("--json", "doctor", "--repair").json["findings"] if one["repaired"]]
    assert found == [str(path) for path in left] and len(left) == (number != signal.SIGINT)
    assert list(home.glob(".checking-*")) == []


def test_the_next_check_removes_what_a_killed_one_left(interlock: Interlock, here: Path) -> None:
    left = Path(os.environ["INTERLOCK_HOME"]) / ".checking-abc" / "teams" / "agent-check"
    left.mkdir(parents=True)
    profile(play(here, turns=[[{"say": "I am too tired"}]]))
    interlock("agents", "check", "mine")
    assert not left.exists() and list(Path(os.environ["INTERLOCK_HOME"]).glob(".checking-*")) == []


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="Codex needs it on Linux only")
def test_codex_without_bwrap_is_named_by_the_list_the_check_and_the_doctor(
    interlock: Interlock, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = here / "programs"
    programs.mkdir()
    (programs / "git").symlink_to(str(shutil.which("git")))
    monkeypatch.setenv("PATH", str(programs))
    profile(play(here, turns=GOOD))
    text = Path(os.environ["INTERLOCK_HOME"]) / "agents.toml"
    text.write_text(text.read_text().replace("[mine]", "[codex]"))
    interlock("team", "create", "alpha")
    interlock("member", "spawn", "cat", "--agent", "codex")
    interlock("task", "create", "Write it")

    def said() -> list[bool]:
        found = interlock("--json", "doctor").json["findings"]
        doctor = [one["what"] for one in found if one["level"] == "warning" and one["what"].startswith("cat: ")]
        return [
            "bubblewrap" in text
            for text in (interlock("agents", "list").out, interlock("agents", "check", "codex").out, str(doctor))
        ]

    assert said() == [True, True, True]
    (programs / "bwrap").write_text("#!/bin/sh\n")
    (programs / "bwrap").chmod(0o755)
    assert said() == [False, False, False]
    assert "cannot work here" not in interlock("status").out


def test_an_agent_that_cannot_be_had_is_told_of_wherever_one_looks_at_the_team(
    interlock: Interlock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    interlock("team", "create", "alpha")
    for name, agent in (("ann", "shell"), ("bob", "claude"), ("cyd", "cluade")):
        interlock("member", "spawn", name, "--agent", agent)
    unable = {one["member"]: one["why"] for one in interlock("--json", "status").json["unable"]}
    assert set(unable) == {"bob", "cyd"}
    assert "npm install" in unable["bob"] and "Did you mean 'claude'" in unable["cyd"]
    shown = interlock("status").out
    assert "bob cannot work here: Claude Code is not installed" in shown and "interlock agents list" in shown
    idle = interlock("--json", "doctor").json
    assert idle["healthy"], "nothing is to be done yet"
    interlock("task", "create", "Write it")
    findings = interlock("--json", "doctor").json["findings"]
    assert [one["what"].split()[0] for one in findings if one["level"] == "warning"] == ["bob", "cyd"]
    for name in ("bob", "cyd"):
        interlock("member", "remove", name)
    assert interlock("--json", "status").json["unable"] == []
    assert interlock("--json", "doctor").json["healthy"]


def test_a_team_is_taken_up_once_its_agent_is_there(
    interlock: Interlock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(team_threads, "REST", 0.0)
    monkeypatch.setattr(team_threads, "REFUSED", 0.05)
    monkeypatch.setattr(team_threads, "LOOK_AGAIN", 0.02)
    home = connect(os.environ["INTERLOCK_HOME"])
    team = home.create_team("alpha")
    team.spawn("bob", agent="mine")
    served = team_threads.TeamThreads(home)
    served.start()
    try:
        until(lambda: "team alpha is skipped: Unknown agent 'mine' for bob" in caplog.text)
        profile([sys.executable])
        until(lambda: bool(team.status().workers))
        assert served.teams() == ["alpha"]
    finally:
        served.stop()
        assert served.join(60)
        home.close()
