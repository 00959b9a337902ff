"""`interlock.connect` with the address of a server: the verbs of a home elsewhere, over a real one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock import errors
from interlock.app import verbs
from interlock.app.home import Home
from interlock.app.team import Team
from tests.surfaces.http.harness import Server


@pytest.fixture
def home(server: Server) -> Iterator[Home]:
    with interlock.connect(server.url, server.tokens.admin(), environment={}) as home:
        yield home


@pytest.fixture
def local(server: Server) -> Iterator[Home]:
    with interlock.connect(str(server.home), environment={}) as home:
        yield home


class Cutting:
    """A way to a server that loses answers: `lose(n)` the next n answers to a change, after it was made. Each time it
    does `once_lost`. Then it may lead to another server, which answers `away`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._losing = 0
        self.lost = 0
        self.away = b""
        self.once_lost: Callable[[], object] = lambda: None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, answers: int) -> None:
        self._losing = answers

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection((self._server.host, self._server.port))
                threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError), near, far:
            while request := _whole(near):
                far.sendall(request)
                answer = _whole(far)
                if self._losing and b"idempotency-key" in request.lower():
                    self._losing -= 1
                    self.lost += 1
                    self.once_lost()
                    return
                near.sendall(self.away or answer)


def _whole(connection: socket.socket) -> bytes:
    """One request, or answer, with its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")), 0
    )
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


@pytest.fixture
def cutting(server: Server) -> Iterator[Cutting]:
    way = Cutting(server)
    yield way
    way.close()


def test_verbs_answer_what_they_answer_on_the_machine_of_the_home(home: Home, local: Home, team: str) -> None:
    there, here = home.team(team), local.team(team)
    first = there.create_task("Write the parser", priority="high", verify="true", metadata={"a": [1, {"b": None}]})
    second = there.create_task("Test it", blocked_by=[first.id])
    claimed = there.claim(first.id, by="bob")
    assert (claimed.owner, claimed.state) == ("bob", "in-progress")
    asked = there.ask(first.id, "Which grammar?", options=["LL", "LR"], by="bob")
    there.send(to="bob", content="“Grüße”\n" + "x" * 5000, client_id="one")
    there.send(to="bob", content="“Grüße”\n" + "x" * 5000, client_id="one")
    assert home.teams() == local.teams()
    looks: list[Callable[[Team], Any]] = [
        lambda team: team.task(first.id), lambda team: team.tasks(), lambda team: team.tasks(ready=True, limit=1),
        lambda team: team.graph(), lambda team: team.describe(), lambda team: team.members(), lambda team: team.id(),
        lambda team: team.board(), lambda team: team.story(first.id), lambda team: team.member_overviews(),
        lambda team: team.events(), lambda team: team.events(3, limit=2), lambda team: team.latest(limit=5),
        lambda team: team.history(), lambda team: team.inbox("bob"), lambda team: team.questions(),
        lambda team: team.conversation(first.id), lambda team: team.runs(first.id), lambda team: team.head(),
        lambda team: team.artifacts(first.id), lambda team: team.setting("isolation"),
        lambda team: team.work_log(first.id), lambda team: team.shutdown_requests(), lambda team: team.name,
        lambda team: team.column("blocked"), lambda team: team.workflow_runs(), lambda team: team.doctor(),
    ]  # fmt: skip
    for number, look in enumerate(looks):
        assert look(there) == look(here), number
    assert asked in here.questions()
    assert there.reply(first.id, "LR").id == first.id
    there.claim(first.id, by="bob")
    assert there.update(first.id, log="half way", by="bob").warnings == []
    assert there.complete(first.id, summary="it parses", by="bob").state == "done"
    assert there.next_task(by="bob").id == second.id  # type: ignore[union-attr]
    assert [task.id for task in there.cancel(second.id, reason="not needed")] == [second.id]
    there.pause("bob", reason="lunch")
    assert there.status().team == here.status().team


@pytest.mark.parametrize("owner", [Home, Team])
def test_every_listed_verb_is_one_and_has_types_that_can_be_sent(owner: type) -> None:
    for name in verbs.VERBS[owner]:
        assert verbs.verb_of(owner, name).name == name


def test_members_are_made_and_teams_deleted(home: Home, local: Home) -> None:
    made = home.create_team("made-elsewhere", claim_policy="soft")
    assert made.spawn("ada", agent="shell").name == "ada"
    assert made.remove("ada") == []
    assert made.configure({"claim_policy": "strict"}) == {"claim_policy": "strict"}
    home.delete_team("made-elsewhere")
    assert "made-elsewhere" not in local.teams()


def test_errors_are_of_the_same_class_with_code_and_details(home: Home, team: str) -> None:
    found = home.team(team)
    task = found.create_task("x")
    found.claim(task.id, by="bob")
    with pytest.raises(errors.TaskAlreadyClaimed) as refused:
        found.claim(task.id)
    assert (refused.value.code, refused.value.details["owner"]) == ("task_already_claimed", "bob")
    for error, ask in (
        (errors.TaskNotFound, lambda: found.task("nope")),
        (errors.TeamNotFound, lambda: home.team("nowhere")),
        (errors.InvalidTeamName, lambda: home.team("No/Team")),
        (errors.RecipientNotFound, lambda: found.send(to="nobody", content="x")),
        (errors.InvalidRequest, lambda: found.create_task("x", nonsense=1)),
        (errors.InvalidRequest, lambda: found.claim()),
        (errors.InvalidRequest, lambda: found.pause(reason=7)),
        (errors.InvalidRequest, lambda: found.pause("bob", "lunch")),
        (errors.LocalOnly, lambda: home.drive(team)),
        (errors.LocalOnly, lambda: home.workspace(team)),
        (errors.LocalOnly, lambda: found.worktree(task.id)),
        (errors.LocalOnly, lambda: home.tokens()),
    ):  # fmt: skip
        with pytest.raises(error):
            ask()  # type: ignore[no-untyped-call]


def test_what_only_an_admin_may_call_was_decided() -> None:
    """A verb that no role is given is an admin's. Who adds one says here that it is meant so, or gives it a role."""
    meant = """
        Home.back_up_ledger Home.check_ledgers Home.configure Home.create_project Home.create_team
        Home.deletable Home.delete_team Home.doctor Home.migrate_ledgers Home.settings
        Home.stop Team.configure Team.doctor Team.poll Team.remove
        Team.spawn Team.verify_pending Team.worker
    """
    tables = verbs.VERBS.items()
    admins = [f"{of.__name__}.{name}" for of, table in tables for name in table if table[name] == verbs.ADMIN]
    assert sorted(admins) == sorted(meant.split())


