"""axe-core finds no fault on the main pages, in light and dark, on a phone and on a wide screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from scripts import seeded_run
from scripts.seeded_home import fill
from tests import pinned
from tests.browser.conftest import Place
from tests.browser.test_changes import worked

pytestmark = pytest.mark.long

PAGES = (
    "",
    "/board",
    "/board/done",
    "/board?q=session",
    "/graph",
    "/graph?as=list",
    "/graph?task=Rotate+refresh+tokens",
    "/graph?task=session",
    "/members",
    "/members/ada",
    "/messages",
    "/timeline",
    "/stories",
    "/workflows",
    f"/workflows/{seeded_run.STORY}",
    f"/workflows/{seeded_run.STORY}/rollback?to=3",
    f"/workflows/{seeded_run.BUILT}",
    "/report",
    "/sessions/double-sessions",
)


@pytest.fixture(scope="module")
def checker() -> str:
    return (pinned.home("pages") / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


def main_pages(place: Place) -> list[str]:
    """A home with a morning's work, and the addresses of its pages."""
    fill(place.home, str(place.directory))
    seeded_run.add(place.home, "harbour-api", place.directory / "project")
    tasks = [f"/tasks/{task.id}" for task in place.home.team("harbour-api").tasks()[:6]]
    return ["/", "/report", *(f"/projects/harbour-api{one}" for one in (*PAGES, *tasks))]


@pytest.mark.npm
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (375, "dark")])
def test_no_page_has_a_fault(place: Place, checker: str, expect: Callable[..., Any], width: int, scheme: str) -> None:
    assert list(faults(place, checker, expect, main_pages(place), width, scheme)) == []


@pytest.mark.npm
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (375, "dark")])
def test_the_changes_of_a_task_have_no_fault(
    place: Place, checker: str, expect: Callable[..., Any], width: int, scheme: str
) -> None:
    _, _, first, second = worked(place)
    paths = (f"/projects/crew/tasks/{first}", *(f"/projects/crew/tasks/{one}/changes" for one in (first, second)))
    assert list(faults(place, checker, expect, paths, width, scheme)) == []


def faults(
    place: Place, checker: str, expect: Callable[..., Any], paths: Iterable[str], width: int, scheme: str
) -> Iterator[str]:
    """What the checker finds on these pages, with everything on them unfolded."""
    # The checker is put into the page from outside, past the policy that forbids scripts of others.
    page = place.visit("/", viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    for path in paths:
        page.goto(place.server.url + path)
        expect(page.locator("[data-link]")).to_have_text("live")
        for menu in page.locator("details:not([data-menu])").all():
            menu.evaluate("node => node.open = true")
        page.evaluate(checker)
        result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        for fault in result["violations"]:
            if fault["impact"] != "minor":
                targets = [node["target"] for node in fault["nodes"]][:3]
                yield f"{path}: {fault['id']}: {fault['help']} {targets}"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is wider than the screen"
