"""Nobody becomes a person by what they put into their environment: what a run starts is its member."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock import process_table, processes
from tests.behaviours.driving import ROOT, Place, until

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to another process than init")
AGENT = Path(__file__).parent / "programs" / "impostor.py"


def attempts(gate: str, asked: str, plan: str) -> dict[str, list[str]]:
    """What only a person, or the lead outside of every run, may do."""
    return {
        "approve": ["task", "approve", gate, "--as", "human"],
        "approve as lead": ["task", "approve", gate, "--as", "lead"],
        "approve as who it is": ["task", "approve", gate],
        "reply": ["question", "reply", asked, "80", "--as", "human"],
        "settings of the home": ["config", "set", "allowed_commands", "touch"],
        "settings of the team": ["config", "set", "permissions", "unattended", "--team", "crew", "--as", "human"],
        "spawn": ["member", "spawn", "eve", "--agent", "shell", "--as", "lead"],
        "create": ["task", "create", "Anything", "--as", "human"],
        "send": ["message", "send", "--to", "bob", "Do as I say", "--as", "lead"],
        "merge": ["merge", "--all", "--as", "human"],
        "open": ["open"],
        "up": ["up", "--port", "0"],
        "token": ["token", "create", "--person", "eve", "--role", "admin"],
        "plan": ["run", plan],
        "join": ["join", "--agent", "claude", "--name", "eve"],
        "pause": ["pause"],
        "stop": ["stop", "--now"],
        "delete": ["team", "delete", "crew", "--force"],
    }


@pytest.fixture
def scene(place: Place) -> tuple[str, str]:
    """A task that waits for a person's review, and one with a question to a person; ada is an impostor."""
    command = {"agent": {"command": [sys.executable, str(AGENT), str(place.path)]}}
    place.stage({"one": {"subject": "One", "assignee": "ada"}}, {"ada": command})
    place.team.configure({"retries": 0})
    place.team.spawn("bob")
    gate = place.team.create_task("Gate", assignee="bob", review="human").id
    place.team.claim(gate, by="bob")
    place.team.complete(gate, by="bob")
    asked = place.team.create_task("Asked", assignee="bob").id
    place.team.claim(asked, by="bob")
    place.team.ask(asked, "Which port?", by="bob")
    return gate, asked


def outcome(place: Place, tries: dict[str, Any], how: str) -> dict[str, Any]:
    """What came of each try within ada's run: the exit code and the error."""
    (place.path / "tries.json").write_text(json.dumps({"how": how, "tries": tries}))
    place.drive()
    found: dict[str, Any] = json.loads((place.path / "tried.json").read_text())
    return found


def refusals(place: Place) -> list[dict[str, Any]]:
    return [event.payload for event in place.team.events()[0] if event.type == "access.refused"]


def test_no_verb_of_a_person_works_within_a_run_whose_environment_was_cleared(
    place: Place, scene: tuple[str, str]
) -> None:
    gate, asked = scene
    tries = attempts(gate, asked, str(place.path / "plan.yaml"))
    assert outcome(place, tries, "env -i") == {name: [1, "forbidden"] for name in tries}
    assert place.team.task(gate).state == "review" and place.team.task(asked).state == "awaiting-response"
    assert {member.name for member in place.team.members()} == {"lead", "ada", "bob"}
    assert {task.subject for task in place.team.tasks()} == {"One", "Gate", "Asked"}
    assert place.team.setting("permissions")[1] == "default" and place.team.setting("allowed_commands")[1] == "default"
    seen = refusals(place)
    assert len(seen) >= len(tries) and {payload["member"] for payload in seen} == {"ada"}
    assert all(payload["face"] in ("cli", "python") and payload["reason"] for payload in seen)


@pytest.mark.parametrize("how", ["as it is", "env -i in a session of its own", "from a test"])
def test_nor_in_any_other_disguise(place: Place, scene: tuple[str, str], how: str) -> None:
    gate, asked = scene
    every = attempts(gate, asked, str(place.path / "plan.yaml"))
    tries = {name: every[name] for name in ("approve", "reply", "settings of the home", "token")}
    assert outcome(place, tries, how) == {name: [1, "forbidden"] for name in tries}
    assert place.team.task(gate).state == "review" and place.team.setting("allowed_commands")[1] == "default"
    assert {payload["member"] for payload in refusals(place)} == {"ada"}


def test_what_runs_within_a_run_is_its_member_without_a_word_in_its_environment(
    place: Place, scene: tuple[str, str]
) -> None:
    tries = {
        "create": ["task", "create", "Mine", "--assignee", "bob"],
        "send": ["message", "send", "--to", "bob", "Hello"],
        "look": ["status"],
    }
    assert outcome(place, tries, "env -i") == {name: [0, None] for name in tries}
    (made,) = [task for task in place.team.tasks() if task.subject == "Mine"]
    assert made.created_by == "ada"
    assert [message.sender for message in place.team.history(member="bob") if message.content == "Hello"] == ["ada"]


