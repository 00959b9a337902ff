"""The methods of A2A over the verbs of a team: a message is a chat message, or the answer to what its task asks."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from hashlib import sha256
from typing import Any
from uuid import uuid4

import anyio
from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    A2AError,
    ExtendedAgentCardNotConfiguredError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.proto_utils import validate_proto_required_fields
from starlette.requests import Request

from interlock.app.base import KEYED, KeyedRequest
from interlock.app.team import Team
from interlock.clock import seconds
from interlock.errors import AmbiguousId, AnswerLost, InterlockError, InvalidRequest, TaskNotFound
from interlock.surfaces.a2a import words
from interlock.surfaces.http.events import reading
from interlock.surfaces.http.request_context import RequestContext
from interlock.surfaces.mcp.threads import in_thread

WAIT_SECONDS = 600.0
"""How long a message that is sent without streaming waits for its task; then the answer is the task as it is."""
PAGE, LARGEST_PAGE = 50, 100

log = logging.getLogger("interlock.a2a")


class TeamMethods:
    """What the SDK's dispatcher calls. The team and the caller are those of the request."""

    async def on_message_send(self, params: pb.SendMessageRequest, context: ServerCallContext) -> pb.Task:
        """Answer with the task once it is the client's turn, or at once where it asks for that."""
        call, wanted = TeamCall(context), params.configuration
        with _refusals():
            id = await call.say(params)
            found = await call.look(id)
            if not wanted.return_immediately and found.status.state not in words.STOPS:
                with anyio.move_on_after(WAIT_SECONDS):
                    async with aclosing(call.follow(id, words.STOPS)) as looks:
                        async for seen in looks:
                            found = seen
            return _shortened(found, _history(wanted))

    async def on_message_send_stream(
        self, params: pb.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any]:
        """Yield the task, and what changes until it is the client's turn."""
        call = TeamCall(context)
        with _refusals():
            id = await call.say(params)
            async for event in call.updates(id, words.STOPS):
                yield event

    async def on_subscribe_to_task(
        self, params: pb.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any]:
        """Yield the task, and what changes until it is over."""
        call = TeamCall(context)
        with _refusals():
            found = await call.look(params.id)
            if found.status.state in words.OVER:
                raise UnsupportedOperationError(f"{found.id} is over: there is nothing to follow.")
            async for event in call.updates(found.id, words.OVER):
                yield event

    async def on_get_task(self, params: pb.GetTaskRequest, context: ServerCallContext) -> pb.Task:
        """Answer with the task as it is now."""
        with _refusals():
            return _shortened(await TeamCall(context).look(params.id), _history(params))

    async def on_cancel_task(self, params: pb.CancelTaskRequest, context: ServerCallContext) -> pb.Task:
        """Cancel a task that is not over."""
        call = TeamCall(context)
        with _refusals():
            found = await call.look(params.id)
            if found.status.state in words.OVER:
                raise TaskNotCancelableError(f"{found.id} is over.")
            await in_thread(partial(call.team.cancel, found.id, reason="cancelled over A2A"))
            return await call.look(found.id)

    async def on_list_tasks(self, params: pb.ListTasksRequest, context: ServerCallContext) -> pb.ListTasksResponse:
        """Answer with one page of the team's tasks, the one that changed last first."""
        with _refusals():
            return await in_thread(_page, TeamCall(context).team, params)

    async def _no_push(self, params: Any, context: ServerCallContext) -> Any:
        raise PushNotificationNotSupportedError

    on_create_task_push_notification_config = on_get_task_push_notification_config = _no_push
    on_list_task_push_notification_configs = on_delete_task_push_notification_config = _no_push

    async def on_get_extended_agent_card(self, params: Any, context: ServerCallContext) -> Any:
        """Refuse: the card is the same for everybody."""
        raise ExtendedAgentCardNotConfiguredError


