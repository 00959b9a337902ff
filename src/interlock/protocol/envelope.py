"""The AOF/1 envelope: five known types, each with its payload, and any other with its payload as it came.

`checked` reports every fault at once, by field path and in the contract's words. `schema` is what we publish.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from interlock.protocol.payloads import (
    OUTCOMES,
    CompletionReport,
    HandoffAck,
    HandoffRequest,
    Model,
    Moment,
    Name,
    RunHeartbeat,
    RunResult,
    StatusUpdate,
    TaskId,
)

PROTOCOL = "aof"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: where (`payload.tests.failed`), and what, in words that name the field."""

    path: str
    message: str

    def as_dict(self) -> dict[str, str]:
        """The contract's shape."""
        return {"path": self.path, "message": self.message}


def _no_truth_value(value: object) -> object:
    # To Python true is 1; to JSON it is not.
    return "true" if value is True else value


class Envelope(Model):
    """What every message has. `payload` is a mapping where we do not know the type."""

    protocol: Literal["aof"]
    version: Annotated[Literal[1], BeforeValidator(_no_truth_value)]
    type: Name
    task_id: TaskId
    from_agent: Name
    to_agent: Name
    sent_at: Moment
    payload: Any
    project_id: Name | None = None
    run_id: Name | None = None


class UnknownEnvelope(Envelope):
    """A message of a type that we do not know: routed nowhere, its payload kept raw."""

    payload: dict[str, Any]


class CompletionEnvelope(Envelope):
    """A run reports its end."""

    type: Literal["completion.report"]
    payload: CompletionReport


class StatusEnvelope(Envelope):
    """A run reports how it goes."""

    type: Literal["status.update"]
    payload: StatusUpdate


class HandoffEnvelope(Envelope):
    """An agent hands a part of its task to another."""

    type: Literal["handoff.request"]
    payload: HandoffRequest


class AcceptedEnvelope(Envelope):
    """The other takes it."""

    type: Literal["handoff.accepted"]
    payload: HandoffAck

    @model_validator(mode="after")
    def _follows_type(self) -> AcceptedEnvelope:
        if self.payload.accepted is False:
            raise PydanticCustomError("accepted", "accepted must be true in handoff.accepted")
        return self


class RejectedEnvelope(Envelope):
    """The other does not take it."""

    type: Literal["handoff.rejected"]
    payload: HandoffAck

    @model_validator(mode="after")
    def _follows_type(self) -> RejectedEnvelope:
        if self.payload.accepted is True:
            raise PydanticCustomError("accepted", "accepted must be false in handoff.rejected")
        return self


KINDS: Mapping[str, type[Envelope]] = {
    "completion.report": CompletionEnvelope,
    "status.update": StatusEnvelope,
    "handoff.request": HandoffEnvelope,
    "handoff.accepted": AcceptedEnvelope,
    "handoff.rejected": RejectedEnvelope,
}
"""The types that are routed."""

KnownEnvelope = Annotated[
    CompletionEnvelope | StatusEnvelope | HandoffEnvelope | AcceptedEnvelope | RejectedEnvelope,
    Field(discriminator="type"),
]

M = TypeVar("M", bound=Model)


def checked(data: Mapping[str, Any]) -> tuple[Envelope | None, list[Fault]]:
    """(envelope, []) where `data` is one, else (null, every fault)."""
    kind = data.get("type")
    model = KINDS.get(kind, UnknownEnvelope) if isinstance(kind, str) else UnknownEnvelope
    return read(model, data)


def read(model: type[M], data: Mapping[str, Any]) -> tuple[M | None, list[Fault]]:
    """(value, []) where `data` fits the model, else (null, every fault)."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        return None, [_fault(one) for one in error.errors(include_url=False)]


def schema() -> dict[str, Any]:
    """The JSON Schema of all that `interlock protocol send` routes, with the files of a run among its `$defs`."""
    found = TypeAdapter(KnownEnvelope).json_schema(by_alias=True)
    for artifact in (RunResult, RunHeartbeat):
        extra = artifact.model_json_schema(by_alias=True)
        found["$defs"].update(extra.pop("$defs", {}))
        found["$defs"][artifact.__name__] = extra
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "AOF/1 message",
        "description": "What an agent says: a report, an update, a handoff or its answer. Unknown fields are kept.",
        **found,
    }


def _fault(error: ErrorDetails) -> Fault:
    path = "payload.accepted" if error["type"] == "accepted" else ".".join(map(str, error["loc"]))
    names = [part for part in error["loc"] if isinstance(part, str)]
    field = names[-1] if names else "message"
    return Fault(path, _words(error, field, error["loc"], error.get("ctx") or {}))


def _words(error: ErrorDetails, field: str, path: Sequence[str | int], context: Mapping[str, Any]) -> str:
    kind = error["type"]
    plain = {
        "missing": f"{field} is required",
        "task_id": f"{field} must match TASK-YYYY-MM-DD-NNN",
        "moment": f"{field} must be ISO 8601 datetime",
        "greater_than_equal": f"{field} must be non-negative",
        "string_too_short": f"{field} is required and must not be empty",
        "string_too_long": f"{field} must have at most {context.get('max_length')} characters",
        "too_long": f"{field} must have at most {context.get('max_length')} items",
        "less_than_equal": f"{field} must be at most {context.get('le')}",
        "string_type": f"{field} must be text",
        "int_type": f"{field} must be a whole number",
        "bool_type": f"{field} must be true or false",
        "list_type": f"{field} must be a list",
        "model_type": f"{field} must be an object",
        "dict_type": f"{field} must be an object",
    }
    if kind == "literal_error":
        if path == ("protocol",):
            return f"invalid protocol {_shown(error['input'])}: protocol must be {PROTOCOL!r}"
        if path == ("version",):
            return f"unsupported version {_shown(error['input'])}: this is AOF/{VERSION}"
        return f"{field} must be one of: {', '.join(OUTCOMES)}"
    return plain.get(kind) or error["msg"]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
