"""Nobody becomes a person by what they put into their environment: what a run starts is its member."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import Forbidden
from interlock.processes import ancestry, groups, ref, table
from tests.behaviours.driving import ROOT, Place
from tests.waiting import until

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to another process than init")
NAMESPACE = ["unshare", "-r", "-p", "-f", "--mount-proc"]
HIDES = sys.platform == "linux" and subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0
"""Whether this system lets its users make namespaces. Where it does not, nobody can hide in one."""
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


@pytest.mark.long
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
    seen = refusals(place)
    assert len(seen) >= len(tries) and {payload["member"] for payload in seen} == {"ada"}


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
    assert any("It cannot change settings" in payload["reason"] for payload in refusals(place))


def test_what_a_process_of_a_run_was_refused_of_the_home_is_in_the_history_of_its_team_once(
    home: Home, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = team.acting("ada", session="a-1").claim(team.create_task("One").id).id
    run = {"HOME": home.path, "TEAM": team.name, "MEMBER": "ada", "SESSION": "a-1", "RUN_TOKEN": "t"}
    with monkeypatch.context() as within:
        for name, value in run.items():
            within.setenv(f"INTERLOCK_{name}", value)
        with pytest.raises(Forbidden, match="It cannot open the page: a person does that") as refused:
            home.need_person("open the page")
    home.need_person("open the page")
    (event,) = [event for event in team.events()[0] if event.type == "access.refused"]
    assert (event.task_id, event.payload["member"], event.payload["run"]) == (task, "ada", f"{task}.1")
    assert event.payload["reason"] == refused.value.message


@pytest.mark.long
@pytest.mark.parametrize("how", ["as it is", "env -i"])
def test_over_mcp_a_run_is_its_member_and_looks_at_nothing_else(place: Place, scene: tuple[str, str], how: str) -> None:
    place.home.create_team("other")
    tries = {
        "as human": {"team": "crew", "as": "human", "tool": "team_status"},
        "as lead": {"team": "crew", "as": "lead", "tool": "task_list"},
        "another": {"team": "crew", "as": "bob", "tool": "read_inbox"},
        "another team": {"team": "other", "as": "human", "tool": "team_status"},
        "a lead's": {"team": "crew", "as": "ada", "tool": "teammate_spawn", "arguments": {"name": "eve"}},
        "itself": {"team": "crew", "as": "ada", "tool": "team_status"},
    }
    found = outcome(place, tries, how)
    code, you = found.pop("itself")
    assert code == 0 and (you["name"], you["leads"]) == ("ada", False)
    assert found == {name: [1, "forbidden"] for name in tries if name != "itself"}
    assert "eve" not in {member.name for member in place.team.members()}
    # That a tool is the lead's is told to every member; nobody tried to be somebody else.
    assert [payload["member"] for payload in refusals(place)] == ["ada"] * (len(found) - 1)


@pytest.mark.parametrize("how", ["as it is", "env -i"])
def test_what_was_refused_is_there_for_people_to_see(place: Place, scene: tuple[str, str], how: str) -> None:
    gate, asked = scene
    tries = {name: attempts(gate, asked, "")[name] for name in ("approve", "approve as lead", "open", "token")}
    assert outcome(place, tries, how) == {name: [1, "forbidden"] for name in tries}
    seen = refusals(place)
    assert len(seen) == len(tries) and {payload["member"] for payload in seen} == {"ada"}
    told = [one for one in place.team.report().incidents if "tried" in one.outcome]
    assert [one.member for one in told] == ["ada"] * len(tries)
    assert [one.task_id for one in told] == [place.task("one").id] * len(tries)


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


@pytest.mark.long
def test_a_person_outside_is_a_person_while_a_run_goes_on(place: Place, scene: tuple[str, str]) -> None:
    gate, _ = scene
    (place.path / "tries.json").write_text(json.dumps({"how": "wait", "tries": {}}))
    with place.runner() as runner:
        place.wait_for("waits")
        words = verb(place, "task", "approve", gate)
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (place.work / "go").write_text("go")
        runner.hears("finished|waiting|nothing")
    assert place.team.task(gate).state == "done" and refusals(place) == []


@LINUX
@pytest.mark.parametrize(
    "how",
    ["in a PID namespace", "in a PID namespace with the old /proc", "below an empty /proc", "below a hundred others"],
)
def test_nor_does_what_hides_its_ancestors_from_itself(place: Place, scene: tuple[str, str], how: str) -> None:
    gate, asked = scene
    every = attempts(gate, asked, str(place.path / "plan.yaml"))
    tries = {name: every[name] for name in ("approve", "approve as lead", "reply", "settings of the home", "token")}
    if HIDES or how == "below a hundred others":
        assert outcome(place, tries, how) == {name: [1, "forbidden"] for name in tries}
        assert refusals(place)[0]["by"] == "human"
    else:
        with pytest.raises(FileNotFoundError):
            outcome(place, tries, how)
    assert place.team.task(gate).state == "review" and place.team.setting("allowed_commands")[1] == "default"


def verb(place: Place, *words: str) -> list[str]:
    return [sys.executable, "-m", "interlock.surfaces.cli", "--home", place.home.path, "--team", "crew", *words]


@LINUX
def test_who_cannot_see_what_is_at_work_is_a_person_again_once_that_is_gone(place: Place) -> None:
    """As in another container with the same home. That the run is still open in the ledger hides nobody."""

    def done(*within: str) -> subprocess.CompletedProcess[str]:
        words = [*within, *verb(place, "task", "create", "Mine")]
        return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)

    place.stage({"one": {"run": "echo x > began; sleep 300"}})
    with place.runner() as runner:
        place.wait_for("began")
        assert done().returncode == 0
        apart = done(*NAMESPACE)
        assert apart.returncode != 0 and ("at an ordinary terminal" in apart.stderr or not HIDES)
        os.kill(runner.pid, signal.SIGKILL)
        until(lambda: done(*NAMESPACE).returncode == 0 or not HIDES)
    assert place.team.runs("one")[0].ended_at is None


@LINUX
def test_a_person_in_a_container_is_a_person_to_a_run_in_it(place: Place) -> None:
    place.stage({"one": {"run": "echo x > began; until test -s go; do sleep 0.02; done"}})
    inside = (
        f"{sys.executable} -m tests.behaviours.drive {place.home.path} '{{}}' & "
        f"until test -s {place.work}/began; do sleep 0.02; done; "
        f"{shlex.join(verb(place, 'task', 'create', 'Inside'))}; echo yes > {place.work}/go; wait"
    )
    subprocess.run([*(NAMESPACE if HIDES else ()), "sh", "-c", inside], cwd=ROOT, check=True, capture_output=True)
    (made,) = [task for task in place.team.tasks() if task.subject == "Inside"]
    assert made.created_by == "human" and place.task("one").state == "done" and refusals(place) == []


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
        hidden = ref.identify(int(place.lines("daemon")[0]))
        assert hidden is not None
        os.kill(runner.pid, signal.SIGKILL)
        until(lambda: ref.alive(hidden) is False)


@LINUX
def test_what_a_run_leaves_is_ended_also_what_has_hidden_itself(place: Place) -> None:
    daemon = "import os, time; os.fork() and os._exit(0); open('daemon', 'w').write(f'{os.getpid()}\\n'); "
    daemon += "time.sleep(600)"
    command = f'env -i setsid {sys.executable} -c "{daemon}" & until test -s daemon; do sleep 0.02; done'
    place.stage({"one": {"run": command}})
    assert place.drive() == "finished"
    row = table.row(int(place.lines("daemon")[0]))
    assert row is None or not row.running or row.started < int(ref.current().started)


@LINUX
def test_a_program_that_has_left_everything_behind_is_still_its_member(place: Place, scene: tuple[str, str]) -> None:
    gate, asked = scene
    every = attempts(gate, asked, str(place.path / "plan.yaml"))
    tries = {name: every[name] for name in ("approve", "reply", "settings of the home", "token", "spawn", "open")}
    assert outcome(place, tries, "env -i as a daemon") == {name: [1, "forbidden"] for name in tries}
    assert place.team.task(gate).state == "review" and place.team.setting("allowed_commands")[1] == "default"


STRAY = """
import os, sys, time
import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import Forbidden
from interlock.processes import ancestry
from interlock.errors import Forbidden
home, told = sys.argv[1:]
parent = os.getpid()
if os.fork():
    os._exit(0)
