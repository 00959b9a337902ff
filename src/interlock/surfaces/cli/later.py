"""Verbs that the contract announces and this version does not have: they say so, and change nothing."""

from __future__ import annotations

import click

from interlock.errors import NotAvailable
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import Verb, verb


def later(name: str, line: str) -> Verb:
    """A verb that takes any arguments and answers `not_available`."""

    @verb(
        name,
        example="",
        help=f"{line[:1].upper()}{line[1:]}\n\nThis verb is announced, but not part of this version.",
        context_settings={"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def announced(call: Call, arguments: tuple[str, ...]) -> None:
        path = click.get_current_context().command_path
        raise NotAvailable(f"`{path}` is not part of this version yet; nothing was done. {instead(path)}", verb=path)

    return announced


def instead(path: str) -> str:
    """What does come nearest today."""
    return INSTEAD.get(path.removeprefix("interlock ").split()[0], "`interlock --help` lists what there is.")


INSTEAD = {
    "agents": "`interlock member spawn NAME --agent A` names the agent of a member.",
    "plan": "Write the plan by hand: `interlock init` makes a first one, `interlock plan --schema` shows every key.",
}
