"""The team and its mail: create it, see it, add members, ask them to stop, write and read; start a workflow."""

from __future__ import annotations

from typing import Annotated, Unpack

from pydantic import Field

from interlock.app.mail import Mail
from interlock.errors import InvalidRequest
from interlock.model.json import Json, json_form
from interlock.model.message import Broadcast, Message, MessageFields
from interlock.model.question import StopRequest
from interlock.model.team import Member
from interlock.surfaces.mcp.task_tools import REPORT_TOOLS, TASK_TOOLS
from interlock.surfaces.mcp.tool import HIDDEN, McpTool, OneOf, ToolCall, given

LONGEST_POLL_MS = 600_000
SHUTDOWN_ANSWERS = {"shutdown_approved": True, "shutdown_rejected": False}
NOTHING_CAME: Json = {"messages": [], "timed_out": True}
"""What a poll answers that was ended because the connection closes."""


def team_create(
    call: ToolCall,
    *,
    team_name: Annotated[str, "1-50 of a-z 0-9 - _"],
    claim_policy: Annotated[
        Annotated[str, OneOf(("strict", "soft"))] | None, "Claiming a task with open blockers: refused, or a warning"
    ] = None,
    workdir: Annotated[str | None, "Directory the team works in"] = None,
    description: Annotated[str | None, HIDDEN] = None,
    agent_type: Annotated[str | None, HIDDEN] = None,
) -> Json:
    """Create a team with you as its lead. Needed when this connection's team does not exist yet: the other tools then
    act on the new one (currentTeam says which they act on). Next: teammate_spawn, task_create."""
    connection = call.connection
    connection.must("admin")
    lead = None
    if connection.bound:
        members = connection.team.members()
        lead = next((member.session_key for member in members if member.name == connection.member), None)
    team = connection.home.create_team(team_name, **given(lead=lead, claim_policy=claim_policy, workdir=workdir))
    if not connection.bound:
        connection.adopt(team)
    return {**team.describe().as_dict(), "current_team": connection.team_name}


def team_status(call: ToolCall) -> Json:
    """See who is in the team and works on what, what waits for a human, what is ready next, open shutdown requests, and
    who you are. Use it to orient yourself; for tasks use task_list."""
    connection, team = call.connection, call.connection.team
    now: Json = json_form(team.status())
    return {
        **team.describe().as_dict(),
        "you": {"name": connection.member, "leads": connection.leads, "session": connection.session},
        **{name: value for name, value in now.items() if name not in ("team", "counts")},
        "shutdown_requests": team.shutdown_requests(),
    }


def team_shutdown(call: ToolCall, *, member: str | None = None, reason: str | None = None) -> StopRequest | Json:
    """Ask a member, or without `member` every other one, to finish and stop. They answer with a shutdown_response: wait
    for it with poll_inbox."""
    team = call.connection.team
    if member is not None:
        return team.request_shutdown(member, reason=reason)
    others = [one.name for one in team.members() if one.name != call.connection.member]
    return {"requests": [team.request_shutdown(name, reason=reason) for name in others]}


def teammate_spawn(
    call: ToolCall,
    *,
    name: Annotated[str, "1-50 of a-z 0-9 - _"],
    agent_id: Annotated[str | None, "Agent part of its session key; default: name"] = None,
    agent: Annotated[str | None, "Program: claude, codex, shell, …"] = None,
    model: str | None = None,
    type: Annotated[str | None, "Its role, in a word"] = None,
) -> Member:
    """Add a member to the team. With `agent` a running worker starts that program for it; without, somebody joins under
    that name. Next: task_create with it as assignee, or send_message."""
    call.connection.must("admin", "worker")  # The latter is the lead's.
    return call.connection.team.spawn(name, agent_id=agent_id, agent=agent, model=model, type=type)


def send_message(
    call: ToolCall,
    *,
    recipient: Annotated[str | None, "Member name, session key, lead or human"] = None,
    content: Annotated[str | None, "At most 100 KB"] = None,
    **fields: Unpack[MessageFields],
) -> Message | Broadcast | StopRequest:
    """Send a message to a member, `lead` or `human`. type=broadcast reaches every other member. type=shutdown_request
    asks recipient to stop or, without one, announces that you will. Answer such a request with type=shutdown_response
    and approve, plus reason when you refuse."""
    team, type, approve = call.connection.team, fields.setdefault("type", "message"), fields.get("approve")
    why = fields.get("reason", content)
    if type == "shutdown_request":
        return team.request_shutdown(recipient, reason=why)
    if type == "shutdown_response" or type in SHUTDOWN_ANSWERS:
        answer = SHUTDOWN_ANSWERS.get(type) if approve is None else approve
        if answer is None or answer is not SHUTDOWN_ANSWERS.get(type, answer):
            raise InvalidRequest(f"approve must say true or false in a {type}, and fit it.", field="approve")
        return team.answer_shutdown(fields.get("request_id"), approve=answer, reason=why)
    if content is None:
        raise InvalidRequest(f"send_message needs content for the type {type}.", field="content")
    if type == "broadcast":
        if recipient is not None:
            raise InvalidRequest(
                "A broadcast goes to every other member and takes no recipient; leave recipient or type out.",
                field="recipient",
            )
        return team.broadcast(content=content, summary=fields.get("summary"), client_id=fields.get("client_id"))
    if recipient is None:
        raise InvalidRequest(
            f"recipient is required for the type {type}; use type=broadcast to reach everybody.", field="recipient"
        )
    return team.send(to=recipient, content=content, **fields)


