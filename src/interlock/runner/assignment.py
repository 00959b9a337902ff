"""What one run is given: its job (prompt, environment, log, limits) and the mail in its prompt."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from interlock import mailbox
from interlock.agent import McpServer
from interlock.executor import Job
from interlock.model.message import Message
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.processes import RUN_TOKEN
from interlock.runner.checking import variables
from interlock.runner.environment import allowed_environment
from interlock.runner.lifesigns import lives, session_token
from interlock.runner.prompt import prompt_for, review_prompt
from interlock.sessions import Caller
from interlock.workspace import Workspace

TOLD = ("clarification", "menu", "checkpoint", "limit")
"""The kinds of questions whose answers an agent reads at the beginning of a new run."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for every run of one runner.

    `home` is passed to agents so that they find the same ledger, `bin` is where they find our command. `heartbeat` is
    the time between two signs of life, `stop_grace` that between TERM and KILL, in seconds.
    """

    home: str
    bin: str
    workdir: str
    parallel: int
    runner: str
    heartbeat: float
    stop_grace: float


@dataclass(slots=True)
class Assignment:
    """A job, with the numbers of the messages in its prompt, and how far it has come."""

    job: Job
    token: str
    mail: list[int]
    started: bool = False
    turn_ended: bool = False


def prepare(
    workspace: Workspace, member: Member, task: Task, caller: Caller, terms: Terms, needed: tuple[str, ...] = ()
) -> Assignment:
    """Everything for the run of `task` that `caller` has just claimed; `needed` are the executor's `variables`.

    Raises:
        InvalidRequest: a variable that the plan names is Interlock's own.
    """
    session = str(caller.session)
    token = session_token(session) or os.urandom(16).hex()
    with workspace.ledger.snapshot() as rows:
        settings = workspace.settings(rows)
        names = [*variables(rows, task, member.name), *needed]
        asked = [one for one in rows.questions.of_task(task.id) if one.state == "answered" and one.kind in TOLD]
    own = {
        "INTERLOCK_HOME": terms.home,
        "INTERLOCK_TEAM": workspace.name,
        "INTERLOCK_MEMBER": member.name,
        "INTERLOCK_SESSION": session,
        "INTERLOCK_RUN": str(task.run),
        "INTERLOCK_TASK": task.id,
        RUN_TOKEN: token,
    }
    environment, hidden = allowed_environment(os.environ, names=names, extra=own)
    environment["PATH"] = os.pathsep.join([terms.bin, environment.get("PATH", os.defpath)])
    mail = [] if member.agent == "shell" else _mail(workspace, caller, terms)
    told = [message for message in mail if message.type != "task_assignment"]
    job = Job(
        team=workspace.name,
        task_id=task.id,
        run_id=str(task.run_id),
        member=member.name,
        session_id=session,
        prompt=review_prompt(task, told) if task.state == "review" else prompt_for(task, told, asked),
        command=task.command,
        workdir=terms.workdir,
        environment=environment,
        log=workspace.log_path(task.id, task.run),
        time_limit=float(task.metadata.get("timeout", settings.get("task_timeout"))),
        stop_grace=terms.stop_grace,
        output_bytes=int(settings.get("output_bytes")),
        secrets=hidden,
        model=member.model,
        mcp=() if member.agent == "shell" else (our_server(workspace.name, member.name, terms.bin, own),),
        kind=task.type,
        data=task.metadata,
    )
    return Assignment(job, token, [message.n for message in mail])


def our_server(team: str, member: str, bin: str, environment: Mapping[str, str]) -> McpServer:
    """Our MCP server for a session of `member`: a program of its own on stdio.

    It gets `environment` by name, for not every agent program passes its own on to the servers that it starts; without
    the run token, nobody would find a server that outlived its agent.
    """
    argv = (os.path.join(bin, "interlock"), "mcp", "--team", team, "--as", member)
    return McpServer("interlock", argv, environment)


def with_prompt(job: Job, prompt: str) -> Job:
    """The same job with another prompt, for a further round."""
    return replace(job, prompt=prompt)


def _mail(workspace: Workspace, caller: Caller, terms: Terms) -> list[Message]:
    """The member's mail, offered to this session.

    News of assignments is part of it but of no use in a prompt: the runner brings each task when its time has come,
    and an agent that reads of three begins three.
    """
    with workspace.act(caller, acknowledge=False) as act:
        return mailbox.offer(act, terms.runner, lives, count=mailbox.INJECT_COUNT, size=mailbox.INJECT_BYTES)
