"""`interlock inject`: the caller's pending mail as XML on stdout, for hooks that put it before an agent's prompt.

It runs at every turn of every agent, so it is parsed by hand and imports neither click nor anything else that costs.
It fails open: where no mail can be had (no team, a busy ledger, an unknown member), nothing is printed on stdout and
the exit code is 0, since a hook that fails would stop the agent. Only wrong usage is exit 2.

Mail counts as delivered once it is written and flushed; a reader that is gone gives it back.
"""

from __future__ import annotations

import os
import sys

from interlock.errors import InterlockError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from interlock.client import Mail

VALUES = ("--home", "--team", "--as", "--session")
FLAGS = ("--json", "--urgent")
USAGE = "Usage: interlock inject [--team T] [--as M] [--session S] [--urgent] [--json] [--home DIR]"


class BadUsage(Exception):
    """The arguments cannot be understood."""


def run(arguments: list[str]) -> int | None:
    """Do what `inject` with these arguments says; the exit code, or null where help is asked for."""
    try:
        options = parse(arguments)
    except BadUsage as error:
        return _refuse_usage(str(error), "--json" in arguments)
    if options is None:
        return None
    try:
        hand_over(
            options.get("--home"),
            options.get("--team"),
            options.get("--as"),
            options.get("--session"),
            urgent="--urgent" in options,
            as_json="--json" in options,
        )
    except InterlockError as error:
        fail_open(error)
    except BrokenPipeError:
        silence_stdout()
        return 1
    except OSError as error:
        print(f"interlock inject: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 0


def parse(arguments: list[str]) -> dict[str, str] | None:
    """The options by name, flags with an empty value; null where `--help` is among them.

    Raises:
        BadUsage: an unknown option, a missing value, or an argument too many.
    """
    options: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if word in ("--help", "-h"):
            return None
        if name in VALUES:
            value = value if equals else next(words, "")
            if not value:
                raise BadUsage(f"Option {name} needs a value.")
            options[name] = value
        elif word in FLAGS:
            options[word] = ""
        else:
            raise BadUsage(f"No such option or argument: {word}")
    return options


def hand_over(
    home: str | None, team: str | None, member: str | None, session: str | None, *, urgent: bool, as_json: bool
) -> None:
    """Print the mail and mark it delivered.

    Raises:
        InterlockError: no mail could be had; nothing was printed.
        BrokenPipeError: the reader is gone; the mail was given back.
    """
    from interlock.app import connect
    from interlock.surfaces.cli.caller import identify, open_mail

    opened = connect(home)
    try:
        who = identify(member, session)
        with open_mail(opened, team, who, reads=False).mail(inject=True, urgent_only=urgent) as mail:
            text = _as_json(mail) if as_json else mail.as_xml()
            put(text)
    finally:
        opened.close()


def put(text: str) -> None:
    """Write all of `text` to stdout, or raise.

    Where Python is told not to buffer (PYTHONUNBUFFERED), its own `write` drops silently what does not fit into the
    pipe at once, and mail would count as delivered that nobody got.

    Raises:
        OSError: the reader is gone.
    """
    data = text.encode(sys.stdout.encoding or "utf-8", "replace")
    while data:
        data = data[sys.stdout.buffer.write(data) :]
    sys.stdout.flush()


def fail_open(error: InterlockError) -> None:
    """Say on stderr why there is no mail; silent outside of a team, where a hook has nothing to say."""
    if not (error.code == "team_not_found" and "teams" in error.details):
        print(f"interlock inject: {error.message}", file=sys.stderr)


def silence_stdout() -> None:
    """Let the interpreter's last flush go nowhere: who read our output is gone."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        pass


def _as_json(mail: Mail) -> str:
    import json

    messages = [message.as_dict() for message in mail.messages]
    return json.dumps({"messages": messages, "xml": mail.as_xml()}, ensure_ascii=False) + "\n"


def _refuse_usage(message: str, as_json: bool) -> int:
    if as_json:
        import json

        print(json.dumps({"error": "invalid_request", "message": f"{message} {USAGE}"}), file=sys.stderr)
    else:
        print(f"{USAGE}\n\nError: {message}", file=sys.stderr)
    return 2
