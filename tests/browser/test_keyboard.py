"""Everything with the keyboard, and nothing by accident while one writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.browser.conftest import Place


def test_keys_lead_to_every_page_and_explain_themselves(place: Place, expect: Callable[..., Any]) -> None:
    place.team("paint", "bob")
    page = place.visit("/projects/paint")
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
    assert [one["answer"] for one in team.conversation(task)] == ["gb? both, jk"]
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/tasks/TASK-"))


def test_menus_open_with_the_keyboard_and_close_with_escape(place: Place, expect: Callable[..., Any]) -> None:
    team = place.team("paint", "bob")
    team.create_task("Choose a colour")
    page = place.visit("/projects/paint/board")
    expect(page.locator("[data-link]")).to_have_text("live")
    menu = page.locator("details[data-menu] summary")
    menu.focus()
    page.keyboard.press("Enter")
    take = page.get_by_role("button", name="Take it yourself")
    expect(take).to_be_visible()
    page.keyboard.press("Escape")
    expect(take).to_be_hidden()
    expect(menu).to_be_focused()
    page.keyboard.press("Enter")
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
