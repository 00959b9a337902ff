"""One call of the command line: what was asked of every verb alike, the home and team it speaks to, and its answers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from interlock.errors import InterlockError
from interlock.surfaces.cli.caller import Identity, identify, open_mail, open_team

if TYPE_CHECKING:
    from interlock.client import Home, Mailing, Team


class Call:
    """The shared options (`asked_…`, set while the line is parsed) and everything that follows from them."""

    def __init__(self) -> None:
        self.asked_home: str | None = None
        self.asked_team: str | None = None
        self.asked_actor: str | None = None
        self.asked_json = False
        self.reads = False
        self._home: Home | None = None
        self._warned: set[str] = set()

    @property
    def json(self) -> bool:
        """Whether the answer is one JSON document."""
        return self.asked_json

    @property
    def home(self) -> Home:
        """The home, opened when first needed."""
        if self._home is None:
            from interlock.app import connect

            self._home = connect(self.asked_home)
        return self._home

    @property
    def who(self) -> Identity:
        """Whom the caller acts as.

        Raises:
            Forbidden, InvalidRequest: see `caller.identify`.
        """
        return identify(self.asked_actor)

    def team(self) -> Team:
        """The team that is meant, seen by the caller.

        Raises:
            InterlockError: see `caller.open_team`.
        """
        return open_team(self.home, self.asked_team, self.who, reads=self.reads)

    def mail(self) -> Mailing:
        """The mail of the team that is meant, seen by the caller; opens faster than all of it."""
        return open_mail(self.home, self.asked_team, self.who, reads=self.reads)

    def team_named(self, name: str) -> Team:
        """The team of that name, seen by the caller."""
        return open_team(self.home, name, self.who)

    def close(self) -> None:
        """Give the home back, if it was opened."""
        if self._home is not None:
            self.warn(self._home.warnings())
            self._home.close()
            self._home = None

    def answer(self, document: Any, lines: str | Iterable[str]) -> None:
        """Print `document` as JSON where that was asked for, else the lines. `lines` may be lazy."""
        if self.json:
            self.document(document)
        else:
            self.say(lines)

    def document(self, document: Any) -> None:
        """Print one JSON document, with what reading has met in its `warnings`."""
        unsaid = [] if self._home is None else self._home.warnings()
        if unsaid and isinstance(document, dict):
            document = {**document, "warnings": list(dict.fromkeys([*document.get("warnings", ()), *unsaid]))}
        sys.stdout.write(as_json(document) + "\n")

    def say(self, lines: str | Iterable[str]) -> None:
        """Print lines for people; styles are left out where the output is no terminal."""
        click.echo(lines if isinstance(lines, str) else "\n".join(lines))

    def warn(self, warnings: Sequence[str]) -> None:
        """Print warnings, for people only: in JSON they stand in the document."""
        if not self.json:
            for warning in [one for one in warnings if one not in self._warned]:
                self._warned.add(warning)
                click.secho(f"warning: {WARNINGS.get(warning, warning)}", fg="yellow", err=True)


WARNINGS: Mapping[str, str] = {
    "ledger_restored": "An older state of the ledger was put back: what was done after it is not in there. The files "
    "were written again from it; those of tasks that it does not know are kept.",
    "mirror_pending": "What was changed is safe in the ledger, but the files that show it could not be written yet. "
    "The next command tries again; `interlock doctor` says what is wrong.",
}


def as_json(document: Any) -> str:
    """`document` on one line; characters are escaped only where the terminal could not show them."""
    import json

    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    return json.dumps(document, ensure_ascii=encoding != "utf8", default=str)


def explain(error: InterlockError) -> list[str]:
    """What an error holds beyond its sentence, for people: every fault of a plan, the candidates of a short id."""
    lines = []
    for name in ("errors", "candidates", "findings"):
        value = error.details.get(name)
        for item in value if isinstance(value, (list, tuple)) else ():
            line, text = _item(item)
            if text not in error.message:
                lines.append(f"  {line}{text}")
    return lines


def _item(item: object) -> tuple[str, str]:
    if not isinstance(item, Mapping):
        return "", str(item)
    line = f"line {item['line']}: " if item.get("line") else ""
    return line, str(item.get("message") or item.get("subject") or dict(item))
