"""Adds up expenses by category."""

__version__ = "1.0.0"
