"""Which agent programs are known and installed on this machine, and the agent that a profile comes to."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, Protocol

from interlock.agents.acp.agent import AcpAgent, LaunchSpec
from interlock.agents.command import HeadlessAgent
from interlock.agents.profiles import FILE, Profile, load
from interlock.agents.session import Agent
from interlock.errors import AgentError
from interlock.model.team import Member


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """One kind of agent. `how` is null where nothing of it is installed, `path` what is started; `version` its own
    program's, null where that does not say. `own` is true for a profile of the user's. `proven` is what Interlock's own
    tests show with the real program. `lacks` says what does not work here for want of a helper."""

    name: str
    title: str
    how: Literal["acp", "headless"] | None
    path: str | None
    version: str | None
    install: str
    own: bool
    proven: tuple[str, ...]
    lacks: str | None = None


@dataclass(frozen=True, slots=True)
class AgentHandle:
    """An agent, and the names of the user's variables that it needs."""

    agent: Agent
    variables: tuple[str, ...]
    offer: AgentInfo


class AgentRegistry(Protocol):
    """All kinds of agents."""

    def offers(self) -> list[AgentInfo]:
        """Every one, installed or not; their programs are asked for their version, which takes seconds for some.

        Raises:
            ConfigParseError: the user's profiles cannot be read.
        """

    def hire(self, name: str) -> AgentHandle:
        """The agent of that name.

        Raises:
            AgentError: it is unknown, or not installed.
            ConfigParseError: the user's profiles cannot be read.
        """


class WhyIdle(Protocol):
    """Why the agent of a member cannot be had on this machine, and what to do; null where it can. With `wholly`, also
    why not all of it works."""

    def __call__(self, member: Member, *, wholly: bool = False) -> str | None: ...


Roll = Callable[[], AgentRegistry]


# Where npm puts programs that are installed for everybody or for one user, and may not be on PATH.
_PLACES = (
    "~/.npm-global/bin",
    "~/.local/bin",
    "~/.claude/local",
    "~/.opencode/bin",
    "/usr/local/bin",
    "/opt/homebrew/bin",
)


@dataclass(frozen=True, slots=True)
class Installation:
    """How a profile can be used here: the absolute path of its ACP or headless program, and of its own."""

    how: Literal["acp", "headless"] | None
    start: str | None
    program: str | None


def look(profile: Profile, environment: Mapping[str, str]) -> Installation:
    """What of `profile` is installed, along PATH and in the usual places of npm."""
    own = find(profile.program, environment) if profile.program else None
    over_acp = find(profile.acp[0], environment) if profile.acp else None
    if over_acp is not None:
        return Installation("acp", over_acp, own)
    alone = find(profile.headless[0], environment) if profile.headless else None
    return Installation("headless" if alone else None, alone, own)


def why_not(profile: Profile, permissions: str | None, environment: Mapping[str, str]) -> str | None:
    """Why an agent of that profile cannot work here, held to those permissions, and what to do; null where it can."""
    found = look(profile, environment)
    if found.start is None:
        programs = " or ".join(dict.fromkeys([*profile.acp[:1], *profile.headless[:1]]))
        return f"{profile.title} is not installed: {programs} was not found. To install it: {profile.install}."
    if found.how == "headless" and (permissions or "ask") not in profile.headless_modes:
        others = " or ".join(profile.headless_modes)
        return (
            f"{profile.title} without ACP can ask nobody, and cannot be held to the permissions "
            f"{permissions or 'ask'!r}. Install its ACP program: {profile.install}"
            f"{f'; or say `permissions`: {others}' if others else ''}."
        )
    return None


def lacks(profile: Profile, environment: Mapping[str, str]) -> str | None:
    """What of an installed agent does not work here, since a program that it starts is missing; null for nothing."""
    search = environment.get("PATH", os.defpath)
    if sys.platform != "linux" or look(profile, environment).start is None:
        return None
    missing = [(name, what) for name, what in profile.helpers.items() if shutil.which(name, path=search) is None]
    return "; ".join(f"{profile.title} does not find {name}: {what}" for name, what in missing) or None


def find(program: str, environment: Mapping[str, str]) -> str | None:
    """The path of a program; a path stands for itself."""
    program = os.path.expanduser(program)
    found = shutil.which(program, path=environment.get("PATH", os.defpath))
    if found is not None or "/" in program:
        return os.path.abspath(found) if found else None
    places = [os.path.expanduser(place) for place in _PLACES]
    prefix = environment.get("NPM_CONFIG_PREFIX") or environment.get("npm_config_prefix") or _npm_prefix()
    if prefix:
        places.insert(0, os.path.join(os.path.expanduser(prefix), "bin"))
    return shutil.which(program, path=os.pathsep.join(places))


def _npm_prefix() -> str | None:
    try:
        with open(os.path.expanduser("~/.npmrc"), encoding="utf-8") as file:
            for line in file.read(65_536).splitlines():
                name, _, value = line.partition("=")
                if name.strip() == "prefix":
                    return value.strip()
    except (OSError, ValueError):
        pass
    return None


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
        manner = LaunchSpec(
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


ASKING = 20.0
"""Seconds a program may take to tell its version; some need four."""
_VERSION = re.compile(r"(?<!\d)\d+(\.\d+)+[0-9A-Za-z.+-]*")


class ProfileRoster:
    """See `roster.AgentRegistry`. `environment` is where programs are looked for."""

    def __init__(self, home: str, environment: Mapping[str, str] | None = None) -> None:
        self._home = home
        self._environment = os.environ if environment is None else environment

    def offers(self) -> list[AgentInfo]:
        """See `roster.AgentRegistry`."""
        profiles, ours = load(self._home), load()
        with ThreadPoolExecutor(max_workers=len(profiles)) as pool:
            return list(pool.map(lambda one: self._offer(one, one.name not in ours), profiles.values()))

    def hire(self, name: str) -> AgentHandle:
        """See `roster.AgentRegistry`."""
        profiles = load(self._home)
        profile = profiles.get(name)
        if profile is None:
            near = get_close_matches(name, profiles, n=1)
            raise AgentError(
                f"There is no agent {name!r}.{f' Did you mean {near[0]!r}?' if near else ''} There are "
                f"{', '.join(profiles)}; {os.path.join(self._home, FILE)} adds more.",
                agent=name,
            )
        alone = look(profile, self._environment).how == "headless" and next(iter(profile.headless_modes), None)
        agent = agent_of(profile, alone or "ask", self._environment)
        return AgentHandle(agent, profile.environment, self._offer(profile, name not in load()))

    def _offer(self, profile: Profile, own: bool) -> AgentInfo:
        found = look(profile, self._environment)
        version = _version(found.program, self._environment) if found.program else None
        return AgentInfo(
            profile.name, profile.title, found.how, found.start, version, profile.install, own, profile.proven,
            lacks(profile, self._environment),
        )  # fmt: skip


def _version(program: str, environment: Mapping[str, str]) -> str | None:
    try:
        ran = subprocess.run(
            [program, "--version"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASKING,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(ran.stdout.decode("utf-8", "replace"))
    return found[0] if found and ran.returncode == 0 else None
