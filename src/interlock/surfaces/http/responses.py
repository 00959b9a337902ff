"""Answers as JSON, and the models that document them in /openapi.json.

Verbs return these shapes by themselves: a server validates no answer a second time, the tests validate every one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model
from starlette.responses import Response

from interlock.model import group, message, question, run, task, team, views
from interlock.model.event import Event
from interlock.model.json import Json, json_form
from interlock.model.message import Message
from interlock.model.question import Question
from interlock.model.task import FRONT_DOOR, Task

MEDIA_TYPE = "application/json"
Documented = dict[int | str, Json]


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return `value` as the body of an answer."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=json_form)
    # Half of a surrogate pair cannot be sent, but may be in what an agent wrote.
    return Response(body.encode("utf-8", "replace"), status, headers, MEDIA_TYPE)


def documented(model: type[BaseModel], status: int = 200) -> Documented:
    """Return the `responses` of an endpoint that answers `model`."""
    return {status: {"model": model}}


def artifact_name(found: run.Artifact) -> str:
    """Return what tells a file of a task's runs from the others."""
    return f"{found.run}/{found.path}"


def front_door_task(found: Task) -> Json:
    """Return a task in the front door's words (contract, Task states, third column)."""
    return {
        **found.as_dict(),
        "status": FRONT_DOOR[found.state],
        "task_id": found.id,
        "task_group_id": found.group_id,
        "session_id": found.group_id,
        "task_type": found.type,
        "show_reply_ui": found.question is not None,
    }


class Document(BaseModel):
    """An answer; later versions may add fields."""

    # Only /openapi.json needs them built, and to build a hundred takes a third of a second.
    model_config = ConfigDict(extra="allow", defer_build=True)


class WarningDocument(Document):
    """An answer over several teams; `warnings` says which could not be read."""

    warnings: list[str] = []


class OpenDocument(Document):
    """An answer of which these fields are promised; it has more."""


def _of(name: str, base: type[Document] = Document, /, **fields: Any) -> type[Document]:
    """Return a document of these required fields."""
    required: Json = {key: (kind, ...) for key, kind in fields.items()}
    return create_model(name, __base__=base, **required)


def _list(name: str, base: type[Document] = Document, /, **fields: Any) -> type[Document]:
    """Return the document of a list that comes in pages."""
    return _of(name, base, **fields, next=str | None)


def _shown(name: str, kind: type, names: Iterable[str], /, **fields: Any) -> type[Document]:
    """Return the document that `fields_of(value, names)` makes of a value, with its own types, and these fields."""
    hints = get_type_hints(kind)
    for key, _, own in (one.partition("=") for one in names):
        found = getattr(kind, own or key)
        shown = get_type_hints(found.fget)["return"] if isinstance(found, property) else hints[own or key]
        fields.setdefault(key, shown)
    return _of(name, **fields)


def _optional(kind: type[Document]) -> Any:
    return kind | None


def _many(kind: type[Document]) -> Any:
    return list[kind]  # type: ignore[valid-type]


QuestionDocument = _shown("QuestionDocument", Question, question.SHOWN)
ConversationEntry = _shown("ConversationEntry", Question, question.EXCHANGE)
TaskDocument = _shown("TaskDocument", Task, task.SHOWN, question=_optional(QuestionDocument))
FrontDoorTask = _of(
    "FrontDoorTask", TaskDocument, task_id=str, task_group_id=str | None, session_id=str | None,
    task_type=str | None, show_reply_ui=bool,
)  # fmt: skip
RunDocument = _shown("RunDocument", run.Run, run.SHOWN)
Artifact = _shown("Artifact", run.Artifact, run.ARTIFACT)
MemberDocument = _shown("MemberDocument", team.Member, team.MEMBER)
TeamDocument = _shown(
    "TeamDocument", team.TeamRecord, team.TEAM, members=_many(MemberDocument), task_counts=dict[str, int]
)
MessageDocument = _shown("MessageDocument", Message, message.SHOWN)
InboxMessage = _of("InboxMessage", MessageDocument, attempt=int)
EventDocument = _shown("EventDocument", Event, Event.__slots__)


class ProtocolResult(Document):
    """`reason` and `errors` where the message was refused, `applied` and `state` (of the task) where not."""

    accepted: bool
    type: str | None
    task_id: str | None
    reason: str | None = None
    errors: list[Json] = []
    applied: bool | None = None
    state: str | None = None


class ReplyResult(Document):
    task_id: str
    old_status: str
    new_status: str
    warnings: list[str] = []


class OpenList(OpenDocument):
    next: str | None


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
TaskList = _list("TaskList", tasks=_many(TaskDocument))
Cancelled = _of("Cancelled", tasks=_many(TaskDocument))
NextTask = _of("NextTask", task=_optional(TaskDocument))
RunList = _list("RunList", runs=_many(RunDocument))
WorkLog = _list("WorkLog", work_log=_many(_of("LogLine", at=str, author=str, text=str)))
MemberList = _list("MemberList", members=_many(MemberDocument))
Removed = _of("Removed", removed=str, released=list[str])
TeamNames = _list("TeamNames", teams=list[str])
Deleted = _of("Deleted", deleted=str)
MessageList = _of("MessageList", messages=_many(MessageDocument), next=int | None)
Inbox = _of("Inbox", messages=_many(InboxMessage), next=int | None)
Received = _of("Received", messages=_many(InboxMessage), timed_out=bool)
Broadcast = _shown("Broadcast", message.Broadcast, message.Broadcast.__slots__)
Acknowledged = _of("Acknowledged", acknowledged=list[str], unknown=list[str])
QuestionList = _list("QuestionList", questions=_many(QuestionDocument))
ConversationDocument = _list("ConversationDocument", conversation=_many(ConversationEntry))
EventList = _of("EventList", events=_many(EventDocument), next=int)
SessionResults = _of("SessionResults", results=list[Json])
Project = _shown("Project", group.Project, group.Project.__slots__)
ProjectList = _list("ProjectList", WarningDocument, projects=_many(Project))
ChatResult = _shown("ChatResult", group.ChatResult, group.CHAT)
TaskGroup = _shown("TaskGroup", group.Group, group.SHOWN)
TaskGroupPage = _of("TaskGroupPage", WarningDocument, task_groups=_many(TaskGroup), total_count=int, next=int | None)
GroupTasks = _list("GroupTasks", WarningDocument, task_group_id=str, tasks=_many(FrontDoorTask))
ArtifactList = _list("ArtifactList", WarningDocument, artifacts=_many(Artifact))
Diff = _shown("Diff", views.TaskDiff, views.TaskDiff.__slots__, raw=str | None)
MergeResult = _shown("MergeResult", views.MergeResult, views.MergeResult.__slots__, tasks=list[Json])
WorkflowList = _list("WorkflowList", WarningDocument, workflows=_many(WorkflowDocument))
CheckpointList = _list("CheckpointList", checkpoints=list[Json])
PreferenceList = _list("PreferenceList", preferences=_many(PreferenceDocument))
QueueEntry = _of("QueueEntry", position=int, task_id=str, skill=str, priority=str)
QueueList = _list("QueueList", queue=_many(QueueEntry))
