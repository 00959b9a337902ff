"""Answers as JSON, and the models that document them in /openapi.json.

Verbs return these shapes by themselves: a server validates no answer a second time, the tests validate every one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model
from starlette.responses import Response

from interlock.model.task import FRONT_DOOR, Task

MEDIA_TYPE = "application/json"
Documented = dict[int | str, dict[str, Any]]


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return `value` as the body of an answer."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    # Half of a surrogate pair cannot be sent, but may be in what an agent wrote.
    return Response(body.encode("utf-8", "replace"), status, headers, MEDIA_TYPE)


def documented(model: type[BaseModel], status: int = 200) -> Documented:
    """Return the `responses` of an endpoint that answers `model`."""
    return {status: {"model": model}}


def front_door_task(task: Task) -> dict[str, Any]:
    """Return a task in the front door's words (contract, Task states, third column)."""
    return {
        **task.as_dict(),
        "status": FRONT_DOOR[task.state],
        "task_id": task.id,
        "task_group_id": task.group_id,
        "session_id": task.group_id,
        "task_type": task.type,
        "show_reply_ui": task.question is not None,
    }


class Document(BaseModel):
    """An answer; later versions may add fields."""

    model_config = ConfigDict(extra="allow")


class OpenDocument(Document):
    """An answer of which these fields are promised; it has more."""


def _of(name: str, **fields: Any) -> type[Document]:
    """Return a document of these required fields."""
    required: dict[str, Any] = {key: (kind, ...) for key, kind in fields.items()}
    return create_model(name, __base__=Document, **required)


class QuestionDocument(Document):
    id: str
    task_id: str
    kind: str
    text: str
    options: list[str]
    default: str | None
    context: str | None
    asked_at: str
    held: bool


class ConversationEntry(QuestionDocument):
    asked_by: str
    state: str
    answer: str | None
    answered_by: str | None
    answered_at: str | None


class TaskDocument(Document):
    id: str
    subject: str
    body: str
    state: str
    status: str
    owner: str | None
    assignee: str | None
    type: str | None
    priority: str
    review: str | None
    verify: str | None
    run: str | None
    evidence: list[dict[str, Any]]
    blocked_by: list[str]
    blocks: list[str]
    warnings: list[str]
    parent_id: str | None
    group_id: str | None
    project_id: str | None
    run_id: str | None
    attempt: int
    env: list[str] | None
    timeout: float | None
    retries: int | None
    limits: dict[str, float] | None
    metadata: dict[str, Any]
    worktree: dict[str, Any] | None
    question: QuestionDocument | None
    output: str | None
    context: str | None
    created_at: str
    updated_at: str
    claimed_at: str | None
    completed_at: str | None


class FrontDoorTask(TaskDocument):
    task_id: str
    task_group_id: str | None
    session_id: str | None
    task_type: str | None
    show_reply_ui: bool


class RunDocument(Document):
    run_id: str
    task_id: str
    number: int
    member: str
    session: str
    agent_session: str | None
    started_at: str
    heartbeat_at: str | None
    expires_at: str | None
    ended_at: str | None
    outcome: str | None
    reason: str | None
    result: dict[str, Any] | None
    spent: dict[str, Any]


class MemberDocument(Document):
    name: str
    session_key: str
    role: str
    status: str
    agent: str | None
    type: str | None
    model: str | None
    current_task: str | None
    joined_at: str
    last_active_at: str | None


class TeamDocument(Document):
    name: str
    id: str
    status: str
    lead_session_key: str
    workdir: str | None
    settings: dict[str, Any]
    members: list[MemberDocument]
    task_counts: dict[str, int]
    created_at: str
    updated_at: str


class MessageDocument(Document):
    id: str
    sender: str
    to: str
    type: str
    content: str
    summary: str | None
    timestamp: str
    read: bool
    stage: str
    request_id: str | None
    approve: bool | None
    reason: str | None
    metadata: dict[str, Any] | None
    redelivered: bool


class InboxMessage(MessageDocument):
    attempt: int


class EventDocument(Document):
    seq: int
    type: str
    at: str
    actor: str
    task_id: str | None
    payload: dict[str, Any]


