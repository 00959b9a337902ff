"""The table of events is whole: what is appended anywhere in the source is in it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from interlock.model.event import EVENT_TYPES

SOURCE = Path(__file__).parents[3] / "src" / "interlock"


@cache
def appended() -> dict[str, str]:
    """Every event type that the source appends, with a place where it does."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                of_an_act = node.func.attr == "event"
                of_rows = node.func.attr == "append" and getattr(node.func.value, "attr", None) == "events"
                if of_an_act or of_rows:
                    for constant in [one for one in ast.walk(node.args[0]) if isinstance(one, ast.Constant)]:
                        found[str(constant.value)] = f"{path.name}:{node.lineno}"
        for type in re.findall(r"INSERT INTO events .*?VALUES \('([a-z._]+)'", path.read_text(encoding="utf-8"), re.S):
            found[type] = path.name
    return found


def test_every_event_that_is_appended_is_in_the_table() -> None:
    unknown = {type: place for type, place in appended().items() if type not in EVENT_TYPES}
    assert len(appended()) > 40
    assert not unknown, f"add them to EVENT_TYPES: {unknown}"


def test_every_event_of_the_table_says_what_it_means() -> None:
    assert all(re.fullmatch(r"[a-z]+(\.[a-z_]+)+", type) and text.endswith(".") for type, text in EVENT_TYPES.items())
