"""PORT: the ledgers of a home, one for each team, wherever they are kept.

Callers name teams, never places: a catalog of files keeps a directory for each team, one of a database server a schema.
"""

from __future__ import annotations

from typing import Protocol

from interlock.model.team import Member, Team
from interlock.storage.ledger import Ledger


class Catalog(Protocol):
    """Lists, creates, opens and deletes the ledgers of teams, and caches those it has opened."""

    def names(self) -> list[str]:
        """The teams that have a ledger, sorted; a damaged ledger counts, one that another program made does not.

        Raises:
            StorageError: they cannot be listed.
        """

    def exists(self, team: str) -> bool:
        """Whether that team has a ledger, damaged or not."""

    def create(self, team: Team, lead: Member, at: str) -> None:
        """Make the ledger of a new team, with its lead and first events. It appears whole or not at all.

        Raises:
            TeamExists: there is one of that name.
            StorageError: it cannot be made; nothing is left behind.
        """

    def open(self, team: str) -> Ledger:
        """The ledger of that team, migrated to this version of Interlock.

        Raises:
            TeamNotFound: there is none.
            LedgerUnusable: it is damaged, newer than this version, or on a network file system.
        """

    def delete(self, team: str, at: str) -> None:
        """Delete the ledger of that team, which takes no transaction from then on.

        Raises:
            TeamNotFound: there is none, or somebody else deleted it at the same time.
            StorageError: it cannot be deleted, and is as it was.
        """

    def inspect(self, backup: str) -> list[str]:
        """The faults of a backup that `Ledger.back_up` made; empty when it is sound. Changes nothing."""

    def close(self) -> None:
        """Close every ledger that is open here."""
