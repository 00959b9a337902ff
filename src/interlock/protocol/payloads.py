"""What AOF/1 messages carry, and what the files of a run hold: fields, limits, defaults (contract, Files).

Names are camelCase outside and snake_case inside; fields we do not know are kept as they came.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

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


class Model(BaseModel):
    """What all of them share: exact types, camelCase outside, unknown fields kept."""

    model_config = ConfigDict(alias_generator=to_camel, extra="allow", strict=True, frozen=True)

    def as_json(self) -> dict[str, Any]:
        """The fields as they travel: those that were given, and lists by their default."""
        found: dict[str, Any] = self.model_dump(by_alias=True)
        return {name: value for name, value in found.items() if value is not None or name in (self.model_extra or ())}


class TestReport(Model):
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


class _Result(Model):
    outcome: Outcome
    summary_ref: Reference | None = None
    deliverables: Items = Field(default_factory=list)
    tests: TestReport | None = None
    blockers: Blockers = Field(default_factory=list)
    notes: Notes | None = None


class CompletionReport(_Result):
    """`completion.report`: the run has ended, and how."""


class StatusUpdate(Model):
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


class HandoffRequest(Model):
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


class HandoffAck(Model):
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


class RunHeartbeat(Model):
    """`run_heartbeat.json`: the run lives, and may stay silent until `expiresAt`."""

    expires_at: Moment
    task_id: TaskId | None = None
    run_id: Name | None = None
    agent_id: Name | None = None
    last_heartbeat: Moment | None = None
    beat_count: Count | None = None
