"""Workflow definitions as their authors ship them: packages, manifests, settings, variables, steps."""
