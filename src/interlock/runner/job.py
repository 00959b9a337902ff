"""What one run is given: its job (prompt, environment, log, limits) and the mail in its prompt."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from interlock.agents.session import McpServer, Permission, refuse
from interlock.core import mailbox
from interlock.core.unit_of_work import Principal, Workspace
from interlock.model.message import Message
from interlock.model.run import KEPT
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.processes.groups import RUN_TOKEN
from interlock.processes.ref import alive
from interlock.runner.environment import allowed_environment, for_supervisor
from interlock.runner.executor import Job
from interlock.runner.permissions import refuses, rules_of
from interlock.runner.prompt import NOT_PROMPTED, RESUMED, prompt_for, review_prompt
from interlock.runner.run_processes import session_token
from interlock.runner.verify import variables
from interlock.storage.ledger import Rows

EARLIER_TASKS = 5
"""How many earlier tasks of its chat session an agent reads of."""
TOLD = ("clarification", "menu", "checkpoint", "limit")
"""The kinds of questions whose answers an agent reads at the beginning of a new run."""


FAILED = frozenset({"failed", "expired"})

Permit = Callable[[Permission], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class RunnerConfig:
    """What holds for every run of one runner.

    `home` is passed to agents so that they find the same ledger, `bin` is where they find our command. `parallel` is
    null where the setting of that name counts. Settings are none of it: a run takes those of the moment it begins.
    """

    home: str
    bin: str
    workdir: str
    parallel: int | None
    runner: str


@dataclass(slots=True)
class PreparedRun:
    """A job, with the numbers of the messages in its prompt and the questions whose answers are, and how far it has
    come."""

    job: Job
    token: str
    mail: list[int]
    told: set[str] = field(default_factory=set)
    started: bool = False
    turn_ended: bool = False


def prepare(
    workspace: Workspace,
    member: Member,
    task: Task,
    caller: Principal,
    terms: RunnerConfig,
    needed: tuple[str, ...] = (),
    *,
    talks: bool = False,
    permit: Permit = refuse,
) -> PreparedRun:
    """Everything for the run of `task` that `caller` has just claimed; `needed` are the executor's `variables`.
    `talks`: to an agent whose sessions last; it has no variables of the one run, since it may see others.

    Raises:
        InvalidRequest: a variable that the plan names is Interlock's own.
    """
    session = str(caller.session)
    token = session_token(session) or os.urandom(16).hex()
    with workspace.ledger.snapshot() as rows:
        settings = workspace.settings(rows)
        names = [*variables(rows, task, member.name), *needed]
        asked = [one for one in rows.questions.of_task(task.id) if one.state == "answered" and one.kind in TOLD]
        resume = _to_resume(rows, task, member) if talks else None
        before = _before(rows, task)
        rules = rules_of(member, settings) if talks and refuses(member, settings) else None
        files = _files(workspace, rows, task)
    own = ours(workspace.name, member.name, session, token, terms.home)
    if not talks:
        own |= {"INTERLOCK_RUN": str(task.run), "INTERLOCK_TASK": task.id}
        if files:
            own["INTERLOCK_FILES"] = os.pathsep.join(dict.fromkeys(place for _, place, _ in files))
    environment, hidden = allowed_environment(
        os.environ, names=names, extra={**own, **for_supervisor(workspace, settings)}
    )
    environment["PATH"] = os.pathsep.join([terms.bin, environment.get("PATH", os.defpath)])
    mail = [] if member.agent == "shell" else _mail(workspace, caller, terms)
    told = [message for message in mail if message.type not in NOT_PROMPTED]
    prompt = (
        review_prompt(task, told)
        if task.state == "review"
        else prompt_for(task, told, asked, talks=talks, before=before, rules=rules, files=files)
    )
    job = Job(
        team=workspace.name,
        task_id=task.id,
        run_id=str(task.run_id),
        member=member.name,
        session_id=session,
        prompt=RESUMED + prompt if resume is not None else prompt,
        command=task.command,
        workdir=terms.workdir,
        environment=environment,
        log=workspace.log_path(task.id, task.run),
        time_limit=float(settings.get("task_timeout") if task.timeout is None else task.timeout),
        stop_grace=float(settings.get("stop_grace")),
        output_bytes=int(settings.get("output_bytes")),
        secrets=hidden,
        model=member.model,
        mcp=() if member.agent == "shell" else (our_server(workspace.name, member.name, terms.bin, own),),
        permit=permit,
        resume=resume,
        kind=task.type,
        runner=terms.runner,
    )
    return PreparedRun(job, token, [message.n for message in mail], {question.id for question in asked})


def for_mail(
    workspace: Workspace,
    member: Member,
    caller: Principal,
    terms: RunnerConfig,
    prompt: str,
    permit: Permit,
    needed: tuple[str, ...],
) -> Job:
    """The job of a session that is opened for nothing but mail: it goes on with the member's last one, where it can.

    Raises:
        InvalidRequest: a variable that the plan names is Interlock's own.
    """
    session = str(caller.session)
    token = session_token(session) or os.urandom(16).hex()
    with workspace.ledger.snapshot() as rows:
        settings = workspace.settings(rows)
        resume = rows.runs.last_agent_session(member.name) if settings.get("isolation") == "none" else None
    own = ours(workspace.name, member.name, session, token, terms.home)
    environment, hidden = allowed_environment(
        os.environ, names=(*(member.env or ()), *needed), extra={**own, **for_supervisor(workspace, settings)}
    )
    environment["PATH"] = os.pathsep.join([terms.bin, environment.get("PATH", os.defpath)])
    return Job(
        team=workspace.name,
        task_id="",
        run_id="",
        member=member.name,
        session_id=session,
        prompt=prompt,
        command=None,
        workdir=_desk(workspace, member) if settings.get("isolation") != "none" else terms.workdir,
        environment=environment,
        log=workspace.member_log_path(member.name),
        time_limit=float(settings.get("task_timeout")),
        stop_grace=float(settings.get("stop_grace")),
        output_bytes=int(settings.get("output_bytes")),
        secrets=hidden,
        model=member.model,
        mcp=(our_server(workspace.name, member.name, terms.bin, own),),
        permit=permit,
        resume=resume,
    )


def same_surroundings(one: Job, other: Job) -> bool:
    """Whether a session that was opened for `one` may go on with `other`: what it was started with is the same."""

    def of(job: Job) -> tuple[object, ...]:
        return job.session_id, job.workdir, dict(job.environment), job.model, job.time_limit, job.secrets

    return of(one) == of(other)


def ours(team: str, member: str, session: str, token: str, home: str) -> dict[str, str]:
    """The variables by which a program of that session is known to our own command."""
    return {
        "INTERLOCK_HOME": home,
        "INTERLOCK_TEAM": team,
        "INTERLOCK_MEMBER": member,
        "INTERLOCK_SESSION": session,
        RUN_TOKEN: token,
    }


def _to_resume(rows: Rows, task: Task, member: Member) -> str | None:
    """The agent's own session of this member's last run that got as far as one; none where that, or one since, failed:
    then a fresh start is better."""
    for run in reversed(rows.runs.of_task(task.id)):
        if run.number == task.run or run.member != member.name:
            continue
        if run.outcome in FAILED:
            return None
        if run.agent_session is not None:
            return run.agent_session
    return None


def _desk(workspace: Workspace, member: Member) -> str:
    """Where a member reads its mail whose tasks all have worktrees of their own: the user's files are not its place."""
    where = os.path.join(workspace.directory, "desks", member.name)
    os.makedirs(where, mode=0o700, exist_ok=True)
    return where


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


