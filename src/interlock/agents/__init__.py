"""Agent programs: the `AgentSession` port, its implementations, and the registry of what is installed."""
