"""The page of a run, whatever its document holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from interlock.app.home import Home
from scripts import seeded_run
from scripts.seeded_run import Seeding
from tests.surfaces.http.harness import Client, Server

EVIL = "<img src=x onerror=alert(1)>"


def hostile(value: Any) -> Any:
    """The same document with markup in every text that an agent may have written."""
    fixed = "status verdict severity how purpose exit_reason at started ended result kind event".split()
    if isinstance(value, dict):
        return {key: one if key in fixed else hostile(one) for key, one in value.items()}
    if isinstance(value, list):
        return [hostile(one) for one in value]
    return f"{value} {EVIL}" if isinstance(value, str) else value


@pytest.fixture
def seeding(home: Home, server: Server, request: pytest.FixtureRequest, tmp_path: Path) -> Seeding:
    name = re.sub(r"[^a-z]+", "-", request.node.name.lower())[:40].strip("-")
    home.create_project(name, str(tmp_path))
    return Seeding(home, name, tmp_path)


def shown(browser: Client, seeding: Seeding, run: str, more: str = "") -> str:
    answer = browser.call("GET", f"/projects/{seeding.team.name}/workflows/{run}{more}")
    assert answer.status == 200, answer.body
    html = answer.body.decode()
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert len(ids) == len(set(ids)) and html.count("<h1") == 1
    assert not re.search(r"<script(?!(?: type=\"module\")? src=\"/static/)|<style|\sstyle=", html)
    return html


@pytest.mark.long
def test_what_agents_wrote_is_text_and_never_markup(browser: Client, home: Home, seeding: Seeding) -> None:
    seeded_run.add(home, seeding.team.name, seeding.directory)
    for run in (seeded_run.STORY, seeded_run.BUILT):
        with seeding.workspace.look() as rows:
            state = seeding.states.load(rows, run)
        for name in ("examinations", "party", "subagents", "learned", "documents", "decisions"):
            setattr(state, name, hostile(getattr(state, name)))
        state.hooks["steps"] = {key: hostile(one) for key, one in state.hooks.get("steps", {}).items()}
        state.error, state.warnings, state.misaligned = EVIL, [EVIL], [EVIL]
        seeding.save(state)
        for more in ("", "/rollback?to=2", "/rollback?to=%3Cimg%20src%3Dx%3E"):
            html = shown(browser, seeding, run, more)
            assert "<img" not in html and (more or "&lt;img" in html)


def test_a_discussion_that_begins_and_one_that_broke_off_are_shown(browser: Client, seeding: Seeding) -> None:
    state = seeding.begun("run-1", "/bmad:bmm:workflows:dev-story", {1: "Load"}, 0, "")
    state.party = seeded_run.party().as_dict() | {"rounds": [], "options": {}, "status": "running", "summary": {}}
    seeding.save(state)
    assert "round 1 of at most 5" in shown(browser, seeding, "run-1")
    with seeding.workspace.look() as rows:
        state = seeding.states.load(rows, "run-1")
    state.party |= {"status": "ended", "exit_reason": "error", "error": "Nobody could be heard"}
    seeding.save(state)
    html = shown(browser, seeding, "run-1")
    assert "it broke off" in html and "Nobody could be heard" in html


def test_work_that_nobody_came_to_a_verdict_on_is_not_reviewed(browser: Client, seeding: Seeding) -> None:
    names: Any = {1: "Write", "gate-code_review": "Code review"}
    state = seeding.begun("run-4", "/bmad:bmm:workflows:dev-story", names, 1, "")
    state.examinations = {"code_review": {"rounds": [], "status": "not reviewed"}}
    seeding.save(state)
    assert "Not reviewed" in shown(browser, seeding, "run-4")
    with seeding.workspace.look() as rows:
        state = seeding.states.load(rows, "run-4")
    state.examinations["code_review"]["status"] = "reviewed"
    seeding.save(state)
    assert "Not reviewed" not in shown(browser, seeding, "run-4")


def test_a_pre_final_review_shows_who_said_what(browser: Client, seeding: Seeding) -> None:
    names: Any = {1: "Write", "gate-pre_final_review": "Pre-final review"}
    state = seeding.begun("run-2", "/bmad:bmm:workflows:dev-story", names, 1, "")
    round = {
        "verdict": "blocked",
        "summary": "no",
        "findings": [],
        "perspectives": {"Winston": "approve", "Murat": "blocked"},
    }
    state.examinations = {"pre_final_review": {"rounds": [round]}}
    seeding.save(state)
    html = shown(browser, seeding, "run-2")
    assert (
        "Blocked" in html and re.search(r"<b>Winston</b> Approved", html) and re.search(r"<b>Murat</b> Blocked", html)
    )


def test_there_are_only_buttons_that_do_something(browser: Client, server: Server, seeding: Seeding) -> None:
    state = seeding.begun("run-3", "/bmad:bmm:workflows:dev-story", {1: "Load"}, 0, "")
    state.state, state.outcome, state.error = "TERMINAL", "FAILED", "critical_hook_failed"
    state.error_details = {"reason": "exit code 1"}
    seeding.save(state)
    html = shown(browser, seeding, "run-3")
    assert 'value="resume"' in html and 'value="cancel"' not in html and "exit code 1" in html
    viewer = server.person("vera", "viewer")
    viewer.headers["accept"] = "text/html"
    looked = shown(viewer, seeding, "run-3")
    assert "<form" not in looked.split('id="main"')[1].split("</main>")[0]
    posted = viewer.call("POST", f"/projects/{seeding.team.name}/workflows/run-3/say", b"words=be+careful",
                         {"content-type": "application/x-www-form-urlencoded"})  # fmt: skip
    assert posted.status == 403


def test_a_run_that_is_none_is_told_so(browser: Client, seeding: Seeding) -> None:
    for more in ("", "/rollback"):
        assert browser.call("GET", f"/projects/{seeding.team.name}/workflows/none{more}").status == 404


def test_what_was_learned_of_people_is_listed_and_is_text(browser: Client, home: Home, seeding: Seeding) -> None:
    seeded_run.add(home, seeding.team.name, seeding.directory)
    assert "Learned of you" not in shown(browser, seeding, seeded_run.BUILT)
    for number in range(14):
        words = f"Remember this preference: rule {number} {EVIL}"
        seeding.team.workflow_feedback(words, run=seeded_run.BUILT)
    known = seeding.team.learned_preferences(seeded_run.BUILT)[0]
    html = shown(browser, seeding, seeded_run.BUILT)
    assert "Learned of you" in html and "&lt;img" in html and "<img" not in html
    assert "And 2 more" in html and f"workflow feedback {seeded_run.BUILT} --list" in html
    seeding.team.forget_preference(known["id"], run=seeded_run.BUILT)
    assert "And 1 more" in shown(browser, seeding, seeded_run.BUILT)


def test_of_a_run_whose_steps_are_all_done_nothing_is_estimated(browser: Client, seeding: Seeding) -> None:
    seeding.save(seeding.begun("run-5", "/bmad:bmm:workflows:dev-story", {1: "Write", 2: "Test"}, 1, ""))
    assert re.search(r"1 of 2 steps, about \d+ %", shown(browser, seeding, "run-5"))
    seeding.save(seeding.begun("run-6", "/bmad:bmm:workflows:dev-story", {1: "Write"}, 1, ""))
    assert "1 of 1 steps<" in shown(browser, seeding, "run-6"), "its review goes on"
