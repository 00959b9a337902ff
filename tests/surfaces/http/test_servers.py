"""Servers that are killed, restarted, several, or behind a proxy: what was done is done once, and nothing is lost."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.tokens import Tokens
from interlock.clock import ManualClock
from interlock.errors import AnswerLost, InvalidRequest
from interlock.remote import connection
from tests.network import certificate
from tests.postgres import on_postgres, schema_of
from tests.surfaces.http.harness import Server
from tests.waiting import until

PATIENCE = 200.0
Start = Callable[..., Server]


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A home that keeps its ledgers in files, or on a server."""
    if request.param == "postgres":
        on_postgres(tmp_path / "home")
    return tmp_path / "home"


@contextmanager
def mirror_held(home: Home, team: str) -> Iterator[None]:
    """Who commits now, comes no further than that for a moment: files follow a commit and come before the answer."""
    lock = os.open(Path(home.team(team).directory) / ".mirror.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield
    os.close(lock)


def subjects(home: Home, team: str) -> list[str]:
    """Read without the files, which would wait."""
    with home.workspace(team).ledger.snapshot() as rows:
        return [task.subject for task in rows.tasks.select()]


def holder(home: Home, team: str) -> str | None:
    with home.workspace(team).ledger.snapshot() as rows:
        return rows.tasks.select()[0].owner


def letters(home: Home, team: str) -> list[str]:
    with home.workspace(team).ledger.snapshot() as rows:
        return [one.content for one in rows.messages.history(member=None, limit=9, before=None)]


@pytest.mark.long
def test_what_a_killed_server_had_not_answered_yet_is_answered_by_the_next_and_done_once(
    start: Start, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", PATIENCE)  # however long a server takes to start here
    server, said = start(place), list[Any]()
    with interlock.connect(str(place), environment={}) as local:
        with interlock.connect(server.url, server.tokens.admin(), environment={}) as there:
            there.create_team("alpha").create_task("first")
            asking = threading.Thread(target=lambda: said.append(there.team("alpha").create_task("second")))
            with mirror_held(local, "alpha"):
                asking.start()
                until(lambda: subjects(local, "alpha") == ["first", "second"])
                server.kill()
            server = start(place, port=server.port)
            asking.join()
        assert said == [local.team("alpha").tasks()[1]]
        assert subjects(local, "alpha") == ["first", "second"]

        letter = {"arguments": {"to": "human", "content": "once"}}
        keyed = {"idempotency-key": "letter"}

        def send() -> None:
            with suppress(OSError, http.client.HTTPException):
                said.append(server.client().call("POST", "/api/verbs/teams/alpha/send", letter, headers=keyed))

        asking = threading.Thread(target=send)
        with mirror_held(local, "alpha"):
            asking.start()
            until(lambda: letters(local, "alpha"))
            server.kill()
        asking.join()
        server = start(place, port=server.port)
        send()
        assert (said[1].status, said[1].json["error"]) == (409, "answer_lost")
        assert letters(local, "alpha") == ["once"]


@pytest.mark.long
def test_a_claim_whose_answer_was_lost_is_not_answered_by_what_others_have_made_of_it(
    start: Start, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", PATIENCE)
    server, said = start(place), list[Any]()
    with interlock.connect(str(place), environment={}) as local:
        team = local.create_team("alpha")
        team.spawn("bob")
        task = team.create_task("first")
        with interlock.connect(server.url, server.tokens.admin(), environment={}) as there:
            bob = there.team("alpha").acting("bob", session="b")
            assert bob.task(task.id) == task

            def claim() -> None:
                with pytest.raises(AnswerLost) as lost:
                    bob.claim(task.id)
                said.append(lost.value.details["task"])

            asking = threading.Thread(target=claim)
            with mirror_held(local, "alpha"):
                asking.start()
                until(lambda: holder(local, "alpha") == "bob")
                server.kill()
            team.acting("bob", session="b").release(task.id)
            team.claim(task.id, by="lead")
            start(place, port=server.port)
            asking.join()
        assert said == [task.id]


@pytest.mark.long
def test_an_answer_outlives_its_server_and_a_key_holds_for_its_request_alone(start: Start, place: Path) -> None:
    server, keyed = start(place), {"idempotency-key": "one"}
    server.client().post("/api/teams", {"name": "alpha"})
    first = server.client().call("POST", "/api/teams/alpha/tasks", {"subject": "x"}, headers=keyed)
    server.close()
    server = start(place, port=server.port)
    again = server.client().call("POST", "/api/teams/alpha/tasks", {"subject": "x"}, headers=keyed)
    assert (first.status, first.body) == (again.status, again.body) and first.status == 201
    assert server.client().refused("POST", "/api/teams/alpha/tasks", {"subject": "y"}, headers=keyed)[0] == 400
    peter = server.person("peter").call("POST", "/api/teams/alpha/tasks", {"subject": "y"}, headers=keyed)
    assert peter.status == 201
    assert [task["subject"] for task in server.client().get("/api/teams/alpha/tasks")["tasks"]] == ["x", "y"]


@pytest.fixture
def two(start: Start, tmp_path: Path) -> tuple[Server, Server]:
    """Servers of two homes whose ledgers are on one database, as on two machines."""
    made = []
    for name in ("one", "two"):
        on_postgres(tmp_path / name)
        shared = {"INTERLOCK_LEDGER_SCHEMA": schema_of(tmp_path)}
        made.append(start(tmp_path / name, environment=shared))
    return made[0], made[1]


@pytest.mark.long
def test_tokens_links_sessions_and_answers_are_valid_on_every_server_of_one_database(
    two: tuple[Server, Server], tmp_path: Path
) -> None:
    one, other = two
    first = one.client()
    first.post("/api/projects", {"id": "alpha"})
    first.post("/api/teams/alpha/members", {"name": "bob"})

    # Tokens: the homes' own, and one that was made on either.
    assert other.client(secret_of(tmp_path / "one")).get("/api/projects")["projects"][0]["id"] == "alpha"
    token, secret = one.tokens.create("peter", role="operator")
    peter = other.client(secret)

    # A link of one opens the page of the other, and the cookie is good for both.
    code = one.tokens.new_code()
    browser = other.stranger(accept="application/json", origin=other.url)
    answer = browser.call("POST", f"/open/{code}")
    cookie, key = answer.headers["set-cookie"].split(";")[0], answer.json["key"]
    page = one.stranger(cookie=cookie, origin=one.url, **{"x-interlock-key": key})
    assert one.stranger(cookie=cookie).call("GET", "/").status == 200

    # A chat begun through one goes on through the other; a stream of one shows what the other does.
    stream = other.client(secret).stream()
    said = first.post("/api/projects/alpha/chat", {"content": "hello", "session_id": "s"})
    more = peter.post("/api/projects/alpha/chat", {"content": "and more", "session_id": "s"})
    stream.has("task.created", "alpha")
    listed = page.get("/api/projects/alpha/task-groups/s/tasks")["tasks"]
    assert [task["task_id"] for task in listed] == [said["task_id"], more["task_id"]]

    # A question asked through one is answered through the other, and who did it is on record.
    first.post(f"/api/teams/alpha/tasks/{said['task_id']}/claim", {"by": "bob"})
    first.post("/api/teams/alpha/questions", {"by": "bob", "task_id": said["task_id"], "text": "Which?"})
    peter.post(f"/api/projects/alpha/tasks/{said['task_id']}/reply", {"reply": "the second"})
    events = first.get("/api/teams/alpha/events")["events"]
    [answered] = [event for event in events if event["type"] == "question.answered"]
    assert answered["actor"] == "peter"

    # What was lost on the way of one is not made again by the other.
    keyed = {"idempotency-key": "k"}
    made = one.client(secret).call("POST", "/api/teams/alpha/tasks", {"subject": "x"}, headers=keyed)
    again = peter.call("POST", "/api/teams/alpha/tasks", {"subject": "x"}, headers=keyed)
    assert made.body == again.body

    # One is upgraded while the other serves.
    one.close()
    peter.post("/api/teams/alpha/tasks", {"subject": "meanwhile"})
    other.tokens.revoke(token.id)
    assert other.client(secret).refused("GET", "/api/projects")[0] == 401
    stream.close()


@pytest.mark.long
def test_what_was_answered_when_it_was_sent_again_is_not_changed_by_the_copy_that_arrives_late(
    two: tuple[Server, Server],
) -> None:
    """The first copy lies in a suspended server; the client sends it to the other one, and goes by its answer."""
    one, other = two
    secret = one.tokens.admin()
    first = one.client(secret)
    first.post("/api/teams", {"name": "alpha"})
    for name in ("ann", "bob"):
        first.post("/api/teams/alpha/members", {"name": name})
    task = first.post("/api/teams/alpha/tasks", {"subject": "x"})["id"]

    def ask(server: Server, verb: str, name: str, **headers: str) -> Any:
        body = {"arguments": {"task": task}, "name": name, "session": name}
        return server.client(secret).call("POST", f"/api/verbs/teams/alpha/{verb}", body, headers=headers)

    again = {"interlock-server": "the suspended one"}
    ask(one, "claim", "ann")
    refused = ask(other, "claim", "bob", **{"idempotency-key": "refused"}, **again)
    assert (refused.status, refused.json["error"]) == (409, "task_already_claimed")
    unchanged = ask(other, "claim", "ann", **{"idempotency-key": "unchanged"}, **again)
    assert unchanged.status == 200
    ask(one, "release", "ann")
    assert ask(one, "claim", "bob", **{"idempotency-key": "refused"}).body == refused.body
    assert ask(one, "claim", "ann", **{"idempotency-key": "unchanged"}).body == unchanged.body
    assert first.get(f"/api/teams/alpha/tasks/{task}")["owner"] is None


def secret_of(home: Path) -> str:
    return (home / "token").read_text().strip()


class Proxy:
    """A reverse proxy with TLS, as far as a server can see one: it says by which scheme and host it was called."""

    def __init__(self, server: Server, place: Path) -> None:
        self.certificate, key = certificate(place)
        at = (server.host, server.port)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def carry(self) -> None:
                sent = self.rfile.read(int(self.headers.get("content-length") or 0))
                own = ("connection", "host")
                headers = {name: value for name, value in self.headers.items() if name.lower() not in own}
                headers |= {"X-Forwarded-Proto": "https", "X-Forwarded-Host": self.headers["host"]}
                headers |= {"Host": "127.0.0.1", "X-Forwarded-For": self.client_address[0]}
                far = http.client.HTTPConnection(*at, timeout=PATIENCE)
                far.request(self.command, self.path, sent, headers)
                answer = far.getresponse()
                body = answer.read()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                        self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                far.close()

            do_GET = do_POST = carry  # noqa: N815

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def call(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, http.client.HTTPMessage, bytes]:
        context = ssl.create_default_context(cafile=str(self.certificate))
        caller = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=context)
        caller.request(method, path, b"", {"host": "teams.example", **headers})
        answer = caller.getresponse()
        found = answer.status, answer.headers, answer.read()
        caller.close()
        return found


@pytest.mark.long
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl for a certificate")
def test_what_a_proxy_with_tls_says_counts_only_where_it_is_named(start: Start, tmp_path: Path) -> None:
    for named in ("127.0.0.1/32", "10.0.0.0/8"):
        settings = {"INTERLOCK_HTTP_HOSTS": "teams.example", "INTERLOCK_HTTP_PROXIES": named}
        server = start(tmp_path / named[:2], environment=settings)
        proxy = Proxy(server, tmp_path)
        headers = {"accept": "application/json", "origin": "https://teams.example"}
        status, answered, body = proxy.call("POST", f"/open/{server.tokens.new_code()}", headers)
        if named.startswith("10"):
            assert status == 403, "nobody else says by which scheme it was called"
        else:
            assert (status, "; Secure" in answered["set-cookie"]) == (200, True)
            page = {"cookie": answered["set-cookie"].split(";")[0], "x-interlock-key": json.loads(body)["key"]}
            assert proxy.call("GET", "/", page)[0] == 200
            assert proxy.call("POST", "/api/sign-out", {**page, "origin": "https://teams.example"})[0] == 200
            assert proxy.call("GET", "/", {"host": "evil.example", **page})[0] == 403
            with interlock.connect(server.url, server.tokens.admin(), environment={}) as home:
                assert home.teams() == []
        proxy.close()


@pytest.mark.long
def test_a_public_address_without_a_proxy_with_tls_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "interlock.surfaces.cli", "--json", "--home", str(tmp_path), "up", "--port", "0"]
    found = subprocess.run([*command, "--host", "0.0.0.0"], capture_output=True, text=True, timeout=PATIENCE)
    assert (found.returncode, json.loads(found.stderr)["error"]) == (1, "invalid_request")
    assert "--plain" in found.stderr and not list(tmp_path.iterdir())


def test_a_token_of_one_team_and_role_opens_nothing_else_and_expires(tmp_path: Path, server: Server, team: str) -> None:
    other = server.client().post("/api/teams", {"name": f"{team}-other"})["name"]
    operator = server.client(server.tokens.create("olga", role="operator", team=team)[1])
    admin = server.client(server.tokens.create("anna", role="admin", team=team)[1])
    task = operator.post(f"/api/teams/{team}/tasks", {"subject": "x"})
    assert [one["id"] for one in operator.get("/api/projects")["projects"]] == [team]
    assert operator.refused("GET", f"/api/teams/{other}/tasks")[0] == 404
    assert operator.refused("POST", f"/api/projects/{other}/chat", {"content": "x"})[0] == 404
    assert operator.refused("POST", f"/api/teams/{team}/members", {"name": "eve"})[0] == 403
    assert admin.post(f"/api/teams/{team}/members", {"name": "eve"})["name"] == "eve"
    for refused in (
        admin.refused("POST", "/api/teams", {"name": "another"}), admin.refused("POST", "/api/projects", {"id": "b"}),
        admin.refused("DELETE", f"/api/teams/{other}"), admin.refused("POST", "/api/verbs/home/settings", {}),
        admin.refused("POST", "/api/verbs/home/delete_team", {"arguments": {"name": other}}),
    ):  # fmt: skip
        assert refused[0] in (403, 404)
    operator.post(f"/api/teams/{team}/tasks/{task['id']}/claim", {})
    assert server.client().get(f"/api/teams/{team}/tasks/{task['id']}")["owner"] == "olga"

    clock = ManualClock()
    tokens = Tokens(str(tmp_path), clock)
    made, secret = tokens.create("tim", role="viewer", lasting=60)
    assert tokens.find(secret) == made and secret not in (tmp_path / "tokens.json").read_text()
    with pytest.raises(InvalidRequest, match="opens nothing"):
        tokens.create("tim", role="viewer", lasting=0)
    clock.advance(61)
    assert tokens.find(secret) is None and tokens.list() == [made]


def test_the_admin_token_is_at_hand_whatever_became_of_the_others_and_a_token_while_they_stay(tmp_path: Path) -> None:
    tokens = Tokens(str(tmp_path))
    admin = tokens.admin()
    assert not tokens.at_hand(admin) and tokens.is_admin(admin) and tokens.at_hand(admin)
    secret = tokens.create("eva", role="operator")[1]
    assert not tokens.at_hand(secret) and tokens.find(secret) and tokens.at_hand(secret)
    Tokens(str(tmp_path)).create("bob", role="operator")
    assert not tokens.at_hand(secret) and tokens.at_hand(admin)
