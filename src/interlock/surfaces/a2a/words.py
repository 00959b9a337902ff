"""What a team has, in the messages of A2A: values in, messages out."""

from __future__ import annotations

from collections.abc import Sequence

from a2a.helpers.proto_helpers import new_data_part, new_text_part
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import ContentTypeNotSupportedError

from interlock.model.json import Json
from interlock.model.question import GUARDED, Question
from interlock.model.run import Artifact
from interlock.model.task import Task
from interlock.model.text import plain
from interlock.surfaces.http.responses import front_door_task
from interlock.version import __version__

TEXT, DATA = "text/plain", "application/json"
SUBMITTED, WORKING = pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING
INPUT_REQUIRED, AUTH_REQUIRED = pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_AUTH_REQUIRED
COMPLETED, FAILED, CANCELED = pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED, pb.TASK_STATE_CANCELED

STATES: dict[str, pb.TaskState] = {
    "backlog": SUBMITTED,
    "ready": SUBMITTED,
    "in-progress": WORKING,
    "review": WORKING,
    "awaiting-response": INPUT_REQUIRED,
    "blocked": INPUT_REQUIRED,
    "done": COMPLETED,
    "deadletter": FAILED,
    "cancelled": CANCELED,
    "deleted": CANCELED,
}
"""A2A's word for each state of a task without an open question. One that failed for good may be retried by a person."""
OVER = frozenset({COMPLETED, FAILED, CANCELED})
STOPS = OVER | {INPUT_REQUIRED, AUTH_REQUIRED}
"""States in which it is the client's turn."""


def card(team: str, url: str) -> pb.AgentCard:
    """The card of a team whose methods are at `url`."""
    binding = {"url": url, "protocol_binding": "JSONRPC"}
    token = pb.HTTPAuthSecurityScheme(scheme="Bearer", description="A token of `interlock token create`.")
    return pb.AgentCard(
        name=f"Interlock team {team}",
        description=f"The team {team} of coding agents. It takes a task in words, does it in its project, and reports.",
        version=__version__,
        supported_interfaces=[pb.AgentInterface(**binding, protocol_version=version) for version in ("1.0", "0.3")],
        capabilities=pb.AgentCapabilities(streaming=True, push_notifications=False, extended_agent_card=False),
        default_input_modes=[TEXT],
        default_output_modes=[TEXT, DATA],
        security_schemes={"token": pb.SecurityScheme(http_auth_security_scheme=token)},
        security_requirements=[pb.SecurityRequirement(schemes={"token": pb.StringList()})],
        skills=[
            pb.AgentSkill(
                id="task",
                name="Do a task",
                description="Changes, examines or explains the project as the message says; asks where it has to.",
                tags=["coding", "tasks"],
                examples=["Add a --json option to every command", "Why does the night build fail?"],
            )
        ],
    )


def text_of(message: pb.Message) -> str:
    """The text of a message. Raises ContentTypeNotSupportedError where it has anything else."""
    for part in message.parts:
        if part.WhichOneof("content") != "text":
            raise ContentTypeNotSupportedError(f"A message is {TEXT} only, not {part.WhichOneof('content')}.")
    return "\n\n".join(part.text for part in message.parts)


def state_of(task: Task) -> pb.TaskState:
    """A2A's word for what the task is doing; what only a person at the page may answer is an authorization."""
    if task.question is None or STATES[task.state] in OVER:
        return STATES[task.state]
    return AUTH_REQUIRED if task.question["kind"] in GUARDED else INPUT_REQUIRED


def task_of(
    task: Task, conversation: Sequence[Question], artifacts: Sequence[Artifact], history: int | None = None
) -> pb.Task:
    """A task as A2A has it.

    Args:
        conversation: every question about it; artifacts: its files that are in no commit.
        history: how many of the newest messages are wanted; all, by default.
    """
    made = pb.Task(id=task.id, context_id=task.group_id or "", status=pb.TaskStatus(state=state_of(task)))
    made.status.timestamp.FromJsonString(task.updated_at)
    said = _said(task)
    if said:
        made.status.message.CopyFrom(_message(task, f"{task.id}.status", said))
    messages = [_message(task, f"{task.id}.task", task.body or task.subject, pb.ROLE_USER)]
    for one in conversation:
        messages.append(_message(task, one.id, _asked(one.text, one.context, one.options)))
        if one.answer is not None:
            messages.append(_message(task, f"{one.id}.answer", one.answer, pb.ROLE_USER))
    made.history.extend(messages if history is None else messages[len(messages) - min(history, len(messages)) :])
    if task.state == "done":
        made.artifacts.extend(_report(task, artifacts))
    shown = front_door_task(task)
    made.metadata.update({"interlock": {name: shown[name] for name in ("state", "owner", "subject", "run_id")}})
    return made


def _report(task: Task, artifacts: Sequence[Artifact]) -> list[pb.Artifact]:
    """What came of a task that is done, as far as it is known: what its agent said, and where the work is."""
    parts = [new_text_part(plain(task.output), TEXT)] if task.output else []
    tree, check = task.worktree or {}, task.check or {}
    known: Json = {name: tree.get(name) for name in ("branch", "base", "head", "merged")}
    known["check"] = {name: check[name] for name in ("command", "exit_code") if name in check}
    known["files"] = [{"path": plain(one.path), "kind": one.kind, "size": one.size} for one in artifacts]
    known = {name: value for name, value in known.items() if value}
    if known:
        parts.append(new_data_part(known, DATA))
    return [pb.Artifact(artifact_id="report", name="Report", parts=parts)] if parts else []


def _said(task: Task) -> str:
    """What the client has to know of the present state."""
    if task.question is not None and STATES[task.state] not in OVER:
        asked = _asked(task.question["text"], task.question["context"], task.question["options"])
        if task.question["kind"] not in GUARDED:
            return asked
        return f"{asked}\n\nOnly a person answers this, on the page or with `interlock question reply`."
    return "" if task.state == "done" else task.output or ""


def _asked(text: str, context: str | None, options: Sequence[str]) -> str:
    return "\n\n".join([text, *filter(None, [context]), *([f"Choose one of: {', '.join(options)}"] if options else [])])


def _message(task: Task, id: str, text: str, role: pb.Role = pb.ROLE_AGENT) -> pb.Message:
    return pb.Message(
        message_id=id, context_id=task.group_id or "", task_id=task.id, role=role,
        parts=[new_text_part(plain(text), TEXT)],
    )  # fmt: skip
