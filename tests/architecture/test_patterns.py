"""No text freezes the process: `re` holds the interpreter's lock while it matches, so that a pattern whose time grows
with the square of a text would stop every thread. What agents and repositories say is bounded at 1 MB and more.

CPU seconds are counted, not the clock's, and the bound is some hundred times what a linear pattern takes.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from re import _constants, _parser  # type: ignore[attr-defined]  # the parser of `re` itself: what a pattern is made of
from typing import Any

import pytest

import interlock
from interlock.model import guard
from interlock.runner.environment import allowed_environment
from interlock.workflow.engine import questions
from interlock.workflow.entry import verdicts
from interlock.workflow.entry.custom_pattern import register
from interlock.workflow.memory import lesson
from interlock.workflow.party import contributions
from interlock.workflow.party.party_mode_driver import leaves
from interlock.workflow.reviews import checklist

LENGTH = 8_000
SECONDS = 0.04
PARTS = 4
MEGABYTE = 1_000_000
MEGABYTE_SECONDS = 20.0

# Quadratic where they search, which they do not do, or not on a text of that length.
BOUNDED = {
    "interlock.agents.acp.updates._TITLES": "fullmatch",
    "interlock.processes.commands._ASSIGNMENT": "match",
    "interlock.doctor.files._TEMPORARY": "fullmatch of a path",
    "interlock.integrations.settings_text._BLANK": "match at a place",
    "interlock.workflow.panel._PLACE": "at most 1,000 characters",
    "interlock.workflow.entry.cross_reference_validator.COMMENT": "only up to the last closing mark",
    "interlock.workflow.party.speakers.AFTER": "match of a line",
    "interlock.workflow.preferences.explicit._REMEMBER": "fullmatch",
    "interlock.workflow.preferences.hints._MODE": "fullmatch of at most 80 characters",
    "interlock.workflow.preferences.safety._WISHES": "fullmatch of at most 160 characters",
    "interlock.workflow.preferences.wishes": "at most 160 characters",
    "interlock.workflow.package.agent_standard.ITEM": "only up to the last closing tag",
}

BLANKS = (" ", "\n", " \n", "\t ")
MARKS = (*".?!'\"`*_{[(<=:|/\\#-…’,;", "**", "//", "--")
WORDS = ("a", "0", "a.", "a-", "a,", "a:", "- [ ] a", "1. a", "item 1: ", "item: ")
PUMPS = (*BLANKS, *(one + end for one in (*MARKS, *WORDS) for end in ("", " ", "\n")))


class TooLong(Exception):
    """A pattern used up its seconds."""


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple(_found())


def _found() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Every compiled pattern of the package that a module holds, once, with the name that it is found by."""
    seen: set[tuple[str, int]] = set()
    for module in pkgutil.walk_packages(interlock.__path__, "interlock."):
        if module.name.endswith("__main__") or ".demo.project" in module.name:
            continue
        for name, value in sorted(vars(importlib.import_module(module.name)).items()):
            for pattern in _within(value):
                if isinstance(pattern.pattern, str) and (pattern.pattern, pattern.flags) not in seen:
                    seen.add((pattern.pattern, pattern.flags))
                    yield f"{module.name}.{name}", pattern


def _within(value: object, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 4 and isinstance(value, (tuple, list, frozenset, set)):
        for one in value:
            yield from _within(one, depth + 1)
    elif depth < 4 and isinstance(value, dict):
        yield from _within([*value, *value.values()], depth + 1)


def _pieces(pattern: re.Pattern[str]) -> set[str]:
    """What a text that is to keep this pattern busy is made of: its words, and a character of each of its classes."""
    found: set[str] = set()
    word = ""
    kinds = {_constants.CATEGORY_DIGIT: "0", _constants.CATEGORY_SPACE: " ", _constants.CATEGORY_WORD: "a"}

    def walk(tree: Iterable[Any]) -> None:
        nonlocal word
        for kind, value in tree:
            if kind is _constants.LITERAL:
                word += chr(value)
                found.add(chr(value))
                continue
            found.add(word)
            word = ""
            if kind is _constants.IN:
                for one, what in value:
                    if one is _constants.LITERAL:
                        found.add(chr(what))
                    elif one is _constants.RANGE:
                        found.add(chr(what[0]))
                    elif one is _constants.CATEGORY:
                        found.add(kinds.get(what, "!"))
            elif kind is _constants.BRANCH:
                for one in value[1]:
                    walk(one)
            elif kind is _constants.SUBPATTERN:
                walk(value[-1])
            elif kind in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT):
                walk(value[2])
            elif kind in (_constants.ASSERT, _constants.ASSERT_NOT):
                walk(value[1])
        found.add(word)
        word = ""

    walk(_parser.parse(pattern.pattern, pattern.flags))
    words = sorted(found - {""}, key=len)
    return {*words[:20], *words[-12:], *(f"{one} " for one in words[-12:])}


