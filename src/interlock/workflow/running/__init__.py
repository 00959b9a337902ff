"""Runs of workflows in a team: begun as tasks, kept in the ledger, shown, cancelled, resumed."""
