"""Every page is HTML by the letter: the checker of the W3C finds nothing to say about it."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests import pinned
from tests.browser.conftest import Place
from tests.browser.test_accessibility import main_pages
from tests.browser.test_changes import worked

pytestmark = pytest.mark.long

SECONDS = 600
# HTML allows it for `rel=expect`, too, which the checker does not know yet.
UNKNOWN = "A “link” element with a “blocking” attribute must have a “rel” attribute whose value is “stylesheet”."


@pytest.mark.npm
@pytest.mark.timeout(1200)
def test_no_page_breaks_a_rule_of_html(place: Place) -> None:
    java = shutil.which("java")
    if java is None:
        pytest.skip("needs java, for the checker of the W3C")
    checker = pinned.home("pages") / "node_modules/vnu-jar/build/dist/vnu.jar"
    paths = main_pages(place)
    _, _, first, _ = worked(place)
    paths += [f"/projects/crew/tasks/{first}{part}" for part in ("", "/changes", "/log")]
    paths.append("/projects/nowhere")
    page, kept = place.visit(), place.directory / "pages"
    kept.mkdir()
    for number, path in enumerate(paths):
        (kept / f"{number}.html").write_text(
            page.request.get(place.server.url + path, headers={"accept": "text/html"}).text(), encoding="utf-8"
        )
    words = [java, "-jar", str(checker), "--format", "json", "--skip-non-html", str(kept)]
    found = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False)
    said = json.loads(found.stderr or found.stdout)["messages"]
    assert len(paths) == len(list(kept.iterdir())) > 20
    assert [f"{paths[int(one['url'].rpartition('/')[2][:-5])]}: {one['message']} {one.get('extract', '')[:200]}"
            for one in said if one["message"] != UNKNOWN or 'rel="expect"' not in one["extract"]] == []  # fmt: skip
