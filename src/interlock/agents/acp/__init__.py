"""Agent programs that speak the Agent Client Protocol."""
