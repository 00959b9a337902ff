"""Claude Code and Codex themselves, over ACP, with a scripted model: what Interlock says it can do with them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest

import interlock
from bench import agent_tokens
from interlock.agents.profiles import load
from interlock.agents.registry import agent_of
from interlock.agents.session import Opening, Permission, Turn, Update
from interlock.app.team import Team
from interlock.processes import ref, table
from interlock.processes.ancestry import RUN_TOKEN
from interlock.runner import environment
from interlock.runner.environment import allowed_environment
from interlock.runner.job import our_server
from tests import pinned
from tests.agents.endpoint import Endpoint, Move, Seen, call, fail, say, stall
from tests.agents.real import SECONDS, enter, last, shell, since
from tests.behaviours.driving import Place, Runner
from tests.behaviours.repository import Repository
from tests.network import NGINX, Nginx
from tests.surfaces.http.harness import Server
from tests.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.npm, pytest.mark.timeout(SECONDS)]


@pytest.fixture(params=["claude", "codex"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Real:
    """One real agent program as the member `bob`, in sessions of its own."""

    def __init__(self, path: Path, name: str, endpoint: Endpoint) -> None:
        self.name = name
        self.endpoint = endpoint
        self.place = Place(path)
        self.updates: list[Update] = []
        self.asked: list[Permission] = []
        self.team: Team = self.place.home.create_team("crew", workdir=str(self.place.work))
        self.team.spawn("bob", agent=name)
        self.token = os.urandom(16).hex()

    def opening(self, **more: Any) -> Opening:
        directory = os.path.join(self.place.home.path, "teams", "crew")
        own = {
            "INTERLOCK_HOME": self.place.home.path,
            "INTERLOCK_TEAM": "crew",
            "INTERLOCK_MEMBER": "bob",
            "INTERLOCK_SESSION": "real-session",
            RUN_TOKEN: self.token,
        }
        given: dict[str, Any] = {
            "session_id": "real-session",
            "member": "bob",
            "workdir": str(self.place.work),
            "environment": allowed_environment(os.environ, names=load()[self.name].environment, extra=own)[0],
            "log": str(self.place.path / "log"),
            "time_limit": 90.0,
            "stop_grace": 5.0,
            "output_bytes": 100_000,
            "permit": self.permit,
            "mcp": (our_server("crew", "bob", environment.command_directory(directory), own),),
        }
        return Opening(**{**given, **more})

    async def permit(self, permission: Permission) -> str | None:
        self.asked.append(permission)
        return next(choice.id for choice in permission.choices if choice.kind == "allow_once")

    def prompt(self, *prompts: str, resume: str | None = None, **more: Any) -> tuple[list[Turn], str]:
        """Put prompts to one session; the turns, and the agent's own id of it."""

        async def main() -> tuple[list[Turn], str]:
            agent = agent_of(load()[self.name], None, os.environ)
            session = await agent.open(self.opening(resume=resume, **more))
            try:
                turns = [await session.prompt(text, self.updates.append) for text in prompts]
                return turns, str(session.agent_session)
            finally:
                await session.close()

        return anyio.run(main)

    def left(self) -> set[int]:
        return marked(self.token)


def marked(token: str) -> set[int]:
    pids = [row.pid for row in table.rows() if row.running]
    return set(table.marked(pids, f"{RUN_TOKEN}={token}"))


Acting = Callable[..., Real]


@pytest.fixture
def package() -> str:
    """Which pin has the agent's programs, where it is not the one of its name."""
    return ""


@pytest.fixture
def real(name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Acting]:
    """Makes the agent with the model that it is to have."""
    made: list[Real] = []

    def make(model: Any) -> Real:
        endpoint = Endpoint(bob=model)
        endpoint.__enter__()
        enter(monkeypatch, tmp_path / "user", name, endpoint, "bob", package)
        made.append(Real(tmp_path, name, endpoint))
        return made[0]

    yield make
    for one in made:
        one.endpoint.__exit__()
        assert one.left() == set(), "processes of the session were left running"


