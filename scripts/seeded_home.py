"""Fills a home with a morning of real work, for screenshots and for trying the page: everything by public verbs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import interlock
from interlock.app.home import Home
from interlock.app.team import Team

ROOT = Path(__file__).resolve().parent.parent


def fill(home: Home, workdir: str) -> None:
    """Make two projects with tasks in every state, questions, messages and a chat session."""
    _harbour(home, workdir)
    _atlas(home, workdir)


def _harbour(home: Home, workdir: str) -> None:
    home.create_project("harbour-api", workdir)
    team = home.team("harbour-api")
    for name, model in (("ada", "sonnet"), ("ben", "sonnet"), ("cleo", "opus")):
        kind = "reviewer" if name == "cleo" else "author"
        team.spawn(name, type=kind, model=model)
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
    _printed(team, made["tokens"], TOKENS_SAID)
    ada.update(made["tokens"], log="Tokens are read and written; rotation is next.")
    ben.claim(made["cookies"])
    ben.ask(made["cookies"], "Should a session end on **all** devices when the password changes?",
            options=["Yes, everywhere", "Only this device", "Ask the person each time"], default="Yes, everywhere",
            context="`PasswordController.update` only drops the current cookie today. The security page promises "
            "“everywhere”, the mobile app relies on staying signed in.", held=False)  # fmt: skip
    cleo.claim(made["errors"])
    cleo.complete(made["errors"], summary=ERRORS)
    team.block(made["metrics"], reason="The staging cluster is down until noon. Shall I wait for it?")
    ada.send(to="ben", content="I keep the token table to myself until noon. Could you leave `tokens/` alone?")
    ben.send(to="ada", content="Sure. I only read `tokens/lookup.py`.")
    ben.send(to="ada", content="One thing: `expires_at` is naive there. Is that meant?")
    ada.send(to="ben", content="No, that is a bug. I take it along:\n\n```python\nexpires_at = now(UTC) + TTL\n```")
    cleo.broadcast(content="The error format is decided: RFC 9457. Please do not add new ad-hoc bodies.")
    ada.send(to="human", content="Rotation of refresh tokens will be behind a flag, off by default.")
    home.chat("harbour-api", "Why do two requests at once sometimes create two sessions?", session_id="double-sessions")
    home.chat("harbour-api", "Add a test that would have caught it.", session_id="double-sessions")
    home.chat("harbour-api", "Summarise what changed in the API since 2.3", session_id="release-notes")


def _atlas(home: Home, workdir: str) -> None:
    home.create_project("atlas-docs", workdir)
    team = home.team("atlas-docs")
    team.spawn("ines")
    first = team.create_task("Find pages that nobody links to")
    second = team.create_task("Rewrite the guide to importing data", blocked_by=[first.id])
    team.create_task("Record the new screenshots", blocked_by=[second.id])
    ines = team.acting("ines", session="morning-ines")
    ines.claim(first.id)
    ines.complete(first.id, summary="Eleven pages; the list is in `orphans.txt`.")


def _printed(team: Team, task: str, text: str) -> None:
    path = Path(team.directory) / "runs" / task / "output.1.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


PLAN: list[tuple[str, str, list[str], dict[str, Any]]] = [
    ("survey", "Survey how sessions are kept today", [], {}),
    ("lint", "Lint the sources", [], {}),
    ("schema", "Give sessions a table of their own", ["survey"], {}),
    ("tokens", "Rotate refresh tokens", ["schema"], {"priority": "high", "type": "IMPLEMENTATION"}),
    ("cookies", "End sessions when a password changes", ["schema"], {"type": "IMPLEMENTATION"}),
    ("errors", "One format for all errors", ["lint"], {"review": "human"}),
    ("limits", "Limit sign-in attempts per address", ["tokens", "cookies"], {}),
    ("metrics", "Count sign-ins on the dashboard", [], {"priority": "low"}),
    ("load", "Load-test the sign-in", ["limits"], {}),
    ("docs", "Describe sessions for client authors", ["tokens", "cookies"], {}),
    ("changelog", "Write the changelog of 2.4", ["docs", "errors"], {"review": "human"}),
    ("release", "Tag and publish 2.4", ["changelog", "load"], {"priority": "critical"}),
    ("deps", "Bring dependencies up to date", [], {}),
]  # fmt: skip
BODIES = {
    "tokens": "Refresh tokens never change today. Make each one good for a single use:\n\n1. a used token is replaced\n"
    "2. using it **again** ends the whole family\n\nKeep the old behaviour behind `SESSIONS_ROTATE=0`. "
    "See [RFC 9700](https://www.rfc-editor.org/rfc/rfc9700) §4.14.",
    "cookies": "When somebody changes the password, sessions that were opened with the old one must not go on.",
    "errors": "Clients get five different shapes today. Choose one, move every handler, list what cannot move.",
}
SURVEY = """Sessions live in **three** places:

| where | what | since |
|---|---|---|
| cookie | user id | 1.0 |
| cache | roles | 1.6 |
| table | devices | 2.1 |

Only the table survives a restart."""
ERRORS = """Every refusal is `application/problem+json` now:

- 14 handlers moved
- 3 kept their old body, listed in `docs/errors.md`

The client tests pass unchanged."""
TOKENS_SAID = """$ rg -n "refresh" src/ | wc -l
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
