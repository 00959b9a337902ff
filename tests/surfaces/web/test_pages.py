"""Pages and forms over plain HTTP: what is where, for whom, and what it costs to look again."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.parse import urlencode

import pytest

from interlock.app.home import Home
from interlock.app.team import Team
from scripts.seeded_home import fill
from tests.surfaces.http.harness import Answer, Client, Server
from tests.workflow.stage import SKILL, project

BASE = "/projects/harbour-api"
AUTHOR = Path(__file__).parents[2] / "workflow" / "programs" / "author.py"
PLACES = ("", "/board", "/board/ready", "/graph", "/members", "/members/ada", "/messages", "/timeline", "/workflows",
          "/stories", "/report", "/sessions/double-sessions")  # fmt: skip


@pytest.fixture(scope="module")
def team(home: Home, server: Server) -> Team:
    fill(home, str(server.home))
    return home.team("harbour-api")


def post(browser: Client, path: str, **form: str) -> Answer:
    body = urlencode(form).encode()
    return browser.call("POST", path, body, {"content-type": "application/x-www-form-urlencoded"})


def test_every_page_is_whole_without_anything_from_elsewhere(browser: Client, team: Team) -> None:
    tasks = [f"{BASE}/tasks/{task.id}" for task in team.tasks()]
    for path in ["/", "/report", *(BASE + place for place in PLACES), *tasks]:
        answer = browser.call("GET", path)
        html = answer.body.decode()
        assert answer.status == 200, (path, html)
        assert html.startswith("<!doctype html>") and html.count("<h1") == 1, path
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//(?!www\.rfc-editor\.org)', html), path
        assert not re.search(r"<script(?!(?: type=\"module\")? src=\"/static/)|<style|\sstyle=|\son\w+=\"", html), path
        ids = re.findall(r'\sid="([^"]+)"', html)
        assert len(ids) == len(set(ids)), (path, sorted(one for one in ids if ids.count(one) > 1))
        for name in re.findall(r'(?:src|href)="/static/([^"]+)"', html):
            assert browser.call("GET", f"/static/{name}").status == 200, name


def test_the_policy_allows_scripts_and_styles_of_the_server_alone(browser: Client, team: Team) -> None:
    policy = browser.call("GET", BASE).headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy


def test_a_region_is_fetched_alone_and_costs_nothing_where_it_is_the_same(browser: Client, team: Team) -> None:
    answer = browser.call("GET", f"{BASE}/board?region=board")
    assert answer.body.startswith(b'<div class="region') and b"<html" not in answer.body
    again = browser.call("GET", f"{BASE}/board?region=board", headers={"if-none-match": answer.headers["etag"]})
    # Ages are told in seconds at first, so a moment may have changed the words.
    assert again.status in (200, 304)
    static = browser.call("GET", "/static/app.js")
    assert browser.call("GET", "/static/app.js", headers={"if-none-match": static.headers["etag"]}).status == 304
    assert browser.call("GET", f"{BASE}/board?region=nonsense").status == 404


def test_every_module_that_a_module_imports_is_there(browser: Client, team: Team) -> None:
    seen, names = set(), ["app.js"]
    while names:
        name = names.pop()
        if name not in seen:
            seen.add(name)
            answer = browser.call("GET", f"/static/{name}")
            assert answer.status == 200 and answer.headers["content-type"].startswith("text/javascript")
            names += re.findall(r'from "\./([^"]+)"', answer.body.decode())
    assert len(seen) > 5


def test_short_addresses_show_the_same_where_they_are_unique_and_link_to_the_canonical_ones(
    browser: Client, home: Home, team: Team
) -> None:
    unique = team.tasks()[-1].id
    answer = browser.call("GET", f"/tasks/{unique}")
    assert answer.status == 200 and f'data-src="{BASE}/tasks/{unique}?region=head"'.encode() in answer.body
    answer = browser.call("GET", "/sessions/double-sessions")
    assert answer.status == 200 and f'data-src="{BASE}/sessions/double-sessions?region=thread"'.encode() in answer.body
    shared = home.team("atlas-docs").tasks()[0].id
    answer = browser.call("GET", f"/tasks/{shared}")
    assert answer.status == 409 and b"atlas-docs" in answer.body
    assert browser.call("GET", "/tasks/TASK-2020-01-01-001").status == 404
    assert browser.call("GET", "/sessions/nobody").status == 404
    assert browser.call("GET", "/static/..%2f..%2fpages.py").status == 404


def test_who_may_only_look_sees_no_buttons_and_can_press_none(server: Server, team: Team) -> None:
    viewer = server.person("vera", role="viewer")
    viewer.headers["accept"] = "text/html"
    task = team.questions()[0].task_id
    for path in ("/", BASE, f"{BASE}/board", f"{BASE}/tasks/{task}", f"{BASE}/messages"):
        answer = viewer.call("GET", path)
        assert answer.status == 200 and b"<form method=" not in answer.body.replace(b'<form method="dialog"', b""), path
    assert post(viewer, f"{BASE}/tasks/{task}/move", verb="cancel").status == 403
    assert team.task(task).state != "cancelled"


def test_strangers_see_nothing(server: Server, team: Team) -> None:
    stranger = server.stranger(accept="text/html")
    for path in ("/", BASE, "/static/app.js"):
        answer = stranger.call("GET", path)
        assert answer.status == 401 and b"harbour" not in answer.body


def test_a_form_from_another_site_is_refused(server: Server, team: Team) -> None:
    browser = server.browser()
    task = team.create_task("Keep me").id
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{server.port + 1}"):
        browser.headers["origin"] = origin
        assert post(browser, f"{BASE}/tasks/{task}/move", verb="delete").status == 403
    assert team.task(task).state == "ready"


def test_a_form_leads_back_to_where_one_was_and_never_elsewhere(browser: Client, team: Team) -> None:
    task = team.create_task("Move me").id
    for referer, leads in (
        (f"http://127.0.0.1{BASE}/board?x=1", f"{BASE}/board?x=1"),
        ("https://evil.example//evil.example/x", BASE),
        ("", BASE),
    ):
        browser.headers["referer"] = referer
        answer = post(browser, f"{BASE}/tasks/{task}/move", verb="assign", member="ada")
        assert (answer.status, answer.headers["location"]) == (303, leads)
    del browser.headers["referer"]


def test_a_review_is_answered_in_words(browser: Client, team: Team) -> None:
    question = next(one for one in team.questions() if one.kind == "review")
    path = f"{BASE}/tasks/{question.task_id}/reply"
    answer = post(browser, path, reply="Name the three that were kept", question_id=question.id)
    assert answer.status == 303
    assert team.task(question.task_id).findings == "Name the three that were kept"


def test_a_project_is_made_and_a_task_put_on_its_board(browser: Client, home: Home, server: Server) -> None:
    answer = post(browser, "/projects", id="from-the-page", workdir=str(server.home))
    assert (answer.status, answer.headers["location"]) == (303, "/projects/from-the-page")
    made = "/projects/from-the-page/tasks"
    post(browser, made, subject="First")
    post(browser, made, subject="Second", blocked_by="001", priority="high", body="More")
    team = home.team("from-the-page")
    assert [(one.subject, one.state, one.priority) for one in team.tasks()] == [
        ("First", "ready", "normal"),
        ("Second", "backlog", "high"),
    ]
    refused = post(browser, made, subject="", body="what I had written")
    assert refused.status == 400 and b"what I had written" in refused.body


def test_whatever_needs_a_person_can_be_ended_from_the_page(browser: Client, home: Home, server: Server) -> None:
    home.create_project("mixed", str(server.home))
    team = home.team("mixed")
    team.spawn("ada", agent="shell")
    idea = team.create_task("Old idea").id
    later = team.create_task("Later", blocked_by=[idea]).id
    team.cancel(idea)
    held = team.create_task("Held", run="true").id
    team.claim(held)
    shown = browser.call("GET", "/projects/mixed").body.decode()
    assert "No longer wait for it" in shown and "You hold it." in shown and "Mark as done" in shown
    assert post(browser, f"/projects/mixed/tasks/{later}/move", verb="undepend", on=idea).status == 303
    assert post(browser, f"/projects/mixed/tasks/{later}/move", verb="claim").status == 303
    for task in (later, held):
        assert post(browser, f"/projects/mixed/tasks/{task}/move", verb="complete").status == 303
    assert [one.state for one in team.tasks()] == ["cancelled", "done", "done"]
    assert "Nothing needs you" in browser.call("GET", "/projects/mixed").body.decode()


def test_a_person_reads_letters_on_the_page_and_says_so(browser: Client, team: Team) -> None:
    assert "unread message" in browser.call("GET", BASE).body.decode()
    assert "not marked as read" in browser.call("GET", f"{BASE}/messages").body.decode()
    assert team.status()["unread"]["human"] > 0, "to look is not to say that one has read it"
    assert post(browser, f"{BASE}/messages/read").status == 303
    assert "human" not in team.status()["unread"]
    assert "not marked as read" not in browser.call("GET", f"{BASE}/messages").body.decode()


def test_a_workflow_shows_its_steps_and_what_was_decided_and_why(browser: Client, home: Home, server: Server) -> None:
    root = project(server.home / "planning", steps=2)
    home.create_project("planning", str(root))
    team = home.team("planning")
    team.spawn("ada", agent="command", command=[sys.executable, str(AUTHOR)])
    run = team.start_workflow(SKILL, agent="ada", brief="A page for a small museum.")
    next(event for event in team.follow() if event.type == "workflow.ended")
    pages = ("workflows", f"tasks/{run['task_id']}", f"workflows/{run['workflow_id']}")
    for path in (f"/projects/planning/{page}" for page in pages):
        shown = browser.call("GET", path).body.decode()
        assert SKILL in shown and "2 of 2 steps" in shown and "Step 1: Part 1" in shown
        assert "Decisions, and why" in shown and "the step marks C as the way on" in shown


def test_an_agent_that_cannot_be_had_is_said_where_one_looks_for_what_needs_one(browser: Client, home: Home) -> None:
    home.create_project("idle-crew", None)
    home.team("idle-crew").spawn("cyd", agent="<b>cluade")
    for path in ("/", "/projects/idle-crew"):
        html = browser.call("GET", path).body.decode()
        assert "cyd cannot work here" in html and "interlock agents list" in html
        assert "<b>cluade" not in html
    home.delete_team("idle-crew", force=True)
