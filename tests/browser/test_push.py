"""Web Push in a real browser, from the button on the page to the notice: only the push service between is ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.behaviours.test_notice_delivery import Server, serving
from tests.behaviours.test_web_push import CONTACT, Browser
from tests.browser.conftest import Place

pytestmark = pytest.mark.long
NO_SERVICE_OF_THE_MAKER = """
let held = null;
PushManager.prototype.getSubscription = async () => held;
PushManager.prototype.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
  window.asked = { userVisibleOnly, applicationServerKey };
  held = { toJSON: () => (SUBSCRIPTION), unsubscribe: async () => { held = null; return true; } };
  return held;
};
"""
"""A subscription as the maker's service would give it, which nothing here can reach."""


@pytest.fixture
def service() -> Iterator[Server]:
    with serving(Server()) as one:
        yield one


def test_a_browser_is_subscribed_told_and_shown_the_notice(
    place: Place, service: Server, expect: Callable[..., Any]
) -> None:
    team = place.team("harbour", "ada")
    task = team.create_task("Move the database").id
    page = place.visit("/projects/harbour", permissions=["notifications"])
    expect(page.locator("[data-link]")).to_have_text("live")
    assert page.locator("[data-push]").count() == 0, "it is off"

    place.home.configure({"notify.push": f"{CONTACT} {service.url}"})
    browser = Browser()
    p256dh, auth = browser.keys
    given = {"endpoint": f"{service.url}/sub/1", "keys": {"p256dh": p256dh, "auth": auth}}
    page.add_init_script(NO_SERVICE_OF_THE_MAKER.replace("SUBSCRIPTION", json.dumps(given)))
    page.reload()
    said: list[str] = []
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.accept()))
    page.get_by_role("button", name="Push notices").click()
    expect(page.locator("[data-toasts]")).to_contain_text("Notices come to this browser by way of 127.0.0.1.")
    expect(page.get_by_role("button", name="No push")).to_be_visible()
    assert "maker of your browser" in said[0], "the third party is named before anything is asked of it"
    assert page.evaluate("window.asked") == {"userVisibleOnly": True, "applicationServerKey": place.home.push_key()}

    ada = team.acting("ada", session="s")
    ada.claim(task)
    ada.ask(task, "Which one?")
    assert service.reached.wait(60)
    told = browser.opened(service.heard[0][2]).decode()
    assert json.loads(told)["title"] == "Waits for you (clarification): Move the database"

    line = page.context.new_cdp_session(page)
    known: list[str] = []
    line.on("ServiceWorker.workerRegistrationUpdated", lambda one: known.extend(
        each["registrationId"] for each in one["registrations"] if not each["isDeleted"]
    ))  # fmt: skip
    line.send("ServiceWorker.enable")
    page.wait_for_function("navigator.serviceWorker.getRegistration('/static/').then(one => one?.active != null)")
    while not known:
        page.wait_for_timeout(50)
    shown = "navigator.serviceWorker.getRegistration('/static/').then(one => one.getNotifications())"
    for _ in range(2):  # What comes again is shown once.
        line.send("ServiceWorker.deliverPushMessage",
                  {"origin": place.server.url, "registrationId": known[0], "data": told})  # fmt: skip
        page.wait_for_function(f"{shown}.then(some => some.length === 1)")
    notice = page.evaluate(f"{shown}.then(([one]) => [one.body, one.data])")
    assert notice[0] == "Waits for you (clarification): Move the database"
    assert notice[1].endswith(f"/projects/harbour/tasks/{task}")

    page.get_by_role("button", name="No push").click()
    expect(page.locator("[data-toasts]")).to_contain_text("No more notices come to this browser.")
    expect(page.get_by_role("button", name="Push notices")).to_be_visible()
