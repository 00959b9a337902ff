"""Variables of workflow files: `{project-root}`, `{installed_path}`, `{config_source}:key`, `a || b` (BMAD-2a.6).

`{{x}}` is filled in by the agent at run time, and most single-brace names in prose are too; only settings are
resolved here. What has no value stays as it is written, and its name is reported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from interlock.lazy_dataclass import dataclass

NAME = re.compile(r"(?<!\{)\{([A-Za-z_][\w.-]*)\}(?!\})")
LOOK_UP = re.compile(r"^\{([A-Za-z_]\w*)\}:([A-Za-z_][\w.-]*)$")
ALTERNATIVES = re.compile(r"(?<!\s)\s++\|\|\s++")
DEPTH = 12
# Filled in when a workflow runs, so that nobody has to configure them.
DEFAULT_OUTPUT = "_bmad-output"
INSTALLED = "_bmad"
"""The installed package, where nothing is ever written (NFR14)."""
RUNTIME = frozenset({"date", "timestamp", "current_date", "skill-root", "skill-name"})


@dataclass(frozen=True)
class Resolved:
    """A text with its variables replaced, and the names that have no value: `key` for `{config_source}:key` too."""

    text: str
    missing: tuple[str, ...] = ()


class Variables:
    """The names one file may use: its own settings first, then the module's configuration.

    `config` is that configuration; `configs` gives the one at a path (for `{config_source}:key`), empty when absent.
    """

    def __init__(
        self,
        own: Mapping[str, Any],
        *,
        project_root: str,
        installed_path: str,
        config: Mapping[str, Any],
        configs: Callable[[str], Mapping[str, Any]] | None = None,
    ) -> None:
        nested = own.get("variables")
        self._own: dict[str, Any] = {**(nested if isinstance(nested, Mapping) else {}), **own}
        self._config = config
        self._configs = configs
        self._given = {
            "project-root": project_root,
            "project_root": project_root,
            "skill-root": installed_path,
            "skill-name": installed_path.rstrip("/").rpartition("/")[2],
        }
        self._installed = installed_path
        self.project_root = project_root

    def with_own(self, own: Mapping[str, Any]) -> Variables:
        """The same project and configuration with other settings of the file."""
        return Variables(
            own,
            project_root=self.project_root,
            installed_path=self._installed,
            config=self._config,
            configs=self._configs,
        )

    @property
    def own(self) -> Mapping[str, Any]:
        """The file's own settings."""
        return self._own

    def resolve(self, text: str) -> Resolved:
        """`text` with every variable replaced that has a value."""
        missing: list[str] = []
        resolved = self._text(text, missing, 0)
        return Resolved(resolved, tuple(dict.fromkeys(missing)))

    def alternatives(self, text: str) -> tuple[Resolved, ...]:
        """Each part of `a || b`, resolved."""
        return tuple(self.resolve(part) for part in ALTERNATIVES.split(text))

    def value(self, name: str) -> str | None:
        """The value of one variable, resolved, or None."""
        resolved = self.resolve(f"{{{name}}}")
        return None if name in resolved.missing else resolved.text

    def _text(self, text: str, missing: list[str], depth: int) -> str:
        if depth > DEPTH:
            missing += NAME.findall(text)
            return text
        look_up = LOOK_UP.match(text.strip())
        if look_up:
            value = self._looked_up(look_up[1], look_up[2], missing, depth)
            return text if value is None else value

        def replaced(found: re.Match[str]) -> str:
            value = self._named(found[1], missing, depth)
            return found[0] if value is None else value

        return NAME.sub(replaced, text)

    def _named(self, name: str, missing: list[str], depth: int) -> str | None:
        if name in self._given:
            return self._given[name]
        for values in (self._own, self._config):
            value = values.get(name)
            # A name whose value is itself (`{output_folder}`) means the next source, not for ever the same one.
            if is_set(value) and str(value).strip() != f"{{{name}}}":
                return self._text(str(value), missing, depth + 1)
        if name == "installed_path":
            return self._installed
        if name not in RUNTIME:
            missing.append(name)
        return None

    def _looked_up(self, source: str, key: str, missing: list[str], depth: int) -> str | None:
        path = self._named(source, [], depth + 1)
        config = self._configs(path) if path and self._configs else self._config
        value = config.get(key)
        if not is_set(value):
            missing.append(key)
            return None
        return self._text(str(value), missing, depth + 1)


def usable_output(variables: Variables) -> tuple[Variables, str]:
    """`variables` with an output folder that can be written to, and a warning where the file's own cannot.

    One that holds a placeholder without a value, or lies within the installed package, gives way to the module's,
    and that to the default."""
    first = variables.value("output_folder")
    found, wrong = variables, first
    for replacement in ({}, {"output_folder": f"{{project-root}}/{DEFAULT_OUTPUT}"}):
        if wrong is None or not (re.search(r"[{}]", wrong) or installed(variables.project_root, wrong)):
            break
        found = variables.with_own(
            {**{name: one for name, one in variables.own.items() if name != "output_folder"}, **replacement}
        )
        wrong = found.value("output_folder") or "{}"
    if found is variables:
        return variables, ""
    why = "holds a placeholder without a value" if re.search(r"[{}]", str(first)) else f"lies within {INSTALLED}/"
    return found, f"The workflow's output_folder ({first}) {why}; {found.value('output_folder')} is used instead."


def installed(project: str, path: str) -> bool:
    """Whether `path`, absolute or from the project's root, leads into the installed package."""
    root = os.path.realpath(project)
    whole = os.path.normpath(os.path.join(root, path))
    return in_package(root, whole, os.path.realpath(whole))


def in_package(root: str, *names: str) -> bool:
    """Whether one of these absolute `names` of a file leads into the package that is installed in `root`, a resolved
    path."""
    inside = f"{os.path.realpath(os.path.join(root, INSTALLED))}{os.sep}"
    return any(f"{name}{os.sep}".startswith(inside) for name in names)


def is_set(value: object) -> bool:
    """Whether a setting has a value: not absent, not empty, a plain one."""
    return isinstance(value, (str, int, float)) and str(value).strip() != ""


def looked_up(values: object) -> list[str]:
    """Every key that settings look up in a configuration (`{config_source}:key`), at any depth."""
    if isinstance(values, Mapping):
        return [key for value in values.values() for key in looked_up(value)]
    if isinstance(values, list):
        return [key for value in values for key in looked_up(value)]
    found = LOOK_UP.match(values.strip()) if isinstance(values, str) else None
    return [found[2]] if found else []
