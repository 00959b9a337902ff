"""The profiles of this machine, and what of them is installed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches

from interlock.agents.hiring import agent_of
from interlock.agents.installed import lacks, look
from interlock.agents.profiles import FILE, Profile, load
from interlock.errors import AgentError
from interlock.roster import Hire, Offer

ASKING = 20.0
"""Seconds a program may take to tell its version; some need four."""
_VERSION = re.compile(r"(?<!\d)\d+(\.\d+)+[0-9A-Za-z.+-]*")


class ProfileRoster:
    """See `roster.Roster`. `environment` is where programs are looked for."""

    def __init__(self, home: str, environment: Mapping[str, str] | None = None) -> None:
        self._home = home
        self._environment = os.environ if environment is None else environment

    def offers(self) -> list[Offer]:
        """See `roster.Roster`."""
        profiles, ours = load(self._home), load()
        with ThreadPoolExecutor(max_workers=len(profiles)) as pool:
            return list(pool.map(lambda one: self._offer(one, one.name not in ours), profiles.values()))

    def hire(self, name: str) -> Hire:
        """See `roster.Roster`."""
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
        return Hire(agent, profile.environment, self._offer(profile, name not in load()))

    def _offer(self, profile: Profile, own: bool) -> Offer:
        found = look(profile, self._environment)
        version = _version(found.program, self._environment) if found.program else None
        return Offer(
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
