"""Which file a hook runs: one inside the project, links followed, and never found by PATH (decision 42)."""

from __future__ import annotations

import os
import shlex

from interlock.runner.permissions import is_inside
from interlock.workflow.hooks.definitions import Hook

PROJECT = "{project-root}"


class NoHook(Exception):
    """The hook cannot be run; the message says why and what to do."""


def program_of(hook: Hook, root: str) -> str | None:
    """The file that is executed, of the project at `root`; for a shell text the one it begins with, None where that is
    none of the project.

    Raises:
        NoHook: it is none that may be.
    """
    if hook.shell:
        try:
            word = (shlex.split(hook.command[0]) or [""])[0]
        except ValueError:
            return None
        path = os.path.realpath(os.path.join(root, word.replace(PROJECT, root)))
        return path if word and os.path.isfile(path) and is_inside(path, root) else None
    written = hook.command[0].replace(PROJECT, root)
    path = os.path.realpath(os.path.join(root, written))
    if not is_inside(path, root):
        raise NoHook(
            f"{hook.command[0]} lies outside the project (or in its .git), so it is not run: put a script into the "
            "project and name that."
        )
    if not os.path.isfile(path):
        raise NoHook(
            f"{hook.command[0]} is no file of the project: a hook names one by its path from the project's root; "
            "an interpreter is named by the script's own first line."
        )
    if not os.access(path, os.X_OK):
        raise NoHook(f"{hook.command[0]} is not executable: `chmod +x {shlex.quote(hook.command[0])}`.")
    return path


def fault(hook: Hook, root: str) -> str | None:
    """Why the hook would not be run as things stand, and what to do; None where it would."""
    try:
        program_of(hook, os.path.realpath(root))
    except NoHook as error:
        return str(error)
    return None