def test_a_parameter_that_there_is_not_is_refused(server: Server, team: str) -> None:
    admin = server.client()
    for path in (f"teams/{team}/tasks?limt=2", "teams?offset=1", f"events?team={team}"):
        assert admin.refused("GET", f"/api/{path}") == (400, "invalid_request"), path


def test_what_is_no_verb_is_not_called(server: Server, team: str) -> None:
    admin = server.client()
    for path in (f"teams/{team}/_act", f"teams/{team}/__init__", f"teams/{team}/name", "home/_catalog", "home/x"):
        assert admin.refused("POST", f"/api/verbs/{path}", {}) == (404, "not_found"), path
    assert admin.refused("POST", f"/api/verbs/teams/{team}/acting", {}) == (501, "local_only")
    assert server.stranger().refused("POST", "/api/verbs/home/teams", {})[0] == 401


def test_a_role_may_what_the_table_says(server: Server, team: str, home: Home) -> None:
    task = home.team(team).create_task("x")
    home.create_team("other-team") if "other-team" not in home.teams() else None
    viewer = interlock.connect(server.url, server.tokens.create("vera", role="viewer")[1], environment={})
    assert viewer.team(team).task(task.id).id == task.id
    with pytest.raises(errors.Forbidden):
        viewer.team(team).claim(task.id)
    with pytest.raises(errors.Forbidden):
        viewer.create_team("hers")
    operator = interlock.connect(server.url, server.tokens.create("peter", role="operator")[1], environment={})
    assert operator.team(team).create_task("y").id
    assert operator.team(team).acting("human").send(to="bob", content="hi").sender == "peter"
    with pytest.raises(errors.Forbidden):
        operator.team(team).claim(task.id, by="bob")
    with pytest.raises(errors.Forbidden):
        operator.team(team).spawn("eve")
    machine = interlock.connect(server.url, server.tokens.create("ci-1", role="machine", team=team)[1], environment={})
    assert machine.teams() == [team]
    for refused in (
        lambda: machine.team(team).tasks(), lambda: machine.team(team).create_task("z"),
        lambda: machine.team(team).work_objects(task.id, "run:nobody", [], []),
        lambda: next(machine.team(team).follow()), lambda: machine.team(team).history(),
        lambda: machine.team(team).configure({"paused": True}), lambda: machine.create_team("its"),
        lambda: machine.team("other-team").worker_off("ci-1", "a|b|1|1"),
    ):  # fmt: skip
        with pytest.raises((errors.Forbidden, errors.StaleRun, errors.TeamNotFound)):
            refused()  # type: ignore[no-untyped-call]
    with pytest.raises(errors.InvalidRequest, match="isolation"):
        machine.team(team).worker_on("ci-1~secret|boot|1|1")
    bob = interlock.connect(server.url, server.tokens.create("bob", role="worker", team=team)[1], environment={})
    with pytest.raises(errors.Forbidden):
        bob.team(team).worker_on("bob~secret|boot|1|1")
    assert bob.teams() == [team]
    assert bob.team(team).claim(task.id).owner == "bob"
    for ask in (
        lambda: bob.team("other-team"), lambda: bob.glance("other-team"), lambda: bob.team(team).spawn("eve"),
        lambda: bob.team(team).history(), lambda: bob.team(team).inbox("human"), lambda: bob.locate(task.id),
        lambda: bob.team(team).acting("human").complete(task.id, by="human"), lambda: bob.configure({}),
        lambda: bob.team(team).reply(task.id, "yes"),
    ):  # fmt: skip
        with pytest.raises((errors.Forbidden, errors.TeamNotFound)):
            ask()  # type: ignore[no-untyped-call]
    for one in (viewer, operator, machine, bob):
        one.close()


