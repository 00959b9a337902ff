"""Claude Code and Codex themselves, started by a person in a project that joined, with a scripted model."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from tests.agents.endpoint import Endpoint, Move, Seen, call, say
from tests.agents.real import INSTALLING, enter
from tests.docs.terminal import commands

pytestmark = [pytest.mark.npm, pytest.mark.timeout(INSTALLING)]

PATIENCE = 120


def command(name: str, prompt: str, session: str | None) -> list[str]:
    """How a person has it do one thing, in a session of before where one is named."""
    if name == "claude":
        on = ["--resume", session] if session else []
        return ["claude", "-p", prompt, *on, "--output-format", "json", "--allowedTools", "mcp__interlock", "Bash"]
    on = ["resume", session] if session else []
    quiet = ["--json", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"]
    return ["codex", "exec", *quiet, "--dangerously-bypass-approvals-and-sandbox", *on, prompt]


@pytest.fixture(params=["claude", "codex"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    return directory.resolve()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    opened = interlock.connect(str(tmp_path / "ledgers"))
    yield opened
    opened.close()


@pytest.fixture
def team(home: Home) -> Team:
    return home.create_team("alpha")


Program = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def program(
    name: str, tmp_path: Path, project: Path, team: Team, home: Home, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Endpoint], Program]]:
    """Joins the program to the team as ada, leads it to an endpoint, and starts it with a prompt."""
    started: list[subprocess.Popen[str]] = []

    def lead(endpoint: Endpoint) -> Program:
        enter(monkeypatch, tmp_path / "user", name, endpoint, "ada")
        monkeypatch.setenv("PATH", str(commands(tmp_path)), prepend=os.pathsep)
        monkeypatch.setenv("ENABLE_TOOL_SEARCH", "false")
        monkeypatch.setenv("DISABLE_AUTOUPDATER", "1")
        monkeypatch.setenv("INTERLOCK_HOOK_TIMEOUT", "4")  # below what the settings allow the hook
        if name == "codex":
            with open(tmp_path / "user" / "codex" / "config.toml", "a") as config:
                config.write(f'[projects."{project}"]\ntrust_level = "trusted"\n')
        joined = ["interlock", "--home", home.path, "join", "--team", "alpha", "--name", "ada", "--agent", name]
        subprocess.run(joined, cwd=project, check=True, capture_output=True)
        return start

    def start(prompt: str, session: str | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command(name, prompt, session), cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield lead
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, 9)
        process.communicate()


def ended(process: subprocess.Popen[str]) -> str:
    """Wait for its end; the program's own id of its session."""
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out + err
    for line in out.splitlines():
        document = json.loads(line)
        found = document.get("session_id") or document.get("thread_id")
        if found:
            return str(found)
    raise AssertionError(out)


def tool(name: str, seen: Seen, move: Move) -> Move:
    """That call, as soon as our tools are offered: neither waits for its MCP servers before its first request."""
    if any(one.endswith(f"_{move.tool}") for one in seen.tools):
        return move
    wait = "sleep 0.5"
    return call("Bash", command=wait, description="Wait") if name == "claude" else call("exec_command", cmd=wait)


def stage(team: Team, content: str) -> str:
    return next(message.stage for message in team.history() if message.content == content)


def test_a_task_is_claimed_and_completed_through_the_tools_of_a_project_that_joined(
    team: Team, name: str, program: Callable[[Endpoint], Program]
) -> None:
    task = team.create_task("Write the parser")
    moves = [call("task_claim", task_id=task.id), call("task_complete", task_id=task.id, summary="written")]

    def script(seen: Seen) -> Move:
        done = sum("Write the parser" in result for result in seen.results)
        return tool(name, seen, moves[done]) if done < len(moves) else say("done")

    with Endpoint(ada=script) as endpoint:
        session = ended(program(endpoint)("Take the next task."))
    found = team.task(task.id)
    assert (found.state, found.owner, found.output) == ("done", "ada", "written")
    assert {event.payload["session"] for event in team.events()[0] if event.type == "task.claimed"} == {session}


