"""Without JavaScript everything can be read, and everything done."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Place

pytestmark = pytest.mark.long


def test_one_chats_answers_moves_and_writes_by_forms_alone(place: Place, expect: Callable[..., Any]) -> None:
    team = place.team("paint", "bob")
    page = place.visit("/projects/paint", java_script_enabled=False)
    page.get_by_label("Ask for something").fill("Paint the *bikeshed*")
    page.get_by_role("button", name="Send").click()
    expect(page).to_have_url(address("/projects/paint/sessions/"))
    expect(page.get_by_text("Paint the bikeshed").last).to_be_visible()

    task = team.tasks()[0].id
    bob = team.acting("bob", session="s")
    bob.claim(task)
    bob.ask(task, "Which colour?", options=["Red", "Blue"])
    page.reload()
    page.get_by_role("button", name="Blue").click()
    expect(page.locator("[data-role=question]")).to_have_count(0)
    assert team.conversation(task)[0].answer == "Blue"

    page.goto(f"{place.url(False)}/projects/paint/tasks/{task}")
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Reason").fill("No paint left")
    page.get_by_role("button", name="Block").click()
    expect(page.locator("main").get_by_text("No paint left").first).to_be_visible()
    assert team.task(task).state == "blocked"

    page.goto(f"{place.url(False)}/projects/paint/messages")
    page.get_by_label("To", exact=True).select_option("bob")
    page.get_by_label("Message", exact=True).fill("Buy paint, please.")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".letter").last).to_contain_text("Buy paint, please.")


def test_a_refusal_is_a_page_that_keeps_what_was_written(place: Place, expect: Callable[..., Any]) -> None:
    team = place.team("paint", "bob")
    task = team.create_task("Choose a colour").id
    bob = team.acting("bob", session="s")
    bob.claim(task)
    bob.ask(task, "Which colour?")
    page = place.visit(f"/projects/paint/tasks/{task}", java_script_enabled=False)
    team.reply(task, "Red")
    page.locator("textarea[name=reply]").fill("Green, after long thought")
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.locator("pre")).to_have_text("Green, after long thought")
    page.get_by_role("link", name="Back").click()
    expect(page).to_have_url(address(f"/tasks/{task}"))


def address(part: str) -> Any:
    return re.compile(re.escape(part))
