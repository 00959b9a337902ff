"""Implementations of the client port."""
