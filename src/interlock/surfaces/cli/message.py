"""`interlock message …`, and the click side of `interlock inject` and `interlock hook`.

Mail is printed and flushed inside the `with` block that hands it over: a reader that is gone gives it back.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from interlock.app.mail import Mail
from interlock.hooks_main import put, run_hook, run_inject
from interlock.model.message import TYPES, Message
from interlock.model.names import HUMAN, PROGRAMS
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import EXIT_CODE, NOTHING, TEXT, Call, verb
from interlock.surfaces.cli.command import as_json

CLIENT_ID = click.option("--client-id", metavar="ID", help="Your own id for it: sent twice, it arrives once.")
SUMMARY = click.option("--summary", metavar="S", help="What it is about, in a few words.")


@verb("send", example='interlock message send --to researcher --summary "parser" "The parser is yours."')
@click.argument("text", type=TEXT)
@click.option("--to", metavar="M", required=True, help="A member by name or session key, lead, or human.")
@click.option("--type", metavar="T", default="message", show_default=True, help=f"One of {', '.join(TYPES)}.")
@SUMMARY
@click.option("--urgent", is_flag=True, help="Before other mail, and also between two steps of an agent's turn.")
@click.option("--request", "request_id", metavar="ID", help="The shutdown request that it answers.")
@click.option("--reason", type=TEXT, help="Why, in an answer to a shutdown request.")
@CLIENT_ID
def send(call: Call, text: str, **given: Any) -> None:
    """Send TEXT to one member; - reads it from stdin. An unknown recipient is an error, never a new inbox."""
    message = call.mail().send(content=text, **given)
    call.answer(message.as_dict(), f"sent to {words.strong(message.recipient)}")


@verb("broadcast", example='interlock message broadcast "The build is green again."')
@click.argument("text", type=TEXT)
@SUMMARY
@CLIENT_ID
def broadcast(call: Call, text: str, summary: str | None, client_id: str | None) -> int:
    """Send TEXT to every member but me; - reads it from stdin. Members whose inbox is full are listed."""
    answer = call.mail().broadcast(content=text, summary=summary, client_id=client_id)
    call.answer(answer, f"sent to {', '.join(answer.delivered) or 'nobody: there are no other members'}")
    call.warn([f"not sent to {one['member']}: {one['message']}" for one in answer.not_delivered])
    return 1 if answer.not_delivered and not answer.delivered else 0


@verb("read", example="interlock message read --as researcher")
def read(call: Call) -> None:
    """Read my messages: they are printed, and marked as read once they were."""
    with call.mail().mail() as mail:
        _hand_over(call, mail, "No new messages. `interlock message history` shows old ones.")


@verb("wait", example="interlock message wait --as researcher --timeout 600")
@click.option("--timeout", metavar="S", type=click.FloatRange(min=0), help="Seconds to wait [default: `wait_timeout`].")
@EXIT_CODE
def wait(call: Call, timeout: float | None, exit_code: bool) -> int:
    """Wait until a message comes, and read it. If none comes in time, the exit code is 0, or with --exit-code 3."""
    team = call.team()
    seconds = float(team.setting("wait_timeout")[0]) if timeout is None else timeout
    with team.mail(wait=seconds) as mail:
        _hand_over(call, mail, f"No message came within {words.span(seconds)}.")
        return NOTHING if exit_code and not mail.messages else 0


@verb("history", reads=True, example="interlock message history --member researcher --limit 20")
@click.option("--member", metavar="M", help="Messages to or from this member [default: mine; of all for human].")
@click.option("--all", "everybody", is_flag=True, help="Messages of all members.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), default=100, show_default=True)
def history(call: Call, member: str | None, everybody: bool, limit: int) -> None:
    """The newest messages, read or not, in order. It marks nothing as read."""
    mine = None if everybody or call.who.name == HUMAN else call.who.name
    found = call.mail().history(member=member or mine, limit=limit)
    document = {"messages": [message.as_dict() for message in found], "timed_out": False}
    call.answer(document, _listed(found, both=True) if found else "No messages yet.")


@verb("inject", example="interlock inject --team alpha-squad --as researcher")
@click.option("--session", metavar="S", help="The session that gets them [default: INTERLOCK_SESSION].")
@click.option("--urgent", is_flag=True, help="Only urgent ones, for a hook between two steps.")
def inject(call: Call, session: str | None, urgent: bool) -> None:
    """My new messages as XML on stdout, for a hook that puts them before an agent's prompt.

    They count as delivered once they are printed, and as seen once the same session asks again; until then a new
    session gets them once more. The lead also gets the state of the team. Where there is no mail, no team or no way to
    read it, nothing is printed and the exit code is 0.
    """
    flags = [flag for flag, wanted in (("--urgent", urgent), ("--json", call.json)) if wanted]
    given = {
        "--home": call.asked.home, "--team": call.asked.team, "--as": call.asked.actor, "--session": session,
    }  # fmt: skip
    run_inject([*flags, *(word for option, value in given.items() if value for word in (option, value))])


@verb("hook", example="interlock hook claude --team alpha-squad --name ada < event.json")
@click.argument("program", type=click.Choice(PROGRAMS))
@click.option("--name", metavar="M", help="Name of a new window [default: the program].")
@click.option("--plugin", is_flag=True, help="Called by the program's plugin: only where its project has joined by it.")
def hook(call: Call, program: str, name: str | None, plugin: bool) -> None:
    """What the hooks of a program that joined call: its event is read from stdin, the answer printed in its own form.

    All mail comes when a session begins and with each prompt, urgent mail also after a tool; a stop is answered once a
    turn with the mail that is unread and the tasks without a report. Where there is nothing to say, no team, no way to
    read it within a second, or where a runner drives the program, nothing is printed and the exit code is 0.
    """
    options = {"--home": call.asked.home, "--team": call.asked.team, "--name": name}
    run_hook(
        [
            program,
            *(["--plugin"] if plugin else []),
            *(word for key, value in options.items() if value for word in (key, value)),
        ]
    )


def _hand_over(call: Call, mail: Mail, none: str) -> None:
    document = {"messages": [message.as_dict() for message in mail.messages], "timed_out": mail.timed_out}
    if call.json:
        put(as_json(document) + "\n")
    else:
        text = "\n".join(_listed(mail.messages)) if mail.messages else none
        put((text if sys.stdout.isatty() else click.unstyle(text)) + "\n")


def _listed(messages: Sequence[Message], *, both: bool = False) -> list[str]:
    """Messages one below the other; `both` names the recipient too."""
    lines: list[str] = []
    for message in messages:
        to = f" to {words.strong(words.clean(message.recipient))}" if both else ""
        marks = [
            words.ago(message.timestamp),
            message.type if message.type not in ("message", "plain") else "",
            message.request_id or "",
            "urgent" if message.urgent else "",
            "shown before" if message.redelivered and not both else "",
            "" if message.read or not both else "unread",
        ]
        about = words.faint(" · ".join(words.clean(mark) for mark in marks if mark))
        lines += [""] if lines else []
        lines.append(f"from {words.strong(words.clean(message.sender))}{to}  {about}")
        if message.summary:
            lines.append(f"  {words.strong(words.clean(message.summary))}")
        lines += words.block(message.content)
    return lines
