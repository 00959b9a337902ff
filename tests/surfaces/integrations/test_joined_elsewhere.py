"""Programs that joined a team whose home is on another machine: this one has a login, and nothing of the home's."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.app.team import Team
from interlock.errors import Conflict, Forbidden, InvalidRequest
from tests.network import NGINX, Nginx
from tests.surfaces.cli.test_start_up import QUIET, SLOW, loaded, ours
from tests.surfaces.http.harness import Server
from tests.surfaces.integrations.conftest import Window
from tests.waiting import until

pytestmark = pytest.mark.long

Run = Callable[..., str]
Open = Callable[..., Window]
ANOTHER = ("unshare", "--uts", "sh", "-c", 'hostname far && exec "$@"', "sh")
"""Has a program believe that its machine is another one: of the processes there, the home's sees nothing."""
BEFORE = '{"permissions": {"allow": ["Bash(ls:*)"]}}'


@pytest.fixture
def server(project: Path, tmp_path: Path) -> Iterator[Server]:
    started = Server(tmp_path / "elsewhere", environment={"INTERLOCK_HTTP_PROXIES": "127.0.0.1"})
    yield started
    started.close()


@pytest.fixture
def team(server: Server) -> Iterator[Team]:
    """The team, seen by a person on the machine of its home."""
    with interlock.connect(str(server.home), environment={}) as home:
        made = home.create_team("alpha")
        made.spawn("ada")
        made.spawn("ben")
        yield made