def test_a_task_is_completed_through_our_tools(real: Acting) -> None:
    def model(seen: Seen) -> Move:
        if last(seen, "FIRST", "SECOND") == "SECOND":
            return say("still here")
        return [call("task_complete", summary="written"), say("done")][min(since(seen, "FIRST"), 1)]

    bob = real(model)
    task = bob.team.create_task("Write the parser").id
    bob.team.acting("bob", session="real-session").claim(task)
    # Left to itself, Gemini CLI asks another model first which one to take.
    model_of = {"gemini": "gemini-2.5-pro"}
    turns, _ = bob.prompt("FIRST: do the task", "SECOND: are you there?", model=model_of.get(bob.name))
    assert [turn.stop for turn in turns] == ["end", "end"], turns
    assert "done" in turns[0].output and "still here" in turns[1].output
    found = bob.team.task(task)
    assert (found.state, found.owner, found.output) == ("done", "bob", "written")
    events, _ = bob.team.events()
    assert {"task.claimed", "task.completed"} <= {event.type for event in events if event.actor == "bob"}
    # Where it asks before it uses our tools, what it asks about is known.
    assert {permission.server for permission in bob.asked} <= {"interlock"}
    assert bob.asked or bob.name not in ("claude", "codex")
    called = [update for update in bob.updates if update.kind == "tool" and update.data["status"] == "completed"]
    assert called
    assert sum(int(str(update.data.get("turns", 0))) for update in bob.updates if update.kind == "usage") == 2


@pytest.mark.storm
@pytest.mark.parametrize("name", ["gemini", "opencode"])
def test_others_can_take_part_too(real: Acting, name: str) -> None:
    test_a_task_is_completed_through_our_tools(real)


@pytest.mark.parametrize(("name", "package"), [("codex", "codex-zed")])
def test_the_older_adapter_of_codex_can_do_all_this_too(real: Acting, name: str) -> None:
    """In one: our tools, what it asks, what it uses, and a session that is resumed."""

    def model(seen: Seen) -> Move:
        if last(seen, "MAKE", "AGAIN") == "AGAIN":
            return say("I remember" if any("MAKE" in text for text in seen.prompts[:-1]) else "who are you?")
        steps = [shell(name, "touch made"), call("read_inbox"), say("made")]
        return steps[min(since(seen, "MAKE"), 2)]

    bob = real(model)
    turns, id = bob.prompt("MAKE it")
    assert turns[0].stop == "end" and (bob.place.work / "made").exists() and used(bob) == (36, 15), bob.updates
    assert [one.kind for one in bob.asked if one.server is None] == ["execute"]
    assert {one.server for one in bob.asked} == {None, "interlock"}
    turns, again = bob.prompt("AGAIN", resume=id)
    assert (again, turns[0].output.strip()) == (id, "I remember")


def test_a_whole_task_costs_few_tokens_of_ours(name: str) -> None:
    pinned.home(name)
    each = agent_tokens.tokens(name)
    assert 3 <= len(each) <= 4, "three of the model's, and Codex looks first where our tools are"
    assert 0 < each[0] <= each[-1] and sum(each) <= agent_tokens.GOAL, each


@pytest.mark.storm
@pytest.mark.parametrize("name", ["gemini", "opencode"])
def test_a_whole_task_costs_few_tokens_of_others_too(name: str) -> None:
    test_a_whole_task_costs_few_tokens_of_ours(name)


def test_what_it_wants_to_do_is_asked_and_the_answer_is_obeyed(real: Acting, name: str) -> None:
    bob = real(lambda seen: shell(name, "touch made") if since(seen, "MAKE") == 0 else say("so be it"))
    turns, _ = bob.prompt("MAKE it")
    assert turns[0].stop == "end" and (bob.place.work / "made").exists()
    assert [permission.kind for permission in bob.asked] == ["execute"]
    (bob.place.work / "made").unlink()

    async def never(permission: Permission) -> str | None:
        return next(choice.id for choice in permission.choices if choice.kind == "reject_once")

    turns, _ = bob.prompt("MAKE it", permit=never)
    assert turns[0].stop == "end" and not (bob.place.work / "made").exists()


def test_what_it_used_is_what_its_model_counted_also_in_a_session_that_is_resumed(real: Acting, name: str) -> None:
    bob = real(lambda seen: shell(name, "true") if since(seen, "MAKE") < 2 else say("made"))
    turns, id = bob.prompt("MAKE it")
    assert turns[0].stop == "end" and used(bob) == (36, 15), bob.updates
    bob.updates.clear()
    turns, again = bob.prompt("MAKE it once more", resume=id)
    assert (again, turns[0].stop, used(bob)) == (id, "end", (36, 15)), bob.updates


