"""How a command that a user wrote (`run`, `verify`) becomes a list of arguments.

A plain command is executed as it is, without a shell: `ruff check src`. One that uses the shell's language is what its
author asked for, and goes to `/bin/sh -c`: `make && make test`, `grep -c x *.py`, `CI=1 pytest`, `! grep TODO src`.
"""

from __future__ import annotations

import re
import shlex

from interlock.errors import InvalidRequest

SHELL = "/bin/sh"

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_ANYWHERE = frozenset("|&;<>()$`*?[\n")
_AT_WORD_START = frozenset("~#")
# Words that only a shell knows, where they stand first.
_SHELL_WORD = re.compile(
    r"([!.:{]|alias|break|case|cd|command|continue|eval|exec|exit|export|for|if|read|readonly|return|set|shift|source"
    r"|times|trap|type|ulimit|umask|unset|until|wait|while)(\s|$)"
)


def argv(command: str) -> list[str]:
    """The arguments to execute for `command`.

    Raises:
        InvalidRequest: it is empty, holds a null character, or a quote in it is never closed.
    """
    command = command.strip()
    if not command:
        raise InvalidRequest("The command is empty: write what to run, for example `pytest -q`.", value=command)
    if "\0" in command:
        raise InvalidRequest("The command holds a null character, which no program can be given.", value=command)
    shell = needs_shell(command)
    if shell and ("<<" in command or "#" in command):
        return [SHELL, "-c", command]  # text in a here-document or a comment may hold a lone quote
    try:
        words = shlex.split(command)
    except ValueError:
        raise InvalidRequest(
            f"The command {command!r} has a quote (or a final backslash) without its end: close it, or put a backslash "
            "before it.",
            value=command,
        ) from None
    if not shell and (not words or not words[0]):
        raise InvalidRequest(f"The command {command!r} names no program.", value=command)
    return [SHELL, "-c", command] if shell else words


def words_of(command: str, setting: str) -> list[str]:
    """The words of a setting that names a program: a JSON list, or as a shell would split them, without a shell.

    Raises:
        InvalidRequest: it is neither.
    """
    import json  # only where a setting names a program

    try:
        words = json.loads(command) if command.lstrip().startswith("[") else shlex.split(command)
    except ValueError:
        words = None
    if not isinstance(words, list) or not words or not all(isinstance(one, str) and "\0" not in one for one in words):
        raise InvalidRequest(
            f'{setting} must be a program with its arguments, such as `notify-send Interlock` or ["sh", "-c", "…"]. No '
            "shell reads it unless it names one.",
            field=setting,
        )
    return words


def needs_shell(command: str) -> bool:
    """Whether `command` uses shell language outside quotes (inside double quotes: `$` and backquotes)."""
    command = command.strip()
    if _ASSIGNMENT.match(command) or _SHELL_WORD.match(command):
        return True
    quote = ""
    word_start = True
    skip = False
    for character in command:
        if skip:
            skip = False
        elif quote == "'":
            quote = "" if character == "'" else quote
        elif character == "\\":
            skip = True
        elif quote:
            if character in "$`":
                return True
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in _ANYWHERE or (word_start and character in _AT_WORD_START):
            return True
        word_start = not skip and not quote and character in " \t"
    return False
