"""The command line.

`main` is the console entry point. The hook commands `hook` and `inject` run at every turn of every agent, so they are
parsed by hand and cost a fraction of what click does; every other verb is a row of `tree`, whose module is loaded when
it is called.

People get tables and colour, `--json` one JSON document on stdout; errors go to stderr. Exit codes: 0 done, 1 refused
or failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import sys

GLOBALS_WITH_VALUE = ("--home", "--team", "--as")
"""Options that may stand before the verb and take a value; `--json` takes none."""


def main() -> None:
    """The console entry point."""
    arguments = sys.argv[1:]
    place = verb_at(arguments)
    if place is not None and arguments[place] in ("inject", "hook"):
        if arguments[place] == "hook":
            from interlock.surfaces.cli.hook import run as run_hook
        else:
            from interlock.surfaces.cli.inject import run as run_hook
        code = run_hook(arguments[:place] + arguments[place + 1 :])
        if code is not None:
            sys.exit(code)
    from interlock.surfaces.cli.entry import run

    sys.exit(run(arguments))


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
