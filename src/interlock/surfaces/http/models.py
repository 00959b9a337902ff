"""What requests hold. Unknown fields and values of another type are refused, so that a slip never goes unnoticed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from interlock.surfaces.http.shapes import (
    FULL,
    AgentId,
    Body,
    Commands,
    Full,
    Key,
    Label,
    Line,
    MemberStatus,
    MessageType,
    NewName,
    Permissions,
    Policy,
    Priority,
    Saying,
    Session,
    SessionId,
    TaskRef,
    TaskRefs,
    TaskType,
    TeamName,
    Text,
    Texts,
    Tier,
)


class Strict(BaseModel):
    """No unknown fields, no conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)

    def given(self, *without: str) -> dict[str, Any]:
        """The fields that were given, but those named."""
        return {name: getattr(self, name) for name in self.model_fields_set if name not in without}


class Acting(Strict):
    """A verb's fields. `by`: act as this member; only an admin may."""

    by: Text | None = None


class Nothing(Acting):
    """A verb without fields of its own."""


class NewProject(Strict):
    """POST /api/projects"""

    id: TeamName
    workdir: Text | None = None


class Chat(Strict):
    """POST /api/projects/{id}/chat"""

    content: Full
    session_id: SessionId | None = Field(None, validation_alias=AliasChoices("session_id", "sessionId"))
    task_type: TaskType | None = Field(None, validation_alias=AliasChoices("task_type", "taskType"))


class Reply(Strict):
    """POST …/reply"""

    reply: Full
    question_id: Text | None = None


class NewTeam(Strict):
    """POST /api/teams"""

    name: TeamName
    lead: Key = "agent:main:main"
    claim_policy: Policy | None = None
    workdir: Text | None = None


class NewMember(Acting):
    """POST /api/teams/{t}/members"""

    name: NewName
    agent: Label | None = None
    command: Commands | None = None
    agent_id: AgentId | None = None
    type: Label | None = None
    model: Label | None = None
    permissions: Permissions | None = None


class Pause(Acting):
    """POST /api/teams/{t}/pause and /resume"""

    member: Text | None = None
    reason: Text | None = None


class Resume(Acting):
    """POST /api/teams/{t}/resume"""

    member: Text | None = None


class NewTask(Acting):
    """POST /api/teams/{t}/tasks"""

    subject: Line
    body: Body = ""
    type: TaskType | None = None
    priority: Priority = "normal"
    assignee: Text | None = None
    blocked_by: TaskRefs = Field(default_factory=list)
    review: Text | None = None
    verify: Full | None = None
    run: Full | None = None
    parent_id: TaskRef | None = None
    metadata: dict[str, Any] | None = None
    env: list[Label] | None = None
    timeout: float | None = None
    retries: int | None = None
    limits: dict[str, float] | None = None


class Claim(Acting):
    """claim"""

    force: bool = False
    take_over: bool = False


class Edit(Acting):
    """update"""

    subject: Line | None = None
    body: Body | None = None
    type: TaskType | None = None
    priority: Priority | None = None
    review: Text | None = None
    verify: Full | None = None
    command: Full | None = None
    metadata: dict[str, Any] | None = None
    env: list[Label] | None = None
    timeout: float | None = None
    retries: int | None = None
    limits: dict[str, float] | None = None
    log: Saying | None = None
    status: MemberStatus | None = None


class Depend(Acting):
    """depend"""

    on: TaskRef
    remove: bool = False


class Because(Acting):
    """release"""

    reason: Body | None = None


class Reason(Acting):
    """block, reject"""

    reason: Saying


class Summary(Acting):
    """complete, approve"""

    summary: Body | None = None


class Cancel(Acting):
    """cancel"""

    reason: Body | None = None
    cascade: bool = False


class Assign(Acting):
    """assign; null frees the task"""

    to: Text | None


class NewQuestion(Acting):
    """POST /api/teams/{t}/questions"""

    task_id: TaskRef
    text: Full
    options: Texts = Field(default_factory=list)
    default: Text | None = None
    context: Text | None = None
    reversible: bool = False


class NewMessage(Acting):
    """POST /api/teams/{t}/messages"""

    to: Text
    content: Full
    type: MessageType = "message"
    summary: Text | None = None
    urgent: bool = False
    request_id: Text | None = None
    approve: bool | None = None
    reason: Text | None = None
    metadata: dict[str, Any] | None = None
    client_id: Full | None = None


class NewBroadcast(Acting):
    """POST /api/teams/{t}/broadcast"""

    content: Full
    summary: Text | None = None
    client_id: Full | None = None


class Receive(Strict):
    """POST /api/teams/{t}/inbox/{m}/receive. `session`: an id of the reader's choosing, one for each start of its
    program. The field `wait_ms` (0 to 600000) waits until there is mail; it is not described here, so that tools which
    try everything do not spend their time waiting."""

    session: Session
    wait_ms: SkipJsonSchema[Annotated[int | None, Field(ge=0, le=600_000)]] = None
    urgent_only: bool = False


class Acknowledge(Strict):
    """POST /api/teams/{t}/inbox/{m}/ack. `ids`: the messages that the reader has dealt with."""

    session: Session
    ids: Texts = Field(json_schema_extra={"maxItems": 1000})


class ShutdownRequest(Acting):
    """POST /api/teams/{t}/shutdown"""

    member: Text | None = None
    reason: Text | None = None


class ShutdownAnswer(Acting):
    """POST /api/teams/{t}/shutdown/answer; a no has a reason"""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"approve": {"const": False}}},
            "then": {"required": ["reason"], "properties": {"reason": {"type": "string", "pattern": FULL}}},
        }
    )

    request: Text | None = None
    approve: bool
    reason: Text | None = None


class NewWorkflow(Strict):
    """POST /api/workflows"""

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


class Adjustment(Strict):
    """POST /api/workflows/{id}/adjust"""

    said: Text = ""
    clear: bool = False


class Rollback(Strict):
    """POST /api/workflows/{id}/rollback; either `to` or `undo`"""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["to"], "properties": {"to": {"not": {"type": "null"}}, "undo": {"const": False}}},
                {
                    "required": ["undo"],
                    "properties": {"to": {"type": "null"}, "undo": {"const": True}, "dry_run": {"const": False}},
                },
            ]
        }
    )

    to: int | Text | None = None
    include: Texts = Field(default_factory=list)
    dry_run: bool = False
    undo: bool = False


class Feedback(Strict):
    """POST /api/workflows/{id}/feedback"""

    text: Full


class Merge(Strict):
    """POST /api/teams/{t}/merge; either `tasks` or `all`"""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["tasks"], "properties": {"tasks": {"minItems": 1}, "all": {"const": False}}},
                {"required": ["all"], "properties": {"tasks": {"maxItems": 0}, "all": {"const": True}}},
            ]
        }
    )

    tasks: TaskRefs = Field(default_factory=list)
    all: bool = False
    into: Full | None = None
    dry_run: bool = False


class QueuedWorkflow(Strict):
    """POST /api/workflows/queue"""

    team: TeamName
    what: Full
    priority: Priority | None = None