@pytest.mark.long
def test_a_token_that_was_taken_back_or_expired_opens_nothing_on_a_connection_that_is_open(
    server: Server, team: str, home: Home
) -> None:
    def refused(verb: Callable[[], object]) -> bool:
        with pytest.raises(errors.Unauthorized):
            verb()
        return True

    revoked, secret = server.tokens.create("rita", role="operator")
    with interlock.connect(server.url, secret, environment={}) as rita:
        assert rita.team(team).members() and rita.team(team).create_task("x")
        server.tokens.revoke(revoked.id)
        assert refused(rita.teams)
    # Long enough to connect on most machines; on the busiest the token has expired by then.
    _, secret = server.tokens.create("egon", role="viewer", lasting=10.0)

    def look_again_and_again() -> None:
        with interlock.connect(server.url, secret, environment={}) as egon:
            until = time.monotonic() + 100
            while time.monotonic() < until:
                egon.teams()

    assert refused(look_again_and_again)
    file = server.home / "token"
    kept = file.read_text()
    assert team in home.teams()
    try:
        file.write_text("ilk_another\n")
        assert refused(home.teams)
        file.unlink()
        assert refused(home.teams)
    finally:
        file.write_text(kept)
        file.chmod(0o600)
    assert team in home.teams()


def test_a_verb_of_the_home_is_done_by_whom_the_token_names(server: Server, team: str, home: Home) -> None:
    secret = server.tokens.create("petra", role="operator")[1]
    with interlock.connect(server.url, secret, environment={}) as petra:
        task = petra.chat(team, "What is in README.md?", session_id=f"petra-{team}").task_id
        assert petra.team(team).task(task).created_by == "petra"
        with pytest.raises(errors.Forbidden):
            petra.chat(team, "And in LICENSE?", by="bob")
    assert home.deletable(team, by="human").team.name == team
    with pytest.raises(errors.Forbidden):
        home.delete_team(team, by="bob")
    home.delete_team(team, by="human")
    assert team not in home.teams()


