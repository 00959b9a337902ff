"""Program output as it may be stored and shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.model.text import plain


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ("fine\tas it is\n", "fine\tas it is\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07text \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "text link"),
        ("10%\r50%\r100%\r\ndone\r\n", "100%\ndone\n"),
        ("a\x00b\x08c\x9bd", "abcd"),
        ("\ud800", "?"),
    ],
)
def test_what_steers_a_terminal_is_gone_and_the_rest_stays(printed: str, kept: str) -> None:
    assert plain(printed) == kept


@given(st.text())
def test_nothing_that_is_left_steers_anything_or_cannot_be_stored(text: str) -> None:
    left = plain(text)
    left.encode("utf-8")
    assert not any(ord(one) < 32 and one not in "\n\t" for one in left)
    assert plain(left) == left
