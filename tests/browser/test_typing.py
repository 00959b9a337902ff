"""Whatever changes around it, what one types goes into the box one types in, which stays where it is."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from interlock.app.team import Team
from interlock.model.question import Question
from tests.browser.conftest import Place

SENTENCE = "Please reply on port 8080, remove the old route, jot down who gets /what"


def asked(team: Team, subjects: str, by: str = "bob") -> list[Question]:
    """A question about a task of each of the `subjects`, in this order."""
    member = team.acting(by, session="s")
    found = []
    for subject in subjects.split():
        task = team.create_task(subject).id
        member.claim(task)
        found.append(member.ask(task, f"{subject}: which port?"))
    return found


def answer_at_a_terminal(place: Place, team: Team, question: Question) -> None:
    command = [sys.executable, "-m", "interlock", "--home", str(place.directory / "home")]
    command += ["question", "reply", question.task_id, "9090", "--question", question.id, "--team", team.name]
    subprocess.run(command, check=True, capture_output=True, timeout=240)


def top(page: Any, question: Question) -> float:
    """Where on the screen its box is."""
    found: float = page.locator(f"#r-{question.id}").bounding_box()["y"]
    return found


def typed(page: Any, text: str, moments: int) -> Iterator[None]:
    """Type `text` key by key, with so many pauses for something to happen."""
    step = len(text) // (moments + 1) + 1
    for at in range(0, len(text), step):
        page.keyboard.type(text[at : at + step])
        yield


@pytest.mark.long
@pytest.mark.parametrize("path", ["/projects/paint", "/"])
def test_a_sentence_stays_in_its_box_while_the_cards_above_it_are_answered(
    place: Place, expect: Callable[..., Any], path: str
) -> None:
    team = place.team("paint", "bob")
    questions = asked(team, "one two three four five six")
    page = place.visit(path)
    expect(page.locator("[data-link]")).to_have_text("live")
    fifth = questions[4]
    page.locator(f"#r-{fifth.id}").focus()
    before = top(page, fifth)
    above = list(questions[:4])
    for _ in typed(page, SENTENCE, 4):
        if above:
            answer_at_a_terminal(place, team, above.pop(0))
            expect(page.locator("[data-role=question]")).to_have_count(len(above) + 2)
            assert abs(top(page, fifth) - before) < 1, "it stays where it is on the screen"
    expect(page.locator(f"#r-{fifth.id}")).to_have_value(SENTENCE)
    expect(page.locator(f"#r-{fifth.id}")).to_be_focused()
    expect(page.locator(f"#r-{questions[5].id}")).to_have_value("")
    page.keyboard.press("Control+Enter")
    expect(page.locator("[data-role=question]")).to_have_count(1)
    assert [one.answer for one in team.conversation(fifth.task_id)] == [SENTENCE]


@pytest.mark.long
def test_what_is_sent_before_the_page_is_ready_is_sent_when_it_is(place: Place, expect: Callable[..., Any]) -> None:
    team = place.team("paint", "bob")
    [question] = asked(team, "one")
    page = place.visit("/projects/paint")
    scripts: list[Any] = []
    page.route("**/app.js", lambda route: scripts.append(route))
    with page.expect_request("**/app.js"):
        page.reload(wait_until="commit")
    page.locator(f"#r-{question.id}").fill("9090")
    page.get_by_role("button", name="Answer", exact=True).click()
    assert team.questions()
    scripts[-1].continue_()
    expect(page.locator("[data-role=question]")).to_have_count(0)
    assert [one.answer for one in team.conversation(question.task_id)] == ["9090"]


@pytest.mark.long
def test_a_sentence_stays_in_its_box_while_whole_projects_above_it_come_and_go(
    place: Place, expect: Callable[..., Any]
) -> None:
    first, last = place.team("aviary", "bob"), place.team("zoo", "bob")
    [before], [mine] = asked(first, "Feed"), asked(last, "Clean")
    page = place.visit("/")
    expect(page.locator("[data-link]")).to_have_text("live")
    page.locator(f"#r-{mine.id}").focus()
    at = top(page, mine)
    page.keyboard.type("Port 80")
    answer_at_a_terminal(place, first, before)
    expect(page.locator("[data-role=question]")).to_have_count(1)
    page.keyboard.type("80, remove ")
    assert abs(top(page, mine) - at) < 1
    asked(place.team("middle", "bob"), "Paint Fix")
    expect(page.locator("[data-role=question]")).to_have_count(3)
    page.keyboard.type("the rest")
    expect(page.locator(f"#r-{mine.id}")).to_have_value("Port 8080, remove the rest")
    assert abs(top(page, mine) - at) < 1


@pytest.mark.long
def test_drafts_in_several_boxes_and_the_place_in_one_stay_while_others_close(
    place: Place, expect: Callable[..., Any]
) -> None:
    team = place.team("paint", "bob")
    questions = asked(team, "one two three four")
    page = place.visit("/projects/paint")
    expect(page.locator("[data-link]")).to_have_text("live")
    for question in questions[1:]:
        page.locator(f"#r-{question.id}").fill(f"draft for {question.task_id}")
    page.evaluate("document.activeElement.setSelectionRange(2, 7)")
    answer_at_a_terminal(place, team, questions[0])
    expect(page.locator("[data-role=question]")).to_have_count(3)
    for question in questions[1:]:
        expect(page.locator(f"#r-{question.id}")).to_have_value(f"draft for {question.task_id}")
    selected = "[document.activeElement.id, document.activeElement.selectionStart, document.activeElement.selectionEnd]"
    assert page.evaluate(selected) == [f"r-{questions[3].id}", 2, 7]


@pytest.mark.long
def test_what_is_typed_on_when_its_question_closes_goes_into_the_box(place: Place, expect: Callable[..., Any]) -> None:
    team = place.team("paint", "bob")
    first, second, other = asked(team, "one two three")
    page = place.visit("/projects/paint")
    expect(page.locator("[data-link]")).to_have_text("live")
    page.locator(f"#r-{first.id}").focus()
    page.keyboard.type("Port 80")
    answer_at_a_terminal(place, team, first)
    expect(page.locator("[data-role=question]")).to_have_count(2)
    at = page.evaluate("scrollY")
    page.keyboard.type("80, or / jot it")
    kept = page.locator("[data-kept] textarea")
    expect(kept).to_have_value("Port 8080, or / jot it")
    expect(kept).to_be_focused()
    assert page.evaluate("scrollY") == at, "a space scrolled nothing"
    # The same where nothing was written yet; a box that nobody wrote in goes away by itself.
    page.locator(f"#r-{second.id}").focus()
    answer_at_a_terminal(place, team, second)
    expect(page.locator("[data-role=question]")).to_have_count(1)
    page.keyboard.type("r n")
    expect(page.locator("[data-kept] textarea:focus")).to_have_value("r n")
    expect(page.locator(f"#r-{other.id}")).to_have_value("")
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    page.keyboard.press("Escape")
    expect(kept).to_have_count(1)


@pytest.mark.long
def test_the_card_that_one_reads_stays_in_place_when_one_above_it_closes(
    place: Place, expect: Callable[..., Any]
) -> None:
    team = place.team("paint", "bob")
    questions = asked(team, "one two three four five six seven eight nine ten eleven twelve")
    page = place.visit("/projects/paint")
    expect(page.locator("[data-link]")).to_have_text("live")
    page.evaluate(f"document.getElementById('q-{questions[5].id}').scrollIntoView()")
    before = top(page, questions[6])
    answer_at_a_terminal(place, team, questions[0])
    expect(page.locator("[data-role=question]")).to_have_count(11)
    assert abs(top(page, questions[6]) - before) < 1


@pytest.mark.storm
@pytest.mark.dosed
def test_no_key_is_lost_or_strays_while_cards_above_and_below_open_close_and_change(
    place: Place, expect: Callable[..., Any], dose: float
) -> None:
    rng = random.Random(14)
    teams = [place.team(name, "bob") for name in ("aviary", "middle", "zoo")]
    open_ = [(team, one) for team in teams for one in asked(team, "one two")]
    mine = open_.pop(2)[1]
    page = place.visit("/")
    expect(page.locator("[data-link]")).to_have_text("live")
    box = page.locator(f"#r-{mine.id}")
    box.focus()
    written = ""
    for number in range(max(10, int(200 * dose))):
        team = rng.choice(teams)
        act = rng.choice(("open", "close", "change"))
        if act == "open" and len(open_) < 12:
            open_ += [(team, one) for one in asked(team, f"more-{number}")]
        elif act == "close" and len(open_) > 2:
            team, gone = open_.pop(rng.randrange(len(open_)))
            team.cancel(gone.task_id)
        else:
            team, other = rng.choice(open_)
            team.update(other.task_id, subject=f"Changed {number}")
        # Letters that are shortcuts of the page, among others, while the change comes in.
        for key in rng.choices("gjkrna/? 123xyz", k=rng.randint(1, 8)):
            page.keyboard.type(key)
            written += key
        state = page.evaluate("[document.activeElement.id, document.activeElement.value]")
        assert state == [f"r-{mine.id}", written], f"after change {number}: {act}"
    expect(page.locator("[data-role=question]")).to_have_count(len(open_) + 1)
    expect(box).to_have_value(written)
    expect(box).to_be_focused()
    assert page.locator("textarea[data-reply]").evaluate_all("all => all.filter(one => one.value).length") == 1
    assert page.locator("dialog[open]").count() == 0 and page.url == f"{place.url()}/"
