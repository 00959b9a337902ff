"""An open page is told what differs from what it has, and can make the whole of it."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interlock.app.home import Home
from interlock.surfaces.web.region_changes import KEPT, SentRegions
from tests.surfaces.http.harness import Client

PATH = "/projects/plenty/graph?region=graph"


@given(st.lists(st.sampled_from("abcdefgh"), max_size=30), st.lists(st.sampled_from("abcdefgh"), max_size=30))
def test_whatever_has_changed_the_changes_make_the_new_text_of_the_old(old: list[str], new: list[str]) -> None:
    long = "\n".join(f"the line {n} that stays" for n in range(40))
    before, after = ("\n".join([*lines, long]) for lines in (old, new))
    sent = SentRegions()
    sent.keep("old", before)
    change = sent.change("old", after)
    assert change is not None and applied(before, json.loads(change)) == after
    assert sent.change("unknown", after) is None


def test_what_is_no_shorter_is_sent_whole_and_the_oldest_text_is_let_go() -> None:
    sent = SentRegions()
    sent.keep("old", "one\ntwo")
    assert sent.change("old", "three\nfour") is None
    sent.keep("large", "x" * KEPT)
    assert sent.change("old", "one\ntwo\n" + "three\n") is None, "it is known no more"
    assert sent.change("large", "x" * KEPT) == b"[]"


def test_a_region_with_one_change_is_answered_by_that_change(browser: Client, home: Home) -> None:
    home.create_project("plenty")
    team = home.team("plenty")
    team.spawn("bob")
    ids: list[str] = []
    for n in range(60):
        ids.append(team.create_task(f"Task {n}", blocked_by=ids[-1:]).id)
    first = browser.call("GET", PATH)
    page = browser.call("GET", "/projects/plenty/graph").body.decode()
    assert f"data-tag='{first.headers['etag']}' class=\"region region-graph\"" in page, "the page knows what it has"
    team.acting("bob", session="s").claim(ids[0])
    asked = {"if-none-match": first.headers["etag"], "a-im": "interlock-lines"}
    change = browser.call("GET", PATH, headers=asked)
    whole = browser.call("GET", PATH)
    assert change.status == 226 and change.headers["delta-base"] == first.headers["etag"]
    assert change.headers["etag"] == whole.headers["etag"] and len(change.body) < len(whole.body) / 20
    assert applied(first.body.decode(), json.loads(change.body)) == whole.body.decode()
    assert browser.call("GET", PATH, headers={**asked, "if-none-match": whole.headers["etag"]}).status == 304
    assert browser.call("GET", PATH, headers={**asked, "if-none-match": 'W/"never-sent"'}).body == whole.body


def test_ages_are_no_change(browser: Client, home: Home) -> None:
    home.create_project("aged")
    home.team("aged").create_task("A task")
    path = "/projects/aged/timeline"
    page, region = browser.call("GET", path).body.decode(), browser.call("GET", f"{path}?region=timeline")
    assert re.search(r"<time [^>]*>(?:just now|\d+s ago)</time>", page)
    assert re.search(r"<time [^>]*T[^>]*></time>", region.body.decode())
    assert region.headers["etag"] in page


def applied(text: str, changes: Any) -> str:
    lines = text.split("\n")
    for start, end, now in reversed(changes):
        lines[start:end] = now
    return "\n".join(lines)
