"""Everything with the keyboard, and nothing by accident while one writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.browser.conftest import Place

pytestmark = pytest.mark.long


def test_tab_begins_at_the_link_to_the_content(place: Place, expect: Callable[..., Any]) -> None:
    place.team("paint", "bob")
    page = place.visit("/projects/paint/timeline", viewport={"width": 375, "height": 740})
    expect(page.locator("[data-link]")).to_have_text("live")
    expect(page.locator(".branch a[aria-current]")).to_be_in_viewport()
    page.keyboard.press("Tab")
    expect(page.locator("a.skip")).to_be_focused()


def test_keys_lead_to_every_page_and_explain_themselves(place: Place, expect: Callable[..., Any]) -> None:
    place.team("paint", "bob")
    page = place.visit("/projects/paint")
    page.clock.set_fixed_time(datetime.now(UTC))  # Two keys belong together when they come soon one after the other.
    page.reload()
    expect(page.locator("[data-link]")).to_have_text("live")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    for key, place_name in (
        ("b", "board"),
        ("d", "graph"),
        ("m", "members"),
        ("l", "messages"),
        ("t", "timeline"),
        ("r", "report"),
        ("n", "paint"),
    ):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(rf"/{place_name}$"))
        expect(page.locator("[data-link]")).to_have_text("live")
    page.keyboard.press("g")
    page.keyboard.press("h")
    expect(page).to_have_url(re.compile(r"\d/$"))


def test_one_walks_through_what_is_there_opens_it_and_answers(place: Place, expect: Callable[..., Any]) -> None:
    team = place.team("paint", "bob")
    bob = team.acting("bob", session="s")
    for subject in ("First", "Second"):
        task = team.create_task(subject).id
        bob.claim(task)
        bob.ask(task, f"{subject}: which colour?")
    page = place.visit("/projects/paint")
    expect(page.locator("[data-link]")).to_have_text("live")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("r")
    page.keyboard.type("gb? both, jk")
    expect(page.locator("textarea[name=reply]").nth(1)).to_have_value("gb? both, jk")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-role=question]")).to_have_count(1)
    assert [one.answer for one in team.conversation(task)] == ["gb? both, jk"]
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/tasks/TASK-"))


def test_keys_are_heard_again_after_an_answer_also_where_the_page_has_heard_of_it_first(
    place: Place, expect: Callable[..., Any]
) -> None:
    team = place.team("paint", "bob")
    bob = team.acting("bob", session="s")
    task = team.create_task("Choose a colour").id
    bob.claim(task)
    bob.ask(task, "Which colour?")
    page = place.visit("/projects/paint")
    expect(page.locator("[data-link]")).to_have_text("live")
    late: list[tuple[Any, Any]] = []
    page.route("**/reply", lambda route: late.append((route, route.fetch())))  # done, and not confirmed yet
    page.keyboard.press("r")
    page.keyboard.type("Blue")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-role=question]")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    [(route, answer)] = late
    route.fulfill(response=answer)
    assert [one.answer for one in team.conversation(task)] == ["Blue"]


def test_menus_open_with_the_keyboard_and_close_with_escape(place: Place, expect: Callable[..., Any]) -> None:
    team = place.team("paint", "bob")
    team.create_task("Choose a colour")
    page = place.visit("/projects/paint/board")
    expect(page.locator("[data-link]")).to_have_text("live")
    menu = page.locator("main details[data-menu] summary")
    menu.focus()
    page.keyboard.press("Enter")
    take = page.get_by_role("button", name="Take it yourself")
    expect(take).to_be_visible()
    page.keyboard.press("Escape")
    expect(take).to_be_hidden()
    expect(menu).to_be_focused()
    page.keyboard.press("Enter")
    expect(take).to_be_visible()
    take.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".card.is-in-progress")).to_contain_text("Choose a colour")
    assert team.tasks()[0].state == "in-progress"


def test_the_first_tab_skips_to_the_content(place: Place, expect: Callable[..., Any]) -> None:
    page = place.visit("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_anything_is_found_by_a_few_letters(place: Place, expect: Callable[..., Any]) -> None:
    team = place.team("paint", "bob")
    team.create_task("Choose a colour")
    page = place.visit("/projects/paint/board")
    expect(page.locator("[data-link]")).to_have_text("live")
    page.keyboard.press("Control+k")
    page.keyboard.type("take choose")
    expect(page.locator(".palette [role=option]").first).to_have_text("Take it yourself: Choose a colour")
    page.keyboard.press("Enter")
    expect(page.locator(".column-working .card")).to_contain_text("Choose a colour")
    page.keyboard.press("Control+k")
    page.keyboard.type("colour")
    page.locator(".palette [role=option]", has_text="Search the tasks").click()
    expect(page).to_have_url(re.compile(r"/board\?q=colour$"))
    expect(page.get_by_label("Words", exact=True)).to_have_value("colour")
    page.goto(place.server.url)
    page.keyboard.press("Control+k")
    expect(page.locator(".palette [role=status]")).to_be_hidden()
    page.keyboard.type("nowhere")
    page.keyboard.press("Enter")
    expect(page.locator(".palette [role=status]")).to_contain_text("Nothing here is called that")
