"""Implementations of the `executor` port, one way to carry a task out a module."""
