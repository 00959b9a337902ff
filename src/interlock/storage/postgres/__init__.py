"""Ledgers in a PostgreSQL database: one schema a team, beside one that lists them."""
