"""Hooks: programs of a project that run at certain moments of a workflow run."""
