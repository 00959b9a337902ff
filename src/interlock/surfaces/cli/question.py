"""`interlock question …`"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from interlock.core.questions import gist
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.task_words import line, question
from interlock.surfaces.cli.text import TEXT


@verb("list", reads=True, example="interlock question list")
def list_(call: Call) -> None:
    """What waits for a human, oldest first."""
    team = call.team()
    found = [one.as_dict() for one in team.questions()]
    lines: list[str] = []
    for one in found:
        asked = words.faint(f"{one['kind']} · {words.ago(one['asked_at'])} · {one['id']}")
        lines += [*([""] if lines else []), f"{words.strong(one['task_id'])}  {asked}", *question(one, team.name)]
    call.answer({"questions": found}, lines or "Nothing waits for you.")


@verb("reply", example='interlock question reply 003 "use the staging database"')
@click.argument("task")
@click.argument("text", type=TEXT)
@click.option(
    "--question", "question_id", metavar="Q", help="The question's id, or how it ends [default: the only open one]."
)
def reply(call: Call, task: str, text: str, question_id: str | None) -> None:
    """Answer a question about a task; - reads the answer from stdin.

    A review is answered with `approve`, or with `changes: what to change`. Without --question it is told which question
    was answered; where several of the task are open, and for a permission, it must be named.
    """
    team = call.team()
    asked = team.conversation(task)
    if question_id is None:
        question_id = _meant(asked)
    found = team.reply(task, text, question=question_id)
    told = [
        words.faint(f"answered {one['id']}: {gist(one['text'])}")
        for one in asked
        if question_id and one["id"].endswith(question_id)
    ]
    call.answer(found.as_dict(), [line(found, f"is {words.state(found.state)}"), *told])
    call.warn(found.warnings)


def _meant(asked: Sequence[Mapping[str, Any]]) -> str | None:
    """The question that who names none has in mind, named here: should somebody else be faster, the answer must not
    reach what is asked next. Null where that cannot be told."""
    waiting = [one for one in asked if one["state"] == "open"] or asked[-1:]
    return str(waiting[0]["id"]) if len(waiting) == 1 and waiting[0]["kind"] != "permission" else None


@verb("ask", example='interlock question ask 003 "Which database should the tests use?"')
@click.argument("task")
@click.argument("text", type=TEXT)
@click.option("--default", metavar="T", help="The answer that is taken when nobody is awake to give another.")
@click.option("--option", "options", multiple=True, metavar="T", help="An answer to choose; may be repeated.")
@click.option("--context", metavar="T", type=TEXT, help="What one needs to know to answer.")
def ask(call: Call, task: str, text: str, default: str | None, options: tuple[str, ...], context: str | None) -> None:
    """Ask a human about a task, which waits for the answer; - reads the question from stdin."""
    team = call.team()
    asked = team.ask(task, text, default=default, options=options, context=context, reversible=default is not None)
    found = asked.as_dict()
    call.answer(found, [f"{words.strong(asked.task_id)} waits for an answer  {words.faint(asked.id)}"])
