"""The agents that a package brings along, as characters: who they are, what they know and how they speak.

Older packages list them in `agent-manifest.csv`, newer ones in their TOML configuration. Only what is written there is
read; the agents' own files, with menus and ways to start, are for a person who talks to one.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping

from interlock.lazy_dataclass import dataclass
from interlock.workflow.package.packages import FOLDER, MANIFESTS, Package

PREFIX = "bmad-agent-"
LONGEST = 4000  # characters of one field that are kept


@dataclass(frozen=True)
class Persona:
    """One agent. `name` is what it is called by in commands ("architect"), `display` its own name ("Winston")."""

    name: str
    display: str = ""
    title: str = ""
    role: str = ""
    identity: str = ""
    style: str = ""
    principles: str = ""
    module: str = ""
    icon: str = ""
    path: str = ""

    @property
    def text(self) -> str:
        """What somebody is told who is to be it; empty where nothing but its name is known."""
        called = self.display or self.name
        lines = [f"You are {called}{f', {self.title}' if self.title else ''}."]
        about = (
            ("Role", self.role),
            ("Identity", self.identity),
            ("Style", self.style),
            ("Principles", self.principles),
        )
        lines += [f"{name}: {value}" for name, value in about if value]
        return "\n".join(lines) if len(lines) > 1 or self.title else ""


def personas(package: Package) -> tuple[Persona, ...]:
    """Those installed, in the order in which the package lists them, each name once for each module."""
    found: dict[tuple[str, str], Persona] = {}
    for one in (*_listed(package), *_configured(package)):
        found.setdefault((one.module, one.name), one)
    return tuple(found.values())


def _listed(package: Package) -> Iterator[Persona]:
    for row in package.files.rows(f"{FOLDER}/_config/{MANIFESTS['agents']}"):
        read = {key: _text(value) for key, value in row.items()}
        if read.get("name"):
            yield Persona(
                read["name"], read.get("displayName", ""), read.get("title", ""), read.get("role", ""),
                read.get("identity", ""), read.get("communicationStyle", ""), read.get("principles", ""),
                read.get("module", ""), read.get("icon", ""), read.get("path", ""),
            )  # fmt: skip


def _configured(package: Package) -> Iterator[Persona]:
    """Later layers change single fields of an agent, or add one."""
    tables: dict[str, dict[str, str]] = {}
    for layer in ("config.toml", "config.user.toml", "custom/config.toml", "custom/config.user.toml"):
        agents = package.files.toml(f"{FOLDER}/{layer}").get("agents")
        for id, table in agents.items() if isinstance(agents, Mapping) else ():
            if isinstance(table, Mapping):
                fields = {str(key): _text(value) for key, value in table.items() if isinstance(value, str)}
                tables.setdefault(str(id), {}).update(fields)
    for id, read in tables.items():
        path = next((one.path for one in package.skills if one.id == id), "")
        yield Persona(
            id.removeprefix(PREFIX), read.get("name", ""), read.get("title", ""), read.get("role", ""),
            read.get("description", ""), read.get("communication_style", ""), read.get("principles", ""),
            read.get("module", ""), read.get("icon", ""), path,
        )  # fmt: skip


def _text(value: str) -> str:
    return html.unescape(value).strip()[:LONGEST]
