"""The agents that a workflow run speaks to."""
