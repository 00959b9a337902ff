"""What requests hold. Unknown fields and values of another type are refused, so that a slip never goes unnoticed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Body
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, WithJsonSchema, create_model
from pydantic.json_schema import SkipJsonSchema

from interlock.model.json import Json
from interlock.model.names import FULL
from interlock.model.task import task_fields
from interlock.surfaces.http.types import (
    AgentId,
    ChatSession,
    Commands,
    Full,
    Label,
    Line,
    MemberStatus,
    NewName,
    Permissions,
    Policy,
    Priority,
    Saying,
    Session,
    SessionKey,
    TaskType,
    TeamName,
    Text,
    Tier,
    Whole,
)


class StrictRequest(BaseModel):
    # Built when the first such request comes, in the thread of the event loop.
    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True, defer_build=True)

    def given(self, *without: str) -> Json:
        """Return the fields that were given, but those named."""
        return {name: getattr(self, name) for name in self.model_fields_set if name not in ("by", *without)}


def body_of(request: type[StrictRequest]) -> Any:
    """Return what an endpoint takes that request as: where nothing has to be said, no body stands for an empty one."""
    needs = any(field.is_required() for field in request.model_fields.values())
    if needs or "json_schema_extra" in request.model_config:
        return request
    return Annotated[request, Body(default_factory=request)]


class MemberRequest(StrictRequest):
    """`by`: act as this member; only an admin may."""

    by: Text | None = None


class NewProject(StrictRequest):
    id: TeamName
    workdir: Text | None = None


class ChatMessage(StrictRequest):
    content: Full
    session_id: ChatSession | None = Field(None, validation_alias=AliasChoices("session_id", "sessionId"))
    task_type: TaskType | None = Field(None, validation_alias=AliasChoices("task_type", "taskType"))


class Reply(StrictRequest):
    reply: Full
    question_id: Text | None = None


class NewTeam(StrictRequest):
    name: TeamName
    lead: SessionKey = "agent:main:main"
    claim_policy: Policy | None = None
    workdir: Text | None = None


class NewMember(MemberRequest):
    name: NewName
    agent: Label | None = None
    command: Commands | None = None
    agent_id: AgentId | None = None
    type: Label | None = None
    model: Label | None = None
    permissions: Permissions | None = None


class PauseRequest(MemberRequest):
    member: Text | None = None
    reason: Text | None = None


class ResumeRequest(MemberRequest):
    member: Text | None = None


def _of_task(*, edit: bool) -> type[MemberRequest]:
    """Return a model of the fields of a new task, or of an edit of one; the verbs enforce their bounds."""
    made: Json = {}
    for name, field in task_fields().items():
        if not (edit and field.fixed):
            kind: Any = Annotated[(Whole if field.kind is int else field.kind), WithJsonSchema(field.schema())]
            default = Field(default_factory=lambda: None) if edit else field.default
            made[field.column if edit else name] = (kind | None if field.optional else kind, default)
    return create_model("TaskFields", __base__=MemberRequest, **made)


class NewTask(_of_task(edit=False)):  # type: ignore[misc]
    subject: Line


class TaskEdit(_of_task(edit=True)):  # type: ignore[misc]
    """At least one field beside `by`."""

    model_config = ConfigDict(
        json_schema_extra=lambda schema: schema.update(
            anyOf=[{"required": [name]} for name in schema["properties"] if name != "by"]
        )
    )

    subject: Line = Field(default_factory=lambda: "")
    log: Saying = Field(default_factory=lambda: "")
    status: MemberStatus = Field(default_factory=lambda: "")


class NewQuestion(MemberRequest):
    task: Full = Field(alias="task_id")
    text: Full
    options: list[Text] = Field(default_factory=list)
    default: Text | None = None
    context: Text | None = None
    reversible: bool = False


class ReceiveRequest(StrictRequest):
    """`session`: an id of the reader's choosing, one for each start of its program. The field `wait_ms` (0 to 600000)
    waits until there is mail; it is not described here, so that tools which try everything do not wait."""

    session: Session
    wait_ms: SkipJsonSchema[Annotated[int | None, Field(ge=0, le=600_000)]] = None
    urgent_only: bool = False


class Acknowledgement(StrictRequest):
    """`ids`: the messages that the reader has dealt with."""

    session: Session
    ids: list[Text] = Field(json_schema_extra={"maxItems": 1000})


class ShutdownAnswer(MemberRequest):
    """A refusal needs a reason."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"approve": {"const": False}}},
            "then": {"required": ["reason"], "properties": {"reason": {"type": "string", "pattern": FULL}}},
        }
    )

    request: Text | None = None
    approve: bool
    reason: Text | None = None


