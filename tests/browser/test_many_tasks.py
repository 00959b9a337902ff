"""A thousand tasks: pages stay bounded, and a change costs what changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Place

pytestmark = pytest.mark.long


def test_a_board_of_a_thousand_tasks_is_bounded_live_and_never_loaded_anew(
    place: Place, expect: Callable[..., Any]
) -> None:
    team = place.team("big", "bob")
    team.configure({"mirror": False})
    ids: list[str] = []
    for n in range(1000):
        ids.append(team.create_task(f"Task number {n}", blocked_by=ids[-1:] if n % 10 else ()).id)
    page = place.visit("/projects/big/board")
    expect(page.locator("[data-link]")).to_have_text("live")
    assert page.locator(".card").count() <= 90
    assert page.evaluate("document.querySelectorAll('*').length") < 6000
    page.evaluate("window.sameDocument = true")
    page.evaluate("scrollTo(0, 400)")
    loads: list[str] = []
    page.on("request", lambda request: loads.append(request.resource_type))
    bob = team.acting("bob", session="s")
    bob.claim(ids[0])
    expect(page.locator(".card.is-in-progress")).to_contain_text("Task number 0")
    bob.complete(ids[0])
    expect(page.locator(".card.is-done")).to_contain_text("Task number 0")
    assert "document" not in loads and page.evaluate("window.sameDocument") is True
    assert page.evaluate("scrollY") > 200, "one stays where one had scrolled to"

    page.goto(f"{place.server.url}/projects/big/board/backlog")
    seen = set(page.locator(".card").evaluate_all("all => all.map(one => one.id)"))
    page.get_by_role("link", name="More").click()
    expect(page).to_have_url(re.compile("offset="))
    expect(page.locator(".card")).not_to_have_count(0)
    assert not seen & set(page.locator(".card").evaluate_all("all => all.map(one => one.id)"))

    page.goto(f"{place.server.url}/projects/big/graph")
    expect(page.locator("svg .station")).to_have_count(999)
