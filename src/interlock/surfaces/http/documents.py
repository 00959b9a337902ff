"""What answers hold, for /openapi.json. Verbs answer these shapes by themselves; nothing here is run on an answer."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """An answer; later versions may add fields."""

    model_config = ConfigDict(extra="allow")


class Failure(Document):
    """Every failure."""

    error: str
    message: str


class SignedOut(Document):
    """Whether there was a cookie to take back."""

    signed_out: bool


class Health(Document):
    """How the server is."""

    status: str


class QuestionDocument(Document):
    """A question to a human."""

    id: str
    task_id: str
    kind: str
    text: str
    options: list[str]
    default: str | None
    context: str | None
    asked_at: str
    held: bool


class TaskDocument(Document):
    """A task, in the words of its team."""

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
    question: QuestionDocument | None
    output: str | None
    context: str | None
    created_at: str
    updated_at: str
    claimed_at: str | None
    completed_at: str | None


class Tasks(Document):
    """Tasks."""

    tasks: list[TaskDocument]


class MaybeTask(Document):
    """A task, or null."""

    task: TaskDocument | None


class RunDocument(Document):
    """One attempt at a task."""

    run_id: str
    task_id: str
    number: int
    member: str
    started_at: str
    ended_at: str | None
    outcome: str | None


class Runs(Document):
    """Attempts at a task."""

    runs: list[RunDocument]


class LogLine(Document):
    """A line of a Work Log."""

    at: str
    author: str
    text: str


class WorkLog(Document):
    """A Work Log."""

    work_log: list[LogLine]


class Heartbeat(RunDocument):
    """A run that lives, and until when without another sign."""

    expires_at: str | None


class MemberDocument(Document):
    """A member."""

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


class Members(Document):
    """Members, the lead first."""

    members: list[MemberDocument]


class Removed(Document):
    """Who was taken out, and the tasks that went back."""

    removed: str
    released: list[str]


class TeamDocument(Document):
    """A team."""

    name: str
    id: str
    status: str
    members: list[MemberDocument]
    task_counts: dict[str, int]


class Teams(Document):
    """Names of teams."""

    teams: list[str]


class Deleted(Document):
    """What is gone."""

    deleted: str


class Status(Document):
    """What a team is doing."""

    team: str


class MessageDocument(Document):
    """A message."""

    id: str
    sender: str
    to: str
    type: str
    content: str
    summary: str | None
    timestamp: str
    read: bool
    stage: str


class Messages(Document):
    """Messages in order."""

    messages: list[MessageDocument]


class InboxMessage(MessageDocument):
    """A message with how often it was handed over."""

    redelivered: bool
    attempt: int


class Inbox(Document):
    """Messages that were not acknowledged yet. `next`: what `after` has to be for those behind them."""

    messages: list[InboxMessage]
    next: int | None


class Received(Document):
    """Messages handed over."""

    messages: list[InboxMessage]

    timed_out: bool


class Broadcast(Document):
    """Whom a broadcast reached."""

    delivered: list[str]
    not_delivered: list[dict[str, Any]]


class Acknowledged(Document):
    """Messages that count as seen, and ids of none that was handed over to this member."""

    acknowledged: list[str]
    unknown: list[str]


class Questions(Document):
    """Open questions."""

    questions: list[QuestionDocument]


class Conversation(Document):
    """Questions with their answers."""

    conversation: list[QuestionDocument]


class EventDocument(Document):
    """A line of a team's history."""

    seq: int
    type: str
    at: str
    actor: str
    task_id: str | None
    payload: dict[str, Any]


class Events(Document):
    """Events, and where to go on."""

    events: list[EventDocument]
    next: int


class Verdict(Document):
    """What became of an AOF/1 message."""

    accepted: bool
    type: str | None
    task_id: str | None


class Results(Document):
    """Results that were applied."""

    results: list[dict[str, Any]]


class Project(Document):
    """A project: a team with a working directory."""

    id: str


class Projects(Document):
    """Projects."""

    projects: list[Project]


class Chatted(Document):
    """The task that a chat made."""

    task_id: str
    task_group_id: str
    session_id: str
    status: str


class TaskGroup(Document):
    """A chat session with its tasks."""

    task_group_id: str
    project_id: str
    task_count: int
    status_counts: dict[str, int]
    latest_status: str | None
    first_prompt: str


class TaskGroups(Document):
    """One page of task groups."""

    task_groups: list[TaskGroup]
    total_count: int


class ShownTask(TaskDocument):
    """A task, in the words of the front door."""

    task_id: str
    task_group_id: str | None
    session_id: str | None
    task_type: str | None
    show_reply_ui: bool


class ShownTasks(Document):
    """The tasks of a group."""

    task_group_id: str
    tasks: list[ShownTask]


class Replied(Document):
    """What a reply did."""

    task_id: str
    old_status: str
    new_status: str
    warnings: list[str] = []


class ArtifactDocument(Document):
    """A file of a run that is in no commit."""

    run: int
    path: str
    kind: str
    size: int | None
    sha256: str | None
    file: str | None


class Artifacts(Document):
    """The files of a task that are in no commit."""

    artifacts: list[ArtifactDocument]


class Diff(Document):
    """What a task changed in its worktree, as a patch, or as a list of files."""

    task_id: str
    branch: str
    base: str
    merged: str | None
    diff: str


class Merged(Document):
    """What a merge has brought, or would bring, and what is in its way."""

    into: str
    before: str | None
    after: str | None
    merged: bool
    commits: int
    tasks: list[dict[str, Any]]
    conflicts: list[str]
    dirty: list[str]
    stat: str
