"""`interlock service …`: the server of this home as a service of its user."""

from __future__ import annotations

import click

from interlock.app import service
from interlock.app.service import ServiceState
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, verb


@verb("install", example="interlock service install")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Listen there [default: as `interlock up`].")
def install(call: Call, port: int | None) -> int:
    """Have `interlock up` started for this home when you log in, and again when it ends badly.

    It is a unit of your own systemd, or an agent of launchd. A file of that name that Interlock did not write is left
    as it is. With systemd, `loginctl enable-linger` starts it without a login, and keeps it after you log out.
    """
    return _answer(call, service.install(call.home, port))


@verb("remove", example="interlock service remove")
def remove(call: Call) -> int:
    """Stop it, and start it no more. Teams and their work stay."""
    return _answer(call, service.remove(call.home))


@verb("status", example="interlock service status")
def status(call: Call) -> int:
    """Whether it is installed, whether it runs, and where it listens. The exit code is 3 when it does not run."""
    found = service.status(call.home)
    return _answer(call, found) or (0 if found.active else 3)


def _answer(call: Call, found: ServiceState) -> int:
    if found.problem:
        lines = [f"{found.done}: {words.clean(found.file)}", f"Not done: {words.clean(found.problem)}",
                 f"Left to do: {words.clean(found.command)}"]  # fmt: skip
    else:
        runs = "runs" if found.active else "does not run" if found.installed else "not installed"
        lines = [f"{found.done or runs}: {words.clean(found.file)}"]
    lines += [f"This home is served at {found.url}"] if found.url else []
    call.answer(found, lines)
    return 1 if found.problem else 0
