"""The agent that a profile comes to on this machine: over ACP, else headless."""

from __future__ import annotations

import os
from collections.abc import Mapping

from interlock.agent import Agent
from interlock.agents.acp import AcpAgent, Manner
from interlock.agents.headless import HeadlessAgent
from interlock.agents.installed import look, why_not
from interlock.agents.profiles import Profile
from interlock.errors import AgentError


def agent_of(profile: Profile, permissions: str | None, environment: Mapping[str, str]) -> Agent:
    """The agent of a profile, asking for as much as `permissions` leaves open (`ask` where nothing is said).

    Raises:
        AgentError: nothing of it is installed, or it cannot be told those permissions.
    """
    if (refusal := why_not(profile, permissions, environment)) is not None:
        raise AgentError(refusal, agent=profile.name)
    found = look(profile, environment)
    assert found.start is not None
    wanted = permissions or "ask"
    where = os.path.dirname(found.start)
    path = environment.get("PATH", os.defpath)
    beside = None if where in path.split(os.pathsep) else where
    if found.how == "acp":
        manner = Manner(
            argv=(found.start, *profile.acp[1:]),
            variables=profile.variables,
            model_arguments=profile.model_arguments,
            model_variable=profile.model_variable or None,
            mode=profile.modes.get(wanted),
            limits=profile.limits,
            usage=profile.usage,
            path=beside,
            install=f"To install it: {profile.install}.",
            login=profile.login,
        )
        return AcpAgent(profile.name, manner)
    argv = (found.start, *profile.headless[1:], *profile.headless_modes.get(wanted, ()))
    return HeadlessAgent(profile, argv, profile.variables, beside)
