"""Mail over HTTP: shown by GET, handed over by `receive`, acknowledged by `ack` and by nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.http.harness import PATIENCE, Client, Server
from tests.waiting import until

READER = """
import json, socket, sys, time
host, port, path, token, session = sys.argv[1:]
body = json.dumps({"session": session, "wait_ms": 60000})
wire = socket.create_connection((host, int(port)))
head = f"POST {path} HTTP/1.1\\r\\nhost: {host}:{port}\\r\\nauthorization: {token}\\r\\n"
wire.sendall((head + f"content-type: application/json\\r\\ncontent-length: {len(body)}\\r\\n\\r\\n{body}").encode())
print("asked", flush=True)
time.sleep(3600)  # and never reads what comes
"""


@dataclass
class Box:
    """The inbox of bob, as his own programs and an admin reach it."""

    team: str
    bob: Client
    admin: Client

    @property
    def path(self) -> str:
        return f"/api/teams/{self.team}/inbox/bob"

    def send(self, *contents: str) -> list[str]:
        path = f"/api/teams/{self.team}/messages"
        return [self.admin.post(path, {"to": "bob", "content": content})["id"] for content in contents]

    def shown(self, query: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.bob.get(self.path + query)["messages"]
        return found

    def receive(self, session: str, **more: Any) -> list[tuple[str, bool, int]]:
        found = self.bob.post(f"{self.path}/receive", {"session": session, **more})["messages"]
        return [(one["content"], one["redelivered"], one["attempt"]) for one in found]

    def ack(self, session: str, *ids: str) -> dict[str, list[str]]:
        answer: dict[str, list[str]] = self.bob.post(f"{self.path}/ack", {"session": session, "ids": list(ids)})
        return answer

    def events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.admin.get(f"/api/teams/{self.team}/events")["events"]
        return found

    def stages(self) -> list[str]:
        return [m["stage"] for m in self.admin.get(f"/api/teams/{self.team}/messages?member=bob")["messages"]]


@pytest.fixture
def box(server: Server, team: str, admin: Client) -> Box:
    return Box(team, server.member("bob", team), admin)


@pytest.mark.req("CORE-SC.6")
def test_looking_changes_nothing_however_often_and_whoever_looks(box: Box, server: Server) -> None:
    box.send("one", "two")
    before = box.admin.get(f"/api/teams/{box.team}/events")["next"]
    viewer = server.person("vic", "viewer")
    for client in (box.bob, box.admin, viewer, server.browser(), box.bob):
        found = client.get(box.path)
        assert [(m["content"], m["stage"], m["read"]) for m in found["messages"]] == [
            ("one", "stored", False), ("two", "stored", False),
        ]  # fmt: skip
        assert found["next"] is None
    assert box.admin.get(f"/api/teams/{box.team}/events")["next"] == before
    assert box.stages() == ["stored", "stored"]
    assert box.receive("s") == [("one", False, 1), ("two", False, 1)]
    assert [(m["content"], m["stage"]) for m in box.shown()] == [("one", "delivered"), ("two", "delivered")]


def test_a_long_inbox_is_shown_in_parts(box: Box) -> None:
    box.send("one", "two", "three")
    first = box.bob.get(f"{box.path}?limit=2")
    rest = box.bob.get(f"{box.path}?limit=2&after={first['next']}")
    assert [m["content"] for m in (*first["messages"], *rest["messages"])] == ["one", "two", "three"]
    assert rest["next"] is None


@pytest.mark.req("CORE-SC.6", "CORE-FR-006")
def test_what_was_not_acknowledged_comes_again_to_whoever_asks_next_and_is_marked(box: Box) -> None:
    one, two = box.send("one", "two")
    assert box.receive("first") == [("one", False, 1), ("two", False, 1)]
    assert box.receive("first") == [("one", True, 2), ("two", True, 2)]
    assert box.ack("first", one) == {"acknowledged": [one], "unknown": []}
    assert box.receive("second") == [("two", True, 3)]
    assert box.receive("first") == [("two", True, 4)], "the second never acknowledged it"
    assert box.ack("first", two) == {"acknowledged": [two], "unknown": []}
    assert box.receive("second") == [] and box.shown() == []
    assert box.stages() == ["acknowledged", "acknowledged"]


def test_an_acknowledgement_can_be_repeated_and_names_what_it_does_not_know(box: Box, server: Server) -> None:
    [one] = box.send("one")
    box.receive("s")
    [unseen] = box.send("never handed over")
    for _ in range(2):
        assert box.ack("s", one, unseen, "nonsense") == {"acknowledged": [one], "unknown": [unseen, "nonsense"]}
    assert box.stages() == ["acknowledged", "stored"]
    lead = server.member("lead", box.team)
    answer = lead.post(f"/api/teams/{box.team}/inbox/lead/ack", {"session": "s", "ids": [one]})
    assert answer == {"acknowledged": [], "unknown": [one]}, "another's mail"


def test_a_session_is_required_and_mail_is_for_its_member_only(box: Box, server: Server) -> None:
    nobody: list[dict[str, Any]] = [{}, {"session": " "}, {"session": "\x1f"}, {"session": "s" * 201}]
    for verb, body in (*(("receive", one) for one in nobody), ("ack", {"ids": []}), ("ack", {"session": "s"})):
        assert box.bob.refused("POST", f"{box.path}/{verb}", body) == (400, "invalid_request"), (verb, body)
    lead = server.member("lead", box.team)
    assert lead.refused("POST", f"{box.path}/receive", {"session": "s"}) == (403, "forbidden")
    assert lead.refused("POST", f"{box.path}/ack", {"session": "s", "ids": []}) == (403, "forbidden")
    assert lead.refused("GET", box.path) == (403, "forbidden")


def test_nothing_else_acknowledges_over_http(box: Box, server: Server) -> None:
    box.send("one")
    box.receive("s")
    tasks = f"/api/teams/{box.team}/tasks"
    task = box.bob.post(tasks, {"subject": "x"})["id"]
    box.bob.post(f"{tasks}/{task}/claim")
    box.bob.post(f"{tasks}/{task}/heartbeat")
    box.bob.post(f"{tasks}/{task}/complete")
    box.bob.post(f"/api/teams/{box.team}/tasks-next")
    box.bob.post(f"/api/teams/{box.team}/messages", {"to": "lead", "content": "got it"})
    box.shown()
    assert box.receive("s") == [("one", True, 2)]


def test_what_a_command_was_given_is_not_acknowledged_by_a_verb_over_http(box: Box, server: Server) -> None:
    box.send("one")
    home = [sys.executable, "-m", "interlock", "--home", str(server.home), "--json", "message", "read"]
    subprocess.run([*home, "--as", "bob", "--team", box.team], check=True, capture_output=True, timeout=PATIENCE * 4)
    box.bob.post(f"/api/teams/{box.team}/tasks-next")
    assert box.stages() == ["delivered"]


def test_waiting_ends_with_the_message_and_with_nothing_when_none_came(box: Box) -> None:
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(box.receive("s", wait_ms=60_000)))
    waiting.start()
    [id] = box.send("wake up")
    waiting.join(PATIENCE)
    assert found == [[("wake up", False, 1)]]
    box.ack("s", id)
    assert box.bob.post(f"{box.path}/receive", {"session": "s", "wait_ms": 0}) == {"messages": [], "timed_out": True}


def test_who_waits_with_a_token_that_is_revoked_is_handed_nothing(box: Box, server: Server) -> None:
    token, secret = server.tokens.create("bob", role="worker", team=box.team)
    found: list[Any] = []
    wanted = {"session": "lost", "wait_ms": 60_000}
    waiting = threading.Thread(
        target=lambda: found.append(server.client(secret).refused("POST", f"{box.path}/receive", wanted))
    )
    waiting.start()
    until(lambda: any(e["type"] == "session.began" and e["payload"]["session"] == "lost" for e in box.events()))
    server.tokens.revoke(token.id)
    box.send("for bob alone")
    waiting.join(PATIENCE)
    assert found == [(401, "unauthorized")]
    assert box.stages() == ["stored"] and box.receive("s") == [("for bob alone", True, 2)]


@pytest.mark.req("CORE-EC.5")
def test_mail_is_not_lost_when_its_reader_is_killed_with_the_answer_on_its_way(box: Box, server: Server) -> None:
    for attempt in (1, 2, 3):
        path, token = f"{box.path}/receive", box.bob.headers["authorization"]
        words = [sys.executable, "-c", READER, server.host, str(server.port), path, token, "the same each time"]
        reader = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        try:
            assert reader.stdout is not None and reader.stdout.readline() == "asked\n"
            if attempt == 1:
                box.send("one")
            # The answer is on its way: that is all a server can know.
            until(lambda n=attempt: [(m["stage"], m["attempt"]) for m in box.shown()] == [("delivered", n)])  # type: ignore[misc]
        finally:
            reader.kill()
            reader.communicate()
    assert box.receive("the same each time") == [("one", True, 4)]


@pytest.mark.long
def test_mail_is_not_lost_when_the_server_is_killed_before_it_was_acknowledged(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    server = start()
    admin = server.client()
    admin.post("/api/teams", {"name": "alpha"})
    admin.post("/api/teams/alpha/members", {"name": "bob"})
    box = Box("alpha", server.member("bob", "alpha"), admin)
    [one, two] = box.send("one", "two")
    assert len(box.receive("s")) == 2
    box.ack("s", one)
    server.kill()
    again = start(port=server.port)
    box = Box("alpha", again.member("bob", "alpha"), again.client())
    assert box.receive("s") == [("two", True, 2)]
    assert box.ack("s", one, two) == {"acknowledged": [one, two], "unknown": []}


def test_what_openapi_says_of_it(admin: Client) -> None:
    document = admin.get("/openapi.json")
    inbox = "/api/teams/{team}/inbox/{member}"
    assert set(document["paths"][inbox]) == {"get"}
    for verb, fields in (("receive", {"session"}), ("ack", {"session", "ids"})):
        body = document["paths"][f"{inbox}/{verb}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert set(document["components"]["schemas"][body["$ref"].rpartition("/")[2]]["required"]) == fields
    assert "acknowledge" not in json.dumps(list(document["paths"]))
