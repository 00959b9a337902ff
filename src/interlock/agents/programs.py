"""Where agent programs are on this machine, and what the npm packages that they come from say of themselves."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping

from interlock.agents.profiles import Adapter
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json
from interlock.model.names import NPM

# Where npm puts programs that are installed for everybody or for one user, and may not be on PATH.
_PLACES_OF_NPM = (
    "~/.npm-global/bin",
    "~/.local/bin",
    "~/.claude/local",
    "~/.opencode/bin",
    "/usr/local/bin",
    "/opt/homebrew/bin",
)
_LARGEST = 1_048_576


@dataclass(frozen=True, slots=True)
class InstalledAdapter:
    """The package that a program comes from, with its version; `brings` is the version of the agent's own program that
    it drives, None where it does not say. `tried` is whether Interlock's own tests were run with that version."""

    package: str
    version: str
    brings: str | None
    tried: bool


def adapter_at(start: str, adapters: tuple[Adapter, ...]) -> InstalledAdapter | None:
    """Which of the adapters the program at `start` is; None where it comes from none of them."""
    for directory in _above(os.path.realpath(start)):
        about = _package(directory)
        adapter = next((one for one in adapters if about.get("name") == one.package), None)
        if adapter is not None:
            version = str(about.get("version"))
            brings = _brought(directory, adapter)
            return InstalledAdapter(adapter.package, version, brings, version in adapter.tried)
    return None


def _brought(directory: str, adapter: Adapter) -> str | None:
    """The version of what it brings: the package of that name that node would find from `directory`."""
    for place in (directory, *_above(directory)) if adapter.brings else ():
        version = _package(os.path.join(place, "node_modules", str(adapter.brings))).get(adapter.version_key)
        if isinstance(version, str):
            return version
    return None


def _above(path: str) -> Iterator[str]:
    while (parent := os.path.dirname(path)) != path:
        path = parent
        yield path


def _package(directory: str) -> Json:
    """What its `package.json` says; nothing where there is none."""
    try:
        with open(os.path.join(directory, "package.json"), "rb") as file:
            about = json.loads(file.read(_LARGEST))
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def find(program: str, environment: Mapping[str, str]) -> str | None:
    """The path of a program, along PATH and in the usual places of npm; a path stands for itself, and `npm:PACKAGE` for
    the program of a package that is installed for everybody or for one user."""
    if program.startswith(NPM):
        return _of_package(program.removeprefix(NPM), environment)
    program = os.path.expanduser(program)
    found = shutil.which(program, path=environment.get("PATH", os.defpath))
    if found is not None or "/" in program:
        return os.path.abspath(found) if found else None
    return shutil.which(program, path=os.pathsep.join(_places(environment)))


def _places(environment: Mapping[str, str]) -> list[str]:
    prefix = environment.get("NPM_CONFIG_PREFIX") or environment.get("npm_config_prefix") or _npm_prefix()
    places = [os.path.join(prefix, "bin")] if prefix else []
    return [*places, *map(os.path.expanduser, _PLACES_OF_NPM)]


def _of_package(package: str, environment: Mapping[str, str]) -> str | None:
    """The program of an npm package, which may be called otherwise: as the package itself says."""
    own = package.rpartition("/")[2]
    for directory in [*environment.get("PATH", os.defpath).split(os.pathsep), *_places(environment)]:
        programs = _package(os.path.join(directory, "..", "lib", "node_modules", package)).get("bin")
        names = [own] if isinstance(programs, str) else list(programs or ())
        for name in sorted(names, key=lambda one: one != own):
            if (found := shutil.which(os.path.basename(name), path=directory)) is not None:
                return os.path.abspath(found)
    return None


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
