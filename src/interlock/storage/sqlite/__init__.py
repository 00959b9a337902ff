"""The ledger in SQLite: one file per team, any number of processes, no server."""
