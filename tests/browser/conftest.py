"""A real `interlock up`, a real Chromium, and a person who came in by a link."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest

import interlock
from interlock.app.home import Home
from interlock.app.team import Team
from scripts import chromium as where
from tests import forked
from tests.forked import Forked
from tests.surfaces.http.harness import Server

T = TypeVar("T")
FLAGS = (
    "--no-sandbox --headless --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
PATIENCE_MS = 60_000
AGENT = Path(__file__).parent / "agent.py"
SECONDS = 300  # that one test may take on a busy machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.fixture(scope="session")
def program() -> str:
    """The path of the browser."""
    found = where.chromium()
    if found is None:
        pytest.skip(f"needs {where.WANTED}")
    return found


@pytest.fixture(scope="module")
def chromium(program: str) -> Iterator[Any]:
    """The browser. It is ended after each module, since playwright keeps an event loop running in this thread, where
    tests of other modules run theirs."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip install playwright)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


class Place:
    """A served home. `visit` gives a page of a browser of its own, already in."""

    def __init__(self, directory: Path, browser: Any) -> None:
        self.directory = directory
        self.browser = browser
        self.server = Server(directory / "home")
        self.home: Home = interlock.connect(str(directory / "home"))
        self.contexts: list[Any] = []
        self.foreign: list[str] = []
        self.faults: list[str] = []

    def visit(self, path: str = "/", *, own_name: bool = False, **options: Any) -> Any:
        """A page at `path`, in a browser that shares nothing with others."""
        context = self.browser.new_context(**options)
        context.set_default_timeout(PATIENCE_MS)
        self.contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: self._asked(request.url))
        page.on("response", lambda response: self._answered(response))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda message: self._said(message))
        scripted = bool(options.get("java_script_enabled", True))
        url = self.url(scripted and not own_name)
        page.goto(f"{url}/open/{self.server.tokens.new_code()}")
        if not scripted:
            page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{url}/")
        page.goto(url + path)
        return page

    def url(self, scripted: bool = True) -> str:
        """Where browsers go: without script to the page's own name, which alone takes what their forms send."""
        return self.server.url if scripted else f"http://{self.server.tokens.page_host}:{self.server.port}"

    def team(self, name: str, *members: str, agent: bool = False) -> Team:
        """A project; with `agent` its member ada is a program, see `agent.py`."""
        self.home.create_project(name, str(self.directory))
        team = self.home.team(name)
        for member in members:
            team.spawn(member)
        if agent:
            team.spawn("ada", agent="command", command=[sys.executable, str(AGENT), str(self.directory)])
        return team

    def aside(self, work: Callable[[], T]) -> T:
        """Do it in a thread: playwright keeps an event loop in this one, and a verb that runs a check wants its own."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(work).result()

    def run(self, *options: str) -> int:
        """`interlock run` of the plan that lies in the directory; its exit code."""
        words = ("--home", self.home.path, "run", *options, str(self.directory / "plan.yaml"))
        process = Forked(forked.interlock, *words)
        process.communicate(SECONDS)
        return process.wait()

    def let_go(self) -> None:
        """The agent may ask now."""
        (self.directory / "go").touch()

    def restart(self) -> None:
        """Kill the server as a crash would, and begin one at the same address."""
        self.server.kill()
        self.server.process.communicate()
        self.server = Server(self.directory / "home", port=self.server.port)

    def close(self) -> None:
        for context in self.contexts:
            context.close()
        self.home.close()
        self.server.close()

    def _asked(self, url: str) -> None:
        if not url.startswith(("data:", "blob:")) and urlsplit(url).hostname not in (
            self.server.host,
            self.server.tokens.page_host,
        ):
            self.foreign.append(url)

    def _answered(self, response: Any) -> None:
        if response.status >= 500:
            self.faults.append(f"{response.status} {response.url}")

    def _said(self, message: Any) -> None:
        # A line that broke because a test killed the server is no fault of the page.
        if message.type == "error" and "Content Security Policy" in message.text:
            self.faults.append(message.text)


@pytest.fixture
def place(tmp_path: Path, chromium: Any) -> Iterator[Place]:
    """A served home. Whatever a test does, the page asks nobody else for anything, and no script of it fails."""
    made = Place(tmp_path, chromium)
    yield made
    made.close()
    assert made.foreign == []
    assert made.faults == []


@pytest.fixture
def expect() -> Callable[..., Any]:
    """Playwright's assertions, patient enough for a busy machine."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE_MS)
    return expect
