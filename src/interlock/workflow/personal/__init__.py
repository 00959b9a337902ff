"""What a person or a project makes its own of a workflow run: hooks, overrides, rates, progress, feedback."""