class TeamCall:
    """One request: its team, and who calls."""

    def __init__(self, context: ServerCallContext) -> None:
        self._request: Request = context.state["request"]
        self._context: RequestContext = self._request.state.a2a_context
        self.team: Team = self._request.state.a2a_team

    async def say(self, params: pb.SendMessageRequest) -> str:
        """Give the message to the team; the id of the task that it made, or that it is about."""
        validate_proto_required_fields(params)
        message, text = params.message, words.text_of(params.message)
        if params.configuration.HasField("task_push_notification_config"):
            raise PushNotificationNotSupportedError
        return await in_thread(self._say_once, message, text)

    def _say_once(self, message: pb.Message, text: str) -> str:
        """As `_say`; a message that comes again, since its answer was lost, is the task that it was at first."""
        sent = [self.team.name, self._context.name, message.message_id, message.task_id, message.context_id, text]
        key = sha256(json.dumps(sent).encode()).hexdigest()
        before = KEYED.set(KeyedRequest(key, key))
        try:
            return self._say(message, text)
        except AnswerLost as lost:
            if lost.details.get("task") is None:
                raise
            return str(lost.details["task"])
        finally:
            KEYED.reset(before)

    def _say(self, message: pb.Message, text: str) -> str:
        context = self._context
        if not message.task_id:
            session = message.context_id or f"a2a-{uuid4()}"
            made = context.home.chat(
                self.team.name, text, session_id=session, by=context.name, face=context.principal.face
            )  # fmt: skip
            return made.task_id
        task = self.team.task(message.task_id)
        if message.context_id not in ("", task.group_id):
            raise InvalidParamsError(f"{task.id} is not of the context {message.context_id}.")
        if task.question is None or words.state_of(task) in words.OVER:
            raise UnsupportedOperationError(f"{task.id} waits for no answer. A message without a task makes a new one.")
        self.team.reply(task.id, text, question=task.question["id"])
        return task.id

    async def look(self, id: str) -> pb.Task:
        """The task as it is now."""
        return await in_thread(_task, self.team, id)

    async def follow(self, id: str, until: frozenset[pb.TaskState]) -> AsyncGenerator[pb.Task]:
        """Yield the task now and whenever it may have changed, until it is in such a state, the server ends, or the
        caller's token is no longer valid."""
        async with aclosing(reading(self._request, None, lambda team: team == self.team.name)) as feed:
            async for item in feed:
                if item.event is None or item.event.task_id == id:
                    found = await self.look(id)
                    yield found
                    if found.status.state in until:
                        return

    async def updates(self, id: str, until: frozenset[pb.TaskState]) -> AsyncGenerator[Any]:
        """Yield the task, then each of its artifacts and states that is new."""
        told: pb.Task | None = None
        async with aclosing(self.follow(id, until)) as looks:
            async for seen in looks:
                place: dict[str, Any] = {"task_id": seen.id, "context_id": seen.context_id}
                if told is None:
                    yield seen
                else:
                    for artifact in seen.artifacts:
                        if artifact not in told.artifacts:
                            yield pb.TaskArtifactUpdateEvent(**place, artifact=artifact, last_chunk=True)
                    before, now = told.status, seen.status
                    if (before.state, before.message) != (now.state, now.message):
                        yield pb.TaskStatusUpdateEvent(**place, status=now)
                told = seen


@contextmanager
def _refusals() -> Iterator[None]:
    """Refusals as errors of A2A, with our own code and details in their data."""
    try:
        yield
    except InterlockError as error:
        kind: type[A2AError] = UnsupportedOperationError
        if isinstance(error, (TaskNotFound, AmbiguousId)):
            kind = TaskNotFoundError
        elif isinstance(error, InvalidRequest):
            kind = InvalidParamsError
        details = {name: str(value) for name, value in error.as_dict().items() if name != "message"}
        raise kind(error.message, details) from error
    except A2AError:
        raise
    except Exception as error:  # boundary: the caller learns nothing of our inside, the log everything
        log.exception("a method of A2A failed")
        raise InternalError("Interlock failed inside; its log says where.") from error


def _task(team: Team, id: str) -> pb.Task:
    task = team.task(id)
    return words.task_of(task, team.conversation(task.id), team.artifacts(task.id))


def _page(team: Team, params: pb.ListTasksRequest) -> pb.ListTasksResponse:
    size = params.page_size if params.HasField("page_size") else PAGE
    if not 1 <= size <= LARGEST_PAGE:
        raise InvalidParamsError(f"pageSize is 1 to {LARGEST_PAGE}.")
    token = params.page_token or "0"
    if not (token.isascii() and token.isdigit() and len(token) < 10):
        raise InvalidParamsError("That pageToken is none that was given.")
    history, since = _history(params) or 0, params.status_timestamp_after
    after = since.seconds + since.nanos / 1e9 if params.HasField("status_timestamp_after") else 0.0
    found = [
        task
        for task in team.tasks()
        if params.context_id in ("", task.group_id)
        and params.status in (pb.TASK_STATE_UNSPECIFIED, words.state_of(task))
        and seconds(task.updated_at) >= after
    ]
    found.sort(key=lambda task: (task.updated_at, task.n), reverse=True)
    offset = int(token)
    shown = [
        words.task_of(
            task, team.conversation(task.id) if history else (), team.artifacts(task.id), history
        )
        for task in found[offset : offset + size]
    ]  # fmt: skip
    onward = str(offset + size) if offset + size < len(found) else ""
    return pb.ListTasksResponse(tasks=shown, next_page_token=onward, page_size=size, total_size=len(found))


def _history(wanted: Any) -> int | None:
    """How many messages are wanted; None for all. Raises InvalidParamsError."""
    if not wanted.HasField("history_length"):
        return None
    if wanted.history_length < 0:
        raise InvalidParamsError("historyLength is 0 or more.")
    return int(wanted.history_length)


def _shortened(task: pb.Task, history: int | None) -> pb.Task:
    if history is not None:
        del task.history[: max(0, len(task.history) - history)]
    return task
