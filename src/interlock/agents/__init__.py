"""Agent programs: the `AgentSession` port, its implementations, and the registry of what is installed.

Modules that load much come with their first use, as attributes of this package.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name == "profiles":
        import interlock.agents.profiles

        return interlock.agents.profiles
    if name == "registry":
        import interlock.agents.registry

        return interlock.agents.registry
    raise AttributeError(f"module 'interlock.agents' has no attribute {name!r}")