os.setsid()
while os.getppid() == parent:
    time.sleep(0.01)
ancestry.SUBREAPED = False
found = []
home = interlock.connect(home)
create, configure = home.team("crew").create_task, home.configure
for verb, given in ((create, "Mine"), (configure, {"allowed_commands": "rm"})):
    try:
        verb(given)
        found.append("done")
    except Forbidden as error:
        found.append(error.message)
found.append(str(os.getppid()))
with open(told + ".new", "w") as file:
    file.write("\\n".join(found))
os.rename(told + ".new", told)
"""
"""Python that loses its parent and its terminal, and then takes this for a system without subreapers."""


def test_where_lost_processes_go_to_the_first_one_who_may_belong_to_a_run_is_no_person(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.stage({"one": {"run": "echo x > began; sleep 300"}})
    told = place.path / "told"
    with place.runner():
        place.wait_for("began")
        until(lambda: place.team.runs("one")[0].process is not None)
        subprocess.run([sys.executable, "-c", STRAY, place.home.path, str(told)], check=True, cwd=ROOT)
        until(told.exists)
        first, second, parent = told.read_text().splitlines()
        if parent != "1":
            pytest.skip("here something else than the first process gets what has lost its parent")
        assert "may belong to that run" in first and "may belong to that run" in second
        monkeypatch.setattr(ancestry, "SUBREAPED", False)
        assert place.team.create_task("Ours").id, "what was there before the run is outside of it"
    assert refusals(place)[0]["member"] is None


def parent_of(one: ref.ProcessRef | None) -> int:
    row = table.row(one.pid) if one is not None else None
    assert row is not None
    return row.parent


@pytest.mark.long
@LINUX
@pytest.mark.parametrize("ended", ["by itself", "with its runner"])
def test_a_daemon_that_the_user_keeps_is_reported_and_nothing_else_is_left(place: Place, ended: str) -> None:
    """It may even have hidden itself. What it starts is still the run's, since its supervisor stays."""
    for name in ("keptd", "otherd"):
        shutil.copy("/bin/sleep", place.path / name)
    daemon = "env -i setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec {1}/{0} 600' & "
    command = "".join(daemon.format(name, place.path) for name in ("keptd", "otherd"))
    # It is told by its name, which it has from its `exec` on.
    command += "until test -e keptd -a -e otherd && grep -qx keptd /proc/$(cat keptd)/comm; do sleep 0.02; done"
    kept = None
    place.stage({"one": {"run": command if ended == "by itself" else f"{command}; echo yes > there; sleep 600"}})
    place.team.configure({"keep_processes": "gradle keptd"})
    try:
        if ended == "by itself":
            assert place.drive() == "finished"
        else:
            with place.runner() as runner:
                place.wait_for("there")
                os.kill(runner.pid, signal.SIGKILL)
        other = ref.identify(int(place.lines("otherd")[0]))
        kept = ref.identify(int(place.lines("keptd")[0]))
        assert kept is not None
        until(lambda: other is None or ref.alive(other) is False)
        until(lambda: groups.supervises(parent_of(kept)))
        supervisor = parent_of(kept)
        until(lambda: [row.pid for row in groups.descendants(table.rows(), supervisor)] == [kept.pid])
        assert ref.alive(kept)
        if ended == "by itself":
            (event,) = [event for event in place.team.events()[0] if event.type == "processes.left"]
            assert event.payload["processes"] == [{"pid": kept.pid, "name": "keptd"}]
            (told,) = place.team.report().incidents
            assert told.reason == f"keptd ({kept.pid})" and "keep_processes" in told.outcome
    finally:
        if kept is not None:
            os.kill(kept.pid, signal.SIGKILL)
    # Nobody waits for it any more.
    until(lambda: not (row := table.row(supervisor)) or not row.running)
