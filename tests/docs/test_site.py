"""The documentation as a site: built without a warning, complete, and with nothing loaded from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import pinned
from tests.docs.pages import DOCS, ROOT, every_page

LOADED = re.compile(r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']([^"']+)|<link\b[^>]*\bhref=["']([^"']+)""")
APART = ("decisions/",)
"""Listed on a page of their own."""


def targets(nav: Any) -> Iterator[str]:
    """The pages that a navigation leads to."""
    if isinstance(nav, str):
        yield nav
        return
    for one in nav.values() if isinstance(nav, dict) else nav:
        yield from targets(one)


def test_the_navigation_leads_to_every_page() -> None:
    settings = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    listed = list(targets(settings["nav"]))
    pages = {page.relative_to(DOCS).as_posix() for page in every_page() if DOCS in page.parents}
    assert len(listed) == len(set(listed))
    assert {one for one in pages - set(listed) if not one.startswith(APART)} == set()
    assert set(listed) <= pages


@pytest.mark.long
def test_it_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    build = Path(pinned.programs("site")) / "zensical"
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)

    def built() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(build), "build", "--clean", "--strict"], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    found = built()
    assert found.returncode == 0, found.stdout + found.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(list(DOCS.rglob("*.md")))
    loaded = {one for page in pages for pair in LOADED.findall(page.read_text(encoding="utf-8")) for one in pair if one}
    assert loaded and not [one for one in loaded if one.startswith(("http:", "https:", "//"))], loaded
    tutorial = tmp_path / "docs" / "tutorial.md"
    tutorial.write_text(
        tutorial.read_text(encoding="utf-8") + "\n[plans](guides/plans.md#not-there)\n", encoding="utf-8"
    )
    assert built().returncode != 0, "a link that leads nowhere"
