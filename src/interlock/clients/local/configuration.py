"""The settings of a home, shown and changed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from interlock import settings as settings_module
from interlock.errors import StorageError
from interlock.processes.commands import words_of
from interlock.runner.notifications import targets
from interlock.settings import Settings
from interlock.storage import files
from interlock.storage.files import locked_file


def shown(settings: Settings) -> list[dict[str, Any]]:
    """See `client.Home.settings`."""
    found = []
    for setting in settings_module.SETTINGS:
        value, source = settings.look_up(setting.name)
        found.append(
            {
                "name": setting.name,
                "value": value,
                "source": source,
                "default": setting.default,
                "variable": setting.variable,
                "scope": "team" if setting.team else "home",
                "help": setting.help,
            }
        )
    return found


def change(path: str, changes: Mapping[str, Any]) -> None:
    """Put the changes into the settings file `path`; see `client.Home.configure`."""
    parsed = {
        name: None if value is None else settings_module.known(name).parse(value, "config set")
        for name, value in changes.items()
    }
    check_programs(parsed)
    home = os.path.dirname(path)
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        with locked_file(os.path.join(home, ".settings.lock")):
            values = {**settings_module.read_file(path), **parsed}
            kept = {name: value for name, value in sorted(values.items()) if value is not None}
            files.replace(path, (json.dumps(kept, indent=2) + "\n").encode())
    except OSError as error:
        raise StorageError(f"The settings could not be written: {error}.", path=path) from error


def check_programs(changes: Mapping[str, Any]) -> None:
    """Whether settings that name programs and addresses make sense, before they are kept.

    Raises:
        InvalidRequest: one does not.
    """
    if any(name.startswith("notify.") for name in changes):
        targets(str(changes.get("notify.command") or ""), str(changes.get("notify.webhook") or ""))
    for name in ("forgetful_command", "serena_command"):
        if changes.get(name):
            words_of(str(changes[name]), name)
