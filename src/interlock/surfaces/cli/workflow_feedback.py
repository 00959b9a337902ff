"""`interlock workflow feedback`: what a person thinks of a decision, and what was learned of them."""

from __future__ import annotations

from typing import Any

import click

from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.text import TEXT

WORDS = "[RUN] TEXT"


@verb("feedback", example='interlock workflow feedback "Don\'t do that again"')
@click.argument("said", nargs=-1, type=TEXT, metavar=WORDS)
@click.option("--list", "listing", is_flag=True, help="Show what was learned, with its ids.")
@click.option("--forget", metavar="ID", help="Let this count no more.")
def feedback(call: Call, said: tuple[str, ...], listing: bool, forget: str | None) -> None:
    """Say what you think of the last thing that a run decided, or what is to be remembered.

    "Don't do that again", "Good choice", "Remember this preference: …". It counts at once, and for every later run in
    this project. RUN is a run's id, its task, or its skill; the newest open one by default.
    """
    most = 1 if listing or forget else 2
    if len(said) > most or not (said or listing or forget):
        raise click.UsageError("Say it in one quoted text, after the run if one is named; or give --list or --forget.")
    team = call.team()
    if forget is not None:
        gone = team.forget_preference(forget, run=said[0] if said else None)
        call.answer(gone, words.clean(gone["said"]))
    elif listing:
        found = team.learned_preferences(said[0] if said else None)
        call.answer({"preferences": found}, [_line(one) for one in found] or "Nothing was learned yet.")
    else:
        done = team.workflow_feedback(said[-1], run=said[0] if len(said) > 1 else None)
        call.answer(done, words.clean(done["text"]))


def _line(one: dict[str, Any]) -> str:
    more = "  (overruled)" if one.get("overruled") else ""
    return f"{words.strong(one['id'])}  {words.clean(one['text'])}  {words.faint(one['source'])}{more}"
