"""A home: a directory of teams, with its settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Self

from interlock import app, settings
from interlock.app.agents import AgentVerbs
from interlock.app.projects import ProjectVerbs
from interlock.app.stories import StoryVerbs
from interlock.clock import iso
from interlock.errors import InvalidRequest, StorageError
from interlock.lazy_dataclass import dataclass
from interlock.storage import files
from interlock.storage.files import locked_file

SETTINGS_FILE = "settings.json"


@dataclass(slots=True)
class SettingValue:
    """A setting with its value; `source` is environment, team, home or default, `scope` where it may be set."""

    name: str
    value: Any
    source: str
    default: Any
    variable: str
    scope: str
    help: str


class Home(ProjectVerbs, StoryVerbs, AgentVerbs):
    """A directory of teams. Use it in a `with` block, which closes it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release files and connections."""
        for workspace in list(self._workspaces.values()):
            workspace.closes += 1
        self._catalog.close()
        self._workspaces.clear()

    def warnings(self, team: str | None = None) -> list[str]:
        """What verbs that only read met since the last call, in one team or in all: `mirror_pending`, or, in a
        sentence, that a team could not be read and is left out, which is told in the thread that met it."""
        found: dict[str, None] = dict.fromkeys(self._left_out(team))
        for workspace in [one for name, one in list(self._workspaces.items()) if team in (None, name)]:
            unsaid, workspace.unsaid = workspace.unsaid, {}
            found |= unsaid
        return list(found)

    def settings(self) -> list[SettingValue]:
        """Every setting with its value, source, default and help."""
        return [
            SettingValue(
                one.name, one.shown(value), source, one.default, one.variable, "team" if one.team else "home", one.help
            )
            for one in settings.SETTINGS
            for value, source in [self._settings.look_up(one.name)]
        ]  # fmt: skip

    def configure(self, changes: Mapping[str, Any]) -> None:
        """Set, or with None unset, settings of the home.

        Raises:
            InvalidRequest: there is no such setting, or the value makes no sense.
            StorageError: they cannot be written, or `ledger` is no address.
        """
        self.need_person("change settings")
        parsed = {
            name: None if value is None else settings.known(name).parse(value, "config set")
            for name, value in changes.items()
        }
        if any(name.startswith("notify.") for name in parsed):
            self._notification_settings({name: parsed[name] for name in parsed if name.startswith("notify.")})
        for name in ("forgetful_command", "serena_command"):
            if parsed.get(name):
                app.running.words_of(str(parsed[name]), name)
        if parsed.get("ledger") and self._open_home is not None:
            with self._open_home(self.path, environment={**os.environ, "INTERLOCK_LEDGER": parsed["ledger"]}) as there:
                there._catalog.location("")  # Refused where it is no address, or nothing here speaks to a server.
        path = os.path.join(self.path, SETTINGS_FILE)
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            with locked_file(os.path.join(self.path, ".settings.lock")):
                values = {**settings.read_file(path), **parsed}
                kept = {name: value for name, value in sorted(values.items()) if value is not None}
                files.replace(path, (json.dumps(kept, indent=2) + "\n").encode())
        except OSError as error:
            raise StorageError(f"The settings could not be written: {error}.", path=path) from error

    def write_receipt(self, team: str, path: str) -> str:
        """Write what the team's witness says to a new file, with the rows that it says it from, signed with the key of
        this home; returns the public key. The first receipt makes the key.

        Raises:
            TeamNotFound.
            StorageError: the file exists, or it or the key cannot be written.
        """
        self.need_here("write_receipt")
        self.need_person("sign a receipt")
        return app.receipts.issue(self.path, path, self.team(team).account())

    def move_ledgers(self, to: str) -> list[app.ledgers.MovedLedger]:
        """Move every team of this home to a PostgreSQL server (`postgresql://…`), or back into files of this home
        (`files`), with all ids and events, and keep ledgers there from now on. Nobody can change anything meanwhile.
        Where it is refused, the ledgers are where they were. Where it is killed, each is in one place or the other, and
        doing it again goes on from there.

        Raises:
            InvalidRequest: they are there already, or the environment says where they are.
            MembersRunning: somebody works.
            StorageError: a ledger cannot be made there.
            TeamExists: another team has the name of one there, or this one has gone on there.
        """
        self.need_person("move ledgers")
        url = app.ledgers.another_place(self._settings, to)
        workspaces = [self.workspace(name) for name in self.teams()]
        assert self._open_home is not None  # whoever made this home did that, too
        elsewhere = {**os.environ, "INTERLOCK_LEDGER": url}
        with self._open_home(self.path, environment=elsewhere) as there:
            with app.ledgers.copied(workspaces, there._catalog, app.stopping.running_members) as put_aside:
                there.tokens().share(self.tokens())
                moved = put_aside()
            # Last: what is open here and knows nothing of it must find no team rather than work on an old one.
            self.configure({"ledger": url or None})
        self.close()
        return moved

    def prepare_ledgers(self) -> str:
        """Make what the ledgers of all teams share, which the first team does as well; where that is.

        Raises:
            StorageError: it cannot be made.
        """
        self.need_person("prepare ledgers")
        return self._catalog.prepare()

    def ledger_script(self, *, migrates: bool = False, to: int | None = None) -> str:
        """The SQL by which a first team gets its tables where the setting `ledger` says, or, where it `migrates`, those
        of each team are brought to version `to`. Nothing is connected to.

        Raises:
            InvalidRequest: there is no such version.
        """
        return self._catalog.script(migrates=migrates, to=to)

    def migrate_ledgers(self, team: str | None = None, *, dry_run: bool = False) -> list[app.ledgers.LedgerVersion]:
        """Bring the ledgers of all teams, or of one, to this version; each as it was before.

        Raises:
            TeamNotFound.
            LedgerUnusable: one is damaged, or newer than this version.
        """
        found = [
            app.ledgers.LedgerVersion(name, self._catalog.location(name), *self._catalog.version(name))
            for name in (self.teams() if team is None else [team])
        ]
        for one in found if not dry_run else []:
            self.need_person("migrate a ledger")
            self._catalog.open(one.team)
        return found

    def prune_ledgers(self, older_than: float, team: str | None = None) -> list[app.ledgers.PrunedLedger]:
        """Delete what the ledgers of all teams, or of one, keep of tasks that were finished more than that many seconds
        ago: their events, but for that they were made and moved, and what their runs printed; mail that was
        acknowledged; sessions that are over. Tasks with their evidence stay, and everything about those that are open.

        Raises:
            TeamNotFound.
            InvalidRequest: that is no length of time.
        """
        self.need_person("prune a ledger")
        if not older_than >= 0:
            raise InvalidRequest("Say how old what goes must be, in seconds from 0 on.", field="older_than")
        found = [self.workspace(name) for name in (self.teams() if team is None else [team])]
        return [app.ledgers.pruned(one, iso(one.clock.now() - older_than)) for one in found]

    def check_ledgers(self, team: str | None = None) -> dict[str, list[str]]:
        """The faults that the stores of all teams, or of one, find in themselves. Raises TeamNotFound."""
        return {name: self.workspace(name).ledger.check() for name in (self.teams() if team is None else [team])}

    def back_up_ledger(self, team: str, path: str | None = None) -> str:
        """Copy a team's ledger to a new file, by default one in its directory, from where `doctor` offers it; where it
        is. With a `path` the copy is what `export_ledger` writes.

        Raises:
            TeamNotFound.
            StorageError: it cannot be written, or is there already.
        """
        self.need_person("copy a ledger")
        if path is None:
            return self.workspace(team).ledger.back_up("manual")
        self.export_ledger(team, path)
        return path

    def doctor(self, team: str | None = None, *, repair: bool = False, adopt: bool = False) -> app.running.DoctorReport:
        """Examine one team, or the home with all its teams, as `Team.doctor`. A ledger that cannot be opened is a
        finding, no error.

        Raises:
            InvalidTeamName, TeamNotFound.
        """
        if repair or adopt:
            self.need_person("repair anything")
        return app.running.examine_home(
            self.path, self.teams() if team is None else [team], self._in_directory, self._catalog,
            lambda name, remove: self._notifier.leftovers(name, remove=remove),
            whole_home=team is None, repair=repair, adopt=adopt, why_idle=self._why_idle,
        )  # fmt: skip
