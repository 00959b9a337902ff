"""Runs of workflows in a team: started as tasks, kept in the ledger, shown, cancelled, resumed."""
