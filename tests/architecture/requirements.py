"""The project's requirement ids, and the tests that name them."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache

from tests.architecture.source import ROOT, files

LIST = ROOT / "docs" / "requirements.tsv"

# Prefixes of ids for which a missing test is a failure. Empty while the first version is built; a prefix is added
# when the work that its requirements name is done: ("TEAM-", "CORE-").
CLOSED: tuple[str, ...] = ("TEAM-", "CORE-", "AOF-", "GUARD-", "BMAD-")


def known() -> dict[str, str]:
    """Every id with its short text."""
    rows = (line.split("\t") for line in LIST.read_text(encoding="utf-8").splitlines()[1:])
    return {row[0]: row[3] for row in rows}


@cache
def marked() -> dict[str, list[str]]:
    """Every id that a `@pytest.mark.req(...)` names, with the places that name it."""
    found: dict[str, list[str]] = defaultdict(list)
    for source in files(ROOT / "tests"):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "req":
                for argument in node.args:
                    if isinstance(argument, ast.Constant):
                        found[str(argument.value)].append(source.at(node))
    return found
