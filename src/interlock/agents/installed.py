"""Which programs of a profile are on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from interlock.agents.profiles import Profile

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
class Found:
    """How a profile can be used here: the absolute path of its ACP or headless program, and of its own."""

    how: Literal["acp", "headless"] | None
    start: str | None
    program: str | None


def look(profile: Profile, environment: Mapping[str, str]) -> Found:
    """What of `profile` is installed, along PATH and in the usual places of npm."""
    own = find(profile.program, environment) if profile.program else None
    over_acp = find(profile.acp[0], environment) if profile.acp else None
    if over_acp is not None:
        return Found("acp", over_acp, own)
    alone = find(profile.headless[0], environment) if profile.headless else None
    return Found("headless" if alone else None, alone, own)


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
