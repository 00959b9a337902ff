"""PORT: the ledgers of a home, one for each team, wherever they are kept.

Callers name teams, never places: a catalog of files keeps a directory for each team, one of a database server a schema.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from interlock.model.json import Json
from interlock.model.team import Member, TeamRecord
from interlock.storage.ledger import Ledger

CREATING = ".creating-"
DELETING = ".deleting-"
"""How the names of directories begin that belong to teams which are being made or deleted."""


class SharedDocument(Protocol):
    """A small document that every process which may change it sees as it is now."""

    def read(self) -> Json:
        """The document; empty where there is none yet."""

    def changing(self) -> AbstractContextManager[Json]:
        """A copy of it that nobody else changes meanwhile, kept when the block is left without an error."""


class Catalog(Protocol):
    """Lists, creates, opens and deletes the ledgers of teams, and caches those it has opened.

    Attributes:
        access: who may come in over HTTP, shared by all homes of these ledgers; None where each home has its own.
    """

    @property
    def access(self) -> SharedDocument | None: ...

    def prepare(self) -> str:
        """Make what all ledgers share, where it is not there yet; where that is.

        Raises:
            StorageError: it cannot be made.
        """

    def script(self, *, migrates: bool = False, to: int | None = None) -> str:
        """The SQL that makes the first ledger, or, where it `migrates`, brings one to version `to`. Reaches nothing.

        Raises:
            InvalidRequest: there is no such version.
        """

    def names(self) -> list[str]:
        """The teams that have a ledger, sorted; a damaged ledger counts, one that another program made does not.

        Raises:
            StorageError: they cannot be listed.
        """

    def exists(self, team: str) -> bool:
        """Whether that team has a ledger, damaged or not."""

    def now(self) -> float:
        """The time by which a new ledger is dated."""

    def create(self, team: TeamRecord, lead: Member, at: str) -> None:
        """Make the ledger of a new team, with its lead and first events. It appears whole or not at all.

        Raises:
            TeamExists: there is one of that name.
            StorageError: it cannot be made; nothing is left behind.
        """

    def take_in(self, archive: str, team: str) -> None:
        """Make the ledger of a team from an archive that `Ledger.export` made. It appears whole or not at all.

        Raises:
            TeamExists: there is one of that name.
            StorageError: the archive is damaged or of another version, or the ledger cannot be made.
        """

    def open(self, team: str) -> Ledger:
        """The ledger of that team, migrated to this version of Interlock.

        Raises:
            TeamNotFound: there is none.
            LedgerUnusable: it is damaged, newer than this version, or on a network file system.
        """

    def version(self, team: str) -> tuple[int, int]:
        """The version of that team's tables, and the one that `open` brings them to.

        Raises:
            TeamNotFound: there is none.
        """

    def delete(self, team: str, at: str) -> None:
        """Delete the ledger of that team, which takes no transaction from then on, and its directory here.

        Raises:
            TeamNotFound: there is none, or somebody else deleted it at the same time.
            StorageError: it cannot be deleted, and is as it was.
        """

    def leftovers(self, *, remove: bool = False) -> list[str]:
        """The directories of this machine that teams deleted here have left under their own names."""

    def location(self, team: str) -> str:
        """Where the ledger of that team is, or would be, for messages: a path, or the address of a server."""

    def changed_since(self, team: str, at: str) -> bool:
        """Whether that team's ledger may hold something written at `at` or later, told without opening it."""

    def files(self, team: str) -> list[str]:
        """The files that this user must be able to read and write for it; none where a server keeps it."""

    def backups(self, team: str) -> list[str]:
        """The backups of that team's ledger that `Ledger.back_up` made, the newest first."""

    def inspect(self, backup: str) -> list[str]:
        """The faults of a backup; empty when it is sound. Changes nothing."""

    def restoring(self, team: str, backup: str) -> tuple[str, str]:
        """The shell commands that put a backup in the place of a damaged ledger, and where they keep that one."""

    def close(self) -> None:
        """Close every ledger that is open here."""
