"""Checks of what a workflow has made."""
