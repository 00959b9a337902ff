"""Claude Code and Codex themselves, started by a person in a project that joined, with a scripted model."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from tests.agents.endpoint import Endpoint, Move, Seen, call, say
from tests.agents.real import SECONDS, enter
from tests.docs.terminal import commands

pytestmark = [pytest.mark.npm, pytest.mark.timeout(SECONDS)]

PATIENCE = 280
ROOT = Path(__file__).parents[2]
HOOK_SECONDS = 60
"""A busy machine is not what is tested: what a program waits for a hook of ours, which users' programs do for 5."""
JOIN = f"""
from interlock.integrations import entries
from interlock.surfaces.cli import main
entries.HOOK_SECONDS = {HOOK_SECONDS}
main()
"""


def command(name: str, prompt: str, session: str | None, *options: str) -> list[str]:
    """How a person has it do one thing, in a session of before where one is named."""
    if name == "claude":
        on = ["--resume", session] if session else []
        allowed = ["mcp__interlock", "mcp__plugin_interlock_interlock", "Bash"]
        return ["claude", "-p", prompt, *on, *options, "--output-format", "json", "--allowedTools", *allowed]
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
    """Joins the program to the team as ada, by its files or by our plugin, leads it to an endpoint, and starts it with
    a prompt."""
    started: list[subprocess.Popen[str]] = []

    def lead(endpoint: Endpoint, *, plugin: bool = False) -> Program:
        enter(monkeypatch, tmp_path / "user", name, endpoint, "ada")
        monkeypatch.setenv("PATH", str(commands(tmp_path)), prepend=os.pathsep)
        monkeypatch.setenv("ENABLE_TOOL_SEARCH", "false")
        monkeypatch.setenv("DISABLE_AUTOUPDATER", "1")
        monkeypatch.setenv("INTERLOCK_HOOK_TIMEOUT", str(HOOK_SECONDS - 5))
        if name == "codex":
            with open(tmp_path / "user" / "codex" / "config.toml", "a") as config:
                config.write(f'[projects."{project}"]\ntrust_level = "trusted"\n')
        if plugin:
            install_plugin(name, tmp_path)
        joined = ["--home", home.path, "join", "--team", "alpha", "--name", "ada", "--agent", name]
        subprocess.run([sys.executable, "-c", JOIN, *joined], cwd=project, check=True, capture_output=True)
        return start

    def start(prompt: str, session: str | None = None, *options: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command(name, prompt, session, *options), cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield lead
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, 9)
        process.communicate()


