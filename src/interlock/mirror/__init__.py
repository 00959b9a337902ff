"""The files that show a ledger: written after each commit, from its current rows. It only reads the ledger."""
