"""What a task changed in a worktree of its own, and how a person takes it over, on the page."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.behaviours.repository import Repository
from tests.browser.conftest import Place

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
    command = [sys.executable, "-m", "interlock.surfaces.cli", "--home", place.home.path, "run"]
    words = [*command, str(place.directory / "plan.yaml")]
    subprocess.run(words, check=True, timeout=200, capture_output=True)
    team = place.home.team("crew")
    first, second = sorted(task.id for task in team.tasks())
    return team, repository, first, second


@pytest.mark.parametrize("scripted", [True, False])
def test_changes_are_read_line_by_line_and_merged_by_a_button(
    place: Place, expect: Callable[..., Any], scripted: bool
) -> None:
    team, repository, first, second = worked(place)
    page = place.visit(f"/projects/crew/tasks/{second}", java_script_enabled=scripted)
    expect(page.get_by_text("waits to be merged")).to_be_visible()
    page.get_by_role("link", name="Show changes").click()
    expect(page.locator(".patch .added")).to_have_text(["+more"])
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
    expect(page.locator(".patch .added")).to_have_text(["+one", "+<b>two</b>", "+\\u202e)("])
    assert page.locator(".patch b").count() == 0
    expect(page.get_by_text("Merged into main")).to_be_visible()


def test_only_who_may_act_is_offered_the_merge_and_no_other_page_can_do_it(place: Place) -> None:
    team, repository, first, _ = worked(place)
    path, body = f"/projects/crew/tasks/{first}/merge", b"into=main"
    admin = place.server.browser()
    viewer = place.server.person("vera", "viewer")
    viewer.headers["accept"] = "text/html"
    looked = viewer.call("GET", f"/projects/crew/tasks/{first}/changes").body.decode()
    assert "&lt;b&gt;two" in looked and "Merge into" not in looked and "waits to be merged" in looked
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
    assert "has no worktree of its own" in told and "Show changes" not in told


def test_the_report_names_what_is_in_no_commit_and_where_work_is_kept(place: Place, expect: Callable[..., Any]) -> None:
    repository = Repository(place.directory / "work")
    (repository.path / ".git" / "info" / "exclude").write_text("dist/\n")
    (place.directory / "plan.yaml").write_text(IGNORED)
    command = [sys.executable, "-m", "interlock.surfaces.cli", "--home", place.home.path, "run"]
    subprocess.run([*command, str(place.directory / "plan.yaml")], timeout=200, capture_output=True)
    page = place.visit("/projects/crew/report")
    expect(page.get_by_text("git ignores its whole result, kept with its run: dist/REPORT")).to_be_visible()
    kept = page.locator("section.report li").filter(has=page.locator("code", has_text="/worktrees/"))
    expect(kept).to_contain_text("Break it")
