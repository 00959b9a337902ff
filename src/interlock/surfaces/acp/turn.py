"""One turn: what becomes of a chat message, told while it happens, until it is answered or needs words of a person.

What is told comes from looks at the ledger, each compared with what was told before, so nothing depends on having seen
every event. The looks go by the number of the newest event: that works the same for a home elsewhere, also when its
server starts again meanwhile, where waiting for a wake-up would not.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import field
from functools import partial
from typing import Any

import acp
from acp.exceptions import RequestError
from acp.schema import StopReason

from interlock.app.team import Team
from interlock.errors import Conflict, InterlockError, NotAwaitingResponse, RunNotFound
from interlock.lazy_dataclass import dataclass
from interlock.model.question import Question
from interlock.model.task import HELD, Task
from interlock.surfaces.acp import words
from interlock.surfaces.mcp.threads import in_thread

LOOK = 0.2
"""Seconds between two looks for something new."""
PRINTED = 5
"""Looks between two for what a run prints, which no event tells."""
LISTED = 20
"""How many tasks of a column of the board are in the plan."""
LINES = 200
"""How many lines of a run's output are told at once."""
NOT_BEGUN = "This has not begun: {why}. It stays in the queue, and the answer comes here when it is done."


@dataclass(eq=False)
class Chat:
    """One chat session of a team, as far as this client was told of it.

    Attributes:
        turn: the one under way.
        watch: what tells of tasks that no turn is under way for.
        waits: the open question that the next message answers, and how that answer begins.
        calls: the tool calls under way, with their tasks; `began` are all that were told.
        lines: how many lines of each run's output were told.
    """

    id: str
    team: Team
    turn: ChatTurn | None = None
    watch: asyncio.Task[None] | None = None
    waits: tuple[Question, str] | None = None
    calls: dict[str, str] = field(default_factory=dict)
    began: set[str] = field(default_factory=set)
    lines: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class LookResult:
    """What one look saw: the turn's task, all that are listed, open questions, what the run has printed since, why it
    has not begun, and whether that is because nobody works."""

    task: Task
    tasks: list[Task]
    questions: list[Question]
    printed: str
    why: str
    idle: bool


