"""The picture in the README shows what a terminal showed."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from scripts import terminal_picture as picture

UP = "\r\x1b[2K\x1b[1A\x1b[2K"
OUTPUT = f"before\n\x1b[32mone\x1b[0m of 2\nhint{UP}two of 2\nhint{UP}after\n"


def test_every_screen_that_was_drawn_over_is_seen() -> None:
    assert [picture.STYLE.sub("", "|".join(screen)) for _, screen in picture.screens(OUTPUT)] == [
        "before|one of 2|hint",
        "before|two of 2|hint",
        "before|after|",
    ]


def test_a_moment_is_chosen_by_what_it_shows_with_the_last_lines_below() -> None:
    lines = [picture.STYLE.sub("", line) for line in picture.choose(OUTPUT, "two of", 1)]
    assert lines == ["before", "two of 2", "hint", "", " ⋮", "", "after"]


def test_a_moment_that_never_came_is_an_error() -> None:
    with pytest.raises(ValueError, match="three"):
        picture.choose(OUTPUT, "three", 1)


def test_it_is_drawn_as_svg_with_its_colours_and_without_foreign_markup() -> None:
    drawn = ElementTree.fromstring(picture.draw(["\x1b[32m<ok>\x1b[0m & \x1b[1;7m bold \x1b[0m"], "a title"))
    texts = {element.text: element for element in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"<ok>", "&", " bold ", "a title"} <= set(texts)
    assert picture.COLOURS["32"] in texts["<ok>"].attrib["style"]


def test_what_differs_from_run_to_run_is_evened_out() -> None:
    line = "in /var/folders/x1/T/interlock-demo-9q2_a by /somewhere/bin/python3.12 -m unittest"
    assert picture.evened(line) == "in /tmp/interlock-demo by python3.12 -m unittest"
