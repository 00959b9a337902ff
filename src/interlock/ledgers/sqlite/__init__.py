"""The ledger in SQLite: one file per team, any number of processes, no server."""

from interlock.ledgers.sqlite.store import SqliteLedger, SqliteLedgers

__all__ = ["SqliteLedger", "SqliteLedgers"]
