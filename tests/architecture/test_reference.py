"""The documentation's tables say what the code says."""

from __future__ import annotations

from interlock import errors
from scripts import reference
from tests.architecture.source import ROOT

PAGES = ROOT / "docs" / "reference"


def kinds(base: type[errors.InterlockError] = errors.InterlockError) -> list[type[errors.InterlockError]]:
    found = [base]
    for kind in base.__subclasses__():
        if kind.__module__ == errors.__name__:
            found += kinds(kind)
    return found


def test_no_two_errors_share_a_code() -> None:
    codes = [kind.code for kind in kinds()]
    assert len(codes) == len(set(codes))


def test_the_pages_of_the_reference_say_what_the_code_says() -> None:
    for page, text in reference.pages().items():
        written = PAGES / page
        assert written.exists() and written.read_text(encoding="utf-8") == text, f"{page}: run `make reference`"


def test_the_reference_has_no_page_that_the_code_does_not_know() -> None:
    assert {path.name for path in PAGES.glob("*.md")} == {name for name in reference.pages() if "/" not in name}
