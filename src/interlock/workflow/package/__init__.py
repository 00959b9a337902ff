"""Workflow packages as their authors ship them: manifests, settings, variables, steps, and checks of artifacts."""