def test_an_answer_that_was_lost_after_the_commit_never_doubles_the_change(
    server: Server, cutting: Cutting, team: str, local: Home
) -> None:
    with interlock.connect(cutting.url, server.tokens.admin(), environment={}) as home:
        there, here = home.team(team), local.team(team)
        for loss in (1, 2, 3):
            cutting.lose(loss)
            made = there.create_task(f"number {loss}")
            assert [task.id for task in here.tasks() if task.subject == f"number {loss}"] == [made.id]
        cutting.lose(1)
        assert there.claim(made.id, by="bob").owner == "bob"
        cutting.lose(2)
        with pytest.raises(errors.TaskAlreadyClaimed):
            there.claim(made.id)
        cutting.lose(1)
        there.send(to="bob", content="once")
        assert [message.content for message in here.history()] == ["once"]
        cutting.lose(2)
        with there.mail(by="bob") as mail:
            assert [message.content for message in mail.messages] == ["once"]
        assert [message.stage for message in here.history()] == ["delivered"]
        assert cutting.lost == 12


@pytest.mark.parametrize("code", ["storage_error", "ledger_busy"])
def test_a_server_whose_ledger_is_away_does_not_say_that_nothing_was_done_by_the_other_one(
    server: Server, cutting: Cutting, team: str, local: Home, code: str
) -> None:
    said = json.dumps({"error": code, "message": "The ledger is away. Nothing was changed."}).encode()
    with interlock.connect(cutting.url, server.tokens.admin(), environment={}) as home:
        there = home.team(team)
        there.create_task("one")
        cutting.away = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: "
        cutting.away += b"%d\r\n\r\n%s" % (len(said), said)
        with pytest.raises(errors.InterlockError) as refused:
            there.task("001")
        assert refused.value.code == code
        cutting.lose(1)
        with pytest.raises(errors.CommitUnknown):
            there.create_task("two")
    assert [task.subject for task in local.team(team).tasks()] == ["one", "two"]


@pytest.mark.long
def test_a_change_is_made_by_the_server_that_follows_a_killed_one(start: Callable[..., Server], tmp_path: Path) -> None:
    server = start(tmp_path / "home")
    with interlock.connect(server.url, server.tokens.admin(), environment={}) as home:
        home.create_team("alpha")
        home.team("alpha").create_task("one")
        server.kill()
        start(tmp_path / "home", port=server.port)
        assert home.team("alpha").create_task("two").subject == "two"  # nothing of it had been sent
        assert [task.subject for task in home.team("alpha").tasks()] == ["one", "two"]


