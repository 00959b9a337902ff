"""What is known of each agent program, as data: `profiles.toml` here, and the user's `<home>/agents.toml`.

A user's file has the same form. A table with a new name is a new agent; in one with a known name, single keys replace
ours. It is read whole and checked whole before anything is started by it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

from interlock.agents.capacity import Limit
from interlock.agents.usage import KINDS
from interlock.errors import ConfigParseError
from interlock.settings import MODEL_CLASSES, PERMISSIONS

FILE = "agents.toml"
ABILITIES = ("session", "prompt", "updates", "mcp", "permission", "cancel", "resume", "sandbox")
RESERVED = ("shell", "scripted", "command", "acp", "human", "lead")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = os.path.join(os.path.dirname(__file__), "profiles.toml")
_LARGEST = 262_144


@dataclass(frozen=True, slots=True)
class AgentProfile:
    """One kind of agent program.

    * `title`: its name for people. `program`: the command that `--version` is asked of.
    * `acp`: the program and its arguments that speak ACP on stdio; empty where there is none.
    * `headless`: the program and its arguments for one prompt, which replaces `{prompt}`; used where `acp` is not
      installed. It can ask nobody anything.
    * `model_arguments` (with `{model}`) or `model_variable`: how an ACP program is told its model; without either, by
      the option of its session. `headless_model`: the same for `headless`.
    * `headless_mcp`: arguments for each MCP server; `{name}`, and as JSON `{command}`, `{arguments}` and `{variables}`,
      the names of those that it needs.
    * `models`: what it calls the classes haiku, sonnet and opus, for what chooses a model by itself; a class that is
      not named here is its own default.
    * `environment`: names of the user's variables that it may see. `variables`: what is set for it.
    * `modes`: for each of ask, workspace, read-only and unattended the ACP session mode; `headless_modes` likewise the
      arguments.
    * `usage`: in whose way it keeps account of what its sessions use (`usage.py`); only an agent over ACP with it, or
      one that tells it over ACP, can be held to a limit of tokens.
    * `helpers`: programs that it starts on Linux, with what comes of it where one is missing, and what to do.
    * `limits`: how it says that it cannot work now. `install`, `login`: what a person has to do.
    * `proven`: what Interlock's own tests show with the real program.
    """

    name: str
    title: str = ""
    program: str = ""
    acp: tuple[str, ...] = ()
    headless: tuple[str, ...] = ()
    install: str = "install it, or correct its profile"
    login: str = "Log in with the program itself."
    environment: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    model_arguments: tuple[str, ...] = ()
    model_variable: str = ""
    models: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)
    headless_model: tuple[str, ...] = ()
    headless_mcp: tuple[str, ...] = ()
    headless_modes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    helpers: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    usage: str = ""
    proven: tuple[str, ...] = ()


def load(home: str | None = None) -> dict[str, AgentProfile]:
    """All profiles by name: ours, then those of `<home>/agents.toml`.

    Raises:
        ConfigParseError: the user's file cannot be read, or says something that makes no sense; the message names all.
    """
    tables = _read(_OURS)
    for name, table in tables.items():
        table.setdefault("title", name)
    path = os.path.join(home, FILE) if home else None
    faults: list[str] = []
    if path is not None and os.path.exists(path):
        for name, table in _read(path).items():
            if not isinstance(table, dict):
                faults.append(f"{name!r} stands outside a table: write [NAME] above it")
            elif not _NAME.fullmatch(name) or name in RESERVED:
                faults.append(f"[{name}] cannot be an agent's name: 1 to 50 of a-z, 0-9, - and _; not {RESERVED[0]}")
            else:
                tables[name] = {**tables.get(name, {}), **table}
                tables[name].setdefault("title", name)
    found = {name: _profile(name, table, faults) for name, table in tables.items() if isinstance(table, dict)}
    if faults:
        raise ConfigParseError(f"{path or _OURS} cannot be used: {'; '.join(faults)}.", path=path, errors=faults)
    return found


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            text = file.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST} bytes")
        return tomllib.loads(text.decode("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigParseError(f"{path} cannot be read: {error}. Mend it, or move it away.", path=path) from error


def _profile(name: str, table: Mapping[str, Any], faults: list[str]) -> AgentProfile:
    known = {one.name for one in fields(AgentProfile)} - {"name"}
    read: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{key} of [{name}]"
        if key not in known:
            near = get_close_matches(key, known, n=1)
            faults.append(f"{where} is not known{f', did you mean {near[0]!r}?' if near else ''}")
            continue
        try:
            read[key] = _READERS[key](value)
        except ValueError as error:
            faults.append(f"{where} {error}")
    profile = AgentProfile(name, **read)
    if not profile.acp and not profile.headless and "acp" not in table and "headless" not in table:
        faults.append(f'[{name}] needs `acp = [PROGRAM, …]` or `headless = [PROGRAM, …, "{{prompt}}"]`')
    if profile.headless and "{prompt}" not in profile.headless:
        faults.append(f'headless of [{name}] needs the word "{{prompt}}"')
    return profile


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("must be text")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one and "\0" not in one for one in value):
        raise ValueError("must be a list of texts")
    return tuple(value)


def _names(value: object) -> tuple[str, ...]:
    found = _texts(value)
    for one in found:
        _checked_name(one)
    return found


def _checked_name(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"holds {name!r}, which is not the name of a variable")
    if name.upper().startswith("INTERLOCK_"):
        raise ValueError(f"holds {name}, which is Interlock's own")
    return name


def _variables(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise ValueError("must be a table of texts")
    return {_checked_name(name): one for name, one in value.items()}


def _helpers(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("must be a table of texts")
    return {name: _text(one) for name, one in value.items()}


def _abilities(value: object) -> tuple[str, ...]:
    return tuple(_one_of(one, ABILITIES) for one in _texts(value))


def _one_of(value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"holds {value!r}; there are {', '.join(choices)}")
    return value


def _modes(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("must be a table")
    return {_one_of(name, PERMISSIONS): _text(one) for name, one in value.items()}


def _models(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("must be a table")
    return {_one_of(name, MODEL_CLASSES): _text(one) for name, one in value.items()}


def _headless_modes(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise ValueError("must be a table")
    return {_one_of(name, PERMISSIONS): _texts(one) for name, one in value.items()}


def _limits(value: object) -> tuple[Limit, ...]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ValueError("must be tables: [[NAME.limits]]")
    return tuple(_limit(one) for one in value)


def _limit(table: dict[str, Any]) -> Limit:
    unknown = set(table) - {"pattern", "whole", "after", "login"}
    if unknown:
        raise ValueError(f"have {sorted(unknown)[0]!r}, which is not known")
    pattern, whole, login = _text(table.get("pattern")), table.get("whole", False), table.get("login", False)
    after = table.get("after")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"have a pattern that is no regular expression: {error}") from None
    if not isinstance(whole, bool) or not isinstance(login, bool):
        raise ValueError("have `whole` or `login` that is not true or false")
    if after is not None and (isinstance(after, bool) or not isinstance(after, (int, float)) or after < 0):
        raise ValueError("have an `after` that is no number of seconds")
    return Limit(pattern, whole, None if after is None else float(after), login)


_READERS: dict[str, Any] = {
    **dict.fromkeys(("title", "program", "install", "login", "model_variable"), _text),
    **dict.fromkeys(("acp", "headless", "model_arguments", "headless_model", "headless_mcp"), _texts),
    "usage": lambda value: _one_of(_text(value), KINDS),
    "environment": _names,
    "variables": _variables,
    "modes": _modes,
    "models": _models,
    "helpers": _helpers,
    "headless_modes": _headless_modes,
    "limits": _limits,
    "proven": _abilities,
}
