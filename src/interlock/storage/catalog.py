"""PORT: the ledgers of a home, one for each team."""

from __future__ import annotations

from typing import Protocol

from interlock.model.team import Member, Team
from interlock.storage.ledger import Ledger


class Catalog(Protocol):
    """Where ledgers are kept: opens them, makes them, and caches what it opened."""

    def create(self, directory: str, team: Team, lead: Member, at: str) -> None:
        """Make the ledger of a new team in `directory`."""

    def has(self, directory: str) -> bool:
        """Whether `directory` has a ledger, be it damaged; that of another program is none."""

    def open(self, directory: str) -> Ledger:
        """The ledger in `directory`, migrated to this version.

        Raises:
            TeamNotFound: there is none.
            LedgerUnusable: damaged, newer than this version, or on a network file system.
        """

    def inspect(self, path: str) -> list[str]:
        """Faults of a ledger file that nobody uses, such as a backup; empty when it is sound. Changes nothing."""

    def forget(self, directory: str) -> None:
        """Close the ledger in `directory`, if it is open here: the team is gone."""

    def close(self) -> None:
        """Close every ledger opened here."""
