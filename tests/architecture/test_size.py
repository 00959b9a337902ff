"""Modules and functions stay as small as a reader can hold."""

from __future__ import annotations

import ast

from tests.architecture.source import Function, files, functions

MODULE_LINES = 400
CATALOGUE_LINES = 700
FUNCTION_LINES = 80

CATALOGUES = {"src/interlock/errors.py", "src/interlock/settings.py"}
"""Tables that are looked things up in, never read through: splitting one would only hide what is in it."""

# Modules above the limit, by path, with the length they may not exceed. It only ever shrinks.
RATCHET: dict[str, int] = {}


def test_no_module_is_longer_than_the_limit() -> None:
    lengths = {source.name: len(source.text.splitlines()) for source in files()}
    limits = {**dict.fromkeys(CATALOGUES, CATALOGUE_LINES), **RATCHET}
    too_long = {name: lines for name, lines in lengths.items() if lines > limits.get(name, MODULE_LINES)}
    assert not too_long, f"split them: {too_long}"


def test_the_ratchet_is_tight() -> None:
    lengths = {source.name: len(source.text.splitlines()) for source in files()}
    loose = {name: limit for name, limit in RATCHET.items() if lengths.get(name, 0) < max(limit, MODULE_LINES + 1)}
    assert not loose, f"lower or remove these entries: {loose}"


def test_no_function_is_longer_than_the_limit() -> None:
    too_long = [
        f"{source.at(function)} {function.name}: {length} lines"
        for source in files()
        for function in functions(source.tree)
        if (length := lines(function)) > FUNCTION_LINES
    ]
    assert not too_long, "\n".join(too_long)


def lines(function: Function) -> int:
    """How long a function is, its docstring not counted: to explain arguments must not cost anything."""
    first = function.body[0]
    docstring = (first.end_lineno or 0) - first.lineno + 1 if ast.get_docstring(function) else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring
