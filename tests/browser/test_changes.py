"""What a task changed in a worktree of its own, and how a person takes it over, on the page."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.behaviours.repository import Repository
from tests.browser.conftest import Place

pytestmark = pytest.mark.long

PLAN = """team: crew
workdir: work
isolation: worktree
members: {ada: {agent: shell}}
tasks:
  notes: {subject: Say more, run: "PYTHON MAKE"}
  more: {subject: Build on it, run: "echo more > more.txt", blocked_by: [notes]}
"""

IGNORED = """team: crew
workdir: work
isolation: worktree
members: {ada: {agent: shell}}
tasks:
  report: {subject: Build it, run: "mkdir dist && echo made > dist/REPORT"}
  broken: {subject: Break it, run: "touch half; exit 1", retries: 0}
"""


def worked(place: Place) -> tuple[Any, Repository, str, str]:
    """A team whose two tasks are done, its repository, and their ids."""
    repository = Repository(place.directory / "work")
    make = place.directory / "make.py"
    make.write_text("open('notes.md', 'wb').write(b'one\\n<b>two</b>\\n\\xe2\\x80\\xae)(\\n')")
    plan = PLAN.replace("PYTHON", sys.executable).replace("MAKE", str(make))
    (place.directory / "plan.yaml").write_text(plan)
    assert place.run() == 0
    team = place.home.team("crew")
    first, second = sorted(task.id for task in team.tasks())
    return team, repository, first, second


@pytest.mark.parametrize("scripted", [True, False])
def test_changes_are_read_line_by_line_and_merged_by_a_button(
    place: Place, expect: Callable[..., Any], scripted: bool
) -> None:
    team, repository, first, second = worked(place)
    page = place.visit(f"/projects/crew/tasks/{second}", java_script_enabled=scripted)
    expect(page.get_by_text("not merged into a branch of yours yet")).to_be_visible()
    page.get_by_role("link", name="Show changes").click()
    expect(page.locator(".patch .added code")).to_have_text(["added: more"])
    expect(page.get_by_text("would get 3 commits")).to_be_visible()
    expect(page.get_by_role("link", name="Say more")).to_be_visible()
    (repository.path / "notes.md").write_text("mine\n")
    page.goto(page.url)
    expect(page.locator(".note")).to_contain_text("notes.md are not committed")
    expect(page.get_by_role("button", name="Merge into main")).to_have_count(0)
    (repository.path / "notes.md").unlink()
    page.goto(page.url)
    page.get_by_role("button", name="Merge into main").click()
    expect(page.get_by_text("Merged into main")).to_be_visible()
    assert (repository.path / "more.txt").read_text() == "more\n"
    assert team.task(first).worktree["delivered"] == "main"
    page.goto(f"{place.url(scripted)}/projects/crew/tasks/{first}/changes")
    expect(page.locator(".patch .added code")).to_have_text(["added: one", "added: <b>two</b>", "added: \\u202e)("])
    assert page.locator(".patch b").count() == 0
    expect(page.get_by_text("Merged into main")).to_be_visible()


def test_only_who_may_act_is_offered_the_merge_and_no_other_page_can_do_it(place: Place) -> None:
    team, repository, first, _ = worked(place)
    path, body = f"/projects/crew/tasks/{first}/merge", b"into=main"
    admin = place.server.browser()
    viewer = place.server.person("vera", "viewer")
    viewer.headers["accept"] = "text/html"
    looked = viewer.call("GET", f"/projects/crew/tasks/{first}/changes").body.decode()
    assert "&lt;b&gt;two" in looked and "Merge into" not in looked and "not merged into a branch of yours yet" in looked
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert viewer.call("POST", path, body, kind).status == 403
    assert admin.call("POST", path, body, {**kind, "origin": "http://evil.example"}).status == 403
    assert admin.call("POST", path, b"", kind).status == 400
    assert admin.call("POST", path, b"into=none", kind).status == 409
    assert not (repository.path / "notes.md").exists()
    assert admin.call("POST", path, body, kind).status == 303
    assert (repository.path / "notes.md").exists() and team.task(first).worktree["delivered"] == "main"
    place.team("paint")
    plain = place.home.team("paint").create_task("No worktree").id
    told = admin.call("GET", f"/projects/paint/tasks/{plain}/changes").body.decode()
    assert "has not begun" in told and "Show changes" not in told


def test_the_report_names_what_is_in_no_commit_and_where_work_is_kept(place: Place, expect: Callable[..., Any]) -> None:
    repository = Repository(place.directory / "work")
    (repository.path / ".git" / "info" / "exclude").write_text("dist/\n")
    (place.directory / "plan.yaml").write_text(IGNORED)
    place.run()
    page = place.visit("/projects/crew/report")
    expect(page.get_by_text("nothing that it made is in git, kept with its run: dist/REPORT")).to_be_visible()
    kept = page.locator("section.report li").filter(has=page.locator("code", has_text="/worktrees/"))
    expect(kept).to_contain_text("Break it")


REVIEWS = r"""team: crew
workdir: work
isolation: worktree
members: {ada: {agent: shell}}
tasks:
  one:
    subject: First
    run: 'while test -e HOLD; do sleep 0.05; done; printf "a = 1\nb = 2\n" > one.py; printf "\033[31mred\033[0m\n"'
    review: human
  two: {subject: Second, run: "seq 1 500 > two.txt", review: human}
  three: {subject: Third, run: "echo made > three", verify: "cat three", review: human}
