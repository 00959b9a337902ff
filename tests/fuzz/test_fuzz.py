"""Texts that others wrote crash nothing and hang nothing. `make fuzz` looks for more of them, guided by coverage."""

from __future__ import annotations

import ast
import re
import time
from functools import cache
from random import Random

import pytest

from interlock.integrations import settings_text
from tests.architecture.source import ROOT, files
from tests.fuzz.targets import TARGETS, changed, endless, run, seeds

ROUNDS = 300
STORM_SECONDS = 20.0
SHORT = 5_000
"""Characters for each expression: what is exponential never ends with them, and what is cubic takes hours."""
HANG = 10.0
"""Seconds of CPU time for a megabyte: what backtracks without end needs hours."""


@pytest.mark.parametrize("name", TARGETS)
def test_changed_texts_crash_nothing(name: str) -> None:
    random, known = Random(name), seeds(name)
    for _ in range(ROUNDS):
        run_told(name, changed(random, known))


@pytest.mark.storm
@pytest.mark.parametrize("name", TARGETS)
def test_many_more_crash_nothing(name: str, dose: float) -> None:
    random, known = Random(f"storm of {name}"), seeds(name)
    until = time.monotonic() + STORM_SECONDS * dose
    while time.monotonic() < until:
        run_told(name, changed(random, known))


@pytest.mark.long
@pytest.mark.parametrize("name", ["aof", "jsonc", "diff"])
def test_what_nests_or_never_ends_is_read_in_time(name: str) -> None:
    for label, text in endless():
        started = time.process_time()
        TARGETS[name](text)
        passed = time.process_time() - started
        assert passed < HANG, f"{passed:.1f} s for a megabyte of {label!r}"


def test_settings_that_nest_too_deeply_are_refused() -> None:
    for text in ("[" * 100_000, '{"a":' * 100_000):
        with pytest.raises(ValueError, match="nested too deeply"):
            settings_text.scan(text)


@cache
def compiled() -> list[re.Pattern[str]]:
    """Every regular expression that a module of ours compiles when it is loaded."""
    found = {}
    for source in files(ROOT / "src"):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
                pattern = node.args[0]
                if isinstance(pattern, ast.Constant) and isinstance(pattern.value, str):
                    flags = ast.unparse(node.args[1]) if len(node.args) > 1 else "0"
                    bits = sum(getattr(re, name.removeprefix("re.")) for name in flags.split(" | ") if name != "0")
                    found[pattern.value, bits] = re.compile(pattern.value, bits)
    return list(found.values())


@pytest.mark.long
@pytest.mark.parametrize(
    "piece", ["a", " ", "\n", "1", "-", "*", "`", "[", "/*", "ab ", "a: ", "1. ", "\\", '"', "#", "|"]
)
def test_no_expression_of_ours_backtracks_without_end(piece: str) -> None:
    slow = []
    for pattern in compiled():
        for tail in ("", "!", "\n\x00"):
            text = piece * (SHORT // len(piece)) + tail
            started = time.process_time()
            pattern.match(text), pattern.fullmatch(text)
            if time.process_time() - started > HANG:
                slow.append(pattern.pattern)
    assert not slow


def run_told(name: str, text: bytes) -> None:
    """Run it; where it fails, say on what."""
    try:
        run(name, text)
    except Exception as error:
        error.add_note(f"tests.fuzz.targets.run({name!r}, {text!r})"[:5000])
        raise
