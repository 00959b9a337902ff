"""What the shell completes an argument to, by its name: plans, teams, tasks, members, settings.

The rows of the command tree stay as they are: an argument called `task` is a task everywhere.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial

import click
from click.shell_completion import CompletionItem

from interlock.errors import InterlockError
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import SharedOptions

Found = Iterable[tuple[str, str | None]]
Kind = Callable[[Call], Found]
MOST = 200


def attach(ctx: click.Context, params: Iterable[click.Parameter]) -> None:
    """Let those of `params` that name something of a home complete to what is there."""
    of = "" if ctx.parent is None else str(ctx.parent.info_name)
    for param in params:
        kind = BY_BRANCH.get((of, str(param.name))) or KINDS.get(str(param.name))
        if kind is not None:
            setattr(param, "shell_complete", partial(_complete, kind))  # noqa: B010


def _complete(kind: Kind, ctx: click.Context, typed: str) -> list[CompletionItem]:
    if kind is _plans:
        plans = [one for one in sorted(glob.glob(glob.escape(typed) + "*")) if one.endswith((".yaml", ".yml"))]
        return [CompletionItem(one) for one in plans] or [CompletionItem(typed, type="file")]
    with closing(Call(ctx.ensure_object(SharedOptions), reads=True)) as call:
        try:
            found = [CompletionItem(word, help=said) for word, said in kind(call) if word.startswith(typed)]
        except InterlockError:
            return []  # No team, or several: there is nothing to choose from.
    return found[:MOST]


def _plans(call: Call) -> Found:
    return ()  # They are files: what is typed decides.


def _teams(call: Call) -> Found:
    return [(name, None) for name in call.home.teams()]


def _tasks(call: Call) -> Found:
    return [(one.plan_key or one.id, one.subject) for one in call.team().tasks()]


def _members(call: Call) -> Found:
    return [(one.name, one.agent) for one in call.team().members()]


def _settings(call: Call) -> Found:
    return [(one.name, one.help) for one in call.home.settings()]


KINDS: dict[str, Kind] = {
    "plan": _plans, "team": _teams, "task": _tasks, "on": _tasks, "blocked_by": _tasks, "redo": _tasks,
    "actor": _members, "member": _members, "assignee": _members, "owner": _members, "to": _members, "what": _tasks,
}  # fmt: skip
"""By the name of an argument or option."""
BY_BRANCH: dict[tuple[str, str], Kind] = {
    ("config", "name"): _settings, ("team", "name"): _teams, ("member", "name"): _members,
    ("interlock", "file"): _plans,
}  # fmt: skip
