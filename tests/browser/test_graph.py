"""The picture of three hundred tasks: one finds a task in it, sees what belongs to it, and reads it on a phone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import Place

pytestmark = pytest.mark.long


def test_three_hundred_tasks_can_be_searched_lit_up_and_fitted(place: Place, expect: Callable[..., Any]) -> None:
    ids = chains(place)
    page = place.visit("/projects/big/graph")
    expect(page.locator("[data-link]")).to_have_text("live")
    expect(page.locator("svg .station")).to_have_count(300)
    page.get_by_role("button", name="Fit", exact=True).click()
    expect(page.locator(".graph-scroll")).to_have_js_property("scrollLeft", 0)
    assert page.evaluate("(box => box.scrollWidth <= box.clientWidth + 1)(document.querySelector('.graph-scroll'))")
    page.get_by_role("button", name="Full size").click()

    page.locator("[data-station='7']").hover()
    expect(page.locator(".station.lit")).to_have_count(10)
    expect(page.locator(".tracks .lit")).to_have_count(9)

    page.get_by_role("combobox", name="Task").fill("Chain 4, step 5")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("svg .station")).to_have_count(10)
    expect(page.locator(".station.here")).to_contain_text("Chain 4, step 5")
    page.locator(".station.here").click()
    expect(page.get_by_role("heading", name="Chain 4, step 5")).to_be_visible()
    assert ids[45] in page.url


def test_on_a_phone_the_picture_is_a_list_by_layers(place: Place, expect: Callable[..., Any]) -> None:
    chains(place)
    page = place.visit("/projects/big/graph", viewport={"width": 375, "height": 740})
    expect(page.locator("svg.graph")).to_be_hidden()
    expect(page.locator(".layers .run-row").first).to_contain_text("holds up 9 tasks")
    expect(page.locator(".layers > li")).to_have_count(10)
    page.get_by_role("link", name="As a picture").click()
    expect(page.locator("svg.graph")).to_be_visible()
    page.get_by_role("link", name="As a list").click()
    page.get_by_role("link", name="holds up 9 tasks").first.click()
    expect(page.locator(".layers .run-row")).to_have_count(10)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def chains(place: Place) -> list[str]:
    """Thirty chains of ten tasks."""
    team = place.team("big", "bob")
    team.configure({"mirror": False})
    ids: list[str] = []
    for n in range(300):
        waits = ids[-1:] if n % 10 else ()
        ids.append(team.create_task(f"Chain {n // 10}, step {n % 10}", blocked_by=waits).id)
    return ids


def test_an_event_fetches_what_it_changed_and_a_note_fetches_nothing(place: Place, expect: Callable[..., Any]) -> None:
    ids = chains(place)
    bob = place.home.team("big").acting("bob", session="s")
    page = place.visit("/projects/big/graph")
    expect(page.locator("[data-link]")).to_have_text("live")
    fetched: list[Any] = []
    page.on("response", lambda one: fetched.append(one) if "region=graph" in one.url and one.status != 304 else None)
    for n in (0, 10, 20):
        bob.claim(ids[n])
        expect(page.locator(".station.is-in-progress")).to_have_count(n // 10 + 1)
    whole, *changes = fetched
    assert whole.status == 200 and len(whole.body()) > 200_000, "it has nothing to be compared with"
    assert changes and {one.status for one in changes} == {226} and max(len(one.body()) for one in changes) < 2000
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    for _ in range(5):  # On a busy machine the first note may come before the last of what a claim had fetched.
        asked.clear()
        with page.expect_response(lambda one: "region=nav" in one.url):
            bob.update(ids[20], log="A note for whoever comes next")
        if not any("region=graph" in url for url in asked):
            break
    else:
        pytest.fail("a note changes no picture")
    bob.complete(ids[0])
    expect(page.locator(".station.is-in-progress")).to_have_count(2)
    merged = page.locator("svg.graph").evaluate("one => one.outerHTML")
    page.reload()
    # What was merged is what a page that is loaded anew shows.
    shown = "html => new DOMParser().parseFromString(html, 'text/html').body.innerText.replace(/\\s+/g, ' ')"
    assert page.evaluate(shown, merged) == page.evaluate(
        shown, page.locator("svg.graph").evaluate("one => one.outerHTML")
    )
