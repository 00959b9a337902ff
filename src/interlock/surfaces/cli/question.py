"""`interlock question …`, and the prompt that offers open questions at the end of a run."""

from __future__ import annotations

import click

from interlock.app.team import Team
from interlock.errors import InterlockError, InvalidRequest
from interlock.model.question import APPROVE, asking_for
from interlock.model.text import gist
from interlock.surfaces.cli import task_text, words
from interlock.surfaces.cli.call import EXIT_CODE, NOTHING, TEXT, Call, verb

APPROVALS = ("a", "approve", "approved", "y", "yes", "ok", "lgtm")
"""What people type at the prompt for a review that they approve of."""
DIFFS = ("d", "diff")
"""And to see what is to be reviewed."""


@verb("list", reads=True, example="interlock question list")
@EXIT_CODE
def list_(call: Call, exit_code: bool) -> int:
    """What waits for a human, oldest first."""
    team = call.team()
    found = [one.as_dict() for one in team.questions()]
    lines: list[str] = []
    for one in found:
        asked = words.faint(f"{one['kind']} · {words.ago(one['asked_at'])} · {one['id']}")
        lines += [
            *([""] if lines else []),
            f"{words.strong(one['task_id'])}  {asked}",
            *task_text.question(one, team.name),
        ]
    call.answer({"questions": found}, lines or "Nothing waits for you.")
    return NOTHING if exit_code and not found else 0


@verb("reply", example='interlock question reply 003 "use the staging database"')
@click.argument("task")
@click.argument("text", type=TEXT)
@click.option(
    "--question", "question_id", metavar="Q", help="The question's id, or how it ends [default: the only open one]."
)
def reply(call: Call, task: str, text: str, question_id: str | None) -> None:
    """Answer a question about a task; - reads the answer from stdin.

    A review is answered with `approve`, or with `changes: what to change`. Without --question the output says which
    question was answered; where several of the task are open, and for a permission, it must be named.
    """
    team = call.team()
    asked = team.conversation(task)
    if question_id is None:
        # Named here: should somebody else be faster, the answer must not reach what is asked next.
        waiting = [one for one in asked if one.state == "open"] or asked[-1:]
        if len(waiting) == 1 and waiting[0].kind != "permission":
            question_id = waiting[0].id
    found = team.reply(task, text, question=question_id)
    answered = [one for one in asked if question_id and one.id.endswith(question_id)]
    held = found.state == "ready" and any(one.held for one in answered)
    stands = "continues" if held else f"is {words.state(found.state)}"
    lines = [f"{words.strong(found.id)} {stands}: {words.clean(found.subject)}"]
    lines += [words.faint(f"answered {one.id}: {gist(one.text)}") for one in answered]
    call.answer(found.as_dict(), lines)
    call.warn(found.warnings)


@verb("ask", example='interlock question ask 003 "Which database should the tests use?"')
@click.argument("task")
@click.argument("text", type=TEXT)
@click.option("--default", metavar="T", help="The answer that is taken if nobody is there to give another.")
@click.option("--option", "options", multiple=True, metavar="T", help="An answer to choose; may be repeated.")
@click.option("--context", metavar="T", type=TEXT, help="What one needs to know to answer.")
def ask(call: Call, task: str, text: str, default: str | None, options: tuple[str, ...], context: str | None) -> None:
    """Ask a human about a task, which waits for the answer; - reads the question from stdin."""
    asked = call.team().ask(
        task, text, default=default, options=options, context=context, reversible=default is not None
    )
    call.answer(asked.as_dict(), f"{words.strong(asked.task_id)} waits for an answer  {words.faint(asked.id)}")


def answer_questions(call: Call, team: Team) -> bool:
    """Offer the open questions on the terminal; whether any was answered, so that the run can go on."""
    answered = False
    for one in team.questions():
        # A checkpoint that shows everything has its details in its text.
        further = [one.context] if one.context and one.context not in one.text else []
        call.say(["", click.style(one.text, bold=True), *further])
        options = f" [{' / '.join(one.options)}]" if one.options else ""
        if one.kind == "review":
            diff = ", [d]iff" if team.task(one.task_id).worktree else ""
            options = f" [a]pprove, [c]hanges: …{diff},"
        while True:
            text = click.prompt(f"Answer{options} or Enter to skip", default="", show_default=False).strip()
            if not text:
                break
            if one.kind == "review" and text.lower() in DIFFS:
                try:
                    shown = task_text.changed(task_text.diff_of(team, one.task_id))
                    click.echo_via_pager(f"{line}\n" for line in shown)
                except InterlockError as error:
                    click.secho(error.message, fg="red", err=True)
                continue
            if one.kind == "review" and text.lower().rstrip(".!") in APPROVALS:
                text = APPROVE
            elif one.kind == "review" and text.lower().startswith("c:"):
                text = asking_for(text[2:].strip())
            try:
                call.warn(team.reply(one.task_id, text, question=one.id).warnings)
                answered = True
                break
            except InterlockError as error:
                click.secho(error.message, fg="red", err=True)
                if not isinstance(error, InvalidRequest):
                    break  # Else it is asked again: a slip of the hand must not end the run.
    return answered
