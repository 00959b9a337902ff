"""What AOF/1 messages carry, and what the files of a run hold: fields, limits, defaults (contract, Files).

Five types are known, each with its payload; of any other the payload is kept as it came. Names are camelCase outside
and snake_case inside; unknown fields are kept. `checked` reports every fault at once, by field path and in the
contract's words. `schema` is what we publish.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from interlock.lazy_dataclass import dataclass

Outcome = Literal["done", "blocked", "needs_review", "partial"]
OUTCOMES = ("done", "blocked", "needs_review", "partial")

REFERENCE_CHARS = 256
NOTES_CHARS = 10_000
PROGRESS_CHARS = 1_000
REASON_CHARS = 512
ITEM_CHARS = 256
LIST_ITEMS = 50
BLOCKER_ITEMS = 20
NAME_CHARS = 200

_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)


_TASK_ID = re.compile(r"TASK-[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{3,}")
TASK_ID_CHARS = 64


def _check_moment(value: object) -> object:
    try:
        if not isinstance(value, str) or _MOMENT.fullmatch(value) is None:
            raise ValueError(value)
        datetime.fromisoformat(value)
    except ValueError:
        raise PydanticCustomError("moment", "must be ISO 8601 datetime") from None
    return value


def _check_task_id(value: object) -> object:
    # Before anything else looks at it, so that whatever is no id is told so in the same words.
    if not isinstance(value, str) or len(value) > TASK_ID_CHARS or _TASK_ID.fullmatch(value) is None:
        raise PydanticCustomError("task_id", "must match TASK-YYYY-MM-DD-NNN")
    return value


def _none_as_empty(value: object) -> object:
    return [] if value is None else value


Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS)]
TaskId = Annotated[
    str,
    BeforeValidator(_check_task_id),
    Field(json_schema_extra={"pattern": f"^{_TASK_ID.pattern}$", "maxLength": TASK_ID_CHARS}),
]
Moment = Annotated[str, BeforeValidator(_check_moment), Field(json_schema_extra={"format": "date-time"})]
Reference = Annotated[str, Field(max_length=REFERENCE_CHARS)]
Notes = Annotated[str, Field(max_length=NOTES_CHARS)]
Progress = Annotated[str, Field(max_length=PROGRESS_CHARS)]
Reason = Annotated[str, Field(max_length=REASON_CHARS)]
Item = Annotated[str, Field(max_length=ITEM_CHARS)]
Items = Annotated[list[Item], BeforeValidator(_none_as_empty), Field(max_length=LIST_ITEMS)]
Blockers = Annotated[list[Item], BeforeValidator(_none_as_empty), Field(max_length=BLOCKER_ITEMS)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]


class ProtocolModel(BaseModel):
    """What all of them share: exact types, camelCase outside, unknown fields kept."""

    # Built when the first of its kind is read: few processes read any, and all start faster so.
    model_config = ConfigDict(alias_generator=to_camel, extra="allow", strict=True, frozen=True, defer_build=True)

    def as_json(self) -> dict[str, Any]:
        """The fields as they travel: those that were given, and lists by their default."""
        found: dict[str, Any] = self.model_dump(by_alias=True)
        return {name: value for name, value in found.items() if value is not None or name in (self.model_extra or ())}


class TestReport(ProtocolModel):
    """How many tests ran, and how they ended."""

    __test__ = False  # Not a test of ours, whatever its name.

    total: Count
    passed: Count
    failed: Count

    @model_validator(mode="after")
    def _adds_up(self) -> TestReport:
        if self.passed + self.failed > self.total:
            raise PydanticCustomError("tests", "passed and failed together must not exceed total")
        return self


class _Result(ProtocolModel):
    outcome: Outcome
    summary_ref: Reference | None = None
    deliverables: Items = Field(default_factory=list)
    tests: TestReport | None = None
    blockers: Blockers = Field(default_factory=list)
    notes: Notes | None = None


class CompletionReport(_Result):
    """`completion.report`: the run has ended, and how."""


class StatusUpdate(ProtocolModel):
    """`status.update`: how it goes; with `status`, a step forward."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [name]} for name in ("status", "progress", "blockers", "notes")]}
    )

    task_id: TaskId | None = None
    agent_id: Name | None = None
    status: Annotated[str, Field(max_length=64)] | None = None
    progress: Progress | None = None
    blockers: Annotated[list[Item], Field(max_length=BLOCKER_ITEMS)] | None = None
    notes: Notes | None = None

    @model_validator(mode="after")
    def _says_something(self) -> StatusUpdate:
        if self.status is None and self.progress is None and self.blockers is None and self.notes is None:
            raise PydanticCustomError(
                "empty", "at least one update field is required: status, progress, blockers or notes"
            )
        return self


