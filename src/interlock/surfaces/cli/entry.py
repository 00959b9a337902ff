"""Runs one command line: parse, do, print, and turn every way it can end into an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from itertools import takewhile

import click

from interlock.errors import InterlockError, InternalError, InvalidRequest, StorageError
from interlock.hooks_main import silence_stdout
from interlock.model.json import Json
from interlock.surfaces.cli import words
from interlock.surfaces.cli.command import SharedOptions, UnknownCommand, as_json, explain
from interlock.surfaces.cli.tree import cli

REFUSED = 1
USAGE = 2
INTERRUPTED = 130
CLOSED_PIPE = 141
"""128 + SIGPIPE, as of a program that this signal ends: whoever read what we print is gone."""


def run(arguments: Sequence[str]) -> int:
    """Do what `arguments` say; the exit code."""
    asked = SharedOptions()
    for name in ("stdout", "stderr"):  # One that was closed by whoever started us is one that nobody reads.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    color = False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
    try:
        result = cli.main(list(arguments), prog_name="interlock", standalone_mode=False, obj=asked, color=color)
        sys.stdout.flush()
    except InterlockError as error:
        return _refused(error, asked.json)
    except click.UsageError as error:
        document, more, ctx = {"error": InvalidRequest.code, "message": error.format_message()}, [], error.ctx
        if ctx is not None:
            document["usage"] = ctx.get_usage()
            if not isinstance(error, UnknownCommand):
                more = [f"  {ctx.get_usage()}", f"  `{ctx.command_path} --help` says more."]
        _print_error(document, asked.json or asks_for_json(arguments), more)
        return USAGE
    except click.ClickException as error:
        return _refused(InvalidRequest(error.format_message()), asked.json)
    except (click.Abort, KeyboardInterrupt):
        click.echo(err=True)
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as ended:  # click makes a SystemExit of it
        if isinstance(ended, SystemExit) and not ended.code:
            return 0  # A shell was told what a word may become.
        silence_stdout()
        return CLOSED_PIPE
    except Exception as error:  # boundary: people get a sentence; whoever looks into it, the traceback
        return _refused(_unforeseen(error), asked.json or asks_for_json(arguments))
    return result if isinstance(result, int) else 0


def _unforeseen(error: Exception) -> InterlockError:
    if os.environ.get("INTERLOCK_DEBUG"):
        import traceback

        traceback.print_exception(error)
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        return StorageError(f"The system refused: {error.strerror or error}{where}.", path=error.filename)
    said = f"{type(error).__name__}: {error}".splitlines()[0]
    return InternalError(
        f"Internal error ({said}). This is a defect of Interlock: please report it. With INTERLOCK_DEBUG=1 the same "
        "command shows where it happened."
    )


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` stands on a line that could not be parsed."""
    return "--json" in list(takewhile(lambda word: word != "--", arguments))


def _refused(error: InterlockError, as_document: bool) -> int:
    _print_error(error.as_dict(), as_document, explain(error))
    return error.exit_code


def _print_error(document: Json, as_document: bool, more: Iterable[str]) -> None:
    """The one way errors look: as one JSON document, or to people, with `more` lines."""
    if as_document:
        click.echo(as_json(document), err=True)
        return
    room = words.terminal_width(sys.stderr)
    for line in [*f"{click.style('error:', fg='red', bold=True)} {document['message']}".split("\n"), *more]:
        click.echo(line if room is None else words.fitted(line, room), err=True)
