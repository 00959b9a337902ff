"""What an agent serves on another port of this machine: a browser sends it our cookie, and that is of no use to it."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser.conftest import Place

pytestmark = pytest.mark.long


@pytest.fixture
def heard() -> Iterator[tuple[int, list[str]]]:
    """A server of somebody else, with the cookies that it was sent."""
    cookies: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cookies.append(self.headers.get("cookie", ""))
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<p>mine</p>")

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1], cookies
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("own_name", [False, True])
def test_a_cookie_that_another_port_was_sent_changes_nothing(
    place: Place, expect: Callable[..., Any], heard: tuple[int, list[str]], own_name: bool
) -> None:
    team = place.team("paint", "bob")
    page = place.visit("/projects/paint/board", own_name=own_name)
    port, cookies = heard
    page.goto(f"http://127.0.0.1:{port}/")
    expect(page.get_by_text("mine")).to_be_visible()
    assert page.evaluate("localStorage.getItem('interlock-key')") is None
    stolen = next((cookie for cookie in cookies if "interlock_" in cookie), None)
    assert (stolen is None) is own_name, "the cookie of the page's own name reaches nobody else"
    if stolen is not None:
        thief = place.server.stranger(cookie=stolen, origin=place.server.url)
        assert thief.call("GET", "/projects/paint/board").status == 200
        assert thief.refused("POST", "/api/teams/paint/tasks", {"subject": "Mine"}) == (403, "forbidden")
    page.go_back()
    page.get_by_text("New task").first.click()
    page.get_by_label("Task", exact=True).fill("A person's")
    page.get_by_role("button", name="Add task").click()
    expect(page.get_by_text("A person's").first).to_be_visible()
    assert [task.subject for task in team.tasks()] == ["A person's"]
