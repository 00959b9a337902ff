"""What one run is given: its job (prompt, environment, log, limits) and the mail in its prompt."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from interlock.agents.session import McpServer, Permission
from interlock.core import mailbox
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.lazy_dataclass import dataclass
from interlock.model import handover
from interlock.model.message import Message
from interlock.model.names import HUMAN
from interlock.model.run import KEPT
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.processes.ancestry import RUN_TOKEN
from interlock.processes.ref import alive
from interlock.runner.context import ActiveRun, RunnerContext
from interlock.runner.environment import allowed_environment, for_supervisor
from interlock.runner.executor import Job
from interlock.runner.permissions import refuses, rules_of
from interlock.runner.prompt import NOT_PROMPTED, RESUMED, prompt_for, review_prompt
from interlock.runner.run_processes import session_token
from interlock.runner.trace_spans import traceparent
from interlock.runner.verify import variables
from interlock.settings import Settings
from interlock.storage.ledger import Rows

EARLIER_TASKS = 5
"""How many earlier tasks of its chat session an agent reads of."""
TOLD = ("clarification", "menu", "checkpoint", "limit")
"""The kinds of questions whose answers an agent reads at the beginning of a new run."""
FAILED = frozenset({"failed", "expired"})

TRACEPARENT = "TRACEPARENT"

Permit = Callable[[Permission], Awaitable[str | None]]


@dataclass(slots=True)
class PreparedRun:
    """A job, with the numbers of the messages in its prompt and the ids of the questions whose answers are."""

    job: Job
    token: str
    mail: list[int]
    told: set[str]


def prepare(run: ActiveRun, needed: tuple[str, ...], *, talks: bool, permit: Permit) -> PreparedRun:
    """Make everything for a run that was just claimed.

    Args:
        needed: the executor's `variables`.
        talks: it is for an agent whose sessions last; that gets no variables of the one run, since it may see others.

    Raises:
        InvalidRequest: a variable that the plan names is Interlock's own.
    """
    workspace, task, member = run.workspace, run.task, run.member
    with workspace.ledger.snapshot() as rows:
        settings = workspace.settings(rows)
        names = [*variables(task, member), *needed]
        asked = [one for one in rows.questions.of_task(task.id) if one.state == "answered" and one.kind in TOLD]
        resume = _to_resume(rows, task, member) if talks else None
        before = earlier_in_chat(rows, task)
        rules = rules_of(member, settings) if talks and refuses(member, settings) else None
        files = files_of_blockers(workspace, rows, task)
        team = rows.team.get().id
    own: dict[str, str] = {}
    if settings.get("otel"):
        own[TRACEPARENT] = traceparent(team, task.id, str(task.run_id))
    if not talks:
        own |= {"INTERLOCK_RUN": str(task.run), "INTERLOCK_TASK": task.id}
        if files:
            own["INTERLOCK_FILES"] = os.pathsep.join(dict.fromkeys(place for _, place, _ in files))
    job, token = _job(run.context, member, run.caller, settings, names=names, own=own, workdir=run.workdir)
    # News of assignments is offered with the rest but of no use in a prompt: see NOT_PROMPTED.
    mail = [] if member.agent == "shell" else offer_mail(run.context, run.caller)
    told = [message for message in mail if message.type not in NOT_PROMPTED]
    prompt = (
        review_prompt(task, told)
        if task.state == "review"
        else prompt_for(task, told, asked, talks=talks, before=before, rules=rules, files=files)
    )
    job = replace(
        job,
        task_id=task.id,
        run_id=str(task.run_id),
        prompt=RESUMED + prompt if resume is not None else prompt,
        command=task.command,
        log=workspace.log_path(task.id, task.run),
        time_limit=job.time_limit if task.timeout is None else float(task.timeout),
        permit=permit,
        resume=resume,
        kind=task.type,
        patience=run.wait,
        runner=run.context.process,
    )
    return PreparedRun(job, token, [message.n for message in mail], {question.id for question in asked})


def for_mail(
    context: RunnerContext, member: Member, caller: Principal, prompt: str, permit: Permit, needed: tuple[str, ...]
) -> Job:
    """Make the job of a session that is opened for nothing but mail; it resumes the member's last one, where it can.

    Raises:
        InvalidRequest: a variable that the plan names is Interlock's own.
    """
    workspace = context.workspace
    with workspace.ledger.snapshot() as rows:
        settings = workspace.settings(rows)
        shared = settings.get("isolation") == "none"
        resume = rows.runs.last_agent_session(member.name) if shared else None
    workdir = context.workdir
    if not shared:  # The tasks have worktrees of their own: the user's files are not its place.
        workdir = os.path.join(workspace.directory, "desks", member.name)
        for place in (os.path.dirname(workdir), workdir):  # `makedirs` would give the first to all.
            os.makedirs(place, mode=0o700, exist_ok=True)
    job, _ = _job(context, member, caller, settings, names=(*(member.env or ()), *needed), own={}, workdir=workdir)
    return replace(job, prompt=prompt, log=workspace.member_log_path(member.name), permit=permit, resume=resume)


def _job(
    context: RunnerContext,
    member: Member,
    caller: Principal,
    settings: Settings,
    *,
    names: Sequence[str],
    own: Mapping[str, str],
    workdir: str,
) -> tuple[Job, str]:
    """What every job of a member has, and its run token. `own` are variables of ours beside the usual ones."""
    workspace, session = context.workspace, str(caller.session)
    token = session_token(session) or os.urandom(16).hex()
    own = {**session_variables(context.home, workspace.name, member.name, session, token), **own}
    environment, hidden = allowed_environment(
        os.environ, names=names, extra={**own, **for_supervisor(workspace, settings)}
    )
    environment["PATH"] = os.pathsep.join([context.bin, environment.get("PATH", os.defpath)])
    job = Job(
        team=workspace.name,
        task_id="",
        run_id="",
        member=member.name,
        session_id=session,
        prompt="",
        command=None,
        workdir=workdir,
        environment=environment,
        log="",
        time_limit=float(settings.get("task_timeout")),
        stop_grace=float(settings.get("stop_grace")),
        output_bytes=int(settings.get("output_bytes")),
        secrets=hidden,
        model=member.model,
        mcp=() if member.agent == "shell" else (our_server(workspace.name, member.name, context.bin, own),),
    )
    return job, token


def same_surroundings(one: Job, other: Job) -> bool:
    """Whether a session that was opened for `one` may take up `other`: what it was started with is the same. Its spans
    then stay below the first run."""

    def of(job: Job) -> tuple[object, ...]:
        environment = {name: value for name, value in job.environment.items() if name != TRACEPARENT}
        return job.session_id, job.workdir, environment, job.model, job.time_limit, job.secrets

    return of(one) == of(other)


def session_variables(home: str, team: str, member: str, session: str, token: str) -> dict[str, str]:
    """The variables by which a program of that session is known to our own command."""
    return {
        "INTERLOCK_HOME": home,
        "INTERLOCK_TEAM": team,
        "INTERLOCK_MEMBER": member,
        "INTERLOCK_SESSION": session,
        RUN_TOKEN: token,
    }


def our_server(team: str, member: str, bin: str, environment: Mapping[str, str]) -> McpServer:
    """Our MCP server for a session of `member`: a program of its own on stdio.

    It gets `environment` by name, for not every agent program passes its own on to the servers that it starts; without
    the run token, nothing would find a server that outlived its agent.
    """
    argv = (os.path.join(bin, "interlock"), "mcp", "--team", team, "--as", member)
    return McpServer("interlock", argv, environment)


def offer_mail(context: RunnerContext, caller: Principal) -> list[Message]:
    """Offer the member's mail to its session, as much as one prompt takes."""
    with context.workspace.act(caller) as act:
        return offer_mail_in(act, context)


