"""Runs one command line: parse, do, print, and turn every way it can end into an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

import click

from interlock.errors import InterlockError, InternalError, InvalidRequest, StorageError
from interlock.hooks_main import silence_stdout
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
    _open_streams()
    color = False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
    try:
        result = cli.main(list(arguments), prog_name="interlock", standalone_mode=False, obj=asked, color=color)
        sys.stdout.flush()
    except InterlockError as error:
        return _refused(error, asked.json)
    except click.UsageError as error:
        return _wrong_usage(error, asked.json or asks_for_json(arguments))
    except click.ClickException as error:
        return _refused(InvalidRequest(error.format_message()), asked.json)
    except (click.Abort, KeyboardInterrupt):
        click.echo(err=True)
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):  # click makes a SystemExit of it
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


def _open_streams() -> None:
    """A stream that was closed by whoever started us is one that nobody reads."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` stands on a line that could not be parsed."""
    for word in arguments:
        if word == "--":
            return False
        if word == "--json":
            return True
    return False


def _refused(error: InterlockError, as_document: bool) -> int:
    if as_document:
        click.echo(as_json(error.as_dict()), err=True)
    else:
        _print_error(error.message, explain(error))
    return error.exit_code


def _wrong_usage(error: click.UsageError, as_document: bool) -> int:
    if as_document:
        document = {"error": InvalidRequest.code, "message": error.format_message()}
        if error.ctx is not None:
            document["usage"] = error.ctx.get_usage()
        click.echo(as_json(document), err=True)
    else:
        _print_error(error.format_message(), _usage_of(error))
    return USAGE


def _usage_of(error: click.UsageError) -> list[str]:
    ctx = error.ctx
    if ctx is None or isinstance(error, UnknownCommand):
        return []
    return [f"  {ctx.get_usage()}", f"  `{ctx.command_path} --help` says more."]


def _print_error(message: str, more: Iterable[str]) -> None:
    """The one way errors look to people."""
    click.echo(f"{click.style('error:', fg='red', bold=True)} {message}", err=True)
    for line in more:
        click.echo(line, err=True)
