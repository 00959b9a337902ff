"""`interlock version`, `help` and `completion`: the command line about itself."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from interlock.errors import InvalidRequest
from interlock.surfaces.cli.call import Call, verb
from interlock.version import __version__

SHELLS = {
    "bash": 'eval "$(interlock completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(interlock completion zsh)"   # in ~/.zshrc, after compinit',
    "fish": "interlock completion fish | source   # in ~/.config/fish/config.fish",
}


@verb("version", example="interlock version")
def version(call: Call) -> None:
    """Show the version."""
    call.answer({"version": __version__}, f"interlock {__version__}")


@verb("help", example="interlock help run\ninterlock help task create")
@click.argument("path", nargs=-1, metavar="[VERB]")
@click.pass_context
def help_(ctx: click.Context, call: Call, path: tuple[str, ...]) -> None:
    """Show what there is, or how a verb is used."""
    at = ctx.find_root()
    for word in path:
        command = at.command
        if not isinstance(command, click.Group):
            raise InvalidRequest(f"`{at.command_path}` has no command {word!r}, and no other.", field="verb")
        _, found, _ = command.resolve_command(at, [word])  # Raises UsageError, with the nearest one.
        assert found is not None
        at = click.Context(found, parent=at, info_name=word)
    call.answer({"help": at.get_help()}, at.get_help())


@verb("completion", example=SHELLS["bash"])
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(ctx: click.Context, call: Call, shell: str) -> None:
    """Print the shell code that completes verbs, options, plans, teams, tasks, members and settings.

    bash:  eval "$(interlock completion bash)"   in ~/.bashrc

    zsh:   eval "$(interlock completion zsh)"    in ~/.zshrc, after compinit

    fish:  interlock completion fish | source    in ~/.config/fish/config.fish
    """
    form = get_completion_class(shell)
    assert form is not None  # click knows these three
    source = form(ctx.find_root().command, {}, "interlock", "_INTERLOCK_COMPLETE").source()
    call.answer({"shell": shell, "source": source}, source)