def _search(pattern: re.Pattern[str], text: str) -> None:
    deque(pattern.finditer(text), maxlen=0)


def _within_seconds(seconds: float, work: Callable[[], object]) -> bool:
    def out_of_time(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, out_of_time)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        work()
    except TooLong:
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return True


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_no_pattern_takes_the_square_of_a_text(part: int) -> None:
    slow: list[str] = []
    for name, pattern in _patterns()[part::PARTS]:
        if any(name.startswith(bounded) for bounded in BOUNDED):
            continue
        for piece in sorted({*PUMPS, *_pieces(pattern)}):
            text = piece * (LENGTH // len(piece))
            # Three times, each with more: on a busy machine even seconds of CPU are of different lengths.
            if not any(_within_seconds(SECONDS * more, partial(_search, pattern, text)) for more in (1, 2, 4)):
                slow.append(f"{name}: {piece!r} over and over")
                break
    assert not slow, "\n".join(slow)


ANALYSERS: dict[str, Callable[[str], object]] = {
    "guard.one_question": guard.one_question,
    "guard.explicit": guard.explicit,
    "verdicts.review": verdicts.review,
    "verdicts.read": verdicts.read,
    "checklist.items_of": checklist.items_of,
    "checklist.evaluated": lambda text: checklist.evaluated(("an item",), {"reviewer": text}),
    "contributions.alone": lambda text: contributions.alone("ada", text),
    "asking.from_facts": lambda text: questions.from_facts("Which database?", text, {}),
    "lesson.lesson": lesson.lesson,
    "lesson.condensed": lambda text: lesson.condensed(text, 1900),
    "party.leaves": leaves,
    "secrets of the environment": lambda text: allowed_environment({"DATABASE": text}, names=["DATABASE"]),
}


@pytest.mark.storm
@pytest.mark.parametrize("name", ANALYSERS)
def test_a_megabyte_is_analysed_in_linear_time(name: str) -> None:
    slow = [
        piece
        for piece in (" ", "\n", "0", "a", ".", "- a?\n", "- [ ] a\n", "'", "-\n", "*")
        if not _within_seconds(MEGABYTE_SECONDS, partial(ANALYSERS[name], piece * (MEGABYTE // len(piece))))
    ]
    assert not slow


@pytest.mark.parametrize("name", ANALYSERS)
def test_a_long_text_is_analysed_in_linear_time(name: str) -> None:
    pieces = (" ", "0", "a", ".", "- a?\n", "- [ ] a\n", "'", "-\n")
    slow = [one for one in pieces if not _within_seconds(2.0, partial(ANALYSERS[name], one * (40_000 // len(one))))]
    assert not slow


def test_an_authors_own_expression_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = register(
        {"type": "custom", "success_pattern": r"(a+)+b", "failure_pattern": r"^FAILED \d+$", "regex": True}
    )
    began = time.process_time()
    assert pattern is not None and not hasattr(pattern, "failures")
    for seconds in (1, 5, 25):  # On a busy machine the search for the other has hardly begun after the first.
        monkeypatch.setattr("interlock.workflow.entry.custom_pattern.DEADLINE", seconds)
        found = pattern.result("a" * 60 + "\nFAILED 3\n")
        if found != "unknown":
            break
    assert found == "failure"
    monkeypatch.setattr("interlock.workflow.entry.custom_pattern.DEADLINE", 1)
    assert pattern.result("a" * 60) == "unknown"
    assert time.process_time() - began < 0.9, "it ran in this process"
