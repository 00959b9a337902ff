"""`interlock up` and `interlock open`: the server, and links to its page."""

from __future__ import annotations

import os
import sys

import click

from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb

OPENER = "open.html"
"""A file of this user alone that leads a browser to its link: arguments of programs can be read by everybody."""

BROWSER_SECONDS = 20.0


@verb("up", example="interlock up\ninterlock up --port 9000 --open")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="Listen there [default: 8420]; 0: any.")
@click.option("--host", metavar="ADDRESS", help="Listen on this address [default: 127.0.0.1].")
@click.option("--open", "browse", is_flag=True, help="Open the page in a browser.")
def up(call: Call, port: int | None, host: str | None, browse: bool) -> None:
    """Scheduler, workers of all teams, HTTP API, page and MCP over HTTP, in one process, until stopped.

    It prints a link that lets one browser in, once; `interlock open` makes another. Ctrl-C, or `interlock down`, ends
    it within two seconds, with everything it started.
    """
    from interlock.serve.up import Served
    from interlock.serve.up import up as serve
    from interlock.surfaces.web.pages import router

    def ready(served: Served) -> None:
        lines = [f"Interlock is up: {served.link}", "The link opens once; `interlock open` makes another. Ctrl-C ends."]
        if not served.loopback:
            lines.append("warning: other machines can reach this, and nothing on the way is encrypted.")
        call.answer({"url": served.url, "link": served.link, "home": call.home.path, "pid": os.getpid()}, lines)
        sys.stdout.flush()
        if browse:
            open_browser(call.home.path, served.link)

    call.home.need_person("serve the home")
    serve(call.home, host=host, port=port, on_ready=ready, pages=[router()])
    if not call.json:
        call.say("Everything has ended.")


@verb("open", example="interlock open\ninterlock open --browser")
@click.option("--browser", "browse", is_flag=True, help="Open the page in a browser.")
def open_(call: Call, browse: bool) -> None:
    """A fresh link to the page of the running server. It lets one browser in, once, and lapses within the hour."""
    from interlock.core.tokens import Tokens
    from interlock.serve.place import link_to, need

    call.home.need_person("open the page")
    place = need(call.home.path)
    link = link_to(place.url, Tokens(call.home.path))
    call.answer({"url": place.url, "link": link}, link)
    if browse:
        open_browser(call.home.path, link)


def open_browser(home: str, link: str) -> None:
    """Lead this user's browser to a link, without showing it to others on this machine."""
    import subprocess
    import webbrowser
    from html import escape

    from interlock.storage import files

    path = os.path.join(home, OPENER)
    page = f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(link)}"><title>Interlock</title>'
    files.replace(path, page.encode())
    try:
        webbrowser.get()
        # By a program that ends at once, so that the browser is no child of ours, which would end with us.
        words = [sys.executable, "-m", "webbrowser", f"file://{path}"]
        nothing = subprocess.DEVNULL
        subprocess.run(words, stdin=nothing, stdout=nothing, stderr=nothing, timeout=BROWSER_SECONDS, check=False)
    except (webbrowser.Error, OSError, subprocess.TimeoutExpired):
        click.echo("No browser could be opened; open the link yourself.", err=True)