class HandoffRequest(ProtocolModel):
    """`handoff.request`: a part of the parent task goes to another agent."""

    task_id: TaskId
    parent_task_id: TaskId
    from_agent: Name
    to_agent: Name
    acceptance_criteria: Items = Field(default_factory=list)
    expected_outputs: Items = Field(default_factory=list)
    context_refs: Items = Field(default_factory=list)
    constraints: Items = Field(default_factory=list)
    due_by: Moment


class HandoffAck(ProtocolModel):
    """`handoff.accepted` and `handoff.rejected`."""

    task_id: TaskId
    accepted: bool | None = None
    reason: Reason | None = None


class RunResult(_Result):
    """`run_result.json`: what the run of a task came to."""

    completed_at: Moment
    task_id: TaskId | None = None
    run_id: Name | None = None
    agent_id: Name | None = None


class RunHeartbeat(ProtocolModel):
    """`run_heartbeat.json`: the run lives, and may stay silent until `expiresAt`."""

    expires_at: Moment
    task_id: TaskId | None = None
    run_id: Name | None = None
    agent_id: Name | None = None
    last_heartbeat: Moment | None = None
    beat_count: Count | None = None


PROTOCOL = "aof"
VERSION = 1


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong: where (`payload.tests.failed`), and what, in words that name the field."""

    path: str
    message: str

    def as_dict(self) -> dict[str, str]:
        """The contract's shape."""
        return {"path": self.path, "message": self.message}


def _no_truth_value(value: object) -> object:
    # To Python true is 1; to JSON it is not.
    return "true" if value is True else value


class Envelope(ProtocolModel):
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


class _AnswerEnvelope(Envelope):
    payload: HandoffAck

    @model_validator(mode="after")
    def _follows_type(self) -> Self:
        right = self.type == "handoff.accepted"
        if self.payload.accepted is (not right):
            raise PydanticCustomError("accepted", f"accepted must be {str(right).lower()} in {self.type}")
        return self


class AcceptedEnvelope(_AnswerEnvelope):
    """The other takes it."""

    type: Literal["handoff.accepted"]


class RejectedEnvelope(_AnswerEnvelope):
    """The other does not take it."""

    type: Literal["handoff.rejected"]


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

M = TypeVar("M", bound=ProtocolModel)
_BUILDING = threading.Lock()
"""Until release 2.14 of pydantic two threads that build one model at the same time may check by that of its parent."""


def checked(data: Mapping[str, Any]) -> tuple[Envelope | None, list[FieldError]]:
    """(envelope, []) where `data` is one, else (null, every fault)."""
    kind = data.get("type")
    model = KINDS.get(kind, UnknownEnvelope) if isinstance(kind, str) else UnknownEnvelope
    return read(model, data)


def read(model: type[M], data: Mapping[str, Any]) -> tuple[M | None, list[FieldError]]:
    """(value, []) where `data` fits the model, else (null, every fault)."""
    with _BUILDING:
        model.model_rebuild()
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


def _fault(error: ErrorDetails) -> FieldError:
    path = "payload.accepted" if error["type"] == "accepted" else ".".join(map(str, error["loc"]))
    names = [part for part in error["loc"] if isinstance(part, str)]
    field = names[-1] if names else "message"
    return FieldError(path, _words(error, field, error["loc"], error.get("ctx") or {}))


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
