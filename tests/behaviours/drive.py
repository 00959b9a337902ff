"""A process that drives the team `crew`: `python -m tests.behaviours.drive HOME OPTIONS`, for tests that kill it.

It prints every update as `member kind text`, and at last `ended: reason`. SIGINT stops it as Ctrl-C does in the
command line, SIGTERM at once.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys

import interlock
from interlock.agents.session import Update
from interlock.model.driving import Stop
from interlock.surfaces.cli import GARBAGE


def main(place: str, text: str) -> None:
    """Drive."""
    gc.set_threshold(GARBAGE, *gc.get_threshold()[1:])
    stop = Stop()

    def interrupted(number: int, frame: object) -> None:
        stop.request("interrupted")
        os.write(1, b"interrupted\n")  # a handler may have come in the middle of another print

    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, lambda number, frame: stop.request("terminated", now=True))

    def hear(update: Update) -> None:
        print(update.member, update.kind, update.text, flush=True)

    home = interlock.connect(place)
    options = json.loads(text)
    if "server" in options:  # as a worker on another machine
        server = interlock.connect(options.pop("server"), options.pop("token", None))
        reason = interlock.work(
            server.team(options.pop("team", "crew")), home=home.path, beat=0.05, stop=stop, on_update=hear, **options
        )
    else:
        reason = home.drive("crew", stop=stop, on_update=hear, **options)
    print(f"ended: {reason}", flush=True)
    gc.freeze()  # as the command line does


if __name__ == "__main__":
    main(*sys.argv[1:])
