"""What a tool is: a function whose name, docstring and keyword arguments are what agents see.

Arguments are checked by pydantic, strictly, before the function runs; a wrong call is refused in words an agent can act
on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import cached_property
from inspect import cleandoc, signature
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from interlock.errors import InvalidRequest
from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, json_form
from interlock.model.task import TaskSpec, task_fields
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


HIDDEN = object()
"""Metadata of an argument that is taken from those who know it from other programs, and shown to nobody."""
OTHER_NAMES = {"depends_on": "blocked_by", "metadata": "data", "to": "recipient", "text": "content"}
"""What other programs call an argument of ours; besides, each may be written in camelCase."""


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
        begins_task: answers at once; what it begins is the task of the ledger that its answer names as `task_id`.
        in_workflow: only for an agent that is led through a workflow.
        ends: ends or suspends a task, for which a workflow has its own tools.
        driven: the arguments that an agent sees which the runner drives, and so gives its task and its mail; without
            any it does not see the tool. What is not shown works all the same.
        elsewhere: also for such an agent on another machine, which reports by ending its turn.
    """

    run: Callable[..., Any]
    for_leads: bool = False
    reads: bool = False
    hands_over: bool = False
    waits: bool = False
    begins_task: bool = False
    in_workflow: bool = False
    ends: bool = False
    driven: tuple[str, ...] | None = None
    elsewhere: bool = False

    @property
    def name(self) -> str:
        return self.run.__name__

    @cached_property
    def description(self) -> str:
        return " ".join(cleandoc(self.run.__doc__ or "").split())

    @cached_property
    def schema(self) -> Json:
        """The JSON Schema of the arguments."""
        made = self._model.model_json_schema(schema_generator=_ShortSchema)
        models = {f"#/$defs/{name}": one for name, one in made.pop("$defs", {}).items()}
        properties = {
            name: models.get(one.get("$ref"), one)
            for name, one in made["properties"].items()
            if name not in self._hidden
        }
        return {**made, "properties": properties}

    @property
    def summary(self) -> str:
        """The first sentence of the description."""
        return self.description.partition(". ")[0].rstrip(".")

    @cached_property
    def brief(self) -> Json:
        """The schema for an agent that the runner drives. It travels with every request, so it says no more than names
        and types."""
        whole, shown = self.schema, self.driven or ()
        required = [name for name in whole.get("required", ()) if name in shown]
        properties = {name: {**whole["properties"][name]} for name in shown}
        for one in properties.values():
            one.pop("description", None)
        return {"type": "object", "properties": properties, **({"required": required} if required else {})}

    def checked(self, arguments: Mapping[str, Any] | None) -> Json:
        """Return the arguments that were given, checked; `None` stands for one that was not given.

        Raises:
            InvalidRequest: an unknown argument (names the nearest), a missing one, or one of a wrong type.
        """
        known = self._model.model_fields
        given: Json = {}
        for said, value in (arguments or {}).items():
            plain = re.sub(r"(?<=[a-z])[A-Z]", lambda found: f"_{found[0].lower()}", said)
            name = said if said in known else plain if plain in known else OTHER_NAMES.get(plain, said)
            if name not in known:
                shown = [one for one in known if one not in self._hidden]
                raise InvalidRequest(self._unknown(said, shown), field=said, tool=self.name)
            if name in given:
                raise InvalidRequest(f"{self.name} takes {name} once; {said[:80]!r} is the same.", field=name)
            given[name] = value
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
    def _hidden(self) -> set[str]:
        hints = get_type_hints(self.run, include_extras=True)
        return {name for name, hint in hints.items() if HIDDEN in getattr(hint, "__metadata__", ())}

    @cached_property
    def _model(self) -> type[BaseModel]:
        hints = get_type_hints(self.run, include_extras=True)
        fields: Json = {}
        for name, parameter in list(signature(self.run).parameters.items())[1:]:
            if parameter.kind is parameter.VAR_KEYWORD:
                required = {one: made for one, made in fields.items() if made[1].is_required()}
                fields = required | _arguments_of(get_args(hints[name])[0]) | fields
                continue
            words = next((one for one in getattr(hints[name], "__metadata__", ()) if isinstance(one, str)), None)
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (hints[name], Field(default, description=words))
        return create_model(self.name, __config__=STRICT, **fields)

    def _unknown(self, name: str, known: list[str]) -> str:
        close = nearest(name, known)
        takes = f"It takes: {', '.join(known)}." if known else "It takes none."
        return f"{self.name} has no argument {name[:80]!r}. {f'Did you mean {close}?' if close else takes}"


def _arguments_of(described: type) -> Json:
    """Return what agents may say of a new task, or of a message, as pydantic takes it."""
    found: dict[str, tuple[Any, str, tuple[str, ...]]] = {}
    if described is TaskSpec:
        for name, field in task_fields().items():
            if field.agents:
                words = f"{'Lead only: ' if field.control else ''}{field.words.rstrip('.')}"
                found[name] = (field.kind, words, field.choices)
    else:
        for name, hint in get_type_hints(described, include_extras=True).items():
            for said in getattr(hint, "__metadata__", ()):
                found[name] = (hint.__origin__, said, ()) if isinstance(said, str) else (hint.__origin__, "", said)
    return {
        name: (Annotated[kind, OneOf(choices)] | None, Field(None)) if choices
        else (kind | None, Field(None, description=words))
        for name, (kind, words, choices) in found.items()
    }  # fmt: skip


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


def given(**arguments: Any) -> Json:
    """Return those that are not `None`."""
    return {name: value for name, value in arguments.items() if value is not None}


def as_text(value: Any) -> str:
    """Return the JSON of what a tool answers, as agents read it."""
    return json.dumps(camel(value), ensure_ascii=False, separators=(",", ":"))


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