@pytest.mark.storm
@pytest.mark.parametrize("name", ["gemini", "opencode"])
def test_of_others_too_what_they_used_is_known(real: Acting, name: str) -> None:
    tool = {"gemini": "run_shell_command", "opencode": "bash"}[name]
    bob = real(
        lambda seen: call(tool, command="true", description="a test") if since(seen, "MAKE") < 2 else say("made")
    )
    turns, _ = bob.prompt("MAKE it", model={"gemini": "gemini-2.5-pro"}.get(name))
    assert turns[0].stop == "end" and used(bob) == (36, 15), bob.updates


@pytest.mark.storm
@pytest.mark.parametrize("name", ["opencode"])
def test_opencode_asks_before_it_writes_a_file(real: Acting) -> None:
    bob = real(
        lambda seen: call("write", filePath="made", content="x") if since(seen, "MAKE") == 0 else say("so be it")
    )

    async def never(permission: Permission) -> str | None:
        bob.asked.append(permission)
        return next(choice.id for choice in permission.choices if choice.kind == "reject_once")

    bob.prompt("MAKE it", permit=never)
    assert [permission.kind for permission in bob.asked] == ["edit"]
    assert not (bob.place.work / "made").exists()


def used(bob: Real) -> tuple[int, int]:
    """What it told to have used: tokens sent and got."""
    told = [update.data for update in bob.updates if update.kind == "usage"]
    sent, got = ([int(str(one.get(name, 0))) for one in told] for name in ("input_tokens", "output_tokens"))
    return sum(sent), sum(got)


def test_a_turn_is_cancelled_and_the_session_goes_on(real: Acting) -> None:
    bob = real(lambda seen: stall() if last(seen, "WAIT", "AFTER") == "WAIT" else say("awake"))

    async def main() -> tuple[Turn, Turn]:
        session = await agent_of(load()[bob.name], None, os.environ).open(bob.opening())

        async def stop() -> None:
            while not bob.endpoint.seen:
                await anyio.wait_all_tasks_blocked()
                await anyio.to_thread.run_sync(until, lambda: bool(bob.endpoint.seen))
            await session.cancel()

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(stop)
                first = await session.prompt("WAIT", bob.updates.append)
            return first, await session.prompt("AFTER", bob.updates.append)
        finally:
            await session.close()

    first, second = anyio.run(main)
    assert first.stop == "cancelled" and (second.stop, second.output.strip()) == ("end", "awake")


def test_a_session_is_resumed_with_what_was_said_in_it(real: Acting) -> None:
    bob = real(lambda seen: say("I remember" if any("SECRET" in text for text in seen.prompts[:-1]) else "noted"))
    _, id = bob.prompt("the word is SECRET")
    turns, again = bob.prompt("what is the word?", resume=id)
    assert (again, turns[0].output.strip()) == (id, "I remember")


@pytest.mark.parametrize(("status", "text"), [(429, "rate limited"), (529, "Overloaded"), (401, "invalid x-api-key")])
def test_a_provider_that_refuses_is_want_of_capacity(real: Acting, status: int, text: str) -> None:
    bob = real(lambda seen: fail(status, text, x_should_retry="false"))
    turns, _ = bob.prompt("go")
    assert turns[0].stop == "capacity", turns
    assert (turns[0].retry_at is None) == (status == 401)