@pytest.mark.req("TEAM-3.4", "TEAM-3.5")
def test_a_message_from_another_member_is_seen_by_the_model_in_its_next_turn(
    team: Team, program: Callable[[Endpoint], Program]
) -> None:
    team.spawn("bob")
    with Endpoint(ada=lambda seen: say("done")) as endpoint:
        start = program(endpoint)
        session = ended(start("Begin."))
        assert any("You are ada, a member of the team alpha" in text for text in texts(endpoint.seen[-1]))
        team.send("bob", to="ada", content="Use the grammar in docs.")
        assert stage(team, "Use the grammar in docs.") == "stored"
        assert ended(start("Go on.", session)) == session
        assert any("Use the grammar in docs." in text for text in texts(endpoint.seen[-1]))
    assert stage(team, "Use the grammar in docs.") == "acknowledged"
    assert [member.name for member in team.members()] == ["lead", "bob", "ada"], "a resumed session is who it was"


def test_a_stop_is_refused_once_because_of_unread_mail(team: Team, program: Callable[[Endpoint], Program]) -> None:
    sent = threading.Event()

    def script(seen: Seen) -> Move:
        if not sent.is_set():
            team.send(to="ada", content="One more thing.")
            sent.set()
        return say("I am done.")

    with Endpoint(ada=script) as endpoint:
        ended(program(endpoint)("Begin."))
        before, after = endpoint.seen
    assert not any("One more thing." in text for text in texts(before))
    assert any("Before you stop: 1 unread message" in text and "One more thing." in text for text in texts(after))
    assert stage(team, "One more thing.") == "acknowledged"


def test_hooks_of_others_run_beside_ours_and_leaving_gives_their_file_back(
    team: Team, name: str, project: Path, home: Home, program: Callable[[Endpoint], Program]
) -> None:
    path = project / {"claude": ".claude/settings.local.json", "codex": ".codex/hooks.json"}[name]
    path.parent.mkdir()
    theirs = '{"hooks":{ "Stop" :[{"hooks":[{"type":"command","command":"touch theirs"}]}]}}'
    path.write_text(theirs)
    with Endpoint(ada=lambda seen: say("done")) as endpoint:
        start = program(endpoint)
        assert path.read_text() != theirs
        ended(start("Begin."))
        assert any("You are ada" in text for text in texts(endpoint.seen[-1]))
    assert (project / "theirs").exists()
    subprocess.run(["interlock", "--home", home.path, "leave"], cwd=project, check=True, capture_output=True)
    assert path.read_text() == theirs
    assert sorted(one.name for one in project.iterdir()) == sorted([path.parent.name, "theirs"])


def test_two_windows_are_two_members(team: Team, program: Callable[[Endpoint], Program]) -> None:
    second = threading.Event()

    def script(seen: Seen) -> Move:
        if any("The first." in text for text in texts(seen)):
            second.wait(PATIENCE)
        return say("done")

    with Endpoint(ada=script) as endpoint:
        start = program(endpoint)
        first = start("The first.")
        until_seen(endpoint)
        ended(start("The second."))
        second.set()
        ended(first)
        told = {text.split("You are ")[1].split(",")[0] for seen in endpoint.seen for text in texts(seen)
                if "You are ada" in text}  # fmt: skip
    assert told == {"ada", "ada-2"}


def until_seen(endpoint: Endpoint) -> None:
    """Wait until a model was asked."""
    waiting = threading.Event()
    for _ in range(PATIENCE * 20):
        if endpoint.seen:
            return
        waiting.wait(0.05)
    raise AssertionError("no model was asked")


def texts(seen: Seen) -> list[str]:
    """Everything that the model is told, by whomever."""
    items = seen.body.get("messages") or seen.body.get("input") or []
    return [json.dumps(item.get("content"), ensure_ascii=False) for item in items]