class ChatTurn:
    """Tells the client of one task until it is over.

    Args:
        client: the client's side of the connection.
        asked: questions about tasks of others that were put to the client already, in any turn.
        attended: a prompt waits for its end, so that the client may be asked.
    """

    def __init__(self, client: Any, chat: Chat, asked: set[str], *, attended: bool) -> None:
        self._client = client
        self._chat = chat
        self._team = chat.team
        self._asked = asked
        self._attended = attended
        self._news = asyncio.Event()
        self._cancelled = False
        self._head = 0
        self._plan: Any = None
        self._listed: dict[str, Task] = {}
        self._why = ""
        self._asking: asyncio.Task[None] | None = None
        self._own_words: dict[str, str | None] = {}

    def cancel(self) -> None:
        """End the turn, and the work on its task."""
        self._cancelled = True
        self._news.set()

    async def follow(self, task: str) -> StopReason:
        """Tell of the task until it is over, or waits for words of a person; why the turn ends.

        Raises:
            InterlockError: the home cannot be read any more. The task goes on.
        """
        try:
            while True:
                seen = await in_thread(self._look, task)
                await self._show(seen)
                reason = None if self._cancelled else await self._end_of(seen)
                if self._cancelled:
                    return await self._stop(task)
                if reason is not None:
                    return reason
                await self._something_new()
        finally:
            if self._asking is not None:
                self._asking.cancel()

    async def say(self, text: str) -> None:
        """Tell a text as the agent's own."""
        await self._tell(acp.update_agent_message_text(words.shown(text)))

    async def call(self, task: Task) -> None:
        """Tell that a run of the task began or ended, where that was not told yet."""
        chat, id = self._chat, words.call_id(task)
        for one in [one for one, of in chat.calls.items() if of == task.id]:
            if one != id or task.state in words.OVER:
                await self._tell(words.ended(one, task))
                del chat.calls[one]
        if task.run and id not in chat.began and (task.state in HELD or task.state in words.OVER):
            chat.began.add(id)
            await self._tell(words.began(task))
            if task.state in words.OVER:
                await self._tell(words.ended(id, task))
            else:
                chat.calls[id] = task.id

    async def _tell(self, update: Any) -> None:
        await self._client.session_update(session_id=self._chat.id, update=update)

    def _look(self, id: str) -> LookResult:
        team = self._team
        self._head = team.head()
        task = team.task(id)
        columns = team.board(limit=LISTED).tasks
        now = {one.id: one for name in ("working", "needs-you", "next") for one in columns.get(name, ())}
        now = {task.id: task, **{one.id: one for one in now.values() if one.state != "deadletter"}}
        gone = [one for one in self._listed.values() if one.id not in now and one.state not in words.OVER]
        self._listed |= now | {one.id: team.task(one.id) for one in gone}
        why, idle = self._not_begun(task)
        return LookResult(task, list(self._listed.values()), team.questions(), self._printed(task), why, idle)

    def _not_begun(self, task: Task) -> tuple[str, bool]:
        """Why the task has not begun, and whether nobody works."""
        if not self._attended or task.state not in ("ready", "backlog"):
            return "", False
        status = self._team.status()
        why = next((one.why for one in status.next if one.task_id == task.id), None) or ""
        if status.driven or status.workers:
            begun = words.call_id(task) in self._chat.calls  # Its run waits for its turn, after an answer.
            return "" if begun and status.status != "paused" else why, status.status == "paused"
        start = f"`interlock up` or `interlock work --team {self._team.name}`"
        unable = "".join(f"; {one.member}: {one.why.rstrip('.')}" for one in status.unable)
        return f"{why or 'no worker is running'} ({start}){unable}", True

    def _printed(self, task: Task) -> str:
        """What the task's run has printed since the last look, without a line that has not ended."""
        id = words.call_id(task)
        first = self._chat.lines.get(id, 1)
        try:
            found = self._team.output_lines(task.id, task.run, first=first, most=LINES)
        except RunNotFound:
            return ""
        lines = found.lines[first - found.first :]
        if lines and task.state == "in-progress" and found.first + len(found.lines) > found.total:
            lines.pop()
        self._chat.lines[id] = first + len(lines)
        return "\n".join(lines)

    async def _show(self, seen: LookResult) -> None:
        plan = words.plan(seen.tasks[-3 * LISTED :])
        if plan != self._plan:
            self._plan = plan
            await self._tell(plan)
        if seen.why not in ("", self._why) and not seen.idle:
            await self._tell(acp.update_agent_thought_text(f"Not begun yet: {seen.why}.\n"))
        self._why = seen.why
        if seen.printed.strip():
            await self._tell(acp.update_agent_thought_text(f"{words.shown(seen.printed)}\n"))
        for task in seen.tasks:
            if seen.task.id in (task.id, task.parent_id):
                await self.call(task)
        new = [one for one in seen.questions if one.id not in self._own_words and one.id not in self._asked]
        new.sort(key=lambda one: one.task_id != seen.task.id)
        for question in new:
            if self._attended and question.options:
                if self._asking is None:
                    self._asking = asyncio.create_task(self._ask(question))
            elif question.task_id == seen.task.id:
                self._own_words[question.id] = ""

    async def _ask(self, question: Question) -> None:
        """Have the client's person choose an answer. Questions about other tasks count as well: whoever
        asked may be the one that is to do this task.
        """
        self._asked.add(question.id)
        answered = False
        try:
            task = await in_thread(self._team.task, question.task_id)
            option = await self._choice(question, task)
            if option is None or option.endswith(words.OWN_WORDS):
                self._own_words[question.id] = (option or "").removesuffix(words.OWN_WORDS)
            else:
                await in_thread(partial(self._team.reply, task.id, option, question=question.id))
                answered = True
        except NotAwaitingResponse:
            answered = True  # Somebody else was faster.
        except InterlockError as error:
            await self.say(error.message)
            self._own_words[question.id] = None
        finally:
            if not answered:
                self._asked.discard(question.id)  # Another turn may ask it, or the next one here.
            self._asking = None
            self._news.set()

    async def _choice(self, question: Question, task: Task) -> str | None:
        """The option that was chosen; None for none, or where the client cannot ask."""
        try:
            answer = await self._client.request_permission(
                session_id=self._chat.id, tool_call=words.asked(question, task), options=words.options(question)
            )
            chosen = getattr(answer.outcome, "option_id", None)
            return None if chosen is None else question.options[int(chosen)]
        except (RequestError, ConnectionError, ValueError, IndexError):
            return None

    async def _end_of(self, seen: LookResult) -> StopReason | None:
        """Why the turn ends now, once the client was told; None where it goes on."""
        task = seen.task
        if task.state in ("cancelled", "deleted"):
            await self.say(f"The task was {task.state}.")
            return "cancelled"
        open_ones = [one for one in seen.questions if one.task_id == task.id]
        waiting = next((one for one in open_ones if one.id in self._own_words), None)
        if waiting is not None:
            begins = self._own_words[waiting.id]
            self._chat.waits = None if begins is None else (waiting, begins)
            await self.say(words.in_words(waiting, begins))
        elif task.state == "done":
            await self.say(task.output or "Done.")
        elif task.state in ("deadletter", "blocked") and not open_ones:
            await self.say(f"The task {'failed' if task.state == 'deadletter' else 'is blocked'}. {task.output or ''}")
        elif seen.idle:
            await self.say(NOT_BEGUN.format(why=seen.why))
        else:
            return None
        return "end_turn"

    async def _stop(self, task: str) -> StopReason:
        with suppress(Conflict):  # It is over already.
            await in_thread(partial(self._team.cancel, task, reason="the person who asked for it cancelled it"))
        self._chat.waits = None
        await self._show(await in_thread(self._look, task))
        return "cancelled"

    async def _something_new(self) -> None:
        """Return when something was committed, or may have been printed."""
        for _ in range(PRINTED):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), LOOK)
            if self._news.is_set() or await in_thread(self._team.head) != self._head:
                break
        self._news.clear()
