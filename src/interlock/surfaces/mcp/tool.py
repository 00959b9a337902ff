"""What a tool is: a function whose name, docstring and keyword arguments are what agents see.

Arguments are checked by pydantic, strictly, before the function runs; a wrong call is refused in words an agent can act
on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from difflib import get_close_matches
from functools import cached_property
from inspect import cleandoc, signature
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from interlock.errors import InvalidRequest
from interlock.model.json import json_form
from interlock.model.task import task_fields
from interlock.surfaces.mcp.connection import Connection
from interlock.surfaces.mcp.delivery_receipt import DeliveryReceipt

VERBATIM = frozenset({"metadata", "settings", "counts", "task_counts", "answers"})
"""Fields whose keys are data: what somebody attached, names of settings, states, names of members."""

STRICT = ConfigDict(extra="forbid", strict=True)
KINDS = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "list_type": "a list",
    "model_type": "an object",
}
"""What an argument must be, by the type of pydantic's error."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """Metadata of a text argument that takes one of these values."""

    values: tuple[str, ...]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        return handler.generate_schema(Literal[self.values])


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool: on which connection, and, for tools that hand over mail, with which receipt."""

    connection: Connection
    receipt: DeliveryReceipt | None = None


@dataclass(frozen=True)
class McpTool:
    """One tool.

    Attributes:
        run: its keyword arguments; `**fields` stands for what agents may say of a new task.
        for_leads: hidden from plain members, and refused to them.
        reads: changes nothing, not even the session.
        hands_over: the answer carries mail.
        waits: may sleep; it is woken when the connection closes.
    """

    run: Callable[..., Any]
    for_leads: bool = False
    reads: bool = False
    hands_over: bool = False
    waits: bool = False

    @property
    def name(self) -> str:
        return self.run.__name__

    @cached_property
    def description(self) -> str:
        return " ".join(cleandoc(self.run.__doc__ or "").split())

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        made = self._model.model_json_schema(schema_generator=_ShortSchema)
        models = {f"#/$defs/{name}": one for name, one in made.pop("$defs", {}).items()}
        properties = {name: models.get(one.get("$ref"), one) for name, one in made["properties"].items()}
        return {**made, "properties": properties}

    def checked(self, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the arguments that were given, checked; `None` stands for one that was not given.

        Raises:
            InvalidRequest: an unknown argument (names the nearest), a missing one, or one of a wrong type.
        """
        known = self._model.model_fields
        given = arguments or {}
        for name in given:
            if name not in known:
                raise InvalidRequest(self._unknown(name, list(known)), field=name, tool=self.name)
        try:
            checked = self._model.model_validate({name: one for name, one in given.items() if one is not None})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = str(first["loc"][0])
            if first["type"] == "missing":
                fault = f"{self.name} needs the argument {place}"
            else:
                fault = f"{self.name}: {_fault(first)}"
            raise InvalidRequest(f"{fault}.", field=place, tool=self.name) from None
        return checked.model_dump(exclude_unset=True)

    @cached_property
    def _model(self) -> type[BaseModel]:
        hints = get_type_hints(self.run, include_extras=True)
        fields: dict[str, Any] = {}
        for name, parameter in list(signature(self.run).parameters.items())[1:]:
            if parameter.kind is parameter.VAR_KEYWORD:
                required = {one: made for one, made in fields.items() if made[1].is_required()}
                fields = required | _task_arguments() | fields
                continue
            words = next((one for one in getattr(hints[name], "__metadata__", ()) if isinstance(one, str)), None)
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (hints[name], Field(default, description=words))
        return create_model(self.name, __config__=STRICT, **fields)

    def _unknown(self, name: str, known: list[str]) -> str:
        close = nearest(name, known)
        takes = f"It takes: {', '.join(known)}." if known else "It takes none."
        return f"{self.name} has no argument {name[:80]!r}. {f'Did you mean {close}?' if close else takes}"


def _task_arguments() -> dict[str, Any]:
    """Return what agents may say of a new task, as pydantic takes it."""
    found: dict[str, Any] = {}
    for name, field in task_fields().items():
        if field.agents:
            kind = Annotated[field.kind, OneOf(field.choices)] if field.choices else field.kind
            words = f"{'Lead only: ' if field.control else ''}{field.words.rstrip('.')}"
            found[name] = (kind | None, Field(None, description=None if field.choices else words))
    return found


class _ShortSchema(GenerateJsonSchema):
    """Every byte is in an agent's context: no titles, no defaults, no null beside what is optional."""

    def nullable_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        return {key: value for key, value in super().model_schema(schema).items() if key != "title"}


def _fault(error: Any) -> str:
    """Return pydantic's first fault in our words."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"])[1:]
    if error["type"] == "extra_forbidden":
        owner, _, name = path.rpartition(".")
        return f"{owner} has no field {name[:80]!r}"
    if error["type"] in KINDS:
        words = KINDS[error["type"]]
    elif error["type"] == "literal_error":
        words = f"one of: {error['ctx']['expected'].replace(' or ', ', ')}".replace("'", "")
    elif "ge" in error.get("ctx", {}):
        words = f"at least {error['ctx']['ge']}"
    else:
        words = f"at most {error['ctx']['le']}"
    shown = repr(error["input"])
    return f"{path} must be {words}, not {shown if len(shown) <= 60 else shown[:57] + '...'}"


def nearest(name: str, names: Sequence[str]) -> str | None:
    """Return the one of `names` that `name` was probably meant to be."""
    words = sorted(name.lower().split("_"))
    same = [one for one in names if sorted(one.split("_")) == words]
    return next(iter([*same, *get_close_matches(name.lower(), names, n=1)]), None)


def given(**arguments: Any) -> dict[str, Any]:
    """Return those that are not `None`."""
    return {name: value for name, value in arguments.items() if value is not None}


def camel(value: Any) -> Any:
    """Return `value` with the keys of its dictionaries in camelCase, as the specification spells results."""
    if isinstance(value, dict):
        return {_camel_key(key): item if key in VERBATIM else camel(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [camel(item) for item in value]
    if is_dataclass(value):
        return camel(json_form(value))
    return value


def _camel_key(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word.capitalize() for word in rest) if first else key