@pytest.fixture
def run(project: Path) -> Run:
    """Run a command on this machine; what it says."""

    def call(*words: str, said: str = "", code: int = 0) -> str:
        done = subprocess.run(["interlock", *words], input=said, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return call


@pytest.fixture
def address(
    request: pytest.FixtureRequest, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """By which this machine knows the server: its own, or that of an nginx with TLS before it."""
    if getattr(request, "param", None) != "nginx":
        yield server.url
        return
    if NGINX is None or shutil.which("openssl") is None:
        pytest.skip("needs nginx and openssl")
    proxy = Nginx(tmp_path / "nginx", server.url)
    monkeypatch.setenv("SSL_CERT_FILE", str(proxy.certificate))
    yield proxy.url
    proxy.close()


@pytest.fixture
def secret(server: Server, team: Team, run: Run, address: str) -> str:
    """The token of ada, with which this machine is logged in."""
    made = server.tokens.create("ada", role="worker", team="alpha")[1]
    run("login", address, said=made + "\n")
    return made


@pytest.fixture
def window(project: Path, secret: str, run: Run) -> Iterator[Open]:
    """Joins Claude Code, and opens windows by the id that the program gives its session."""
    (project / ".claude").mkdir()
    (project / ".claude" / "settings.local.json").write_text(BEFORE)
    run("join", "--team", "alpha", "--agent", "claude")
    opened: list[Window] = []

    def open_(session: str, *within: str, options: tuple[str, ...] = ()) -> Window:
        opened.append(Window(project, session, *options, within=within))
        return opened[-1]

    yield open_
    for one in opened:
        one.kill()


def stage(team: Team, content: str) -> str:
    return next(message.stage for message in team.history() if message.content == content)


@pytest.mark.parametrize("address", ["itself", "nginx"], indirect=True)
def test_a_window_takes_part_in_a_team_on_another_machine(
    team: Team, window: Open, address: str, project: Path, secret: str, run: Run
) -> None:
    written = [path.read_text() for path in project.rglob("*") if path.is_file()]
    assert any(address in text for text in written) and not any(secret in text for text in written)

    one = window("s-1")
    team.send(to="ada", content="The parser is yours.")
    text = one.told("SessionStart", source="startup")
    assert "You are ada" in text and "The parser is yours." in text
    assert stage(team, "The parser is yours.") == "delivered"
    assert one.told("UserPromptSubmit", prompt="go on") == ""
    assert stage(team, "The parser is yours.") == "acknowledged"
    team.send(to="ada", content="can wait")
    team.send(to="ada", content="stop <that>", urgent=True)
    text = one.told("PostToolUse", tool_name="Bash")
    assert "stop &lt;that&gt;" in text and "can wait" not in text
    assert one.hook("PostToolUse") is None

    task = team.create_task("Write the parser")
    assert one.tool("task_claim", task_id=task.id)["owner"] == "ada"
    assert team.task(task.id).session == "s-1", "hooks, tools and commands of a window are one session"
    answer = one.hook("Stop")
    assert answer["decision"] == "block" and task.id in answer["reason"] and "can wait" in answer["reason"]
    assert one.hook("Stop", stop_hook_active=True) is None
    code, out, err = one.shell(f"interlock --team alpha task complete {task.id} --summary done")
    assert code == 0, out + err
    assert team.task(task.id).state == "done"
    code, _, err = one.shell("interlock --team alpha --as ben task list")
    assert code == 1 and "cannot act as ben" in err
    team.send(to="ada", content="And this.")
    assert "And this." in one.shell("interlock --team alpha inject")[1]
    assert one.hook("SessionEnd") is None

    run("leave")
    assert (project / ".claude" / "settings.local.json").read_text() == BEFORE
    assert not (project / ".mcp.json").exists() and not (project / ".interlock").exists()


def test_a_window_with_our_channel_is_told_of_mail_and_relays_its_prompts(team: Team, window: Open) -> None:
    ada = window("s-1", options=("--dangerously-load-development-channels", "server:interlock"))
    ada.hook("SessionStart")
    ada.connect()
    team.send(to="ada", content="Use the grammar.")
    assert ada.notice()["params"]["content"] == "1 new message for ada: call read_inbox."
    ada.tool("task_claim", task_id=team.create_task("Release it").id)
    prompt = {"request_id": "abcde", "tool_name": "Bash", "description": "Push it", "input_preview": "git push"}
    ada.tell("notifications/claude/channel/permission_request", **prompt)
    until(lambda: bool(team.questions()))
    (question,) = team.questions()
    assert (question.kind, question.text) == ("permission", "May ada use Bash: Push it?")
    team.reply(question.task_id, "allow", question=question.id)
    assert ada.notice()["params"] == {"request_id": "abcde", "behavior": "allow"}


def test_mail_from_another_machine_waits_for_the_main_agent_too(team: Team, window: Open) -> None:
    one = window("s-1")
    one.told("SessionStart")
    team.send(to="ada", content="stop that", urgent=True)
    for event in ("PostToolUse", "UserPromptSubmit", "Stop"):
        assert one.hook(event, agent_id="a1b2", agent_type="Explore") is None
    assert stage(team, "stop that") == "stored"
    assert "stop that" in one.told("PostToolUse") and stage(team, "stop that") == "delivered"


def test_two_windows_are_one_member_in_two_sessions_of_which_one_gets_a_task(team: Team, window: Open) -> None:
    one, two = window("s-1"), window("s-2")
    assert "You are ada" in one.told("SessionStart")
    assert "You are ada" in two.told("SessionStart")
    task = team.create_task("Write the parser")
    assert one.shell(f"interlock --team alpha task claim {task.id}")[0] == 0
    code, _, err = two.shell(f"interlock --team alpha task claim {task.id}")
    assert code == 1 and "already claimed" in err
    assert two.hook("Stop") is None and one.hook("Stop")["decision"] == "block"
    assert sorted(member.name for member in team.members() if member.role == "member") == ["ada", "ben"]


def known_of(team: Team, task_id: str) -> str:
    """What the status says of the program at a task."""
    return next(str(one.last_words) for one in team.status().running if one.task_id == task_id)


@pytest.mark.skipif(subprocess.run([*ANOTHER, "true"], capture_output=True).returncode != 0, reason="needs unshare")
def test_a_window_that_was_killed_is_told_of_by_its_machine_and_one_that_is_silent_was_last_heard_of(
    team: Team, window: Open
) -> None:
    one, two = window("s-1", *ANOTHER), window("s-2", *ANOTHER)
    tasks = [team.create_task(f"part {n}").id for n in range(2)]
    for had, id in zip((one, two), tasks, strict=True):
        had.told("SessionStart")
        assert had.shell(f"interlock --team alpha task claim {id}")[0] == 0
    assert "on another machine, last heard of at" in known_of(team, tasks[1])
    assert "not heard of since another session" in known_of(team, tasks[0])
    assert one.connect()
    one.kill()
    until(lambda: "is gone since" in known_of(team, tasks[0]))
    assert "on another machine" in known_of(team, tasks[1]), "the member's other window lives"
    two.kill()
    assert "on another machine" in known_of(team, tasks[1]), "it had no connection that ended"
    window("s-3", *ANOTHER).told("SessionStart")
    assert "is gone since" in known_of(team, tasks[1]), "a window beside it has looked"
    ended = [event.payload["session"] for event in team.events()[0] if event.type == "session.ended"]
    assert ended == ["s-1", "s-2"]


def test_a_window_that_is_heard_of_keeps_its_claims_where_they_have_a_lease(
    team: Team, server: Server, opened: ExitStack
) -> None:
    team.configure({"claim_ttl": 60})
    secret = server.tokens.create("ada", role="worker", team="alpha")[1]
    ada = opened.enter_context(interlock.connect(server.url, secret, environment={})).team("alpha")
    ada.window_hears("start", "claude", "s-1", "far|boot|7|9")
    task = ada.acting("ada", session="s-1").claim(team.create_task("x").id).id
    first = str(team.runs(task)[0].expires_at)

    def renewed() -> bool:
        ada.window_hears("tool", "claude", "s-1")
        return str(team.runs(task)[0].expires_at) > first

    until(renewed)
    with pytest.raises(InvalidRequest):
        ada.windows_gone(["7"])
    assert ada.windows_gone(["far|boot|7|8"]) == [], "another process"
    assert ada.windows_gone(["far|boot|7|9"]) == ["s-1"] and ada.windows_gone(["far|boot|7|9"]) == []


def test_a_hook_says_nothing_where_the_server_or_the_token_is_gone(
    window: Open, server: Server, team: Team, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = window("s-1")
    one.hook("SessionStart")
    team.send(to="ada", content="hello", urgent=True)
    [token] = [token for token in server.tokens.list() if token.name == "ada"]
    server.tokens.revoke(token.id)
    assert one.hook("PostToolUse") is None and one.hook("UserPromptSubmit") is None
    assert stage(team, "hello") == "stored"
    server.kill()
    assert one.hook("PostToolUse") is None and one.hook("Stop") is None
    monkeypatch.setenv("INTERLOCK_DEBUG", "1")
    line = ["hook", "claude", "--home", server.url, "--team", "alpha", "--name", "ada"]
    assert "refused" in run(*line, said=json.dumps({"hook_event_name": "Stop", "session_id": "s-1"}))


def test_a_login_of_another_kind_joins_nothing(server: Server, team: Team, run: Run, project: Path) -> None:
    operator = server.tokens.create("eva", role="operator")[1]
    run("login", server.url, said=operator + "\n")
    assert "token create --member claude" in run("join", "--team", "alpha", "--agent", "claude", code=1)
    run("login", server.url, said=server.tokens.create("ada", role="worker", team="alpha")[1] + "\n")
    assert "that of ada" in run("join", "--team", "alpha", "--agent", "claude", "--name", "ben", code=1)
    assert not list(project.iterdir()), "nothing was written"


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_token_takes_and_hears_no_seat_but_its_own(server: Server, team: Team, opened: ExitStack) -> None:
    def seen_by(name: str, role: str = "worker") -> Any:
        secret = server.tokens.create(name, role=role, team="alpha")[1]
        return opened.enter_context(interlock.connect(server.url, secret, environment={})).team("alpha")

    ada, ben, process = seen_by("ada"), seen_by("ben"), "far|boot|7|9"
    assert ada.window_sits("claude", "s-1", process) == "ada"
    team.send(to="ada", content="for ada", urgent=True)
    assert ben.window_hears("tool", "claude", "s-1").text == ""
    assert ben.window_hears("start", "claude", "s-1", process).member == "ben"
    assert ada.window_hears("tool", "claude", "s-1").numbers, "whoever else names its process, ada's window stays"
    with pytest.raises(Forbidden):
        ada.acting("ben").window_hears("tool", "claude", "s-1")
    eva = seen_by("eva", "operator")
    eva.create_task("she takes part")
    with pytest.raises(Conflict, match="person"):
        eva.window_sits("claude", "s-2", process)
    for wrong in ({"event": "nothing"}, {"event": "start"}, {"event": "start", "process": "7"}):
        with pytest.raises(InvalidRequest):
            ada.window_hears(**{"program": "claude", "session": "s-1", **wrong})


def test_a_hook_that_asks_elsewhere_loads_a_handful_of_modules(window: Open, server: Server, tmp_path: Path) -> None:
    window("s-1").hook("SessionStart")
    given = tmp_path / "event.json"
    given.write_text(json.dumps({"hook_event_name": "PostToolUse", "session_id": "s-1"}))
    modules = loaded("--home", server.url, "--team", "alpha", "hook", "claude", "--name", "ada", given=given)
    assert ours(modules) == QUIET | {"interlock.hooks_remote"}
    assert not (SLOW - {"typing", "pathlib"}) & modules