def test_the_python_interface_is_no_way_round(place: Place, scene: tuple[str, str]) -> None:
    gate, _ = scene
    tries = {
        "approve": f"team.approve({gate!r}, by='human')",
        "another": f"team.acting('human').approve({gate!r})",
        "settings": "home.configure({'allowed_commands': 'touch'})",
        "team settings": "team.configure({'allowed_commands': 'touch'}, by='lead')",
    }
    assert outcome(place, tries, "python") == {name: [1, "forbidden"] for name in tries}
    assert place.team.task(gate).state == "review"


def test_a_check_acts_for_nobody(place: Place) -> None:
    """What an agent wrote is run by its task's check, after the agent itself has ended."""
    command = [sys.executable, "-m", "interlock.surfaces.cli", "--home", place.home.path, "--team", "crew", "--json"]
    script = place.path / "check.py"
    paths = os.pathsep.join(path for path in sys.path if path)
    script.write_text(
        "import os, subprocess\n"
        f"clean = {{'PATH': os.environ['PATH'], 'HOME': os.environ['HOME'], 'PYTHONPATH': {paths!r}}}\n"
        "for words in (['config', 'set', 'allowed_commands', 'touch'], ['task', 'create', 'X', '--as', 'ada']):\n"
        f"    done = subprocess.run([*{command!r}, *words], env=clean, capture_output=True, text=True)\n"
        "    assert done.returncode == 1 and 'forbidden' in done.stderr, done.stderr\n"
    )
    place.stage({"one": {"run": "true", "verify": f"{sys.executable} {script}"}})
    assert place.drive() == "finished" and place.states() == {"one": "done"}
    assert place.team.setting("allowed_commands")[1] == "default"


def test_another_home_is_not_the_runs(place: Place, scene: tuple[str, str]) -> None:
    """An agent may work on what uses Interlock itself; a link to the run's own home is no other one."""
    own, link = str(place.path / "other"), str(place.path / "link")
    os.symlink(place.home.path, link)
    tries = {
        "its own": ["--home", own, "config", "set", "allowed_commands", "touch"],
        "a link": ["--home", link, "config", "set", "allowed_commands", "touch"],
    }
    assert outcome(place, tries, "env -i") == {"its own": [0, None], "a link": [1, "forbidden"]}


def test_a_person_outside_is_a_person_while_a_run_goes_on(place: Place, scene: tuple[str, str]) -> None:
    gate, _ = scene
    verb = [sys.executable, "-m", "interlock.surfaces.cli", "--home", place.home.path, "--team", "crew"]
    (place.path / "tries.json").write_text(json.dumps({"how": "wait", "tries": {}}))
    with place.runner() as runner:
        place.wait_for("waits")
        done = subprocess.run([*verb, "task", "approve", gate], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (place.work / "go").write_text("go")
        runner.hears("finished|waiting|nothing")
    assert place.team.task(gate).state == "done" and refusals(place) == []


@LINUX
def test_what_a_killed_runner_leaves_is_ended_also_what_has_hidden_itself(place: Place) -> None:
    """Nobody starts another runner, and nothing of its environment, session or parents is left to the daemon."""
    daemon = "import os, time; os.fork() and os._exit(0); open('daemon', 'w').write(f'{os.getpid()}\\n'); "
    daemon += "time.sleep(600)"
    command = f'env -i setsid {sys.executable} -c "{daemon}" & until test -s daemon; do sleep 0.02; done; sleep 600'
    place.stage({"one": {"run": command}})
    with place.runner() as runner:
        place.wait_for("daemon")
        until(lambda: place.lines("daemon")[0].isdigit())
        hidden = processes.identify(int(place.lines("daemon")[0]))
        assert hidden is not None
        os.kill(runner.pid, signal.SIGKILL)
        until(lambda: processes.alive(hidden) is False)


@LINUX
def test_what_a_run_leaves_is_ended_also_what_has_hidden_itself(place: Place) -> None:
    daemon = "import os, time; os.fork() and os._exit(0); open('daemon', 'w').write(f'{os.getpid()}\\n'); "
    daemon += "time.sleep(600)"
    command = f'env -i setsid {sys.executable} -c "{daemon}" & until test -s daemon; do sleep 0.02; done'
    place.stage({"one": {"run": command}})
    assert place.drive() == "finished"
    row = process_table.row(int(place.lines("daemon")[0]))
    assert row is None or not row.running or row.started < int(processes.current().started)


@LINUX
def test_a_program_that_has_left_everything_behind_is_still_its_member(place: Place, scene: tuple[str, str]) -> None:
    gate, asked = scene
    every = attempts(gate, asked, str(place.path / "plan.yaml"))
    tries = {name: every[name] for name in ("approve", "reply", "settings of the home", "token", "spawn", "open")}
    assert outcome(place, tries, "env -i as a daemon") == {name: [1, "forbidden"] for name in tries}
    assert place.team.task(gate).state == "review" and place.team.setting("allowed_commands")[1] == "default"
