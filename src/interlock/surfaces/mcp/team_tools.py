"""The team: create it, see it, add members, ask them to stop."""

from __future__ import annotations

from typing import Any

from interlock.surfaces.mcp.tool import Call, Tool, choice, text


def _create(call: Call) -> dict[str, Any]:
    connection = call.connection
    lead = {}
    if connection.bound:
        own = next((member for member in connection.team.members() if member.name == connection.member), None)
        lead = {} if own is None else {"lead": own.session_key}
    team = connection.home.create_team(call["team_name"], **lead, **call.given("claim_policy", "workdir"))
    if not connection.bound:
        connection.adopt(team)
    return {**team.describe(), "current_team": connection.team_name}


def _status(call: Call) -> dict[str, Any]:
    connection, team = call.connection, call.connection.team
    now = team.status()
    return {
        **team.describe(),
        "you": {"name": connection.member, "leads": connection.leads, "session": connection.session},
        **{name: value for name, value in now.items() if name not in ("team", "counts")},
        "shutdown_requests": team.shutdown_requests(),
    }


def _shutdown(call: Call) -> dict[str, Any]:
    connection, team = call.connection, call.connection.team
    asked = call.get("member")
    if asked is not None:
        return team.request_shutdown(asked, reason=call.get("reason"))
    others = [member.name for member in team.members() if member.name != connection.member]
    return {"requests": [team.request_shutdown(name, reason=call.get("reason")) for name in others]}


def _spawn(call: Call) -> dict[str, Any]:
    return call.connection.team.spawn(call["name"], **call.given("agent_id", "agent", "model", "type")).as_dict()


TOOLS = (
    Tool(
        "team_create",
        "Create a team with you as its lead. Needed when this connection's team does not exist yet: the other tools "
        "then act on the new one (currentTeam says which they act on). Next: teammate_spawn, task_create.",
        _create,
        {
            "team_name": text("1-50 of a-z 0-9 - _"),
            "claim_policy": choice(
                "strict", "soft", description="Claiming a task with open blockers: refused, or a warning"
            ),
            "workdir": text("Directory the team works in"),
        },
        required=("team_name",),
        for_leads=True,
    ),
    Tool(
        "team_status",
        "See who is in the team and works on what, what waits for a human, what is ready next, open shutdown requests, "
        "and who you are. Use it to orient yourself; for tasks use task_list.",
        _status,
        reads=True,
    ),
    Tool(
        "team_shutdown",
        "Ask a member, or without `member` every other one, to finish and stop. They answer with a shutdown_response: "
        "wait for it with poll_inbox.",
        _shutdown,
        {"member": text(), "reason": text()},
        for_leads=True,
    ),
    Tool(
        "teammate_spawn",
        "Add a member to the team. With `agent` a running worker starts that program for it; without, somebody joins "
        "under that name. Next: task_create with it as assignee, or send_message.",
        _spawn,
        {
            "name": text("1-50 of a-z 0-9 - _"),
            "agent_id": text("Agent part of its session key; default: name"),
            "agent": text("Program: claude, codex, shell, …"),
            "model": text(),
            "type": text("Its role, in a word"),
        },
        required=("name",),
        for_leads=True,
    ),
)
