"""The team and its mail: create it, see it, add members, ask them to stop, write and read; start a workflow."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from interlock.app.mail import Mail
from interlock.errors import InvalidRequest
from interlock.model.message import TYPES, Broadcast, Message
from interlock.model.team import Member
from interlock.surfaces.mcp.task_tools import REPORT_TOOLS, TASK_TOOLS
from interlock.surfaces.mcp.tool import McpTool, OneOf, ToolCall, given

LONGEST_POLL_MS = 600_000
SHUTDOWN_ANSWERS = {"shutdown_approved": True, "shutdown_rejected": False}
NOTHING_CAME: dict[str, Any] = {"messages": [], "timed_out": True}
"""What a poll answers that was ended because the connection closes."""


def team_create(
    call: ToolCall,
    *,
    team_name: Annotated[str, "1-50 of a-z 0-9 - _"],
    claim_policy: Annotated[
        Annotated[str, OneOf(("strict", "soft"))] | None, "Claiming a task with open blockers: refused, or a warning"
    ] = None,
    workdir: Annotated[str | None, "Directory the team works in"] = None,
) -> dict[str, Any]:
    """Create a team with you as its lead. Needed when this connection's team does not exist yet: the other tools then
    act on the new one (currentTeam says which they act on). Next: teammate_spawn, task_create."""
    connection = call.connection
    lead = None
    if connection.bound:
        members = connection.team.members()
        lead = next((member.session_key for member in members if member.name == connection.member), None)
    team = connection.home.create_team(team_name, **given(lead=lead, claim_policy=claim_policy, workdir=workdir))
    if not connection.bound:
        connection.adopt(team)
    return {**team.describe(), "current_team": connection.team_name}


def team_status(call: ToolCall) -> dict[str, Any]:
    """See who is in the team and works on what, what waits for a human, what is ready next, open shutdown requests, and
    who you are. Use it to orient yourself; for tasks use task_list."""
    connection, team = call.connection, call.connection.team
    now = team.status()
    return {
        **team.describe(),
        "you": {"name": connection.member, "leads": connection.leads, "session": connection.session},
        **{name: value for name, value in now.items() if name not in ("team", "counts")},
        "shutdown_requests": team.shutdown_requests(),
    }


def team_shutdown(call: ToolCall, *, member: str | None = None, reason: str | None = None) -> dict[str, Any]:
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
    return call.connection.team.spawn(name, agent_id=agent_id, agent=agent, model=model, type=type)


def send_message(
    call: ToolCall,
    *,
    type: Annotated[str, OneOf(tuple(TYPES))] = "message",
    recipient: Annotated[str | None, "Member name, session key, lead or human"] = None,
    content: Annotated[str | None, "At most 100 KB"] = None,
    summary: Annotated[str | None, "A few words"] = None,
    request_id: Annotated[str | None, "The shutdown request you answer; default: the only one"] = None,
    approve: bool | None = None,
    reason: str | None = None,
    client_id: Annotated[str | None, "Your own id: sending it again sends nothing twice"] = None,
) -> Message | Broadcast | dict[str, Any]:
    """Send a message to a member, `lead` or `human`; type=broadcast reaches every other member. type=shutdown_request
    asks recipient to stop or, without one, announces that you will. Answer such a request with type=shutdown_response
    and approve, plus reason when you refuse."""
    team = call.connection.team
    why = content if reason is None else reason
    if type == "shutdown_request":
        return team.request_shutdown(recipient, reason=why)
    if type == "shutdown_response" or type in SHUTDOWN_ANSWERS:
        answer = SHUTDOWN_ANSWERS.get(type) if approve is None else approve
        if answer is None or answer is not SHUTDOWN_ANSWERS.get(type, answer):
            raise InvalidRequest(f"approve must say true or false in a {type}, and fit it.", field="approve")
        return team.answer_shutdown(request_id, approve=answer, reason=why)
    if content is None:
        raise InvalidRequest(f"send_message needs content for the type {type}.", field="content")
    if type == "broadcast":
        if recipient is not None:
            raise InvalidRequest(
                "A broadcast goes to every other member and takes no recipient; leave recipient or type out.",
                field="recipient",
            )
        return team.broadcast(content=content, summary=summary, client_id=client_id)
    if recipient is None:
        raise InvalidRequest(
            f"recipient is required for the type {type}; use type=broadcast to reach everybody.", field="recipient"
        )
    return team.send(
        to=recipient, type=type, content=content, summary=summary, request_id=request_id, approve=approve,
        reason=reason, client_id=client_id,
    )  # fmt: skip


def read_inbox(call: ToolCall) -> dict[str, Any]:
    """Get your unread messages and mark them read. Use it when a result says that there are some, and between tasks.
    redelivered=true: you may have seen it before."""
    assert call.receipt is not None
    return _handed_over(call.receipt.begin(call.connection.team.mail()))


def poll_inbox(
    call: ToolCall, *, timeout_ms: Annotated[int | None, Field(ge=0, le=LONGEST_POLL_MS), "default 30000"] = None
) -> dict[str, Any]:
    """Wait for messages: answers as soon as there are some, with timedOut=true when none came in time. Use it when you
    have nothing else to do; call it again to go on waiting."""
    assert call.receipt is not None
    team = call.connection.team
    seconds = float(team.setting("wait_timeout")[0]) if timeout_ms is None else timeout_ms / 1000
    return _handed_over(call.receipt.begin(team.mail(wait=seconds)))


def _handed_over(mail: Mail) -> dict[str, Any]:
    return {"messages": mail.messages, "timed_out": mail.timed_out}


def run_workflow(
    call: ToolCall,
    *,
    skill: str,
    input: Annotated[str | None, "What it should be about"] = None,
    workdir: Annotated[str | None, "default: the team's"] = None,
) -> dict[str, Any]:
    """Start a workflow, such as bmm:create-prd; it asks humans when it must."""
    run = call.connection.team.start_workflow(skill, directory=workdir, brief=input or "")
    names = ("workflow_id", "task_id", "skill", "state", "remaining_count", "warnings")
    return {name: run[name] for name in names}


TOOLS: dict[str, McpTool] = {
    tool.name: tool
    for tool in (
        McpTool(team_create, for_leads=True),
        McpTool(team_status, reads=True),
        McpTool(team_shutdown, for_leads=True),
        McpTool(teammate_spawn, for_leads=True),
        *TASK_TOOLS,
        McpTool(send_message),
        McpTool(read_inbox, hands_over=True),
        McpTool(poll_inbox, hands_over=True, waits=True),
        *REPORT_TOOLS,
        McpTool(run_workflow, for_leads=True),
    )
}
"""All tools, in the order in which agents see them."""


def visible(leads: bool) -> list[McpTool]:
    """Return the tools a member sees: all for one who leads, without the lead's own for others."""
    return [tool for tool in TOOLS.values() if leads or not tool.for_leads]
