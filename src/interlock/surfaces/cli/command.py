"""What every command line shares, before any verb is loaded: its options, errors, and branches of commands.

Every command knows `--team`, `--as`, `--home` and `--json`, so they may appear anywhere on the line; the last one wins.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from interlock.errors import InterlockError
from interlock.model.json import json_form


class SharedOptions:
    """The shared options, set while the line is parsed."""

    home: str | None = None
    team: str | None = None
    actor: str | None = None
    json: bool = False


def as_json(document: Any) -> str:
    """`document` on one line; characters are escaped only where the terminal could not show them."""
    import json

    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    return json.dumps(document, ensure_ascii=encoding != "utf8", default=json_form)


def explain(error: InterlockError) -> list[str]:
    """What an error holds beyond its sentence, for people: every fault of a plan, the candidates of a short id."""
    lines = []
    for name in ("errors", "candidates", "findings"):
        value = error.details.get(name)
        for item in value if isinstance(value, (list, tuple)) else ():
            line = ""
            if isinstance(item, Mapping):
                line = f"line {item['line']}: " if item.get("line") else ""
                item = item.get("message") or item.get("subject") or dict(item)
            if str(item) not in error.message:
                lines.append(f"  {line}{item}")
    return lines


def _shared(*names: str, **attributes: Any) -> click.Option:
    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value:
            setattr(ctx.ensure_object(SharedOptions), str(param.name), value)

    return click.Option(names, expose_value=False, callback=keep, **attributes)


SHARED = (
    _shared("--team", metavar="TEAM", help="The team that is meant."),
    _shared("--as", "actor", metavar="MEMBER", help="Act as this member."),
    _shared("--home", metavar="DIR", help="Where teams are kept [default: ~/.interlock]."),
    _shared("--json", is_flag=True, help="One JSON document on stdout."),
)
HELP_OPTIONS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Everywhere(click.Command):
    """A command that also takes the shared options, and lists them apart in its help."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        found = [*super().get_params(ctx), *SHARED]
        if ctx.resilient_parsing:  # The shell asks what a word may become.
            import_module("interlock.surfaces.cli.completing").attach(ctx, found)
        return found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = [param for param in self.get_params(ctx) if param not in SHARED]
        for title, params in (("Options", own), ("Options of every command", SHARED)):
            records = [record for param in params if (record := param.get_help_record(ctx))]
            records = [(name, text) for name, text in records if text or name.startswith("-")]  # no bare arguments
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class UnknownCommand(click.UsageError):
    """There is no such command; the message says what is near, so that its usage would add nothing."""


class Branch(Everywhere, click.Group):
    """A group whose commands are rows of the tree: name -> (`module:attribute`, one line of help)."""

    def __init__(
        self, name: str, rows: Mapping[str, tuple[str, str]], titles: Mapping[str, list[str]], **attributes: Any
    ) -> None:
        attributes.setdefault("context_settings", HELP_OPTIONS)
        overview = click.pass_context(self._overview)
        super().__init__(name, invoke_without_command=True, no_args_is_help=False, callback=overview, **attributes)
        self.rows = rows
        self.titles = titles

    def _overview(self, ctx: click.Context) -> int | None:
        """Show the help where no command follows; return the exit code."""
        if ctx.invoked_subcommand is not None:
            return None
        if ctx.obj is not None and ctx.obj.json:
            raise click.UsageError(f"Name a command: {', '.join(self.rows)}.", ctx)
        click.echo(self.get_help(ctx), err=ctx.parent is not None)
        return 0 if ctx.parent is None else 2

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in self.rows:
            where, line = self.rows[cmd_name]
            module, _, attribute = where.partition(":")
            full = module if "." in module else f"interlock.surfaces.cli.{module}"
            command: click.Command = getattr(import_module(full), attribute)
            command.short_help = line
            self.commands[cmd_name] = command
        return self.commands.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(name, self.rows, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"`{ctx.command_path} --help` lists what there is."
            raise UnknownCommand(f"No such command {name!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in self.titles.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.rows[name][1]) for name in names])
        Everywhere.format_options(self, ctx, formatter)
