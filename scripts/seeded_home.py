"""Fills a home with a morning of real work, for screenshots and for trying the page: everything by public verbs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import interlock
from interlock.client import Home, Team

ROOT = Path(__file__).resolve().parent.parent


def fill(home: Home, workdir: str) -> None:
    """Make two projects with tasks in every state, questions, messages and a chat session."""
    _harbour(home, workdir)
    _atlas(home, workdir)


def _harbour(home: Home, workdir: str) -> None:
    home.create_project("harbour-api", workdir)
    team = home.team("harbour-api")
    for name, model in (("ada", "sonnet"), ("ben", "sonnet"), ("cleo", "opus")):
        team.spawn(name, command=[sys.executable, "-c", "pass"], type="author" if name != "cleo" else "reviewer",
                   model=model)  # fmt: skip
    made: dict[str, str] = {}
    for key, subject, waits, more in PLAN:
        made[key] = team.create_task(
            subject, body=BODIES.get(key, ""), blocked_by=[made[one] for one in waits], **more
        ).id
    ada, ben, cleo = (team.acting(name, session=f"morning-{name}") for name in ("ada", "ben", "cleo"))
    for who, key, said in ((ada, "survey", SURVEY), (ben, "schema", "The table `sessions` has a unique index now.")):
        who.claim(made[key])
        who.update(made[key], log="Read the sources and the open issues.")
        who.complete(made[key], summary=said)
    for key in ("lint",):
        cleo.claim(made[key])
        cleo.complete(made[key], summary="Clean.")
    ada.claim(made["tokens"])
    _printed(team, made["tokens"], TOKENS_SAID = """$ rg -n "refresh" src/ | wc -l
43
Reading src/tokens/issue.py
Reading src/tokens/lookup.py
Editing src/tokens/rotate.py (new, 84 lines)
$ pytest -q tests/tokens
.............F......
FAILED tests/tokens/test_rotate.py::test_a_used_token_ends_its_family - assert 2 == 0
Editing src/tokens/rotate.py: the family is ended in the same transaction
$ pytest -q tests/tokens
....................
20 passed in 1.84s
Now the flag, and a note for the changelog.
"""


if __name__ == "__main__":
    fill(interlock.connect(sys.argv[1]), str(ROOT))
