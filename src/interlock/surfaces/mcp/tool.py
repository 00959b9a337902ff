"""What a tool is: a name, words for the agent, a schema, and a function over the client port.

Arguments are checked against the schema before the function runs, by the few rules that the schemas use, so that a
wrong call is refused in words an agent can act on and a full JSON Schema implementation need not be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from interlock.errors import InvalidRequest
from interlock.surfaces.mcp.connection import Connection
from interlock.surfaces.mcp.handover import Handover

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool: on which connection, with which arguments. `handover` is there for tools that give mail."""

    connection: Connection
    arguments: dict[str, Any]
    handover: Handover | None = None

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The argument of that name, or `default` where it was not given."""
        return self.arguments.get(name, default)

    def given(self, *names: str) -> dict[str, Any]:
        """Those of the named arguments that were given."""
        return {name: self.arguments[name] for name in names if name in self.arguments}


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool.

    `for_leads`: hidden from plain members, and refused to them. `reads`: it changes nothing, not even the session.
    `hands_over`: its answer carries mail. `waits`: it may sleep; it is woken when the connection closes.
    """

    name: str
    description: str
    run: Callable[[Call], Any]
    properties: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    for_leads: bool = False
    reads: bool = False
    hands_over: bool = False
    waits: bool = False

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        schema: dict[str, Any] = {"type": "object", "properties": dict(self.properties)}
        if self.required:
            schema["required"] = list(self.required)
        schema["additionalProperties"] = False
        return schema

    def checked(self, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        """`arguments`, if they fit the schema. Null stands for an optional argument that is not given.

        Raises:
            InvalidRequest: an unknown argument (names the nearest), a missing one, or one of a wrong type.
        """
        given = dict(arguments or {})
        for name in given:
            if name not in self.properties:
                raise InvalidRequest(self._unknown(name), field=name, tool=self.name)
        given = {name: value for name, value in given.items() if value is not None}
        for name in self.required:
            if name not in given:
                raise InvalidRequest(f"{self.name} needs the argument {name}.", field=name, tool=self.name)
        for name, value in given.items():
            fault = _fault(self.properties[name], value, name)
            if fault is not None:
                raise InvalidRequest(f"{self.name}: {fault}.", field=name, tool=self.name)
        return given

    def _unknown(self, name: str) -> str:
        close = nearest(name, self.properties)
        if close is not None:
            hint = f"Did you mean {close}?"
        elif self.properties:
            hint = f"It takes: {', '.join(self.properties)}."
        else:
            hint = "It takes none."
        return f"{self.name} has no argument {name[:80]!r}. {hint}"


def nearest(name: str, names: Any) -> str | None:
    """The one of `names` that `name` was probably meant to be."""
    from difflib import get_close_matches

    words = sorted(name.lower().split("_"))
    for known in names:
        if sorted(known.split("_")) == words:
            return str(known)
    found = get_close_matches(name.lower(), list(names), n=1)
    return found[0] if found else None


def text(description: str = "", **more: Any) -> Schema:
    """A text."""
    return _described("string", description, more)


def choice(*values: str, description: str = "") -> Schema:
    """One of these texts."""
    return _described("string", description, {"enum": list(values)})


def flag(description: str = "") -> Schema:
    """True or false."""
    return _described("boolean", description, {})


def number(minimum: int, maximum: int, description: str = "") -> Schema:
    """A whole number between two bounds, both included."""
    return _described("integer", description, {"minimum": minimum, "maximum": maximum})


def texts(description: str = "") -> Schema:
    """A list of texts."""
    return _described("array", description, {"items": {"type": "string"}})


def _described(kind: str, description: str, more: Mapping[str, Any]) -> Schema:
    return {"type": kind, **({"description": description} if description else {}), **more}


_KINDS: dict[str, tuple[type, str]] = {
    "string": (str, "text"),
    "boolean": (bool, "true or false"),
    "integer": (int, "a whole number"),
    "array": (list, "a list"),
    "object": (dict, "an object"),
}


def _fault(schema: Schema, value: Any, path: str) -> str | None:
    """What is wrong with `value`, in words; null when nothing is."""
    kind, words = _KINDS[schema["type"]]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        return f"{path} must be {words}, not {_shown(value)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{path} must be one of: {', '.join(schema['enum'])}, not {_shown(value)}"
    if "minimum" in schema and not schema["minimum"] <= value <= schema["maximum"]:
        return f"{path} must be between {schema['minimum']} and {schema['maximum']}, not {_shown(value)}"
    if isinstance(value, list):
        faults = (_fault(schema["items"], item, f"{path}[{at}]") for at, item in enumerate(value))
        return next((fault for fault in faults if fault is not None), None)
    if isinstance(value, dict):
        for name, item in value.items():
            if name not in schema["properties"]:
                return f"{path} has no field {name[:80]!r}; it takes: {', '.join(schema['properties'])}"
            fault = _fault(schema["properties"][name], item, f"{path}.{name}")
            if fault is not None:
                return fault
    return None


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
