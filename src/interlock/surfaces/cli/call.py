"""Verbs of the command line: the call that each gets and answers with, and arguments read from files or stdin."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import is_dataclass
from typing import Any

import click

import interlock
from interlock.app.home import Home
from interlock.app.mail import Mailing
from interlock.app.team import Team
from interlock.app.windows import TeamGlance
from interlock.errors import InvalidRequest, LocalOnly, StorageError
from interlock.model.json import json_form
from interlock.model.task import Task
from interlock.surfaces.cli import words
from interlock.surfaces.cli.caller import Identity, identify, look_up, open_mail
from interlock.surfaces.cli.command import HELP_OPTIONS, Everywhere, SharedOptions, as_json

INPUT_BYTES = 4_194_304
WARNINGS = {
    "ledger_restored": "An older state of the ledger was restored: what was done after it is lost. The files were "
    "written again from it; those of tasks that it does not know are kept.",
    "mirror_pending": "The change is safe in the ledger, but the files that show it could not be written yet. "
    "The next command tries again; `interlock doctor` says what is wrong.",
}


class Call:
    """One call of a verb: what was asked, the home and team it speaks to, and its answers."""

    def __init__(self, asked: SharedOptions, *, reads: bool = False) -> None:
        self.asked = asked
        self.reads = reads
        self._home: Home | None = None
        self._team: Team | None = None
        self._found: tuple[TeamGlance, Identity] | None = None
        self._warned: set[str] = set()

    @property
    def json(self) -> bool:
        return self.asked.json

    @property
    def home(self) -> Home:
        if self._home is None:
            self._home = interlock.connect(self.asked.home)
        return self._home

    def home_of_this_machine(self) -> Home:
        """The home in a directory of this machine, also while another one is used in its place."""
        return interlock.connect(self.asked.home or os.environ.get("INTERLOCK_HOME") or "~/.interlock")

    @property
    def who(self) -> Identity:
        return identify(self.asked.actor)

    @property
    def glance(self) -> TeamGlance:
        return self._meant()[0]

    def team(self) -> Team:
        """The team that is meant, seen by the caller. Raises as `caller.look_up`."""
        if self._team is None:
            self._team = self._seen(*self._meant())
        return self._team

    def mail(self) -> Mailing:
        """The mail of the team that is meant, seen by the caller; opens faster than all of it."""
        return open_mail(self.home, self.asked.team, self.who, reads=self.reads)

    def team_named(self, name: str) -> Team:
        return self._seen(*look_up(self.home, name, self.who))

    def _meant(self) -> tuple[TeamGlance, Identity]:
        if self._found is None:
            self._found = look_up(self.home, self.asked.team, self.who, reads=self.reads)
        return self._found

    def _seen(self, glance: TeamGlance, who: Identity) -> Team:
        return self.home.team(glance.name).acting(who.name, session=who.session, run=who.run, face="cli")

    def close(self) -> None:
        if self._home is not None:
            self.warn(self._home.warnings())
            self._home.close()
            self._home = self._team = self._found = None

    def answer(self, document: Any, lines: str | Iterable[str]) -> None:
        """Print `document` as JSON if that was asked for, else the lines. `lines` may be lazy."""
        if self.json:
            self.document(document)
        else:
            self.say(lines)

    def document(self, document: Any) -> None:
        """Print one JSON document, with the home's warnings in its `warnings`."""
        if hasattr(document, "as_dict") or is_dataclass(document):
            document = json_form(document)
        unsaid = [] if self._home is None else self._home.warnings()
        if unsaid and isinstance(document, dict):
            document = {**document, "warnings": list(dict.fromkeys([*document.get("warnings", ()), *unsaid]))}
        sys.stdout.write(as_json(document) + "\n")

    def say(self, lines: str | Iterable[str]) -> None:
        """Print lines for people, on a terminal with short ids and broken between words."""
        text, room = lines if isinstance(lines, str) else "\n".join(lines), words.terminal_width()
        click.echo(text if room is None else "\n".join(words.fitted(line, room) for line in text.split("\n")))

    def task(self, task: Task, happened: str) -> None:
        self.answer(task.as_dict(), f"{words.strong(task.id)} {happened}: {words.clean(task.subject)}")
        self.warn(task.warnings)

    def note(self, lines: str | Iterable[str]) -> None:
        """Say what is no part of the answer: not with `--json`."""
        if not self.json:
            self.say(lines)

    def warn(self, warnings: Sequence[str]) -> None:
        """Print warnings, for people only: in JSON they are in the document."""
        if not self.json:
            for warning in [one for one in warnings if one not in self._warned]:
                self._warned.add(warning)
                click.secho(f"warning: {WARNINGS.get(warning, warning)}", fg="yellow", err=True)


