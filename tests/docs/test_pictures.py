"""The pictures of the documentation show what the program shows today."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from scripts import screenshots
from scripts import terminal_picture as picture
from scripts.chromium import WANTED, chromium

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ("exit code ", "verified", "Ctrl-C")
"""How what the board says in the end begins; all else in the dimmed column is there for a moment, seen or not."""


def is_there(words: str, found: set[str]) -> bool:
    """Whether these words are among what was found; what was cut to fit may be cut elsewhere."""
    if not words.endswith("…"):
        return words in found
    return any(one.startswith(words[:-4]) for one in found)


@pytest.mark.long
def test_the_terminal_in_the_readme_shows_what_the_demo_shows() -> None:
    drawn = (ROOT / "docs/pictures/demo.svg").read_text(encoding="utf-8")
    told = {
        (picture.worded(words), 'class="d"' in attributes)
        for attributes, words in re.findall(r"<text([^>]*)>([^<]*)</text>", drawn)
    }
    recording = picture.record([sys.executable, "-m", "interlock.surfaces.cli", "demo"])
    assert recording.code == 0, recording.output
    found = {"$", "interlock demo"}
    for _, lines in picture.screens(recording.output):
        found |= {picture.worded(text) for line in lines for _, text, _ in picture.stretches(picture.evened(line))}
    certain = {words for words, dim in told if not dim or words.startswith(RESULTS)}
    assert len(certain) > 30 and "fix ben KILLED halfway" in drawn.replace("        ", " ")
    stale = sorted(words for words in certain if not is_there(words, found))
    assert not stale, f"`make picture` draws it anew: {stale}"


@pytest.mark.long
def test_the_page_in_the_documentation_shows_what_the_page_shows(tmp_path: Path) -> None:
    pytest.importorskip("playwright.sync_api", reason="needs playwright (pip install playwright)")
    if chromium() is None:
        pytest.skip(f"needs {WANTED}")
    screenshots.main(tmp_path)
    for name, *_ in screenshots.PICTURES:
        told, now = (screenshots.words_of(place / f"{name}.png") for place in (ROOT / "docs/images", tmp_path))
        assert told == now, f"`make screenshots` takes {name}.png anew"
