"""The `interlock` command that agents of a run find on their PATH: always that of the installation that runs them.

Agents report through `interlock task complete` and the like. Another version's command may come first on the user's
PATH, or none at all (`python -m`, a source tree, an environment that is not activated). So each team has a directory
with one small script in it that starts this interpreter with this package, and nothing else: putting it first on PATH
changes what no other name means.
"""

from __future__ import annotations

import os
import shlex
import sys

from interlock.errors import StorageError
from interlock.mirror import files

DIRECTORY = "bin"

_ENTRY = (
    "import sys; sys.path[:0] = sys.argv.pop(1).splitlines(); sys.argv[0] = 'interlock'; "
    "from interlock.surfaces.cli import main; main()"
)


def directory(team: str) -> str:
    """A directory below `team` whose only program is our own `interlock`, written anew where it is not there.

    Raises:
        StorageError: it cannot be written.
    """
    where = os.path.join(team, DIRECTORY)
    path = os.path.join(where, "interlock")
    wanted = script()
    try:
        with open(path, "rb") as file:
            if file.read() == wanted and os.access(path, os.X_OK):
                return where
    except FileNotFoundError:
        pass
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}. Remove it.", path=path) from error
    try:
        os.makedirs(where, mode=0o700, exist_ok=True)
        files.replace(path, wanted)
        os.chmod(path, 0o700)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.", path=path) from error
    return where


def script() -> bytes:
    """What stands in it. `-P`: a directory `interlock` in the agent's working directory is not ours."""
    source = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
    # An installed package is found by itself; a source tree has to be named, before another version is found.
    installed = os.path.basename(source) in ("site-packages", "dist-packages")
    words = [sys.executable or "python3", "-P", "-c", _ENTRY, "" if installed else source]
    return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'.encode()