class Verb(Everywhere):
    """A command that does something. `example` is a line that works as shown in its help. A verb that only `reads` is
    about the only team there is, where nothing else says which."""

    def __init__(self, *args: Any, example: str = "", reads: bool = False, **attributes: Any) -> None:
        attributes.setdefault("context_settings", HELP_OPTIONS)
        super().__init__(*args, **attributes)
        self.example = example
        self.reads = reads

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with closing(Call(ctx.ensure_object(SharedOptions), reads=self.reads)) as ctx.obj:
                return super().invoke(ctx)
        except LocalOnly as error:
            error.message = error.message.replace("This", f"`{ctx.command_path}`", 1)
            raise

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.example:
            with formatter.section("Example"):
                for line in self.example.splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def server_at(url: str | None, token: str | None) -> Home:
    """Open the home elsewhere at `url`; by default the one that all commands use.

    Raises:
        InvalidRequest: that is no address of a server.
    """
    there = interlock.connect(url, token)
    if not there.elsewhere:
        there.close()
        raise InvalidRequest(
            f"{(url or '')[:200]!r} is no address of a server: that begins with http:// or https://.", field="url"
        )
    return there


def verb(name: str, *, example: str, **attributes: Any) -> Callable[[Callable[..., int | None]], Verb]:
    """Make a verb of a function, which gets a `Call` first and returns the exit code (`None`: 0)."""

    def made(function: Callable[..., int | None]) -> Verb:
        return click.command(name, cls=Verb, example=example, **attributes)(click.pass_obj(function))

    return made


def only_stdin(ctx: click.Context | None, param: click.Parameter | None) -> None:
    if ctx is not None and ctx.meta.setdefault("interlock.stdin", param) is not param:
        raise click.BadParameter("only one argument can be read from stdin", ctx, param)


def read_stdin() -> str:
    """Read a text from stdin, without its last line break. Raises InvalidRequest if it is too long or not UTF-8."""
    data = sys.stdin.buffer.read(INPUT_BYTES + 1)
    if len(data) > INPUT_BYTES:
        raise InvalidRequest(
            f"stdin has more than {INPUT_BYTES} bytes, over the size limit. Put the text into a file and name it.",
            limit=INPUT_BYTES,
        )
    try:
        return data.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"What came on stdin is not UTF-8: {error.reason} at byte {error.start}.") from None


def read_file(path: str) -> str:
    """Read a file, whatever its bytes. Raises StorageError if it cannot be read, or is too large."""
    try:
        with open(path, "rb") as file:
            data = file.read(INPUT_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StorageError(
            f"{path} cannot be read: {reason}. Name an existing file, or `-` for stdin.", path=path
        ) from None
    if len(data) > INPUT_BYTES:
        raise StorageError(f"{path} has more than {INPUT_BYTES} bytes. Give the part that matters.", path=path)
    return data.decode("utf-8-sig", "replace")


class Text(click.ParamType):  # type: ignore[type-arg]
    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value != "-":
            return value
        only_stdin(ctx, param)
        return read_stdin()


class SourceFile(click.ParamType):  # type: ignore[type-arg]
    """A file to read, as (path, text); `-` is stdin."""

    name = "file"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        if value != "-":
            return value, read_file(value)
        only_stdin(ctx, param)
        return value, read_stdin()


class Folder(click.ParamType):  # type: ignore[type-arg]
    name = "directory"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not os.path.isdir(value) or not os.access(value, os.R_OK | os.X_OK):
            raise StorageError(f"{value} is not a directory that can be read. Name an existing one.", path=value)
        return value


TEXT, SOURCE, FOLDER = Text(), SourceFile(), Folder()
DIRECTORY = click.option(
    "--dir", "directory", type=FOLDER, default=".", metavar="DIR", help="The project [default: here]."
)
NOTHING = 3
EXIT_CODE = click.option("--exit-code", is_flag=True, help=f"Exit with {NOTHING} where there is nothing, for loops.")