@pytest.mark.long
def test_whether_a_team_was_made_or_deleted_is_not_known_once_the_server_that_was_asked_is_gone(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    servers = [start(tmp_path / "home")]
    way = Cutting(servers[0])

    def killed() -> None:
        servers[-1].kill()
        servers.append(start(tmp_path / "home", port=servers[0].port))

    with interlock.connect(way.url, servers[0].tokens.admin(), environment={}) as home:
        home.create_team("alpha")
        way.lose(2)  # The server is the same, and knows what it has answered.
        home.create_team("beta")
        with pytest.raises(errors.TeamExists):
            home.create_team("beta")
        way.once_lost = killed
        for verb, name in ((home.create_team, "gamma"), (home.delete_team, "beta")):
            way.lose(1)
            with pytest.raises(errors.CommitUnknown, match=r"now it refuses \(.*(exists already|not found)"):
                verb(name)  # type: ignore[operator]
        assert home.teams() == ["alpha", "gamma"]
    way.close()


def test_a_key_holds_for_one_request_of_one_caller_at_every_address(server: Server, team: str) -> None:
    admin, tasks = server.client(), f"/api/teams/{team}/tasks"
    first = admin.call("POST", tasks, {"subject": "x"}, headers={"idempotency-key": "abc"})
    again = admin.call("POST", tasks, {"subject": "x"}, headers={"idempotency-key": "abc"})
    assert (first.status, first.body) == (again.status, again.body) and first.status == 201
    other = admin.call("POST", tasks, {"subject": "y"}, headers={"idempotency-key": "abc"})
    assert (other.status, other.json["error"]) == (400, "invalid_request")
    peter = server.person("peter").call("POST", tasks, {"subject": "y"}, headers={"idempotency-key": "abc"})
    assert peter.status == 201
    bad = admin.call("POST", tasks, {"subject": "y"}, headers={"idempotency-key": "a b"})
    assert bad.status == 400
    assert len(admin.get(tasks)["tasks"]) == 2


def test_who_asks_again_while_it_is_under_way_gets_the_same_answer(server: Server, team: str, home: Home) -> None:
    admin = server.client()
    body, keyed = {"arguments": {"wait": 10.0}, "name": "bob"}, {"idempotency-key": "mail"}

    def ask() -> Any:
        return admin.call("POST", f"/api/verbs/teams/{team}/mail", body, headers=keyed).json

    with ThreadPoolExecutor() as pool:
        asking = [pool.submit(ask) for _ in range(3)]
        home.team(team).send(to="bob", content="here")
        first, *others = [one.result() for one in asking]
    assert others == [first, first] and first[0][0]["content"] == "here", "whoever was first, and whenever it came"


def test_who_does_not_want_to_wait_is_told_that_it_is_under_way(server: Server, team: str) -> None:
    admin = server.client()
    path, body = f"/api/verbs/teams/{team}/mail", {"arguments": {"wait": 0.5}, "name": "bob"}
    for number in range(50):  # Where the impatient one comes first, it is the one that waits: tried again.
        keyed = {"idempotency-key": f"impatient-{number}"}
        with ThreadPoolExecutor() as pool:
            patient = pool.submit(admin.call, "POST", path, body, headers=keyed)
            impatient = admin.call("POST", path, body, headers={**keyed, "prefer": "wait=0"})
            assert patient.result().status == 200
        if impatient.status == 202:
            assert impatient.json == {"status": "under_way"}
            return
    pytest.fail("it always came first")


def test_waiting_for_mail_and_events_wakes_at_once(server: Server, home: Home, local: Home, team: str) -> None:
    heard: list[str] = []

    def wait() -> None:
        with home.team(team).mail(wait=100, by="bob") as mail:
            heard.extend(message.content for message in mail.messages)

    waiting = threading.Thread(target=wait)
    waiting.start()
    began = time.monotonic()
    local.team(team).send(to="bob", content="wake up")
    waiting.join()
    assert heard == ["wake up"] and time.monotonic() - began < 60
    events = home.team(team).follow(local.team(team).head())
    task = local.team(team).create_task("x")
    assert next(events).task_id == task.id
    with pytest.raises(RuntimeError), home.team(team).mail(by="bob") as mail:
        raise RuntimeError(mail.messages)
    assert home.team(team).inbox("bob") == local.team(team).inbox("bob")


def test_an_address_where_nobody_answers_says_so(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(errors.ServerUnreachable), interlock.connect(f"http://127.0.0.1:{port}", "x") as home:
        home.teams()
    with pytest.raises(errors.InvalidRequest):
        interlock.connect("http://", environment={})
    with pytest.raises(errors.Unauthorized), interlock.connect(f"HTTP{server.url[4:]}", "ilk_wrong") as home:
        home.teams()
    with pytest.raises(errors.Unauthorized), interlock.connect(server.url, "ilk_wrong") as home:
        home.teams()


def test_a_refusal_between_two_versions_names_both(server: Server, team: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from interlock.remote import connection

    with interlock.connect(server.url, server.tokens.admin(), environment={}) as home:
        found = home.team(team)
        with pytest.raises(errors.InvalidRequest) as same:
            found.create_task("x", nonsense=1)
        monkeypatch.setattr(connection, "__version__", "99.0")
        with pytest.raises(errors.InvalidRequest, match=r"and this is 99\.0") as other:
            found.create_task("x", nonsense=1)
        assert other.value.details["server_version"] == interlock.__version__
        assert "server_version" not in same.value.details
        with pytest.raises(errors.NotFound) as unknown:
            found._call("sing", {}, changes=False)
        assert f"is Interlock {interlock.__version__} and this is 99.0" in unknown.value.message
        with pytest.raises(errors.TaskNotFound) as away:
            found.task("nope")
        assert "99.0" not in away.value.message


@pytest.mark.long
def test_commands_and_mcp_work_on_a_home_elsewhere_without_a_change(server: Server, team: str, tmp_path: Path) -> None:
    environment = {
        **os.environ, "INTERLOCK_URL": server.url, "INTERLOCK_TOKEN": server.tokens.admin(),
        "INTERLOCK_HOME": str(tmp_path / "none"),
    }  # fmt: skip

    def run(*words: str, said: str = "") -> tuple[int, str]:
        command = [sys.executable, "-m", "interlock.surfaces.cli", *words]
        found = subprocess.run(command, input=said, capture_output=True, text=True, env=environment, cwd=tmp_path)
        return found.returncode, found.stdout + found.stderr

    code, made = run("--json", "task", "create", "Write the parser", "--team", team)
    assert code == 0, made
    assert run("task", "claim", json.loads(made)["id"], "--team", team, "--as", "bob")[0] == 0
    code, said = run("join", "--team", team, "--agent", "claude")
    assert (code, "`interlock login" in said) == (1, True), said
    for ended in ("down", "up", "open"):
        code, said = run(ended, "--team", team)
        assert (code, f"`interlock {ended}` needs" in said) == (1, True), said
    code, said = run("service", "install")
    assert (code, "`interlock service install` needs" in said) == (1, True), said
    assert not list(tmp_path.iterdir()), "no address is taken for a directory"
    assert run("message", "send", "hello", "--to", "bob", "--team", team)[0] == 0
    assert "hello" in run("inject", "--team", team, "--as", "bob")[1]
    asked = [
        {"method": "initialize", "id": 1, "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
        }},
        {"method": "notifications/initialized"},
        {"method": "tools/call", "id": 2, "params": {"name": "task_list", "arguments": {}}},
    ]  # fmt: skip
    lines = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in asked)
    code, said = run("mcp", "--team", team, "--as", "bob", said=lines)
    assert (code, "Write the parser" in said) == (0, True), said
    assert not (tmp_path / "none").exists()


@pytest.mark.long
def test_a_login_is_kept_for_its_owner_alone_and_not_used_by_runs(server: Server, team: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    environment |= {"INTERLOCK_HOME": str(mine)}

    def run(*words: str, said: str = "", **more: str) -> tuple[int, dict[str, Any]]:
        command = [sys.executable, "-m", "interlock.surfaces.cli", "--json", *words]
        found = subprocess.run(
            command, input=said, capture_output=True, text=True, env=environment | more, cwd=tmp_path
        )
        return found.returncode, json.loads(found.stdout or found.stderr)

    assert run("login", server.url, said="ilk_wrong\n")[1]["error"] == "unauthorized"
    for words in (["login"], ["work", "--url"]):
        assert "begins with http://" in run(*words, server.url.partition("//")[2], said="ilk_wrong\n")[1]["message"]
    assert not (mine / "login.json").exists()
    token = server.tokens.admin()
    code, told = run("login", server.url, said=f"{token}\n")
    assert (code, told["url"], team in told["teams"]) == (0, server.url, True)
    assert (mine / "login.json").stat().st_mode & 0o777 == 0o600
    assert team in [one["name"] for one in run("team", "list")[1]["teams"]]
    assert run("--home", str(mine), "team", "list")[1]["teams"] == []
    assert run("team", "list", INTERLOCK_RUN_TOKEN="0" * 32)[1]["teams"] == []
    assert run("uninstall", "--yes")[0] == 0 and not mine.exists()
    with interlock.connect(server.url, token, environment={}) as there:
        assert team in there.teams(), "uninstalling ends here"
    assert run("login", server.url, INTERLOCK_TOKEN=token)[0] == 0
    assert run("logout")[1] == {"logged_out": True} and run("logout")[1] == {"logged_out": False}
    assert run("team", "list")[1]["teams"] == []


def test_what_needs_the_machine_of_the_home_names_the_command_that_was_typed(
    server: Server, tmp_path: Path, home: Home, team: str
) -> None:
    assert home.glance(team).directory is None, "no directory of that machine is one of ours"
    there = {"INTERLOCK_URL": server.url, "INTERLOCK_TOKEN": server.tokens.admin(), "INTERLOCK_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "interlock.surfaces.cli", "plan", "a goal"], env={**os.environ, **there}, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "`interlock plan` needs files or processes of the machine" in done.stderr


def test_what_a_look_met_on_the_machine_of_the_home_is_said_here(server: Server, home: Home, team: str) -> None:
    ready = server.home / "teams" / team / "tasks" / "ready"
    ready.parent.mkdir(exist_ok=True)
    ready.write_text("in the way")
    task = home.team(team).create_task("Write it")
    assert task.warnings == ["mirror_pending"]
    assert home.team(team).members() and home.warnings() == ["mirror_pending"] and home.warnings() == []
    ready.unlink()
    assert home.team(team).task(task.id).id == task.id and home.warnings() == []


def test_a_plan_is_checked_and_mail_injected_by_who_has_a_home_elsewhere(
    server: Server, tmp_path: Path, local: Home, team: str
) -> None:
    there = {"INTERLOCK_URL": server.url, "INTERLOCK_TOKEN": server.tokens.admin(), "INTERLOCK_HOME": str(tmp_path)}

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "interlock.surfaces.cli", *words], env={**os.environ, **there}, cwd=tmp_path,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    plan = tmp_path / "plan.yaml"
    plan.write_text("team: crew\nmembers: {ada: {agent: claude}}\ntasks: {one: {subject: Write it, labels: [gpu]}}\n")
    code, said = run("plan", "check", "plan.yaml")
    assert code == 0 and "for the machine of" in said and "plan.yaml: no errors" in said
    plan.write_text("team: crew\ntasks: {one: {subjekt: Write it}}\n")
    code, said = run("plan", "check", "plan.yaml")
    assert code == 1 and "plan.yaml:2: " in said
    # A team here that has the same name is not meant.
    with interlock.connect(str(tmp_path), environment={}) as mine:
        mine.create_team(team).spawn("bob")
        mine.team(team).send(to="bob", content="from here")
    local.team(team).send(to="bob", content="from there")
    code, said = run("inject", "--team", team, "--as", "bob")
    assert code == 0 and "from there" in said and "from here" not in said
    assert "from here" in run("inject", "--home", str(tmp_path), "--team", team, "--as", "bob")[1]
