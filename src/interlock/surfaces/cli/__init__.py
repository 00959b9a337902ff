"""The command line.

`main` is the console entry point. The hook commands `hook` and `inject` run at every turn of every agent, so they are
parsed by hand and cost a fraction of what click does; every other verb is a row of `tree`, whose module is loaded when
it is called.

People get tables and colour, `--json` one JSON document on stdout; errors go to stderr. Exit codes: 0 done, 1 refused
or failed, 2 wrong usage, 3 nothing there (with --exit-code), 130 interrupted, 141 nobody reads the output.
"""

from __future__ import annotations

import gc
import os
import sys

GLOBALS_WITH_VALUE = ("--home", "--team", "--as")
"""Options that may stand before the verb and take a value; `--json` takes none."""
GARBAGE = 50_000
"""Objects made until the next look for garbage: twice what a short command makes, so that it never looks."""


def main() -> None:
    # What a command loads, it keeps: looking for garbage in it every 700 objects takes a twentieth of a short one.
    gc.set_threshold(GARBAGE, *gc.get_threshold()[1:])
    arguments = sys.argv[1:]
    place = verb_at(arguments)
    if place is not None and arguments[place] in ("inject", "hook"):
        from interlock import hooks_main

        run_it = hooks_main.run_hook if arguments[place] == "hook" else hooks_main.run_inject
        code = run_it(arguments[:place] + arguments[place + 1 :])
        if code is not None:
            leave(code)
    from interlock.surfaces.cli.entry import run

    code = run(arguments)
    if "asyncio" in sys.modules:
        # Where much was going on, threads and finalizers of others may have to be waited for; but not Python's last
        # looks for garbage, which take a server a third of a second.
        gc.freeze()
        sys.exit(code)
    leave(code)


def leave(code: int) -> None:
    """End at once: all is written and closed, and to take Python apart would cost a hook a fifth of its time, a short
    command a tenth."""
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        pass  # whoever read it is gone
    os._exit(code)


def verb_at(arguments: list[str]) -> int | None:
    """Where in `arguments` the verb stands; null where there is none before something unknown."""
    place = 0
    while place < len(arguments):
        word = arguments[place]
        if not word.startswith("-"):
            return place
        if word in GLOBALS_WITH_VALUE:
            place += 1
        elif word != "--json" and not word.startswith(tuple(f"{name}=" for name in GLOBALS_WITH_VALUE)):
            return None
        place += 1
    return None
