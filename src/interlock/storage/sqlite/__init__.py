"""The ledger in SQLite: one file per team, any number of processes, no server."""

FILE = "ledger.db"
"""What the ledger is called in the directory of its team."""
