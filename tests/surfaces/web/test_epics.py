"""Tasks whose plan says which epic they are of are searched and grouped by it; where nobody says, nothing changes."""

from __future__ import annotations

import re

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from tests.surfaces.http.harness import Client

BASE = "/projects/shop"


@pytest.fixture(scope="module")
def team(home: Home) -> Team:
    home.create_project("shop")
    team = home.team("shop")
    team.spawn("bob")
    for subject, metadata in (
        ("Sign in", {"epic": "1"}), ("Pay", {"epic": "10"}), ("Sign out", {"epic": "1"}), ("Lint", None),
        ("Ship", {"epic": 'The "last" %'}), ("Misled", {"note": '"epic": "1"', "epic": 7}),
    ):  # fmt: skip
        team.create_task(subject, metadata=metadata, blocked_by=["1"] if subject in ("Pay", "Sign out") else [])
    return team


@pytest.mark.parametrize(
    ("epic", "found"),
    [("1", ["Sign in", "Sign out"]), ("10", ["Pay"]), ("The%20%22last%22%20%25", ["Ship"]), ("2", [])],
)
def test_a_board_shows_the_tasks_of_one_epic(browser: Client, team: Team, epic: str, found: list[str]) -> None:
    html = read(browser, f"/board?epic={epic}")
    assert sorted(subjects(html)) == found
    assert f"{len(found)} task" in html
    assert sorted(subjects(read(browser, f"/board/next?epic={epic}"))) == found


def test_the_epic_is_completed_kept_and_may_group(browser: Client, team: Team) -> None:
    html = read(browser, "/board?by=epic&q=s")
    offered = re.findall(
        r'<option value="([^"]*)"></option>', html.partition('id="f-epics"')[2].partition("</datalist>")[0]
    )
    assert offered == ["1", "10", "The &#34;last&#34; %"], "numbers as numbers"
    assert re.findall(r'class="epic-name">([^<]*)<', html) == ["Epic 1", "The &#34;last&#34; %", "Epic 10", "No epic"]
    assert re.search(r'name="by" value="epic" checked', html)
    assert "epic-name" not in read(browser, "/board")
    assert re.search(r'data-src="[^"]*epic=1[^"]*region=board"', read(browser, "/board?epic=1")), "a change keeps it"


def test_the_picture_shows_one_epic(browser: Client, team: Team) -> None:
    stations = re.findall(r"<title>([^(<]*) \(", read(browser, "/graph?epic=1"))
    assert stations == ["Sign in", "Sign out"]
    assert len(re.findall(r"<title>([^(<]*) \(", read(browser, "/graph"))) == 3


def test_a_team_without_epics_is_asked_for_none(browser: Client, home: Home, team: Team) -> None:
    home.create_project("plain")
    home.team("plain").create_task("A task")
    html = browser.call("GET", "/projects/plain/board").body.decode()
    assert "f-epic" not in html and "by epic" not in html


def read(browser: Client, path: str) -> str:
    answer = browser.call("GET", f"{BASE}{path}")
    assert answer.status == 200, answer.body
    return answer.body.decode()


def subjects(html: str) -> list[str]:
    return re.findall(r'<li class="card[^>]*>\s*<h3><a [^>]*>([^<]*)</a>', html)
