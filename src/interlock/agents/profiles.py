"""What is known of each agent program, as data: `profiles.toml` here, the entries of the ACP registry, where the home
has a copy of it, and the user's `<home>/agents.toml`.

A user's file has the same form. A table with a new name is a new agent; in one with a known name, single keys replace
ours. It is read whole and checked whole before anything is started by it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from interlock.agents.capacity import Limit
from interlock.agents.usage import KINDS
from interlock.errors import ConfigParseError
from interlock.model.json import Json
from interlock.model.names import ACP_REGISTRY_FILE, VARIABLE
from interlock.settings import MODEL_CLASSES, PERMISSIONS

FILE = "agents.toml"
ABILITIES = ("session", "prompt", "updates", "mcp", "permission", "cancel", "resume", "sandbox")
RESERVED = ("shell", "scripted", "command", "acp", "human", "lead")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}")
_OURS = os.path.join(os.path.dirname(__file__), "profiles.toml")
_LARGEST = 262_144


def _text(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError("must be text")
    return text


def _variable(name: str) -> str:
    if name.upper().startswith("INTERLOCK_"):
        raise ValueError(f"holds {name}, which is Interlock's own")
    if not re.fullmatch(VARIABLE, name):
        raise ValueError(f"holds {name!r}, which is not the name of a variable")
    return name


def _one_of(choices: tuple[str, ...]) -> AfterValidator:
    def check(value: str) -> str:
        if value not in choices:
            raise ValueError(f"holds {value!r}; there are {', '.join(choices)}")
        return value

    return AfterValidator(check)


Text = Annotated[str, AfterValidator(_text)]
Variable = Annotated[str, AfterValidator(_variable)]
PermissionName = Annotated[str, _one_of(PERMISSIONS)]
Modes = Annotated[tuple[Text, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]


class Adapter(BaseModel):
    """An npm package whose program speaks ACP for the agent program.

    * `package`: its name.
    * `brings`: the package with the agent's own program that it depends on and drives, empty where that is built in;
      `version_key`: the key of that one's `package.json` with the program's version.
    * `tried`: the versions of `package` that Interlock's own tests were run with.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # a profile brings it in

    package: Text
    brings: Text | None = None
    version_key: Text = "version"
    tried: tuple[Text, ...] = ()


class AgentProfile(BaseModel):
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
    * `modes`: for each of ask, workspace, read-only and unattended the ACP session mode, or several, of which the first
      that is offered is taken; `headless_modes` likewise the arguments.
    * `adapters`: the packages that `acp` is known to come from; none where the agent's own program speaks ACP.
    * `usage`: the format in which it records what its sessions use (`usage.py`); only an agent over ACP with it, or
      one that tells it over ACP, can be held to a limit of tokens.
    * `helpers`: programs that it starts on Linux, with what comes of it where one is missing, and what to do.
    * `limits`: how it says that it cannot work now. `install`, `login`: what a person has to do.
    * `proven`: what Interlock's own tests show with the real program, of an adapter in a version that was tried.
    * `listed`: that it comes from the ACP registry.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    listed: bool = False
    title: Text = ""
    program: Text = ""
    acp: tuple[Text, ...] = ()
    headless: tuple[Text, ...] = ()
    install: Text = "install it, or correct its profile"
    login: Text = "Log in with the program itself."
    environment: tuple[Variable, ...] = ()
    variables: Mapping[Variable, str] = {}
    model_arguments: tuple[Text, ...] = ()
    model_variable: Text = ""
    models: Mapping[Annotated[str, _one_of(MODEL_CLASSES)], Text] = {}
    modes: Mapping[PermissionName, Modes] = {}
    adapters: tuple[Adapter, ...] = ()
    headless_model: tuple[Text, ...] = ()
    headless_mcp: tuple[Text, ...] = ()
    headless_modes: Mapping[PermissionName, tuple[Text, ...]] = {}
    helpers: Mapping[str, Text] = {}
    limits: tuple[Limit, ...] = ()
    usage: Annotated[str, _one_of(("", *KINDS))] = ""
    proven: tuple[Annotated[str, _one_of(ABILITIES)], ...] = ()


def load(home: str | None = None) -> dict[str, AgentProfile]:
    """All profiles by name: ours, those of the ACP registry that we have none of, then those of `<home>/agents.toml`.

    Raises:
        ConfigParseError: a file of the user's cannot be read, or says something that makes no sense; the message names
            all.
    """
    tables = _read(_OURS)
    for name, table in tables.items():
        table.setdefault("title", name)
    registry = _registered(home)
    tables |= {name: table for name, table in registry.items() if name not in tables and name not in RESERVED}
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
    found = {
        name: _profile(name, table, faults, listed=table is registry.get(name))
        for name, table in tables.items()
        if isinstance(table, dict)
    }
    if faults:
        raise ConfigParseError(f"{path or _OURS} cannot be used: {'; '.join(faults)}.", path=path, errors=faults)
    return {name: profile for name, profile in found.items() if profile is not None}


def _registered(home: str | None) -> dict[str, Json]:
    """The tables of the ACP registry. Few homes have a copy of it, and what reads it is slow to load."""
    if home is None or not os.path.lexists(os.path.join(home, ACP_REGISTRY_FILE)):
        return {}
    from interlock.agents import acp_registry

    return acp_registry.profiles(home)


def _read(path: str) -> Json:
    try:
        with open(path, "rb") as file:
            text = file.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST} bytes")
        return tomllib.loads(text.decode("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigParseError(f"{path} cannot be read: {error}. Fix it, or move it away.", path=path) from error


def _profile(name: str, table: Json, faults: list[str], *, listed: bool = False) -> AgentProfile | None:
    known = set(AgentProfile.model_fields) - {"name", "listed"}
    before = len(faults)
    try:
        profile = AgentProfile.model_validate({**table, "name": name, "listed": listed})
    except ValidationError as error:
        for one in error.errors():
            where = f"{one['loc'][0]} of [{name}]"
            if one["type"] == "extra_forbidden" and one["loc"][0] not in known:
                near = get_close_matches(str(one["loc"][0]), known, n=1)
                faults.append(f"{where} is not known{f', did you mean {near[0]!r}?' if near else ''}")
            else:
                said = _MESSAGES.get(one["type"]) or one["msg"].removeprefix("Value error, ")
                faults.append(f"{where} {said.replace('Input should be', 'must be')}")
        profile = None
    if "acp" not in table and "headless" not in table:
        faults.append(f'[{name}] needs `acp = [PROGRAM, …]` or `headless = [PROGRAM, …, "{{prompt}}"]`')
    elif profile is not None and profile.headless and "{prompt}" not in profile.headless:
        faults.append(f'headless of [{name}] needs the word "{{prompt}}"')
    return profile if len(faults) == before else None


_MESSAGES = {
    "tuple_type": "must be a list of texts",
    "mapping_type": "must be a table of texts",
    "string_type": "must be text",
    "float_type": "has an `after` that is no number of seconds",
    "float_parsing": "has an `after` that is no number of seconds",
}