@pytest.mark.parametrize("name", ["claude"])
def test_a_program_that_waits_for_its_provider_by_itself_says_so(real: Acting) -> None:
    refusals = [fail(429, "too many requests")]
    bob = real(lambda seen: refusals.pop() if refusals else say("awake"))
    turns, _ = bob.prompt("go")
    assert (turns[0].stop, turns[0].output.strip()) == ("end", "awake")
    waits = [one for one in bob.updates if "waits for its provider" in one.text]
    assert waits and all("429" in str(one.data["reason"]) for one in waits)
    assert all(one.data["retry_at"] for one in waits)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_plan_needs_no_more_than_its_name(
    name: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def model(seen: Seen) -> Move:
        task = place.task("notes").id
        steps = [call("task_complete", task_id=task, summary="notes are written"), say("that was all")]
        return steps[min(since(seen, "Write the notes"), 1)]

    with Endpoint(bob=model) as endpoint:
        enter(monkeypatch, tmp_path / "user", name, endpoint, "bob")
        place.stage({"notes": {"subject": "Write the notes", "retries": 0}}, {"bob": {"agent": name}})
        place.drive()
    notes = place.task("notes")
    assert (notes.state, notes.output) == ("done", "notes are written"), place.log("notes")
    assert ("bob", "text", "that was all") in place.said


def test_nothing_is_left_when_its_runner_is_killed(
    name: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[bool] = []
    with Endpoint(bob=lambda seen: say("done") if killed else stall()) as endpoint:
        enter(monkeypatch, tmp_path / "user", name, endpoint, "bob")
        place.stage({"one": {"subject": "Write the parser", "retries": 0}}, {"bob": {"agent": name}})
        with place.runner() as runner:
            until(lambda: bool(endpoint.seen))
            run = place.team.runs("one")[0]
            token = ref.token_of(str(run.process))
            assert len(marked(token)) >= 2  # the agent, and our MCP server that it has started
            runner.send(signal.SIGKILL)
            runner.kill()
        assert marked(token)
        killed.append(True)
        ran = interlock.connect(place.home.path).team("crew").poll()
        assert ran is not None
        until(lambda: not marked(token))
        assert place.task("one").state == "ready", json.dumps(place.task("one").as_dict())


def test_its_shell_finds_our_command_and_a_server_of_the_project_is_not_taken_for_ours(
    real: Acting, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def model(seen: Seen) -> Move:
        steps = [
            shell(name, "command -v interlock > where"),
            call("task_complete", summary="looked"),
            say("that is all"),
        ]
        return steps[min(since(seen, "FIRST"), 2)]

    bob = real(model)
    work = bob.place.work
    theirs = {"command": "python3", "args": ["-c", f"open({str(work / 'taken')!r}, 'w'); input()"]}
    (work / ".mcp.json").write_text(json.dumps({"mcpServers": {"interlock": theirs}}))
    (work / ".codex").mkdir()
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in theirs.items())
    (work / ".codex" / "config.toml").write_text(f"[mcp_servers.interlock]\n{lines}")
    ours = environment.command_directory(os.path.join(bob.place.home.path, "teams", "crew"))
    monkeypatch.setenv("PATH", ours, prepend=os.pathsep)
    task = bob.team.create_task("Look").id
    bob.team.acting("bob", session="real-session").claim(task)
    (turn,), _ = bob.prompt("FIRST look")
    assert turn.stop == "end", turn
    assert bob.team.task(task).output == "looked" and not (work / "taken").exists()
    assert (work / "where").read_text().strip() == os.path.join(ours, "interlock")


@pytest.mark.skipif(NGINX is None, reason="needs nginx")
def test_elsewhere_it_reaches_its_team_by_our_tools_and_in_its_shell_through_a_proxy(
    name: str, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def model(seen: Seen) -> Move:
        steps = [
            call("send_message", to="lead", content="by a tool"),
            shell(name, "interlock message send --to lead 'in its shell'"),
            say("that was all"),
        ]
        return steps[min(since(seen, "Write the notes"), 2)]

    Repository(place.work)
    monkeypatch.setenv("INTERLOCK_HTTP_PROXIES", "127.0.0.1")
    with Endpoint(bob=model) as endpoint, ExitStack() as stack:
        enter(monkeypatch, tmp_path / "user", name, endpoint, "bob")
        tasks = {"notes": {"subject": "Write the notes", "retries": 0, "labels": ["far"]}}
        place.stage(tasks, {"bob": {"agent": name, "permissions": "unattended"}}, isolation="worktree")
        place.team.configure({"allowed_commands": "interlock message send"})
        server = Server(Path(place.home.path))
        stack.callback(server.close)
        proxy = Nginx(tmp_path / "nginx", server.url)
        stack.callback(proxy.close)
        monkeypatch.setenv("SSL_CERT_FILE", str(proxy.certificate))
        token = server.tokens.create("far", role="machine", team="crew")[1]
        about = {"server": proxy.url, "token": token, "name": "far", "labels": ["far"]}
        worker = Runner(str(tmp_path / "far"), about)
        stack.callback(worker.end)
        until(lambda: place.task("notes").state in ("done", "deadletter"), SECONDS)
        assert place.task("notes").state == "done"
        assert [one.content for one in place.team.inbox("lead")] == ["by a tool", "in its shell"]
        place.team.set_worker("far", "draining")
        assert worker.wait() == 0
