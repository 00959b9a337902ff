"""Implementations of the `agent` port, one program family a module."""
