"""Trying an agent program for real: one small task in a team of its own, and a look at what came of it.

What it is asked to do costs a few requests of its model. Everything it is judged by stands in the ledger or was heard
from the session itself; what it claims counts for nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio
import anyio.to_thread

from interlock.agents.registry import AgentHandle
from interlock.agents.session import AgentSession, Opening, Permission, Turn, Update, allowing, refuse
from interlock.core.tasks.find import find
from interlock.core.unit_of_work import Workspace
from interlock.errors import AgentError
from interlock.model.task import Task
from interlock.processes.groups import RUN_TOKEN
from interlock.runner import environment as launcher
from interlock.runner.environment import allowed_environment
from interlock.runner.job import our_server

MEMBER = "probe"
SECONDS = 300.0
WORD = "heard from the shell"

PROMPT = """\
This only checks the connection between you and Interlock; it is no real work. Please do exactly these four things, one
after the other, and nothing else. When one of them is refused or fails, go on with the next.

1. Call the tool task_claim of the MCP server interlock with task_id "{task}".
2. Run this shell command as it stands: {command}
3. Call the tool task_complete of the MCP server interlock with task_id "{task}" and summary "checked".
4. Answer with the one word READY.
"""


@dataclass(slots=True)
class AgentCheck:
    """What worked: true, false, or null where nothing could be seen of it. `details` says why, by the same names."""

    abilities: dict[str, bool | None] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def note(self, name: str, worked: bool | None, detail: str = "") -> None:
        self.abilities[name] = worked
        if detail:
            self.details[name] = detail


async def try_out(workspace: Workspace, hire: AgentHandle, task: Task, *, home: str, model: str | None) -> AgentCheck:
    """Let the agent do `task`, and say what worked. Raises nothing for what the agent does."""
    found, began = AgentCheck(), time.monotonic()
    trial = _Trial(workspace, hire, task, home, model)
    try:
        session = await hire.agent.open(trial.opening(None))
    except AgentError as error:
        found.note("session", False, error.message)
        return found
    found.note("session", True)
    try:
        turn = await session.prompt(trial.prompt, trial.updates.append)
        kept = session.agent_session
    finally:
        await session.close()
    await anyio.to_thread.run_sync(trial.judge, found, turn)
    await _resumed(trial, found, kept)
    found.seconds = round(time.monotonic() - began, 1)
    return found


async def _resumed(trial: _Trial, found: AgentCheck, kept: str | None) -> None:
    if kept is None:
        found.note("resume", False, "its sessions have no id to be resumed by")
        return
    session: AgentSession | None = None
    try:
        session = await trial.hire.agent.open(trial.opening(kept))
        worked = session.agent_session == kept
        found.note("resume", worked, "" if worked else "it began a new session instead")
    except AgentError as error:
        found.note("resume", False, error.message)
    finally:
        if session is not None:
            await session.close()


class _Trial:
    """One task for one agent."""

    def __init__(self, workspace: Workspace, hire: AgentHandle, task: Task, home: str, model: str | None) -> None:
        self.hire = hire
        self.updates: list[Update] = []
        self._asked: list[Permission] = []
        self._workspace = workspace
        self._task = task
        self._home = home
        self._model = model
        self._bin = launcher.command_directory(workspace.directory)
        self._session = f"check:{os.urandom(8).hex()}"
        self._command = f'interlock message send --to lead "{WORD}"'

    @property
    def prompt(self) -> str:
        """What it is asked to do."""
        return PROMPT.format(task=self._task.id, command=self._command)

    def opening(self, resume: str | None) -> Opening:
        """A session in a directory of its own."""
        environment, secrets = self._environment()
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

    def _environment(self) -> tuple[dict[str, str], tuple[str, ...]]:
        own: Mapping[str, str] = {
            "INTERLOCK_HOME": self._home,
            "INTERLOCK_TEAM": self._workspace.name,
            "INTERLOCK_MEMBER": MEMBER,
            "INTERLOCK_SESSION": self._session,
            RUN_TOKEN: os.urandom(16).hex(),
        }
        environment, secrets = allowed_environment(os.environ, names=self.hire.variables, extra=own)
        environment["PATH"] = os.pathsep.join([self._bin, environment.get("PATH", os.defpath)])
        return environment, secrets

    async def _permit(self, permission: Permission) -> str | None:
        """The one command that it was told to run, once; nothing else."""
        self._asked.append(permission)
        if permission.kind == "execute" and WORD in f"{permission.title} {permission.data}":
            return next((choice.id for choice in permission.choices if choice.kind == "allow_once"), None)
        return await refuse(permission)