def offer_mail_in(act: UnitOfWork, context: RunnerContext) -> list[Message]:
    return mailbox.offer(act, context.process, alive, count=handover.INJECT_COUNT, size=handover.INJECT_BYTES)


def worth_a_prompt(rows: Rows, member: str, agents_too: bool) -> bool:
    """Whether mail waits that deserves a prompt of its own; notices of Interlock's never do, they come with the next
    prompt. Without `agents_too` only the mail of people counts."""
    waiting = [message for message, _, _ in rows.messages.offerable(member, handover.INJECT_COUNT, False)]
    return any(
        message.type not in NOT_PROMPTED
        and not (message.metadata or {}).get("notice")
        and (agents_too or is_person(rows, message.sender))
        for message in waiting
    )


def is_person(rows: Rows, name: str) -> bool:
    found = rows.team.member(name)
    return name == HUMAN or (found is not None and found.role == "person")


def _to_resume(rows: Rows, task: Task, member: Member) -> str | None:
    """The agent's own session of this member's last run that got as far as one; None where that, or one since, failed:
    then a fresh start is better."""
    for run in reversed(rows.runs.of_task(task.id)):
        if run.number == task.run or run.member != member.name:
            continue
        if run.outcome in FAILED:
            return None
        if run.agent_session is not None:
            return run.agent_session
    return None


def earlier_in_chat(rows: Rows, task: Task) -> list[Task]:
    """The last tasks before this one of its chat session."""
    group = rows.groups.tasks(task.group_id) if task.group_id is not None else []
    earlier = group[: group.index(task.id)] if task.id in group else []
    return [one for id in earlier[-EARLIER_TASKS:] if (one := rows.tasks.get(id)) is not None]


def files_of_blockers(workspace: Workspace, rows: Rows, task: Task) -> list[tuple[str, str, list[str]]]:
    """What the tasks that this one waited for made outside git: (task, directory, paths in it)."""
    found: dict[tuple[str, str], list[str]] = {}
    for id, _ in rows.graph.blockers(task.id):
        for one in rows.runs.artifacts(id):
            if one.kind in KEPT:
                found.setdefault((id, workspace.artifact_path(id, one.run)), []).append(one.path)
    return [(id, place, paths) for (id, place), paths in found.items()]
