"""The team that a hook or `interlock inject` means, and its ledger, looked at without the rest of Interlock.

A plugin is the same in every project, so what calls it with `--plugin` asks `plugin_options` whether it is to act here.
"""

from __future__ import annotations

import os
import sqlite3

from interlock.integrations import RECORD
from interlock.storage.sqlite import FILE

MANAGED = ("INTERLOCK_SESSION", "INTERLOCK_RUN_TOKEN")
"""Variables that a runner sets for its own programs."""


def plugin_options(program: str) -> dict[str, str] | None:
    """What the plugin of `program` acts with in this directory, as options; None where it is to stay silent: a runner
    drives the program, its project has hooks of its own, or nobody let it join a team.

    Raises:
        ValueError, OSError: the record of the project cannot be read.
    """
    if any(os.environ.get(name) for name in MANAGED):
        return None
    directory = os.path.realpath(os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd())
    while not os.path.exists(path := os.path.join(directory, RECORD, "record.json")):
        if directory == (directory := os.path.dirname(directory)):
            return {} if os.environ.get("INTERLOCK_TEAM") else None
    import json

    with open(path, encoding="utf-8") as file:
        joined = json.load(file)["programs"].get(program)
    if joined is None or not joined.get("plugin"):
        return None
    given = {"--home": joined["home"], "--team": joined["team"], "--name": joined["name"]}
    return {option: value for option, value in given.items() if value is not None}


class LocalTeam:
    """The ledger of the team that is meant, looked at without the rest of Interlock."""

    def __init__(self, home: str, name: str) -> None:
        self.home = home
        self.name = name
        self.directory = os.path.join(home, "teams", name)

    @classmethod
    def of(cls, options: dict[str, str]) -> LocalTeam | None:
        """The team that the options, the environment or a plain `interlock.toml` name."""
        name = options.get("--team") or os.environ.get("INTERLOCK_TEAM") or _team_of_file()
        if not name or "/" in name or name.startswith("."):
            return None
        home = os.path.expanduser(options.get("--home") or os.environ.get("INTERLOCK_HOME") or "~/.interlock")
        if _elsewhere(home, given=bool(options.get("--home"))) or _on_a_server(home):
            return None
        return cls(os.path.abspath(home), name)

    def open(self, mode: str) -> sqlite3.Connection:
        """A connection that waits for a moment only.

        Raises:
            sqlite3.Error, ValueError: there is none to be had; ValueError: by a name that no query can carry.
        """
        path = os.path.join(self.directory, FILE)
        for character in "%?#":
            path = path.replace(character, f"%{ord(character):02x}")
        return sqlite3.connect(f"file:{path}?mode={mode}", uri=True, timeout=0.1, isolation_level=None)

    def ask(self, question: str, values: tuple[str, ...]) -> object:
        """The first value that the ledger answers; None where it cannot be asked this way."""
        try:
            ledger = self.open("ro")
            try:
                return ledger.execute(question, values).fetchone()[0]
            finally:
                ledger.close()
        except (sqlite3.Error, ValueError):
            return None


def _elsewhere(home: str, *, given: bool) -> bool:
    """Whether the home is perhaps one on another machine: an address or a login, which `--home` is stronger than."""
    return not given and bool(os.environ.get("INTERLOCK_URL") or os.path.exists(os.path.join(home, "login.json")))


def _on_a_server(home: str) -> bool:
    """Whether the ledgers of that home may be somewhere else: what lies in it then says nothing."""
    if os.environ.get("INTERLOCK_LEDGER"):
        return True
    try:
        with open(os.path.join(home, "settings.json"), "rb") as file:
            return b'"ledger"' in file.read()
    except OSError:
        return False


def _team_of_file() -> str:
    """The team that the nearest `interlock.toml` names in a plain line; what is not that plain is left to a parser."""
    try:
        directory = os.path.realpath(os.getcwd())
        while not os.path.exists(path := os.path.join(directory, "interlock.toml")):
            if directory == (directory := os.path.dirname(directory)):
                return ""
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
    except (OSError, ValueError):
        return ""
    found = [line for line in lines if line.startswith("team")]
    key, _, value = found[0].partition("=") if len(found) == 1 else ("", "", "")
    name = value.strip()[1:-1]
    plain = key.strip() == "team" and value.strip() == f'"{name}"' and name.replace("-", "").replace("_", "").isalnum()
    only_keys = all(not line.strip() or line.lstrip()[0] == "#" or "=" in line for line in lines)
    return name if plain and only_keys and '"""' not in "".join(lines) else ""