def _files(workspace: Workspace, rows: Rows, task: Task) -> list[tuple[str, str, list[str]]]:
    """What the tasks that this one waited for made outside git: (task, directory, paths in it)."""
    found: dict[tuple[str, str], list[str]] = {}
    for id, _ in rows.graph.blockers(task.id):
        for one in rows.runs.artifacts(id):
            if one.kind in KEPT:
                found.setdefault((id, workspace.artifact_path(id, one.run)), []).append(one.path)
    return [(id, place, paths) for (id, place), paths in found.items()]


def _before(rows: Rows, task: Task) -> list[Task]:
    """The last tasks before this one in its chat session."""
    ids = rows.groups.tasks(task.group_id) if task.group_id is not None else []
    known = ids[: ids.index(task.id)] if task.id in ids else []
    return [one for id in known[-EARLIER_TASKS:] if (one := rows.tasks.get(id)) is not None]


def _mail(workspace: Workspace, caller: Principal, terms: RunnerConfig) -> list[Message]:
    """The member's mail, offered to this session.

    News of assignments is part of it but of no use in a prompt: the runner brings each task when its time has come,
    and an agent that reads of three begins three.
    """
    with workspace.act(caller, acknowledge=False) as act:
        return mailbox.offer(act, terms.runner, alive, count=mailbox.INJECT_COUNT, size=mailbox.INJECT_BYTES)
