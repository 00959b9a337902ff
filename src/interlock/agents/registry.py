"""Which agent programs are known and installed on this machine, and the agent that a profile comes to."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from difflib import get_close_matches
from typing import Any, Literal, Protocol

from interlock.agents.command import CommandAgent, HeadlessAgent
from interlock.agents.profiles import FILE, AgentProfile, load
from interlock.agents.programs import adapter_at, find
from interlock.agents.session import Agent
from interlock.errors import AgentError
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.model.names import NPM
from interlock.model.team import Member

VERSION_SECONDS = 20.0
"""How long a program may take to tell its version; some need four seconds."""
_VERSION = re.compile(r"(?<!\d)\d+(\.\d+)+[0-9A-Za-z.+-]*")
NEEDED = ("session", "prompt", "mcp")
"""Without these a program cannot take part."""


class WhyIdle(Protocol):
    """Why the agent of a member cannot be had on this machine, and what to do; None where it can. With `wholly`, also
    why not all of it works."""

    def __call__(self, member: Member, *, wholly: bool = False) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Installation:
    """How a profile can be used here: the absolute path of its ACP or headless program, and of its own."""

    how: Literal["acp", "headless"] | None
    start: str | None
    program: str | None

    @classmethod
    def find(cls, profile: AgentProfile, environment: Mapping[str, str]) -> Installation:
        """What of `profile` is installed, along PATH and in the usual places of npm."""
        own = find(profile.program, environment) if profile.program else None
        over_acp = find(profile.acp[0], environment) if profile.acp else None
        if over_acp is not None:
            return cls("acp", over_acp, own)
        alone = find(profile.headless[0], environment) if profile.headless else None
        return cls("headless" if alone else None, alone, own)


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """One kind of agent. `how` is None where nothing of it is installed, `path` what is started; `adapter` the package
    that comes from and its version, None where the agent's own program is started; `version` that of the agent's own
    program that is driven, which an adapter may bring along, None where it is not known. `own` is true for a profile of
    the user's, `listed` for one of the ACP registry. `proven` is what Interlock's own tests show with the real program
    in this version of its adapter. `lacks` says what does not work here for want of a helper."""

    name: str
    title: str
    how: Literal["acp", "headless"] | None
    path: str | None
    version: str | None
    install: str
    own: bool
    proven: tuple[str, ...]
    lacks: str | None = None
    listed: bool = False
    adapter: str | None = None


@dataclass(slots=True, frozen=True)
class CheckedAgent:
    """How an agent did when it was tried: each ability is True, False, or None where nothing could be seen of it."""

    version: str | None
    how: str | None
    at: str
    abilities: dict[str, bool | None]
    details: dict[str, str]
    seconds: float
    adapter: str | None = None

    @property
    def works(self) -> bool:
        """Whether it can take part."""
        return all(self.abilities.get(one) for one in NEEDED)


@dataclass(slots=True, frozen=True)
class AgentSummary:
    """A kind of agent; `tested` is `checked` (here, see `check_agent`), `proven` (by Interlock's own tests) or
    `untested`, `guarantees` what it is known to do."""

    info: AgentInfo
    checked: CheckedAgent | None
    tested: str
    guarantees: list[str]

    @property
    def installed(self) -> bool:
        """Whether a program for it is on this machine."""
        return self.info.how is not None

    def as_dict(self) -> Json:
        """The contract's shape."""
        told = asdict(self.info)
        del told["proven"]
        checked = None if self.checked is None else asdict(self.checked)
        own = {"installed": self.installed, "tested": self.tested, "guarantees": self.guarantees}
        return {**told, **own, "checked": checked}


@dataclass(frozen=True, slots=True)
class AgentHandle:
    """An agent, and the names of the user's variables that it needs."""

    agent: Agent
    variables: tuple[str, ...]
    info: AgentInfo


class AgentRegistry:
    """All kinds of agents: the profiles of Interlock and of the user's home."""

    def __init__(self, home: str) -> None:
        self._home = home

    def agents(self) -> list[AgentInfo]:
        """Every one, installed or not; their programs are asked for their version, which takes seconds for some.

        Raises:
            ConfigParseError: the user's profiles cannot be read.
        """
        profiles, ours = load(self._home), load()
        with ThreadPoolExecutor(max_workers=len(profiles)) as pool:
            return list(pool.map(lambda one: self._info(one, one.name in ours), profiles.values()))

    def take(self, source: str) -> None:
        """Keep a copy of the ACP registry at `source`, a file or an address, whose agents are known from now on.

        Raises:
            ConfigParseError: that is no registry; the copy that there was stays.
            NotFound, InvalidRequest: it cannot be read from there.
            StorageError: it cannot be kept.
        """
        from interlock.agents import acp_registry  # slow to load

        acp_registry.take(self._home, source)

    def installed(self) -> list[str]:
        """The names of those that are installed; nothing is started.

        Raises:
            ConfigParseError: the user's profiles cannot be read.
        """
        return [name for name, one in load(self._home).items() if Installation.find(one, os.environ).how]

    def agent(self, name: str) -> AgentHandle:
        """The agent of that name.

        Raises:
            AgentError: it is unknown, or not installed.
            ConfigParseError: the user's profiles cannot be read.
        """
        profiles = load(self._home)
        profile = profiles.get(name)
        if profile is None:
            near = get_close_matches(name, profiles, n=1)
            raise AgentError(
                f"There is no agent {name!r}.{f' Did you mean {near[0]!r}?' if near else ''} There are "
                f"{', '.join(one.name for one in profiles.values() if not one.listed)}; "
                f"{os.path.join(self._home, FILE)} and `interlock agents registry` add more.",
                agent=name,
            )
        headless = Installation.find(profile, os.environ).how == "headless"
        permissions = next(iter(profile.headless_modes), None) if headless else None
        agent = agent_of(profile, permissions or "ask", os.environ)
        return AgentHandle(agent, profile.environment, self._info(profile, name in load()))

    def _info(self, profile: AgentProfile, ours: bool) -> AgentInfo:
        found = Installation.find(profile, os.environ)
        came = adapter_at(found.start, profile.adapters) if found.how == "acp" and found.start else None
        adapted = found.how == "acp" and bool(profile.adapters)
        version = came.brings if came else None
        if found.program and not adapted:
            version = _asked(found.program)
        return AgentInfo(
            profile.name, profile.title, found.how, found.start, version, profile.install,
            not ours and not profile.listed, profile.proven if not adapted or (came and came.tried) else (),
            lacks(profile, os.environ), profile.listed, f"{came.package} {came.version}" if came else None,
        )  # fmt: skip


def _asked(program: str) -> str | None:
    """The version that a program tells; None where it tells none."""
    try:
        ran = subprocess.run(
            [program, "--version"], env=dict(os.environ), stdin=subprocess.DEVNULL, capture_output=True,
            timeout=VERSION_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = _VERSION.search(ran.stdout.decode("utf-8", "replace"))
    return said[0] if said and ran.returncode == 0 else None


def agent_of(profile: AgentProfile, permissions: str | None, environment: Mapping[str, str]) -> Agent:
    """The agent of a profile on this machine, over ACP or else headless, asking for as much as `permissions` leaves
    open (`ask` where nothing is said).

    Raises:
        AgentError: nothing of it is installed, or it cannot be told those permissions.
    """
    if (refusal := why_not(profile, permissions, environment)) is not None:
        raise AgentError(refusal, agent=profile.name)
    found = Installation.find(profile, environment)
    assert found.start is not None
    wanted = permissions or "ask"
    directory = os.path.dirname(found.start)
    beside = None if directory in environment.get("PATH", os.defpath).split(os.pathsep) else directory
    if found.how == "headless":
        argv = (found.start, *profile.headless[1:], *profile.headless_modes.get(wanted, ()))
        return HeadlessAgent(profile, argv, beside)
    return over_acp(
        profile.name,
        argv=(found.start, *profile.acp[1:]),
        variables=profile.variables,
        model_arguments=profile.model_arguments,
        model_variable=profile.model_variable or None,
        modes=profile.modes.get(wanted, ()),
        limits=profile.limits,
        usage=profile.usage,
        path=beside,
        install=f"To install it: {profile.install}.",
        login=profile.login,
    )


def own_agent(member: Member) -> Agent:
    """The agent that a member's own command is."""
    argv = member.command or []
    return over_acp(member.name, argv=tuple(argv)) if member.agent == "acp" else CommandAgent(member.name, argv)


def over_acp(name: str, **spec: Any) -> Agent:
    """An agent that speaks ACP, started as `LaunchSpec(**spec)` says.

    What speaks ACP is loaded here, with the first of them: it takes as long to load as all the rest of a run.
    """
    from interlock.agents.acp.agent import AcpAgent, LaunchSpec

    return AcpAgent(name, LaunchSpec(**spec))


def why_not(profile: AgentProfile, permissions: str | None, environment: Mapping[str, str]) -> str | None:
    """Why an agent of that profile cannot work here, held to those permissions, and what to do; None where it can."""
    found = Installation.find(profile, environment)
    if found.start is None:
        programs = " or ".join(dict.fromkeys([*profile.acp[:1], *profile.headless[:1]])).replace(NPM, "the program of ")
        return f"{profile.title} is not installed: {programs} was not found. To install it: {profile.install}."
    if found.how == "headless" and (permissions or "ask") not in profile.headless_modes:
        others = " or ".join(profile.headless_modes)
        return (
            f"{profile.title} without ACP can ask nobody, and cannot be held to the permissions "
            f"{permissions or 'ask'!r}. Install its ACP program: {profile.install}"
            f"{f'; or say `permissions`: {others}' if others else ''}."
        )
    return None


def lacks(profile: AgentProfile, environment: Mapping[str, str]) -> str | None:
    """What of an installed agent does not work here, since a program that it starts is missing; None for nothing."""
    if sys.platform != "linux" or Installation.find(profile, environment).start is None:
        return None
    search = environment.get("PATH", os.defpath)
    missing = [(name, what) for name, what in profile.helpers.items() if shutil.which(name, path=search) is None]
    return "; ".join(f"{profile.title} does not find {name}: {what}" for name, what in missing) or None