def install_plugin(name: str, place: Path) -> None:
    """Install it as its users do, from the catalogue of this repository; of it, a copy with more time for hooks."""
    for part in (".claude-plugin", "plugins"):
        shutil.copytree(ROOT / part, place / "catalogue" / part)
    for file in (place / "catalogue" / "plugins" / "interlock" / "hooks").iterdir():
        file.write_text(re.sub(r'("timeout": )\d+', rf"\g<1>{HOOK_SECONDS}", file.read_text()))
    add = {"claude": "install", "codex": "add"}[name]
    if name == "codex":
        config = Path(os.environ["CODEX_HOME"], "config.toml")
        config.write_text(config.read_text().replace("plugins = false", "plugins = true"))
    for words in (["marketplace", "add", str(place / "catalogue")], [add, "interlock@interlock"]):
        ran = subprocess.run([name, "plugin", *words], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


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
    if seen.searches or any(one.endswith(f"_{move.tool}") for one in seen.tools):
        return move
    wait = "sleep 0.5"
    return call("Bash", command=wait, description="Wait") if name == "claude" else call("exec_command", cmd=wait)


def stage(team: Team, content: str) -> str:
    return next(message.stage for message in team.history() if message.content == content)


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize("name", ["claude"])
def test_where_a_channel_is_refused_tools_and_hooks_carry_on(
    team: Team, tmp_path: Path, program: Callable[[Endpoint], Program]
) -> None:
    task = team.create_task("Write the parser")
    moves = [call("task_claim", task_id=task.id), call("task_complete", task_id=task.id, summary="written")]

    def script(seen: Seen) -> Move:
        done = sum("Write the parser" in result for result in seen.results)
        if done == len(moves) and len(team.history()) == 0:
            team.send(to="ada", content="One more thing.")
        return tool("claude", seen, moves[done]) if done < len(moves) else say("done")

    log = tmp_path / "debug"
    asked = ["--dangerously-load-development-channels", "server:interlock", "--debug-file", str(log)]
    with Endpoint(ada=script) as endpoint:
        ended(program(endpoint)("Take the next task.", None, *asked))
        assert any("One more thing." in text for text in texts(endpoint.seen[-1])), "the stop hook brings it"
    assert '"protocolEra":"legacy"' in log.read_text(), "the protocol over which it would take a channel"
    assert (team.task(task.id).state, stage(team, "One more thing.")) == ("done", "acknowledged")


@pytest.mark.long
@pytest.mark.parametrize("name", ["claude"])
def test_a_team_shown_as_one_of_claude_code_is_read_by_it(
    team: Team, tmp_path: Path, program: Callable[[Endpoint], Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    view = tmp_path / "view"
    team.configure({"mirror.claude": str(view)})
    first = team.create_task("Write the parser")
    team.create_task("Test it", blocked_by=[first.id])
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(view))
    monkeypatch.setenv("CLAUDE_CODE_TASK_LIST_ID", "alpha")
    monkeypatch.setenv("CLAUDE_CODE_ENABLE_TODO_TOOLS", "1")
    moves = [call("TaskList"), call("TaskGet", taskId="2")]
    with Endpoint(ada=moves) as endpoint:
        ended(program(endpoint)("What is there to do?"))
        listed, got = endpoint.seen[-1].results
    assert "#1 [pending] Write the parser" in listed and "#2 [pending] Test it [blocked by #1]" in listed
    assert "Task #2: Test it" in got and "Blocked by: #1" in got


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize("before", ["a plugin alone", "files, then a plugin"])
def test_a_plugin_takes_part_as_the_files_do_and_never_twice(
    team: Team,
    name: str,
    before: str,
    project: Path,
    home: Home,
    tmp_path: Path,
    program: Callable[..., Program],
) -> None:
    task = team.create_task("Write the parser")
    moves = [call("task_claim", task_id=task.id), call("task_complete", task_id=task.id, summary="written")]

    def script(seen: Seen) -> Move:
        done = sum("Write the parser" in result for result in seen.results)
        return tool(name, seen, moves[done]) if done < len(moves) else say("done")

    with Endpoint(ada=script) as endpoint:
        start = program(endpoint, plugin=before == "a plugin alone")
        if before == "files, then a plugin":
            install_plugin(name, tmp_path)
        else:
            assert sorted(one.name for one in project.iterdir()) == [".interlock"], "no settings of the project"
        session = ended(start("Take the next task."))
        told = [text for text in texts(endpoint.seen[-1]) if "[interlock] You are ada" in text]
        offered = {one for one in endpoint.seen[-1].tools if one.endswith("_task_claim")}
    assert len(told) == 1 and told[0].count("[interlock] You are ada") == 1, "the hooks ran once"
    assert len(offered) == 1, "one server offers the tools"
    found = team.task(task.id)
    assert (found.state, found.owner, found.output) == ("done", "ada", "written")
    assert {event.payload["session"] for event in team.events()[0] if event.type == "task.claimed"} == {session}
    subprocess.run(["interlock", "--home", home.path, "leave"], cwd=project, check=True, capture_output=True)
    assert list(project.iterdir()) == []


@pytest.mark.long
def test_a_plugin_is_silent_where_nobody_joined(
    team: Team, name: str, project: Path, home: Home, program: Callable[..., Program]
) -> None:
    with Endpoint(ada=lambda seen: say("done")) as endpoint:
        start = program(endpoint, plugin=True)
        subprocess.run(["interlock", "--home", home.path, "leave"], cwd=project, check=True, capture_output=True)
        ended(start("Begin."))
        assert not any("interlock" in one and one.endswith("_task_claim") for one in endpoint.seen[-1].tools)
        assert not any("You are ada, a member" in text for text in texts(endpoint.seen[-1]))
    assert next(member for member in team.members() if member.name == "ada").session is None


@pytest.mark.long
def test_the_skill_is_a_command_of_the_program(name: str, program: Callable[..., Program]) -> None:
    prompt = {"claude": "/interlock status", "codex": "$interlock:interlock status"}[name]
    with Endpoint(ada=lambda seen: say("done")) as endpoint:
        ended(program(endpoint, plugin=True)(prompt))
        said = "\n".join(texts(endpoint.seen[-1]))
    assert "A team shares tasks and mail in a ledger." in said and "status" in said


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
