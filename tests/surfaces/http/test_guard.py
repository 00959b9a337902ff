"""What is refused before anybody is asked who they are, and how every refusal looks."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.surfaces.http.harness import Client, Server


def test_only_our_own_names_are_answered(server: Server, admin: Client) -> None:
    for host in (
        "evil.example",
        "evil.example:8420",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "10.0.0.1",
    ):
        assert admin.refused("GET", "/api/teams", headers={"host": host}) == (403, "forbidden"), host
    for host in (f"localhost:{server.port}", f"127.0.0.1:{server.port}", "[::1]:1", "LOCALHOST"):
        assert admin.call("GET", "/api/teams", headers={"host": host}).status == 200, host
    assert server.stranger().refused("GET", "/healthz", headers={"host": "evil.example"}) == (403, "forbidden")


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1", "file://"]
)
def test_a_foreign_page_changes_nothing(server: Server, origin: str) -> None:
    browser = server.browser()
    refused = browser.refused("POST", "/api/projects", {"id": "evil"}, headers={"origin": origin})
    assert refused == (403, "forbidden")


def test_our_own_page_does(server: Server) -> None:
    browser = server.browser()
    for site in ("same-origin", "none"):
        answer = browser.call("POST", "/api/sign-out", headers={"sec-fetch-site": site})
        assert answer.status in (200, 401)
    assert browser.refused("POST", "/api/projects", {"id": "x"}, headers={"sec-fetch-site": "cross-site"})[0] == 403


def test_a_body_above_the_limit_is_refused_announced_or_not(server: Server, admin: Client) -> None:
    big = b'{"content": "' + b"x" * 5_000_000 + b'"}'
    assert admin.refused("POST", "/api/teams/x/messages", big) == (413, "request_too_large")
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    try:
        connection.request(
            "POST", "/api/teams/x/messages", iter([big]), {**admin.headers, "content-type": "application/json"},
            encode_chunked=True,
        )  # fmt: skip
        assert connection.getresponse().status == 413
    finally:
        connection.close()


def test_content_above_the_message_limit_is_413_and_exactly_the_limit_is_taken(admin: Client, team: str) -> None:
    path = f"/api/teams/{team}/messages"
    assert admin.refused("POST", path, {"to": "bob", "content": "x" * 102_401}) == (413, "message_too_large")
    assert admin.call("POST", path, {"to": "bob", "content": "x" * 102_400}).status == 201


@pytest.mark.parametrize("path", ["/api/teams", "/healthz", "/nothing", "/openapi.json"])
def test_every_answer_bears_the_security_headers(admin: Client, path: str) -> None:
    headers = admin.call("GET", path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["server"] is None


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/nothing", None, (404, "not_found")),
        ("GET", "/api/teams/nobody", None, (404, "team_not_found")),
        ("GET", "/api/teams/No%20Team", None, (400, "invalid_team_name")),
        ("PUT", "/api/teams", {}, (405, "method_not_allowed")),
        ("POST", "/api/teams", b"{", (400, "invalid_request")),
        ("POST", "/api/teams", b"\xff\xfe", (400, "invalid_request")),
        ("POST", "/api/teams", [], (400, "invalid_request")),
        ("POST", "/api/teams", {}, (400, "invalid_request")),
        ("POST", "/api/teams", {"name": 5}, (400, "invalid_request")),
        ("POST", "/api/teams", {"name": "x", "colour": "red"}, (400, "invalid_request")),
        ("POST", "/api/teams", {"name": "Not A Name"}, (400, "invalid_team_name")),
        ("GET", "/api/teams/x/events?after=-1", None, (400, "invalid_request")),
        ("GET", "/api/task-groups?limit=many", None, (400, "invalid_request")),
        ("GET", "/api/events?after=nonsense", None, (400, "invalid_request")),
        ("GET", "/api/workflows/none", None, (404, "workflow_not_found")),
    ],
)
def test_every_failure_has_the_one_shape(
    admin: Client, method: str, path: str, body: object, expected: tuple[int, str]
) -> None:
    assert admin.refused(method, path, body) == expected


def test_an_address_says_all_the_methods_it_knows(admin: Client) -> None:
    answer = admin.call("PATCH", "/api/teams")
    assert answer.status == 405 and set(answer.headers["allow"].split(", ")) == {"GET", "POST"}


def test_what_is_no_http_is_answered_in_our_shape(server: Server) -> None:
    with socket.create_connection((server.host, server.port), timeout=60) as wire:
        wire.sendall(b"NONSENSE\r\n\r\n")
        said = wire.makefile("rb").read()
    assert said.startswith(b"HTTP/1.1 400") and b'"invalid_request"' in said


def test_a_head_that_grows_for_ever_is_cut_off(server: Server) -> None:
    with socket.create_connection((server.host, server.port), timeout=60) as wire:
        try:
            wire.sendall(b"GET / HTTP/1.1\r\n" + b"x-filler: " + b"y" * 100_000)
            said = wire.makefile("rb").read()
        except ConnectionError:
            said = b""
    assert not said or said.startswith(b"HTTP/1.1 4")


def test_a_client_that_goes_before_it_has_said_all_is_no_failure(start: Callable[..., Server]) -> None:
    server = start()
    head = f"POST /api/verbs/home/teams HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n"
    head += f"Authorization: Bearer {server.tokens.admin()}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((server.host, server.port), timeout=60) as wire:
        wire.sendall(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
        server.client().get("/api/teams")  # By then the other one is being read.
    server.client().get("/api/teams")
    said = server.close()
    assert server.process.returncode == 0 and "Traceback" not in said, said


@pytest.mark.long
def test_a_body_has_a_time_limit_as_a_whole(start: Callable[..., Server]) -> None:
    server = start(environment={"INTERLOCK_HTTP_BODY_SECONDS": "0.5"})
    head = f"POST /api/teams HTTP/1.1\r\nHost: {server.host}:{server.port}\r\n"
    head += f"Authorization: Bearer {server.tokens.admin()}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((server.host, server.port), timeout=60) as slow:
        slow.sendall(f"{head}Content-Length: 100000\r\n\r\n".encode())
        slow.settimeout(0.1)
        heard = b""
        for _ in range(1000):  # Each piece comes in time, all of them never do.
            with suppress(OSError):  # It has closed; what it said before is still to be read.
                slow.sendall(b" ")
            try:
                piece = slow.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                break
            heard += piece
            if not piece:
                break
    assert heard.startswith(b"HTTP/1.1 408 ") and b"request_too_slow" in heard
    assert b"connection: close" in heard.lower()
