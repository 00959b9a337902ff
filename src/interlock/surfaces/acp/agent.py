"""The methods of an ACP agent over the verbs of a home. A session is a chat session of a team, under the same id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, cast
from uuid import uuid4

import acp
from acp import schema
from acp.agent.connection import AgentSideConnection
from acp.exceptions import RequestError

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import Conflict, GroupNotFound, InterlockError, InvalidRequest, NotFound
from interlock.surfaces.acp import words
from interlock.surfaces.acp.lines import MessageLines
from interlock.surfaces.acp.turn import Chat, ChatTurn
from interlock.surfaces.mcp.threads import in_thread
from interlock.surfaces.stdio import standard_streams
from interlock.version import __version__

SESSIONS = 100
"""How many sessions a client may have open; the one unused for longest is then forgotten, and can be loaded again."""
TURNS = 16
"""How many prompts are answered at once."""
REPLAYED = 200
"""How many messages of a chat are told again when it is loaded."""
PAGE = 50
REFUSED = -32010
"""The JSON-RPC code of what the state of the team does not allow; `data` has Interlock's own code."""


def run(home: Home, team_in: Callable[[str | None], Team], person: str) -> None:
    """Serve until stdin closes. Prompts under way end with the client; what they asked for goes on."""

    async def speak() -> None:
        agent = TeamAgent(home, team_in, person)
        connection = AgentSideConnection(cast(Any, agent), MessageLines(*standard_streams()), listening=False)
        try:
            await connection.listen()
        finally:
            await connection.close()

    asyncio.run(speak())


@contextmanager
def _refusals() -> Iterator[None]:
    """Refusals as errors of JSON-RPC, with everything that other faces tell of them."""
    try:
        yield
    except InterlockError as error:
        code = -32602 if isinstance(error, InvalidRequest) else -32002 if isinstance(error, NotFound) else REFUSED
        raise RequestError(code, error.message, error.as_dict()) from error


class TeamAgent:
    """All teams of a home, each as one agent."""

    def __init__(self, home: Home, team_in: Callable[[str | None], Team], person: str) -> None:
        self._home = home
        self._team_in = team_in
        self._person = person
        self._chats: dict[str, Chat] = {}
        self._asked: set[str] = set()
        self._client: Any = None

    def on_connect(self, client: Any) -> None:
        self._client = client

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="interlock", title="Interlock", version=__version__),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=False, audio=False, embedded_context=False),
                session_capabilities=schema.SessionCapabilities(list=schema.SessionListCapabilities()),
            ),
            auth_methods=[],
        )

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        with _refusals():
            chat = self._open(Chat(f"acp-{uuid4()}", await in_thread(self._team_in, cwd)))
        return schema.NewSessionResponse(session_id=chat.id)

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        with _refusals():
            if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
                raise InvalidRequest("That cursor is none that was given.", field="cursor")
            team, offset = await in_thread(self._team_in, cwd), int(cursor or 0)
            listing = partial(self._home.task_groups, team.name, offset=offset, limit=PAGE)
            groups, total = await in_thread(listing)
            where = cwd or (await in_thread(team.describe)).team.workdir or "/"
        found = [
            schema.SessionInfo(session_id=one.id, cwd=where, title=one.first_prompt, updated_at=one.updated_at)
            for one in groups
        ]
        following = str(offset + PAGE) if offset + PAGE < total else None
        return schema.ListSessionsResponse(sessions=found, next_cursor=following)

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        with _refusals():
            team = await in_thread(self._team_in, cwd)
            known = self._chats.get(session_id)
            if known is not None and known.turn is not None:
                raise Conflict("A prompt of this session is under way.", session_id=session_id)
            try:
                tasks = await in_thread(partial(self._home.group_tasks, session_id, project=team.name))
            except GroupNotFound:
                if known is None:
                    raise
                tasks = []  # It was opened here, and nothing was said yet.
            chat = self._open(Chat(session_id, team))
            turn = ChatTurn(self._client, chat, self._asked, attended=False)
            for task in tasks[-REPLAYED:]:
                await self._user(chat, task.body or task.subject)
                for one in await in_thread(team.conversation, task.id):
                    if one.answer is not None:
                        await turn.say(one.text)
                        await self._user(chat, one.answer)
                await turn.call(task)
                if task.state in words.OVER:
                    await turn.say(task.output or f"The task is {task.state}.")
            self._watch(chat)
        return schema.LoadSessionResponse()

    async def prompt(self, prompt: Sequence[Any], session_id: str, **_: Any) -> schema.PromptResponse:
        with _refusals():
            if session_id not in self._chats:
                raise GroupNotFound("That session is not open: session/load opens one again.", session_id=session_id)
            chat, text = self._open(self._chats[session_id]), words.text_of(prompt)
            if chat.turn is not None:
                raise Conflict("A prompt of this session is under way.", session_id=session_id)
            if sum(one.turn is not None for one in self._chats.values()) >= TURNS:
                raise Conflict(f"{TURNS} prompts are under way: wait for one, or cancel it.", limit=TURNS)
            turn = ChatTurn(self._client, chat, self._asked, attended=True)
            self._unwatch(chat)
            chat.turn = turn
            try:
                reason = await turn.follow(await self._say(chat, text))
            finally:
                chat.turn = None
                self._watch(chat)
        return schema.PromptResponse(stop_reason=reason)

    async def cancel(self, session_id: str, **_: Any) -> None:
        chat = self._chats.get(session_id)
        if chat is not None and chat.turn is not None:
            chat.turn.cancel()

    async def _say(self, chat: Chat, text: str) -> str:
        """Send a message to the team, or the answer to what it asked; returns the id of the task that it is about."""
        if chat.waits is not None:
            question, begins = chat.waits
            answer = partial(chat.team.reply, question.task_id, f"{begins}{text}", question=question.id)
            try:
                await in_thread(answer)
            except Conflict:
                chat.waits = None  # It was answered elsewhere: the next message is one to the team.
                raise
            chat.waits = None
            return question.task_id
        send = partial(
            self._home.chat, chat.team.name, text, session_id=chat.id, by=self._person, face="acp"
        )  # fmt: skip
        return (await in_thread(send)).task_id

    async def _user(self, chat: Chat, text: str) -> None:
        update = acp.update_user_message_text(words.shown(text))
        await self._client.session_update(session_id=chat.id, update=update)

    def _open(self, chat: Chat) -> Chat:
        """Count a session as the one used last."""
        known = self._chats.pop(chat.id, chat)
        idle = [one for one in self._chats.values() if one.turn is None]
        gone = idle[0] if idle and len(self._chats) >= SESSIONS else None
        if gone is not None:
            self._chats.pop(gone.id)
        for one in (known, gone):
            if one is not None and one is not chat:
                self._unwatch(one)
        self._chats[chat.id] = chat
        return chat

    def _unwatch(self, chat: Chat) -> None:
        if chat.watch is not None:
            chat.watch.cancel()
            chat.watch = None

    def _watch(self, chat: Chat) -> None:
        """Go on telling of the chat's tasks that are under way without a prompt that waits for them."""

        async def watch() -> None:
            with suppress(InterlockError, ConnectionError):
                tasks = await in_thread(partial(self._home.group_tasks, chat.id, project=chat.team.name))
                for task in tasks:
                    if task.state not in words.OVER and (chat.waits is None or chat.waits[0].task_id != task.id):
                        await ChatTurn(self._client, chat, self._asked, attended=False).follow(task.id)

        chat.watch = asyncio.create_task(watch())
