"""What the page is for: a message becomes work, the work asks, the answer goes on, and nothing is ever lost."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Place


def send(page: Any, text: str) -> None:
    page.get_by_label("Ask for something").fill(text)
    page.get_by_role("button", name="Send").click()
    page.wait_for_url("**/sessions/**")


@pytest.mark.long
@pytest.mark.req("GUARD-INV-6", "GUARD-AC-6")
def test_a_message_runs_live_asks_and_goes_on_with_the_answer(place: Place, expect: Callable[..., Any]) -> None:
    place.team("paint", agent=True)
    page = place.visit("/projects/paint")
    send(page, "Paint the bikeshed")
    page.evaluate("window.sameDocument = true")

    expect(page.get_by_text("In progress")).to_be_visible()
    expect(page.get_by_text("Looking at the bikeshed")).to_be_visible()
    place.let_go()
    question = page.locator("[data-role=question]")
    expect(question).to_have_count(1)
    expect(question).to_contain_text("Which colour should the bikeshed have?")
    box = page.locator("form[data-task-id] textarea[name=reply]")
    expect(box).to_be_visible()
    expect(page).to_have_title(_begins("(1) "))

    box.fill("The blue one")
    question.get_by_role("button", name="Answer").click()
    expect(page.get_by_text("Painted it blue.")).to_be_visible()
    expect(question).to_have_count(0)
    expect(page).not_to_have_title(_begins("("))
    assert page.evaluate("window.sameDocument") is True, "nothing of this reloaded the page"

    page.reload()
    for said in ("Paint the bikeshed", "Which colour should the bikeshed have?", "The blue one", "Painted it blue."):
        expect(page.get_by_text(said, exact=True).first).to_be_visible()


@pytest.mark.long
def test_what_nobody_can_take_is_taken_by_an_agent_that_is_added_there(
    place: Place, expect: Callable[..., Any]
) -> None:
    place.team("paint")
    agent = f"[painter]\ntitle = 'Painter'\nheadless = {json.dumps([sys.executable, '-c', 'print(2)', '{prompt}'])}\n"
    Path(place.home.path, "agents.toml").write_text(f"{agent}[painter.headless_modes]\nask = []\nworkspace = []\n")
    page = place.visit("/projects/paint")
    send(page, "Paint the bikeshed")
    expect(page).to_have_title(_begins("(1) "))
    for path in ("/", "/projects/paint"):
        page.goto(place.server.url + path)
        expect(page.locator("main").get_by_text("nobody can take this: the team has no agent")).to_be_visible()
        expect(page.get_by_label("Agent", exact=True).locator("option")).to_contain_text(["painter"])
    page.get_by_label("Agent", exact=True).select_option("painter")
    page.get_by_label("Name", exact=True).fill("bob marley")
    page.get_by_role("button", name="Add an agent").click()
    expect(page.get_by_text("bob marley")).to_be_visible()  # why it is no name
    page.get_by_label("Name", exact=True).fill("bob")
    expect(page.get_by_label("What it may do")).to_have_value("ask")
    page.get_by_label("What it may do").select_option("changes files, asks for the rest")
    page.get_by_role("button", name="Add an agent").click()
    expect(page.get_by_text("bob is a member now.")).to_be_visible()
    expect(page.get_by_text("nobody can take this")).to_have_count(0)
    expect(page.get_by_text("Done").first).to_be_attached()
    (bob,) = [one for one in place.home.team("paint").members() if one.name == "bob"]
    assert (bob.agent, bob.permissions) == ("painter", "workspace")


@pytest.mark.long
def test_a_task_that_stopped_says_why_in_the_language_of_the_page(place: Place, expect: Callable[..., Any]) -> None:
    team = place.team("paint", "bob")
    task = team.create_task("Choose a colour").id
    bob = team.acting("bob", session="s")
    bob.claim(task)
    bob.block(task, reason="credentials.txt is missing")
    asked = "bob is blocked: credentials.txt is missing. What should it do?"
    page = place.visit(f"/projects/paint/tasks/{task}")
    expect(page.locator("[data-role=question]")).to_contain_text(asked)
    expect(page.get_by_text("タスク")).to_have_count(0)
    page.goto(f"{place.server.url}/projects/paint/board")
    expect(page.locator(".card-note")).to_contain_text(asked)
    team.reply(task, "Look again")
    page.goto(f"{place.server.url}/projects/paint/tasks/{task}")
    for one in page.get_by_text("このタスク").all():
        assert one.get_attribute("lang") == "ja"


@pytest.mark.long
@pytest.mark.req("GUARD-INV-6")
def test_wherever_a_task_that_waits_is_shown_it_can_be_answered(place: Place, expect: Callable[..., Any]) -> None:
    team = place.team("paint", "bob")
    task = team.create_task("Choose a colour").id
    bob = team.acting("bob", session="s")
    bob.claim(task)
    bob.ask(task, "Which colour?", options=["Red", "Blue"], default="Blue")
    for path in ("/", "/projects/paint", f"/projects/paint/tasks/{task}", f"/tasks/{task}"):
        page = place.visit(path)
        expect(page.locator("[data-role=question]")).to_contain_text("Which colour?")
        expect(page.locator(f'form[data-task-id="{task}"] textarea[name=reply]')).to_be_visible()
        expect(page.get_by_role("group", name="Answers to choose from").get_by_role("button")).to_have_count(2)
    page.get_by_role("button", name="Red").click()
    expect(page.locator("[data-role=question]")).to_have_count(0)
    assert team.conversation(task)[0].answer == "Red"


@pytest.mark.long
def test_after_a_kill_the_open_page_finds_everything_again_and_the_work_goes_on(
    place: Place, expect: Callable[..., Any]
) -> None:
    place.team("paint", agent=True)
    page = place.visit("/projects/paint")
    send(page, "Paint the bikeshed")
    place.let_go()
    question = page.locator("[data-role=question]")
    expect(question).to_contain_text("Which colour should the bikeshed have?")
    box = page.locator("textarea[name=reply]")
    box.fill("The blue")
    place.restart()
    expect(page.locator("[data-link]")).to_have_text("live")
    expect(question).to_contain_text("Which colour should the bikeshed have?")
    expect(box).to_have_value("The blue")
    box.press_sequentially(" one")
    box.press("Control+Enter")
    expect(page.get_by_text("Painted it blue.")).to_be_visible()


@pytest.mark.long
def test_two_browsers_see_the_same_and_only_one_answer_counts(place: Place, expect: Callable[..., Any]) -> None:
    team = place.team("paint", "bob")
    task = team.create_task("Choose a colour").id
    one, other = (place.visit(f"/projects/paint/tasks/{task}") for _ in range(2))
    expect(one.locator("[data-link]")).to_have_text("live")
    expect(other.locator("[data-link]")).to_have_text("live")
    bob = team.acting("bob", session="s")
    bob.claim(task)
    bob.ask(task, "Which colour?")
    for page in (one, other):
        expect(page.locator("[data-role=question]")).to_contain_text("Which colour?")
    other.route("**/*region=*", lambda route: route.abort())  # the other is slow to hear of it
    other.locator("textarea[name=reply]").fill("Green, after long thought")
    one.locator("textarea[name=reply]").fill("Red")
    one.get_by_role("button", name="Answer").click()
    expect(one.locator("[data-role=question]")).to_have_count(0)
    other.get_by_role("button", name="Answer").click()
    # At one look: it stays for a few seconds only.
    expect(other.locator(".toast.bad")).to_contain_text(re.compile("was answered by human.*“Red”"))
    expect(other.locator("textarea[name=reply]")).to_have_value("Green, after long thought")
    assert [said.answer for said in team.conversation(task)] == ["Red"]
    other.unroute("**/*region=*")
    expect(other.locator("[data-role=question]")).to_have_count(0)
    expect(other.locator("[data-kept]")).to_contain_text("was answered by human")
    expect(other.get_by_label("What you wrote")).to_have_value("Green, after long thought")


@pytest.mark.long
def test_an_answer_under_way_stays_when_its_question_goes_and_never_reaches_the_next(
    place: Place, expect: Callable[..., Any]
) -> None:
    team = place.team("paint", "bob")
    task = team.create_task("Choose a colour").id
    bob = team.acting("bob", session="s")
    bob.claim(task)
    first = bob.ask(task, "Which colour?")
    bob.ask(task, "Which brush?")
    page = place.visit(f"/projects/paint/tasks/{task}")
    expect(page.locator("[data-link]")).to_have_text("live")
    page.get_by_label("Your answer").press_sequentially("Green, af")
    team.reply(task, "Red", question=first.id)
    kept = page.get_by_label("What you wrote")
    expect(kept).to_have_value("Green, af")
    expect(page.locator("[data-kept]")).to_contain_text("was answered by human with “Red”")
    expect(kept).to_be_focused()
    page.keyboard.type("r")  # a key of the page, were nothing kept
    expect(page.locator("[data-role=question]")).to_contain_text("Which brush?")
    expect(page.get_by_label("Your answer")).to_have_value("")
    expect(kept).to_be_focused()
    page.get_by_role("button", name="Put away").click()
    expect(kept).to_have_count(0)


@pytest.mark.long
def test_who_answered_is_said_also_when_it_is_heard_after_the_question_went(
    place: Place, expect: Callable[..., Any]
) -> None:
    team = place.team("paint", "bob")
    task = team.create_task("Choose a colour").id
    bob = team.acting("bob", session="s")
    bob.claim(task)
    asked = bob.ask(task, "Which colour?")
    page = place.visit(f"/projects/paint/tasks/{task}")
    page.route("**/api/events*", lambda route: route.abort())  # events come late: from another tab, below
    page.reload()
    page.get_by_label("Your answer").press_sequentially("Green, af")
    team.reply(task, "Red", question=asked.id)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
    expect(page.locator("[data-kept]")).to_contain_text("This question was closed before you sent your answer.")
    page.evaluate(
        "id => new BroadcastChannel('interlock-events').postMessage({event: {type: 'question.answered', "
        "team: 'paint', actor: 'human', payload: {id, answer: 'Red'}}})",
        asked.id,
    )
    expect(page.locator("[data-kept]")).to_contain_text("was answered by human with “Red”")
    expect(page.get_by_label("What you wrote")).to_have_value("Green, af")


@pytest.mark.long
def test_what_one_types_stays_while_the_page_changes_around_it(place: Place, expect: Callable[..., Any]) -> None:
    team = place.team("paint", "bob")
    task = team.create_task("Choose a colour").id
    bob = team.acting("bob", session="s")
    bob.claim(task)
    bob.ask(task, "Which colour?")
    page = place.visit("/projects/paint")
    expect(page.locator("[data-link]")).to_have_text("live")
    box = page.locator("textarea[name=reply]")
    box.fill("Perhaps ")
    page.evaluate("document.querySelector('textarea[name=reply]').setSelectionRange(3, 3)")
    team.create_task("Something else")
    expect(page.get_by_role("link", name="Something else")).to_be_visible()
    expect(box).to_be_focused()
    expect(box).to_have_value("Perhaps ")
    assert page.evaluate("document.activeElement.selectionStart") == 3


@pytest.mark.long
def test_messages_between_members_appear_as_they_are_sent_and_a_person_joins_in(
    place: Place, expect: Callable[..., Any]
) -> None:
    team = place.team("paint", "ada", "bob")
    page = place.visit("/projects/paint/messages")
    expect(page.get_by_role("heading", name="No messages yet")).to_be_visible()
    expect(page.locator("[data-link]")).to_have_text("live")
    team.acting("ada", session="s").send(to="bob", content="Is the *brush* yours?")
    expect(page.get_by_text("Is the brush yours?")).to_be_visible()
    page.get_by_label("To", exact=True).select_option("bob")
    page.get_by_label("Message", exact=True).fill("It is mine.")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".letter").get_by_text("It is mine.")).to_be_visible()
    expect(page.get_by_label("Message", exact=True)).to_have_value("")
    assert [message.content for message in team.read(by="bob")][-1] == "It is mine."


def _begins(text: str) -> Any:
    return re.compile("^" + re.escape(text))


@pytest.mark.long
def test_what_needs_somebody_is_announced_in_every_tab_and_cleared_when_it_is_settled(
    place: Place, expect: Callable[..., Any]
) -> None:
    team = place.team("paint", "bob")
    page = place.visit("/projects/paint/board")
    page.context.grant_permissions(["notifications"])
    page.context.add_init_script(
        """document.hasFocus = () => false; window.notices = [];
        window.Notification = class extends Notification {
            constructor(title, more) { super(title, more); notices.push(more.body); }
            close() { super.close(); notices.push("closed"); }
        };"""
    )
    other = page.context.new_page()
    for one in (page, other):
        one.goto(f"{place.url()}/projects/paint/board")
        expect(one.locator("[data-link]")).to_have_text("live")
    task = team.create_task("Choose a colour", blocked_by=[]).id
    behind = team.create_task("Paint it", blocked_by=[task]).id
    bob = team.acting("bob", session="s")
    bob.claim(task)
    bob.ask(task, "Red or blue?", options=["red", "blue"])
    for one in (page, other):
        expect(one).to_have_title(re.compile(r"^\(1\) "))
        expect(one.locator("[data-announced]")).to_have_text("Needs you: paint: Choose a colour: Red or blue?")
    assert page.evaluate("notices")[0] == "paint: Choose a colour: Red or blue?"
    other.goto(f"{place.url()}/")
    expect(other.locator(".question-head")).to_contain_text("holds up 1 task")
    other.get_by_role("button", name="blue").click()
    expect(page).not_to_have_title(re.compile(r"^\("))
    page.wait_for_function("notices.at(-1) === 'closed'")
    assert team.task(behind).blocked_by == [task]
