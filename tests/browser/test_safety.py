"""Texts of agents are shown, never obeyed: on every page, wherever they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from interlock.app.team import Team
from tests.browser.conftest import Place

EVIL = (
    '<img src=x onerror="window.owned=1"><script>window.owned=1</script>"><svg onload=\'window.owned=1\'> '
    "[press](javascript:window.owned=1) ![look](https://example.org/pixel.png) "
    "</textarea></title></style><iframe src=\"https://example.org/\"></iframe> {{ 7*7 }} {% raw %} ' onfocus='owned=1"
)


def fill(team: Team) -> str:
    """A task, and a team, in which everything an agent may write is evil."""
    team.spawn("bob", model=EVIL[:100], type=EVIL[:100])
    bob = team.acting("bob", session="s")
    other = bob.create_task(EVIL[:190], body=EVIL)
    bob.claim(other.id)
    bob.complete(other.id, summary=EVIL)
    failed = team.create_task(EVIL[:190], verify="printf '%s' '<script>window.owned=1</script>'; false")
    bob.claim(failed.id)
    while team.task(failed.id).state == "in-progress":
        bob.complete(failed.id, summary=EVIL)
    task = bob.create_task(EVIL[:190], body=EVIL, blocked_by=[other.id], metadata={EVIL[:60]: EVIL})
    bob.claim(task.id)
    bob.update(task.id, log=EVIL)
    bob.ask(task.id, EVIL, options=[EVIL, "javascript:window.owned=1"], default=EVIL, context=EVIL)
    stuck = bob.create_task(EVIL[:190])
    bob.block(stuck.id, reason=EVIL)
    bob.send(to="human", content=EVIL, summary=EVIL[:190])
    bob.broadcast(content=EVIL)
    return task.id


@pytest.mark.long
def test_nothing_an_agent_writes_runs_loads_or_leads_astray(place: Place, expect: Callable[..., Any]) -> None:
    team = place.team("evil")
    task = place.aside(lambda: fill(team))
    place.home.chat("evil", EVIL, session_id="s1")
    page = place.visit("/")
    page.on("dialog", lambda dialog: place.faults.append(f"a dialog: {dialog.message}"))
    base = "/projects/evil"
    tasks = [f"{base}/tasks/{one.id}" for one in team.tasks()]
    pages = ["", "/board", "/graph", "/members", "/members/bob", "/messages", "/timeline?all=yes", "/report"]
    for path in ["/", "/report", *(base + one for one in pages), *tasks, f"{base}/sessions/s1"]:
        page.goto(place.server.url + path)
        expect(page.locator("[data-link]")).to_have_text("live")
        for menu in page.locator("details").all():
            menu.evaluate("node => node.open = true")
        assert page.evaluate("window.owned") is None, path
        assert page.locator("main :is(img, iframe, script, object, embed, style)").count() == 0, path
        hrefs = page.locator("a[href]").evaluate_all("all => all.map(one => one.getAttribute('href'))")
        assert all(one.startswith(("/", "#", "https://", "http://", "mailto:")) for one in hrefs), path
        away = page.locator("a[href^='http']").evaluate_all("all => all.map(one => one.rel)")
        assert all("noopener" in one for one in away), path
        handlers = page.evaluate(
            "[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => /^on/i.test(a.name))).length"
        )
        assert handlers == 0, path
        expect(page.locator("body")).not_to_contain_text("49 {%")
    assert team.task(task).state == "awaiting-response"


@pytest.mark.long
def test_what_changes_while_the_page_is_open_is_as_harmless(place: Place, expect: Callable[..., Any]) -> None:
    team = place.team("evil")
    page = place.visit("/projects/evil")
    expect(page.locator("[data-link]")).to_have_text("live")
    place.aside(lambda: fill(team))
    expect(page.locator("[data-role=question]").first).to_be_visible()
    expect(page.locator("[data-role=question]").first).to_contain_text("<script>")
    assert page.evaluate("window.owned") is None
    assert page.locator("main :is(img, iframe, script)").count() == 0


def test_the_cookie_is_for_the_server_alone_and_no_page_holds_a_secret(place: Place) -> None:
    place.team("paint")
    page = place.visit("/projects/paint")
    cookie = page.context.cookies()[0]
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    assert page.evaluate("document.cookie") == ""
    assert cookie["value"] not in page.content()
    assert place.server.tokens.admin() not in page.content()
    assert "/open/" not in page.url


@pytest.mark.long
def test_nothing_is_wider_than_a_phone_and_an_answer_goes_back_as_it_was_asked(
    place: Place, expect: Callable[..., Any]
) -> None:
    team = place.team("wide", "bob")
    word = "x" * 2000
    team.spawn("m" * 50)
    task = team.create_task("W" * 190, body=f"# {word}\n`{word}`\n\n| {word} | b |\n|---|---|\n| 1 | 2 |").id
    bob = team.acting("bob", session="s")
    bob.claim(task)
    bob.ask(task, f"Say \u202esey or {word}", options=["\u202esey", "a" * 150], context=word)
    team.block(team.create_task("b" * 190).id, reason=word)
    page = place.visit("/", viewport={"width": 390, "height": 844})
    parts = ("", "/board", "/timeline", "/messages", f"/tasks/{task}")
    for path in ("/", "/report", *(f"/projects/wide{one}" for one in parts)):
        page.goto(place.server.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        buttons = page.locator("main button:visible, main summary:visible, nav a:visible, nav summary:visible").all()
        assert all(one.bounding_box()["height"] >= 40 for one in buttons), path
    page.locator(".switch summary").click()
    expect(page.locator(".switch").get_by_role("link", name="wide")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="\\u202esey").click()
    expect(page.locator(".question .options")).to_have_count(0)
    assert [one.answer for one in team.conversation(task)] == ["\u202esey"]
