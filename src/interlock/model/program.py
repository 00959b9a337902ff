"""An agent as people name it on a command line or in a setting."""

from __future__ import annotations

import json
import shlex

from interlock.errors import InvalidRequest


def program(named: str, where: str = "--agent") -> tuple[str, list[str] | None]:
    """What `named` means: an agent that is known by its name, or any program, `acp` before one that speaks that. As in
    a plan, a program may also be a JSON list, or {"acp": […]}. `where` is what errors call it by.

    Returns:
        The agent, as a plan's member has it, and the words of its command where it is `command` or `acp`.

    Raises:
        InvalidRequest: a quote is left open, JSON names no program, or nothing is named.
    """
    if named.lstrip().startswith(("[", "{")):
        return _written(named, where)
    try:
        said = shlex.split(named)
    except ValueError as error:
        raise InvalidRequest(f"{where} {named!r} cannot be split into words: {error}.", field="agent") from None
    if not said or said == ["acp"]:
        raise InvalidRequest(f"{where} names an agent such as claude, or a program with its arguments.", field="agent")
    if len(said) == 1 and "/" not in named:
        return said[0], None
    return ("acp", said[1:]) if said[0] == "acp" else ("command", said)


def _written(named: str, where: str) -> tuple[str, list[str]]:
    try:
        read = json.loads(named)
        form, said = ("command", read) if isinstance(read, list) else next(iter(read.items()))
    except (ValueError, StopIteration):
        form, said = "", []
    if form in ("command", "acp") and isinstance(said, list) and said and all(isinstance(one, str) for one in said):
        return str(form), said
    raise InvalidRequest(
        f'{where} takes a name, a program with its arguments, a JSON list ["PROGRAM", …], or {{"acp": ["PROGRAM"]}}.',
        field="agent",
    )
