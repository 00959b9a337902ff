"""The ledger in SQLite: one file per team, any number of processes, no server."""

VERSION = 6
"""The newest of our own migrations; a test holds it against the directory, so that opening need not list it."""