class ProtocolResult(Document):
    """`reason` and `errors` where the message was refused, `applied` and `state` (of the task) where not."""

    accepted: bool
    type: str | None
    task_id: str | None
    reason: str | None = None
    errors: list[dict[str, Any]] = []
    applied: bool | None = None
    state: str | None = None


class ReplyResult(Document):
    task_id: str
    old_status: str
    new_status: str
    warnings: list[str] = []


class MergeResult(Document):
    into: str
    before: str | None
    after: str | None
    merged: bool
    commits: int
    tasks: list[dict[str, Any]]
    conflicts: list[str]
    dirty: list[str]
    stat: str


class TaskGroup(Document):
    task_group_id: str
    session_id: str
    project_id: str
    task_count: int
    status_counts: dict[str, int]
    latest_status: str | None
    latest_task_id: str | None
    first_prompt: str
    created_at: str
    updated_at: str


class WorkflowDocument(OpenDocument):
    workflow_id: str
    skill: str
    state: str


class AdjustmentResult(OpenDocument):
    workflow_id: str | None
    session: str
    said: list[str]
    text: str


class RollbackResult(OpenDocument):
    workflow_id: str
    text: str
    restored: list[str]
    removed: list[str]


class FeedbackResult(OpenDocument):
    understood: str
    stored: bool
    text: str


class PreferenceDocument(OpenDocument):
    id: str
    kind: str
    text: str


class TeamStatus(OpenDocument):
    team: str


Failure = _of("Failure", error=str, message=str)
SignedOut = _of("SignedOut", signed_out=bool)
Health = _of("Health", status=str)
TaskList = _of("TaskList", tasks=list[TaskDocument])
NextTask = _of("NextTask", task=TaskDocument | None)
RunList = _of("RunList", runs=list[RunDocument])
WorkLog = _of("WorkLog", work_log=list[_of("LogLine", at=str, author=str, text=str)])  # type: ignore[misc]
MemberList = _of("MemberList", members=list[MemberDocument])
Removed = _of("Removed", removed=str, released=list[str])
TeamNames = _of("TeamNames", teams=list[str])
Deleted = _of("Deleted", deleted=str)
MessageList = _of("MessageList", messages=list[MessageDocument])
Inbox = _of("Inbox", messages=list[InboxMessage], next=int | None)
Received = _of("Received", messages=list[InboxMessage], timed_out=bool)
Broadcast = _of("Broadcast", delivered=list[str], not_delivered=list[dict[str, Any]])
Acknowledged = _of("Acknowledged", acknowledged=list[str], unknown=list[str])
QuestionList = _of("QuestionList", questions=list[QuestionDocument])
ConversationDocument = _of("ConversationDocument", conversation=list[ConversationEntry])
EventList = _of("EventList", events=list[EventDocument], next=int)
SessionResults = _of("SessionResults", results=list[dict[str, Any]])
Project = _of("Project", id=str, workdir=str | None, created_at=str, task_counts=dict[str, int])
ProjectList = _of("ProjectList", projects=list[Project])  # type: ignore[valid-type]
ChatResult = _of("ChatResult", task_id=str, task_group_id=str, session_id=str, status=str)
TaskGroupPage = _of("TaskGroupPage", task_groups=list[TaskGroup], total_count=int)
GroupTasks = _of("GroupTasks", task_group_id=str, tasks=list[FrontDoorTask])
Artifact = _of("Artifact", run=int, path=str, kind=str, size=int | None, sha256=str | None, file=str | None)
ArtifactList = _of("ArtifactList", artifacts=list[Artifact])  # type: ignore[valid-type]
Diff = _of("Diff", task_id=str, branch=str, base=str, merged=str | None, diff=str)
WorkflowList = _of("WorkflowList", workflows=list[WorkflowDocument])
CheckpointList = _of("CheckpointList", checkpoints=list[dict[str, Any]])
PreferenceList = _of("PreferenceList", preferences=list[PreferenceDocument])
QueueEntry = _of("QueueEntry", position=int, task_id=str, skill=str, priority=str)
QueueList = _of("QueueList", queue=list[QueueEntry])  # type: ignore[valid-type]