"""


def test_a_night_is_reviewed_without_leaving_the_screen_by_two_keys_each(
    place: Place, expect: Callable[..., Any]
) -> None:
    Repository(place.directory / "work")
    hold = place.directory / "hold"
    (place.directory / "plan.yaml").write_text(REVIEWS.replace("HOLD", str(hold)))
    place.run("--unattended")
    hold.touch()  # What is sent back is still worked on when the others are decided.
    page = place.visit("/")
    page.get_by_role("link", name="Review the changes").first.click()
    expect(page.locator("h1")).to_have_text("First")
    expect(page.locator("html[data-live]")).to_be_attached()  # its clicks are heard
    expect(page.locator(".patch .added code")).to_have_text(["added: a = 1", "added: b = 2"])
    expect(page.locator(".tail .ansi-1")).to_have_text("red")
    page.get_by_title("Remark on this line").last.click()
    page.keyboard.type("call it c")
    expect(page.get_by_label("Your answer")).to_have_value("one.py:2: call it c")

    def press(key: str, title: str) -> None:
        page.keyboard.press(key)
        expect(page.locator("h1")).to_have_text(title)
        expect(page.locator("html[data-live]")).to_be_attached()  # its keys are heard

    press("Control+Enter", "Second")
    expect(page.locator("details.file")).not_to_have_attribute("open", "")
    press("n", "Third")
    before = page.locator("details", has_text="What it printed before the work")
    before.locator("summary").click()
    expect(before.locator("pre")).to_contain_text("No such file")
    page.locator("h1").click()  # Enter is for the page again, not for what was unfolded.
    page.keyboard.press("1")
    press("Enter", "Second")
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Merge into main")).to_be_visible()
    team = place.home.team("crew")
    page.goto(f"{place.url()}/projects/crew/board/done")
    for title in ("Second", "Third"):
        expect(page.get_by_role("link", name=title, exact=True)).to_be_visible()
    answers = [one.answer for one in team.story("001").questions]
    assert "changes: one.py:2: call it c" in answers


@pytest.mark.storm
@pytest.mark.dosed
@pytest.mark.parametrize("width", [1440, 390])
def test_a_long_night_is_decided_on_one_screen_in_three_actions_a_review_at_most(
    place: Place, expect: Callable[..., Any], dose: float, width: int
) -> None:
    number, hold = max(5, int(40 * dose)), place.directory / "hold"
    lines = [
        f"  part{n}: {{subject: Change part {n}, run: 'while test -e {hold}; do sleep 0.05; done; "
        f"echo {n} > part{n}.txt', verify: test -s part{n}.txt, review: human}}"
        for n in range(number)
    ]
    head = (
        "team: crew\nworkdir: work\nisolation: worktree\nmembers: {ada: {agent: shell}, ben: {agent: shell}}\ntasks:\n"
    )
    Repository(place.directory / "work")
    (place.directory / "plan.yaml").write_text(head + "\n".join(lines))
    place.run("--unattended")
    team = place.home.team("crew")
    waiting = {one.task_id for one in team.questions() if one.kind == "review"}
    assert len(waiting) == number
    hold.touch()  # What is sent back is still worked on when the others are decided.
    page = place.visit("/projects/crew/report", viewport={"width": width, "height": 844}, has_touch=width < 800)
    page.get_by_role("link", name="Start reviewing").click()
    page.wait_for_url("**/changes")
    most, asked = 0, set[str]()
    for left in reversed(range(number)):
        expect(page.locator("html[data-live]")).to_be_attached()
        assert page.url.endswith("/changes"), "one never leaves the screen"
        expect(page.locator(".evidence")).to_contain_text("Passed")
        before, actions = page.url, 0
        if len(asked) < number // 5:
            asked.add(before.split("/")[-2])
            page.get_by_label("Your answer").fill("say it in words")
            page.get_by_role("button", name="Ask for changes").click()
            actions += 2
        elif width < 800:
            page.get_by_role("button", name="Approve").tap()
            actions += 1
        else:
            page.keyboard.press("1")
            page.keyboard.press("Enter")
            actions += 2
        most = max(most, actions)
        if left:
            # Not until its question is gone: that it is answered may be heard before one is led on.
            page.wait_for_url(lambda url, before=before: url != before)
        else:
            expect(page.locator("[data-role=question]")).to_have_count(0)
    assert most <= 3
    answered = {id for id in waiting if any(one.answer for one in team.story(id).questions)}
    assert answered == waiting, "all are decided"
    assert {id for id in waiting if any("say it" in str(one.answer) for one in team.story(id).questions)} == asked
