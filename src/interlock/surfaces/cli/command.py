"""The kinds of command everything is made of: a verb, and a branch whose verbs are loaded when they are called.

Every command knows `--team`, `--as`, `--home` and `--json`, so they may stand anywhere on the line; the last one wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import click

from interlock.surfaces.cli.call import Call

HELP_OPTIONS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value:
        setattr(ctx.ensure_object(Call), f"asked_{param.name}", value)


SHARED: tuple[click.Option, ...] = (
    click.Option(["--team"], metavar="TEAM", help="The team that is meant.", expose_value=False, callback=_keep),
    click.Option(["--as", "actor"], metavar="MEMBER", help="Act as this member.", expose_value=False, callback=_keep),
    click.Option(
        ["--home"], metavar="DIR", help="Where teams are kept [default: ~/.interlock].", expose_value=False,
        callback=_keep,
    ),
    click.Option(
        ["--json"], is_flag=True, help="One JSON document on stdout.", expose_value=False, callback=_keep
    ),
)  # fmt: skip


class Everywhere(click.Command):
    """A command that also takes the shared options, and lists them apart in its help."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its own parameters, then the shared ones."""
        return [*super().get_params(ctx), *SHARED]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Its own options, then the shared ones under a title of theirs."""
        own = [param for param in self.get_params(ctx) if param not in SHARED]
        for title, params in (("Options", own), ("Options of every command", SHARED)):
            records = [record for param in params if (record := param.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Verb(Everywhere):
    """A command that does something. `example` is a line that works as it stands, shown in its help. One that only
    `reads` is about the only team there is, where nothing else says which."""

    def __init__(self, *args: Any, example: str = "", reads: bool = False, **attributes: Any) -> None:
        attributes.setdefault("context_settings", HELP_OPTIONS)
        super().__init__(*args, **attributes)
        self.example = example
        self.reads = reads

    def invoke(self, ctx: click.Context) -> Any:
        """See `click.Command.invoke`."""
        ctx.ensure_object(Call).reads = self.reads
        return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The example."""
        if self.example:
            with formatter.section("Example"):
                for line in self.example.splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def verb(name: str, *, example: str, **attributes: Any) -> Callable[[Callable[..., int | None]], Verb]:
    """Make a verb of a function. It gets a `call.Call` first, and answers the exit code (none: 0)."""

    def made(function: Callable[..., int | None]) -> Verb:
        return click.command(name, cls=Verb, example=example, **attributes)(click.pass_obj(function))

    return made


class UnknownCommand(click.UsageError):
    """There is no such command; the message says what is near, so that its usage would tell nothing more."""


class Branch(Everywhere, click.Group):
    """A group whose commands are rows of the tree: name -> (`module:attribute`, one line of help)."""

    def __init__(
        self, name: str, rows: Mapping[str, tuple[str, str]], titles: Mapping[str, list[str]], **attributes: Any
    ) -> None:
        attributes.setdefault("context_settings", HELP_OPTIONS)
        super().__init__(name, invoke_without_command=True, no_args_is_help=False, **attributes)
        self.rows = rows
        self.titles = titles

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of its rows, in their order."""
        return list(self.rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that row, loaded now; null where there is no such row."""
        if cmd_name not in self.commands and cmd_name in self.rows:
            self.commands[cmd_name] = self._load(cmd_name)
        return self.commands.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """See `click.Group.resolve_command`; an unknown name is answered with the nearest.

        Raises:
            UnknownCommand: there is none of that name.
        """
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            raise UnknownCommand(self._unknown(ctx, name), ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command; without one, show the help. Answers the exit code."""
        if not ctx.args and not ctx._protected_args:
            if ctx.obj is not None and ctx.obj.json:
                raise click.UsageError(f"Say what to do: {', '.join(self.rows)}.", ctx)
            click.echo(self.get_help(ctx), err=ctx.parent is not None)
            return 0 if ctx.parent is None else 2
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands first, under their titles, then the options."""
        for title, names in self.titles.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.rows[name][1]) for name in names])
        Everywhere.format_options(self, ctx, formatter)

    def _load(self, name: str) -> click.Command:
        where, line = self.rows[name]
        module, _, attribute = where.partition(":")
        command: click.Command = getattr(import_module(f"interlock.surfaces.cli.{module}"), attribute)
        command.short_help = line
        return command

    def _unknown(self, ctx: click.Context, name: str) -> str:
        from difflib import get_close_matches

        near = get_close_matches(name, self.rows, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"`{ctx.command_path} --help` lists what there is."
        return f"No such command {name!r}. {hint}"
