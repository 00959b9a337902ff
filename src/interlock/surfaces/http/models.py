"""What requests hold. Unknown fields and values of another type are refused, so that a slip never goes unnoticed."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

Text = Annotated[str, Field(max_length=1_000_000)]
Words = Annotated[list[Text], Field(max_length=1000)]


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

    id: Text
    workdir: Text | None = None


class Chat(Strict):
    """POST /api/projects/{id}/chat"""

    content: Text
    session_id: Text | None = Field(None, validation_alias=AliasChoices("session_id", "sessionId"))
    task_type: Text | None = Field(None, validation_alias=AliasChoices("task_type", "taskType"))


class Reply(Strict):
    """POST …/reply"""

    reply: Text
    question_id: Text | None = None


class NewTeam(Strict):
    """POST /api/teams"""

    name: Text
    lead: Text = "agent:main:main"
    claim_policy: Text | None = None
    workdir: Text | None = None


class NewMember(Acting):
    """POST /api/teams/{t}/members"""

    name: Text
    agent: Text | None = None
    command: Words | None = None
    agent_id: Text | None = None
    type: Text | None = None
    model: Text | None = None
    permissions: Text | None = None


class Pause(Acting):
    """POST /api/teams/{t}/pause and /resume"""

    member: Text | None = None
    reason: Text | None = None


class Resume(Acting):
    """POST /api/teams/{t}/resume"""

    member: Text | None = None


class NewTask(Acting):
    """POST /api/teams/{t}/tasks"""

    subject: Text
    body: Text = ""
    type: Text | None = None
    priority: Text = "normal"
    assignee: Text | None = None
    blocked_by: Words = Field(default_factory=list)
    review: Text | None = None
    verify: Text | None = None
    run: Text | None = None
    parent_id: Text | None = None
    metadata: dict[str, Any] | None = None


class Claim(Acting):
    """claim"""

    force: bool = False
    take_over: bool = False


class Edit(Acting):
    """update"""

    subject: Text | None = None
    body: Text | None = None
    type: Text | None = None
    priority: Text | None = None
    review: Text | None = None
    verify: Text | None = None
    command: Text | None = None
    metadata: dict[str, Any] | None = None
    log: Text | None = None
    status: Text | None = None


class Depend(Acting):
    """depend"""

    on: Text
    remove: bool = False


class Because(Acting):
    """release"""

    reason: Text | None = None


class Reason(Acting):
    """block, reject"""

    reason: Text


class Summary(Acting):
    """complete, approve"""

    summary: Text | None = None


class Cancel(Acting):
    """cancel"""

    reason: Text | None = None
    cascade: bool = False


class Assign(Acting):
    """assign; null frees the task"""

    to: Text | None


class NewMessage(Acting):
    """POST /api/teams/{t}/messages"""

    to: Text
    content: Text
    type: Text = "message"
    summary: Text | None = None
    urgent: bool = False
    request_id: Text | None = None
    approve: bool | None = None
    reason: Text | None = None
    metadata: dict[str, Any] | None = None
    client_id: Text | None = None


class NewBroadcast(Acting):
    """POST /api/teams/{t}/broadcast"""

    content: Text
    summary: Text | None = None
    client_id: Text | None = None


class Acknowledge(Acting):
    """POST /api/teams/{t}/inbox/{m}/acknowledge"""

    ids: Words


class ShutdownRequest(Acting):
    """POST /api/teams/{t}/shutdown"""

    member: Text | None = None
    reason: Text | None = None


class ShutdownAnswer(Acting):
    """POST /api/teams/{t}/shutdown/answer"""

    request: Text | None = None
    approve: bool
    reason: Text | None = None
