"""The agents of the ACP registry: `<home>/acp-registry.json`, a copy of its published file that a person has taken.

Nothing fetches it unasked, and nothing needs it. An entry names a program that is started, and its arguments; the
program itself is installed by people, as the entry says, and found like any other.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from http.client import HTTPException
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from interlock.errors import ConfigParseError, InvalidRequest, NotFound, StorageError
from interlock.model.json import Json
from interlock.model.names import ACP_REGISTRY_FILE as FILE
from interlock.model.names import NPM
from interlock.storage import files

LARGEST = 4_194_304
"""Bytes of a registry that are read; the published one has some 60,000."""
SECONDS = 20.0
MACHINES = {"arm64": "aarch64", "amd64": "x86_64"}


def _free(name: str) -> str:
    if name.upper().startswith("INTERLOCK_"):
        raise ValueError("is Interlock's own")
    return name


Variable = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$"), AfterValidator(_free)]


class _Start(BaseModel):
    args: tuple[Annotated[str, Field(pattern=r"^[^\x00]+$")], ...] = ()
    env: Mapping[Variable, str] = {}


class _Package(_Start):
    package: Annotated[str, Field(pattern=r"^(@[\w.-]+/)?[A-Za-z0-9][\w.-]*([@=<>~!][\w.+=<>~!-]*)?$", max_length=200)]

    @property
    def name(self) -> str:
        """It without its version."""
        scope, slash, rest = self.package.rpartition("/")
        return scope + slash + rest[: next((n for n, sign in enumerate(rest) if sign in "@=<>~!"), len(rest))]


class _Binary(_Start):
    archive: Annotated[str, Field(pattern=r"^https?://[^\s\x00-\x1f]+$", max_length=1000)]
    cmd: Annotated[str, Field(pattern=r"^(\.[/\\])?([\w.-]+[/\\])*[\w.-]+$", max_length=200)]


class _Distribution(BaseModel):
    npx: _Package | None = None
    uvx: _Package | None = None
    binary: Mapping[str, _Binary] = {}


class RegistryEntry(BaseModel):
    """One agent, as its `agent.json` has it; fields that are not needed here are left out."""

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=50)]
    name: Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")]
    version: Annotated[str, Field(pattern=r"^[\w.+-]+$", max_length=50)]
    distribution: _Distribution

    @property
    def profile(self) -> Json | None:
        """It as a table of `agents.toml`; None where it has no program for this machine."""
        found = self.distribution
        binary = found.binary.get(_machine())
        if found.npx is not None:
            start: _Start = found.npx
            program, install = NPM + found.npx.name, f"npm install -g {found.npx.package}"
        elif found.uvx is not None:
            start = found.uvx
            program, install = found.uvx.name, f"uv tool install {found.uvx.package}"
        elif binary is not None:
            start = binary
            program = os.path.basename(binary.cmd.replace("\\", "/"))
            install = f"unpack {binary.archive}, and put {program} on PATH"
        else:
            return None
        return {
            "title": self.name, "program": program, "acp": [program, *start.args], "install": install,
            "variables": start.env,
        }  # fmt: skip


def entries(text: bytes, source: str) -> list[RegistryEntry]:
    """What a registry lists. An entry of a form that is not known here is passed over.

    Raises:
        ConfigParseError: that is no registry.
    """
    try:
        document = json.loads(text)
        listed = document["agents"]
        if not isinstance(listed, list):
            raise TypeError("`agents` is no list")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigParseError(f"{source} is no ACP registry: {error!r}.", path=source) from error
    found: dict[str, RegistryEntry] = {}
    for one in listed:
        try:
            entry = RegistryEntry.model_validate(one)
        except ValidationError:
            continue
        found.setdefault(entry.id, entry)
    return list(found.values())


def load(home: str) -> list[RegistryEntry]:
    """What the home's copy lists; nothing where there is none. Raises ConfigParseError."""
    path = os.path.join(home, FILE)
    try:
        with open(path, "rb") as file:
            text = file.read(LARGEST + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigParseError(f"{path} cannot be read: {error.strerror}. Remove it.", path=path) from error
    return entries(text, path)


def profiles(home: str) -> dict[str, Json]:
    """The tables of those that have a program for this machine, by id. Raises ConfigParseError."""
    return {one.id: table for one in load(home) if (table := one.profile) is not None}


def take(home: str, source: str) -> list[RegistryEntry]:
    """Keep a copy of the registry at `source`, a file or an address of it; what it lists.

    Raises:
        NotFound: there is no such file, or the address does not answer with one.
        InvalidRequest: that is neither a file nor an address of HTTP, or it is too large.
        ConfigParseError: that is no registry; the copy that there was stays.
        StorageError: it cannot be written.
    """
    from urllib.request import urlopen  # slow to load

    try:
        if urlsplit(source).scheme in ("http", "https"):
            with urlopen(source, timeout=SECONDS) as answer:
                text = answer.read(LARGEST + 1)
        else:
            with open(os.path.expanduser(source), "rb") as file:
                text = file.read(LARGEST + 1)
    except (OSError, ValueError, HTTPException) as error:
        why = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        raise NotFound(f"The registry cannot be read from {source}: {why}.", field="source") from error
    if len(text) > LARGEST:
        raise InvalidRequest(f"{source} has more than {LARGEST:,} bytes.", field="source")
    found = entries(text, source)
    path = os.path.join(home, FILE)
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        files.replace(path, text)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.", path=path) from error
    return found


def _machine() -> str:
    """This machine, as the registry calls it."""
    kind = platform.machine().lower()
    return f"{sys.platform}-{MACHINES.get(kind, kind)}"
