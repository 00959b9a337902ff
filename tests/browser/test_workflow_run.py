"""The page of a workflow's run: who examined and discussed the work, what is in force, what a person does."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts import seeded_run
from tests.browser.conftest import PATIENCE_MS, Place

STORY, BUILT = seeded_run.STORY, seeded_run.BUILT


def seeded(place: Place) -> tuple[Any, Path]:
    """A project with both runs, and where they write."""
    team = place.team("paint", "ada")
    root = place.directory / "project"
    root.mkdir()
    seeded_run.add(place.home, "paint", root)
    return team, root / "_bmad-output"


@pytest.mark.long
def test_a_review_and_its_discussion_are_there_to_be_read(place: Place, expect: Callable[..., Any]) -> None:
    seeded(place)
    page = place.visit("/projects/paint/workflows")
    page.get_by_role("link", name="/bmad:bmm:workflows:dev-story").click()
    expect(page).to_have_url(re.compile(f"/workflows/{STORY}$"))
    review = page.locator("[data-examination=code_review]")
    expect(review.locator("summary")).to_have_count(2)
    last = review.locator("details").last
    expect(last).to_contain_text("Changes requested")
    expect(last.locator(".finding").first).to_contain_text("major")
    expect(last.locator(".finding").first).to_contain_text("src/tokens/rotate.py:41")
    expect(last.locator(".finding").first).to_contain_text("SELECT … FOR UPDATE")
    review.locator("summary").first.click()
    expect(review.locator(".finding.blocking")).to_contain_text("found by 2")
    expect(page.get_by_text("Iteration 2 of 10")).to_be_visible()

    party = page.locator("[data-party=ended]")
    expect(party).to_contain_text("3 rounds, all agree")
    expect(party.locator(".recommended")).to_contain_text("A unique index on the successor; the loser reads it again")
    expect(party.get_by_role("row", name=re.compile("^Winston")).locator(".vote")).to_have_text(["A", "B", "B"])
    party.get_by_text("What was said").click()
    expect(party.locator(".contribution strong").first).to_have_text("Lock the row.")

    side = page.locator(".aside")
    expect(side).to_contain_text("2 at work")
    expect(side).to_contain_text("security reviewer · opus · working")
    expect(side).to_contain_text("5 run, 1 failed")
    expect(side).to_contain_text("expires_at is naive in tokens/lookup.py")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.long
def test_validators_are_seen_at_work_and_why_menus_wait(place: Place, expect: Callable[..., Any]) -> None:
    seeded(place)
    page = place.visit(f"/projects/paint/workflows/{BUILT}", viewport={"width": 375, "height": 740})
    states = {"08a": "completed · 1 finding", "08c": "in progress · 2 attempts", "08e": "pending"}
    for label, words in states.items():
        expect(page.locator(f"[data-validator='{label}']")).to_contain_text(words)
    expect(page.get_by_text("2 of 6 complete")).to_be_visible()
    expect(page.locator(".note")).to_contain_text("Many menus came in a row")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.long
@pytest.mark.parametrize("scripted", [True, False])
def test_a_wish_is_in_force_and_feedback_is_kept(place: Place, expect: Callable[..., Any], scripted: bool) -> None:
    team, _ = seeded(place)
    page = place.visit(f"/projects/paint/workflows/{BUILT}", java_script_enabled=scripted)
    box, button = page.get_by_label("Say to this run"), page.get_by_role("button", name="Send")
    box.fill("use tier 4")
    button.click()
    if scripted:  # First: it stays for a few seconds only.
        expect(page.locator(".toast")).to_contain_text("tier 4")
    expect(page.locator(".in-force")).to_contain_text("use tier 4")
    expect(box).to_have_value("")
    box.fill("Remember this preference: always be thorough")
    button.click()
    if scripted:
        expect(page.locator(".toast").last).to_contain_text("always be thorough")
    expect(page.locator(".preferences")).to_contain_text("always be thorough")
    assert "always be thorough" in str(team.learned_preferences(BUILT))
    box.fill("skip final approval")
    button.click()
    said = page.locator(".toast.bad") if scripted else page.get_by_role("alert")
    expect(said).to_contain_text("final")


@pytest.mark.long
@pytest.mark.parametrize("scripted", [True, False])
def test_a_rollback_is_seen_before_it_is_done_and_undone(
    place: Place, expect: Callable[..., Any], scripted: bool
) -> None:
    team, folder = seeded(place)
    mine = folder / f"{STORY}.md"
    mine.write_text("mine\n")
    page = place.visit(f"/projects/paint/workflows/{STORY}", java_script_enabled=scripted)
    page.get_by_role("link", name="Roll back …").click()
    page.get_by_role("link", name="Step 3: Implement").click()
    expect(page.locator(".preview")).to_contain_text("changed since the run last wrote it")
    assert mine.read_text() == "mine\n" and team.workflow_run(STORY)["current_step"] == "gate-code_review"
    page.locator(".preview label", has_text=mine.name).locator("input").check()
    page.get_by_role("button", name="Roll back to before step 3").click()
    expect(page).to_have_url(re.compile(f"/workflows/{STORY}$"))
    assert team.workflow_run(STORY)["current_step"] == 3 and "As of step 2" in mine.read_text()
    page.once("dialog", lambda dialog: dialog.accept())
    # The page may show the new state before the files are back; the answer comes after them.
    with page.expect_response(lambda answer: answer.request.method == "POST"):
        page.get_by_role("button", name="Undo the rollback").click()
    expect(page.get_by_role("button", name="Undo the rollback")).to_have_count(0)
    assert mine.read_text() == "mine\n"


@pytest.mark.long
def test_a_run_is_called_off_only_after_one_was_asked(place: Place, expect: Callable[..., Any]) -> None:
    team, _ = seeded(place)
    page = place.visit(f"/projects/paint/workflows/{BUILT}")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Cancel").click()
    assert team.workflow_run(BUILT)["outcome"] is None
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".run-state")).to_have_text("Cancelled")
    assert team.workflow_run(BUILT)["outcome"] == "CANCELLED"


def test_who_is_not_in_any_more_is_told_so_beside_what_was_typed(place: Place, expect: Callable[..., Any]) -> None:
    place.team("paint")
    page = place.visit("/projects/paint")
    page.context.clear_cookies()
    page.locator("textarea[name=content]").fill("Paint the fence")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".toast.bad")).to_contain_text("not signed in any more: interlock open makes a link")
    expect(page.locator("textarea[name=content]")).to_have_value("Paint the fence")


def test_who_is_not_in_is_told_how_to_come_in(place: Place, expect: Callable[..., Any]) -> None:
    context = place.browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    place.contexts.append(context)
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    assert page.goto(place.server.url + "/projects/paint").status == 401
    expect(page.locator("pre")).to_have_text("interlock open")
    assert page.locator("main").evaluate("node => getComputedStyle(node).maxWidth") == "576px", "its style counts"
    page.goto(place.server.url + "/open/used-up")
    expect(page.get_by_role("alert")).to_contain_text("was used, or is too old")
    assert not [one for one in faults if "Content Security Policy" in one]