def read_inbox(call: ToolCall) -> Json:
    """Get your unread messages and mark them read. Use it when a result says that there are some, and between tasks.
    redelivered=true: you may have seen it before."""
    assert call.receipt is not None
    return _handed_over(call.receipt.begin(call.connection.team.mail()))


def poll_inbox(
    call: ToolCall, *, timeout_ms: Annotated[int | None, Field(ge=0, le=LONGEST_POLL_MS), "default 30000"] = None
) -> Json:
    """Wait for messages: answers as soon as there are some, with timedOut=true when none came in time. Use it when you
    have nothing else to do; call it again to go on waiting."""
    assert call.receipt is not None
    team = call.connection.team
    seconds = float(team.setting("wait_timeout")[0]) if timeout_ms is None else timeout_ms / 1000
    return _handed_over(call.receipt.begin(team.mail(wait=seconds, given_up=call.receipt.ended)))


def _handed_over(mail: Mail) -> Json:
    return {"messages": mail.messages, "timed_out": mail.timed_out}


def run_workflow(
    call: ToolCall,
    *,
    skill: str,
    input: Annotated[str | None, "What it should be about"] = None,
    workdir: Annotated[str | None, "default: the team's"] = None,
) -> Json:
    """Start a workflow, such as bmm:create-prd; it asks humans when it must."""
    if workdir is not None:  # A place on the machine of the home.
        call.connection.must("admin")
    run = call.connection.team.start_workflow(skill, directory=workdir, brief=input or "")
    names = ("workflow_id", "task_id", "skill", "state", "remaining_count", "warnings")
    return {name: run[name] for name in names}


NOTED = {"noted": True, "next": "End your turn now; what follows is the next thing you read."}


def step_done(
    call: ToolCall,
    *,
    status: Annotated[str, OneOf(("completed", "skipped", "blocked", "failed", "finished"))] | None = None,
    outputs: Annotated[list[str] | None, "Documents that the step wrote"] = None,
    evidence: Annotated[list[str] | None, "What shows it: `command: result`"] = None,
    verdict: Annotated[str, OneOf(("PASSED", "FAILED"))] | None = None,
    issues: Annotated[list[str] | None, "What the verdict finds wrong"] = None,
    next: Annotated[str | None, "Where the step leads, if not to the one that follows"] = None,
    unchanged: Annotated[str | None, "Why nothing had to change"] = None,
    reason: Annotated[str | None, "Why it is skipped, blocked or failed"] = None,
) -> Json:
    """Say how your workflow step stands: completed (the default, when it is saved), skipped, blocked, failed, or
    the whole workflow finished early. The last call before the end of your turn counts."""
    said = {"step": status or "completed", "outputs": outputs, "evidence": evidence, "verdict": verdict}
    more = {"issues": issues, "next": next, "unchanged": unchanged, "reason": reason}
    call.connection.team.end_turn(**given(**said, **more))
    return NOTED


def ask(
    call: ToolCall,
    *,
    question: Annotated[str, "One question"],
    options: Annotated[list[str] | None, "Answers to choose from, `KEY: label`"] = None,
) -> Json:
    """Ask what your workflow step needs to know. Interlock answers from what was decided, or asks a human; the
    answer is your next prompt."""
    call.connection.team.end_turn(step="waiting", **given(question=question, options=options))
    return NOTED


def choose(
    call: ToolCall,
    *,
    menu: Annotated[list[str], "The options of the step's menu, `KEY: label`"],
    option: Annotated[str | None, "The key that you would choose by the brief"] = None,
) -> Json:
    """Show the menu of your workflow step. Interlock chooses, or asks a human; the choice is your next prompt."""
    call.connection.team.end_turn(step="waiting", options=menu, **given(option=option))
    return NOTED


TOOLS: dict[str, McpTool] = {
    tool.name: tool
    for tool in (
        McpTool(team_create, for_leads=True),
        McpTool(team_status, reads=True),
        McpTool(team_shutdown, for_leads=True),
        McpTool(teammate_spawn, for_leads=True),
        *TASK_TOOLS,
        McpTool(send_message, driven=("recipient", "content"), elsewhere=True),
        McpTool(read_inbox, hands_over=True, driven=(), elsewhere=True),
        McpTool(poll_inbox, hands_over=True, waits=True),
        *REPORT_TOOLS,
        McpTool(run_workflow, for_leads=True, begins_task=True),
        McpTool(step_done, in_workflow=True),
        McpTool(ask, in_workflow=True),
        McpTool(choose, in_workflow=True),
    )
}
"""All tools, in the order in which agents see them."""


def visible(leads: bool, in_workflow: bool = False, driven: bool = False, elsewhere: bool = False) -> list[McpTool]:
    """Return the tools a member sees: all for one who leads, without the lead's own for others. One that the runner
    drives sees those that are any good to it, on another machine (`elsewhere`) fewer, and one that is led through a
    workflow those of its steps instead of those that end a task."""
    return [
        tool
        for tool in TOOLS.values()
        if (leads or not tool.for_leads)
        and (in_workflow if tool.in_workflow else not (tool.ends and in_workflow))
        and (tool.in_workflow or tool.driven is not None or not driven)
        and (tool.elsewhere or not (driven and elsewhere))
    ]
