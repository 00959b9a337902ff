"""Implementations of the ledger port."""
