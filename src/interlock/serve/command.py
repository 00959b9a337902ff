"""`interlock up`: everything, as a server. It has a module of its own because nothing else needs a web framework."""

from __future__ import annotations

import os
import sys

import click

from interlock.serve.up import Served
from interlock.serve.up import up as serve
from interlock.surfaces.cli.call import Call, verb
from interlock.surfaces.cli.server import show_in_browser
from interlock.surfaces.web.pages import router


@verb("up", example="interlock up\ninterlock up --port 9000 --open")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="Listen there [default: 8420]; 0: any.")
@click.option("--host", metavar="ADDRESS", help="Listen on this address [default: 127.0.0.1].")
@click.option("--plain", is_flag=True, help="Let other machines in, with nothing encrypted on the way.")
@click.option("--open", "browse", is_flag=True, help="Open the page in a browser.")
def up(call: Call, port: int | None, host: str | None, plain: bool, browse: bool) -> None:
    """Scheduler, workers of all teams, HTTP API, page and MCP over HTTP, in one process, until stopped.

    It prints a link that lets one browser in, once; `interlock open` makes another. Ctrl-C, or `interlock down`, ends
    it within two seconds, with everything it started.
    """

    def ready(served: Served) -> None:
        lines = [f"Interlock is up: {served.link}", "The link opens once; `interlock open` makes another. Ctrl-C ends."]
        if plain and not served.loopback:
            lines.append("warning: other machines can reach this, and nothing on the way is encrypted.")
        call.answer({"url": served.url, "link": served.link, "home": call.home.path, "pid": os.getpid()}, lines)
        sys.stdout.flush()
        if browse:
            show_in_browser(call, served.link)

    call.home.need_here("up")
    call.home.need_person("serve the home")
    serve(call.home, host=host, port=port, plain=plain, on_ready=ready, pages=[router()])
    call.note("Everything has ended.")
