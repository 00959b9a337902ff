"""Trying an agent program for real: one small task in a team of its own, and a look at what came of it.

It costs a few requests of the agent's model. The verdict rests on the ledger and on what the session did, never on what
the agent claims.
"""

from __future__ import annotations

import os
import time
from dataclasses import field

import anyio
import anyio.to_thread

from interlock.agents.registry import AgentHandle
from interlock.agents.session import Opening, Permission, Turn, Update, allowing, refuse
from interlock.core.tasks.claim import claim
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import AgentError
from interlock.lazy_dataclass import dataclass
from interlock.model.task import Task
from interlock.runner import environment as launcher
from interlock.runner.environment import allowed_environment
from interlock.runner.job import our_server, session_variables

MEMBER = "probe"
SECONDS = 300.0
WORD = "heard from the shell"
COMMAND = f'interlock message send --to lead "{WORD}"'

PROMPT = """\
This only checks the connection between you and Interlock; it is no real work. Please do exactly these three things, one
after the other, and nothing else. When one of them is refused or fails, go on with the next.

1. Run this shell command as it stands: {command}
2. Call the tool task_complete of the MCP server interlock with task_id "{task}" and summary "checked".
3. Answer with the one word READY.
"""


@dataclass(slots=True)
class AgentCheck:
    """What worked: True, False, or None where nothing could be seen of it. `details` says why, by the same names."""

    abilities: dict[str, bool | None] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def note(self, name: str, worked: bool | None, detail: str = "") -> None:
        self.abilities[name] = worked
        if detail:
            self.details[name] = detail


async def try_out(workspace: Workspace, hire: AgentHandle, task: Task, *, home: str, model: str | None) -> AgentCheck:
    """Let the agent do `task`, and report what worked. Raises nothing for what the agent does."""
    found, began = AgentCheck(), time.monotonic()
    trial = _Trial(workspace, hire, task, home, model)
    await anyio.to_thread.run_sync(trial.claim)
    try:
        session = await hire.agent.open(trial.opening(None))
    except AgentError as error:
        found.note("session", False, error.message)
        return found
    found.note("session", True)
    try:
        turn = await session.prompt(PROMPT.format(task=task.id, command=COMMAND), trial.updates.append)
        kept = session.agent_session
    finally:
        await session.close()
    await anyio.to_thread.run_sync(trial.judge, found, turn)
    if kept is None:
        found.note("resume", False, "its sessions have no id to be resumed by")
    else:
        try:
            session = await hire.agent.open(trial.opening(kept))
        except AgentError as error:
            found.note("resume", False, error.message)
        else:
            worked = session.agent_session == kept
            await session.close()
            found.note("resume", worked, "" if worked else "it began a new session instead")
    found.seconds = round(time.monotonic() - began, 1)
    return found


class _Trial:
    """One task for one agent."""

    def __init__(self, workspace: Workspace, hire: AgentHandle, task: Task, home: str, model: str | None) -> None:
        self._hire = hire
        self.updates: list[Update] = []
        self._asked: list[Permission] = []
        self._workspace = workspace
        self._task = task
        self._home = home
        self._model = model
        self._bin = launcher.command_directory(workspace.directory)
        self._session = f"check:{os.urandom(8).hex()}"

    def claim(self) -> None:
        """Give its session the task, as a worker does."""
        with self._workspace.act(Principal(MEMBER, self._session, face="runner")) as act:
            claim(act, find(act.rows, self._task.id))

    def opening(self, resume: str | None) -> Opening:
        """A session in a directory of its own."""
        token = os.urandom(16).hex()
        session = session_variables(self._home, self._workspace.name, MEMBER, self._session, token)
        environment, secrets = allowed_environment(os.environ, names=self._hire.variables, extra=session)
        environment["PATH"] = os.pathsep.join([self._bin, environment.get("PATH", os.defpath)])
        workdir = os.path.join(self._workspace.directory, "check")
        os.makedirs(workdir, exist_ok=True)
        own = {name: value for name, value in environment.items() if name.startswith("INTERLOCK_")}
        server = our_server(self._workspace.name, MEMBER, self._bin, own)
        return Opening(
            session_id=self._session,
            member=MEMBER,
            workdir=workdir,
            environment=environment,
            log="",
            time_limit=SECONDS,
            stop_grace=5.0,
            output_bytes=20_000,
            secrets=secrets,
            permit=allowing([server.name], self._permit),
            model=self._model,
            mcp=(server,),
            resume=resume,
        )

    def judge(self, found: AgentCheck, turn: Turn) -> None:
        """What the turn came to."""
        with self._workspace.look() as rows:
            task = find(rows, self._task.id)
            mail = rows.messages.history(member=None, limit=50, before=None)
        heard = any(WORD in message.content for message in mail)
        found.note(
            "prompt", turn.stop == "end", turn.detail or ("" if turn.stop == "end" else f"it ended: {turn.stop}")
        )
        told = {update.kind for update in self.updates} - {"usage"}
        found.note("updates", bool(told), "" if told else "it said nothing while it worked")
        worked = task.state == "done" and task.owner == MEMBER
        found.note("mcp", worked, "" if worked else f"the task it was to complete through our tools is {task.state}")
        asked = bool(self._asked)
        found.note("permission", True if asked else None, "" if asked else "it did not ask before it ran a command")
        why = "a command that it runs cannot reach the ledger: its sandbox, or the command was not run; our tools can"
        found.note("sandbox", heard, "" if heard else why)

    async def _permit(self, permission: Permission) -> str | None:
        """The one command that it was told to run, once; nothing else."""
        self._asked.append(permission)
        if permission.kind == "execute" and WORD in f"{permission.title} {permission.data}":
            return next((choice.id for choice in permission.choices if choice.kind == "allow_once"), None)
        return await refuse(permission)
