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
from interlock.errors import StorageError
from interlock.processes.commands import words_of
from interlock.storage import files
from interlock.storage.files import locked_file

SETTINGS_FILE = "settings.json"


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

    def warnings(self) -> list[str]:
        """What verbs that only read met since the last call: `mirror_pending`, `ledger_restored`."""
        found: dict[str, None] = {}
        for workspace in list(self._workspaces.values()):
            unsaid, workspace.unsaid = workspace.unsaid, {}
            found |= unsaid
        return list(found)

    def settings(self) -> list[dict[str, Any]]:
        """Every setting with its value, source, default and help."""
        return [
            {
                "name": setting.name, "value": value, "source": source, "default": setting.default,
                "variable": setting.variable, "scope": "team" if setting.team else "home", "help": setting.help,
            }
            for setting in settings.SETTINGS
            for value, source in [self._settings.look_up(setting.name)]
        ]  # fmt: skip

    def configure(self, changes: Mapping[str, Any]) -> None:
        """Set, or with None unset, settings of the home.

        Raises:
            InvalidRequest: there is no such setting, or the value makes no sense.
            StorageError: they cannot be written.
        """
        self.need_person("change settings")
        parsed = {
            name: None if value is None else settings.known(name).parse(value, "config set")
            for name, value in changes.items()
        }
        if any(name.startswith("notify.") for name in parsed):
            app.running.targets(str(parsed.get("notify.command") or ""), str(parsed.get("notify.webhook") or ""))
        for name in ("forgetful_command", "serena_command"):
            if parsed.get(name):
                words_of(str(parsed[name]), name)
        path = os.path.join(self.path, SETTINGS_FILE)
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            with locked_file(os.path.join(self.path, ".settings.lock")):
                values = {**settings.read_file(path), **parsed}
                kept = {name: value for name, value in sorted(values.items()) if value is not None}
                files.replace(path, (json.dumps(kept, indent=2) + "\n").encode())
        except OSError as error:
            raise StorageError(f"The settings could not be written: {error}.", path=path) from error

    def doctor(self, team: str | None = None, *, repair: bool = False, adopt: bool = False) -> dict[str, Any]:
        """Examine one team, or the home with all its teams, as `Team.doctor`. A ledger that cannot be opened is a
        finding, no error.

        Raises:
            InvalidTeamName, TeamNotFound.
        """
        if repair or adopt:
            self.need_person("repair anything")
        return app.running.examine_home(
            self.path, self.teams() if team is None else [team], self._in_directory, self._catalog.inspect,
            lambda name, remove: self._notifier.leftovers(name, remove=remove),
            whole_home=team is None, repair=repair, adopt=adopt, why_idle=self._why_idle,
        )  # fmt: skip
