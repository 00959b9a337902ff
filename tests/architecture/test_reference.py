"""The documentation's tables say what the code says."""

from __future__ import annotations

import re

import pytest

from interlock import errors
from scripts import reference
from tests.architecture.source import ROOT

PAGES = ROOT / "docs" / "reference"
ROW = re.compile(r"^    ([│ ]*)(?:├── |└── )?(\w+)(?: +(\w+))?(?: +\(.+\))?$", re.MULTILINE)


def drawn() -> list[tuple[str, str | None, str | None]]:
    """The tree in the docstring of `errors.py`: (class, the class above it, code)."""
    rows: list[tuple[str, str | None, str | None]] = []
    above: list[str] = []
    tree = (errors.__doc__ or "").split("\n\n")[1]
    for line in tree.splitlines():
        found = ROW.match(line)
        assert found, f"not a row of the tree: {line!r}"
        depth = 0 if "──" not in line else len(found[1]) // 4 + 1
        del above[depth:]
        rows.append((found[2], above[-1] if above else None, found[3]))
        above.append(found[2])
    return rows


def kinds(base: type[errors.InterlockError] = errors.InterlockError) -> list[type[errors.InterlockError]]:
    found = [base]
    for kind in base.__subclasses__():
        if kind.__module__ == errors.__name__:
            found += kinds(kind)
    return found


def test_the_error_tree_is_drawn_as_it_is() -> None:
    assert {(name, above) for name, above, _ in drawn()} == {
        (kind.__name__, kind.__base__.__name__ if kind is not errors.InterlockError and kind.__base__ else None)
        for kind in kinds()
    }


def test_every_error_is_drawn_with_its_code() -> None:
    codes = {name: code for name, _, code in drawn()}
    for kind in kinds():
        if codes[kind.__name__] is None:
            assert kind.__subclasses__(), f"{kind.__name__} is drawn without its code"
        else:
            assert codes[kind.__name__] == kind.code


def test_no_two_errors_share_a_code() -> None:
    codes = [kind.code for kind in kinds()]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("page", sorted(reference.pages()))
def test_a_page_of_the_reference_says_what_the_code_says(page: str) -> None:
    written = PAGES / page
    assert written.exists() and written.read_text(encoding="utf-8") == reference.pages()[page], "run `make reference`"


def test_the_reference_has_no_page_that_the_code_does_not_know() -> None:
    assert {path.name for path in PAGES.glob("*.md")} == set(reference.pages())