class MergeRequest(MemberRequest):
    """Either `tasks` or `all`."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": ["tasks"], "properties": {"tasks": {"minItems": 1}, "all": {"const": False}}},
                {"required": ["all"], "properties": {"tasks": {"maxItems": 0}, "all": {"const": True}}},
            ]
        }
    )

    tasks: list[Full] = Field(default_factory=list)
    everything: bool = Field(False, alias="all")
    into: Full | None = None
    dry_run: bool = False


class NewWorkflow(StrictRequest):
    team: TeamName
    skill: Full
    directory: Text | None = None
    agent: Text | None = None
    brief: Text = ""
    values: dict[str, Text] | None = None
    tier: Tier | None = None
    profile: Text | None = None
    progress: Literal["verbose", "summary", "silent", "streaming"] | None = None
    session: Text | None = None
    yolo: bool = False


class NewQueueEntry(StrictRequest):
    team: TeamName
    what: Full
    priority: Priority | None = None


class WorkflowAdjustment(StrictRequest):
    said: Text = ""
    clear: bool = False


class WorkflowFeedback(StrictRequest):
    text: Full


class RollbackRequest(StrictRequest):
    """Either `to` or `undo`."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": ["to"], "properties": {"to": {"not": {"type": "null"}}, "undo": {"const": False}}},
                {
                    "required": ["undo"],
                    "properties": {"to": {"type": "null"}, "undo": {"const": True}, "dry_run": {"const": False}},
                },
            ]
        }
    )

    to: int | Text | None = None
    include: list[Text] = Field(default_factory=list)
    dry_run: bool = False
    undo: bool = False


EXAMPLES: Json = {
    "Acknowledgement": {"session": "s-1", "ids": ["M-4f1c"]},
    "ApproveRequest": {"summary": "Clear, and tested."},
    "AssignRequest": {"to": "ada"},
    "BlockRequest": {"reason": "credentials.txt is missing"},
    "BroadcastRequest": {"content": "The API is frozen until Friday."},
    "CancelRequest": {"reason": "Done elsewhere."},
    "ChatMessage": {"content": "Add a --json option to every command", "session_id": "office"},
    "ClaimRequest": {"by": "ada"},
    "CompleteRequest": {"by": "ada", "summary": "The parser reads quoted fields."},
    "DependRequest": {"on": "lexer"},
    "MemberRequest": {"by": "ada"},
    "MergeRequest": {"tasks": ["parser"], "into": "main"},
    "NewMember": {"name": "ada", "agent": "claude", "permissions": "workspace"},
    "NewProject": {"id": "shop", "workdir": "/srv/shop"},
    "NewQuestion": {"task_id": "parser", "text": "Which port?", "options": ["80", "8080"]},
    "NewQueueEntry": {"team": "shop", "what": "/bmad:bmm:workflows:dev-story"},
    "NewTask": {"subject": "Write the parser", "verify": "pytest -q tests/test_parser.py", "blocked_by": ["lexer"]},
    "NewTeam": {"name": "shop", "workdir": "/srv/shop"},
    "NewWorkflow": {"team": "shop", "skill": "dev-story", "brief": "Story 1.2"},
    "PauseRequest": {"member": "ada", "reason": "Its limit is used up."},
    "ReceiveRequest": {"session": "s-1"},
    "RejectRequest": {"reason": "The tests do not cover empty input."},
    "ReleaseRequest": {"reason": "Somebody else knows this better."},
    "Reply": {"reply": "Use the staging database.", "question_id": "Q-2e5f31483237"},
    "RequestShutdownRequest": {"member": "ada"},
    "ResumeRequest": {"member": "ada"},
    "RollbackRequest": {"to": 3, "dry_run": True},
    "SendRequest": {"to": "ada", "content": "The lexer is merged."},
    "ShutdownAnswer": {"approve": True},
    "TaskEdit": {"priority": "high"},
    "WorkflowAdjustment": {"said": "ask before you delete files"},
    "WorkflowFeedback": {"text": "Fewer questions, please."},
}
"""An example of each body that a request may have, by the name of its schema in /openapi.json."""
