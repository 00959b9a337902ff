"""`interlock member …`"""

from __future__ import annotations

from typing import Any

import click

from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.table import table


@verb("spawn", example="interlock member spawn researcher --agent claude")
@click.argument("name")
@click.option("--agent", metavar="A", help="The agent program; without one, a program or person fills the seat.")
@click.option("--agent-id", metavar="ID", help="What the session key names as the agent [default: the name].")
@click.option("--type", "kind", metavar="T", help="What kind of member it is, such as reviewer.")
@click.option("--model", metavar="M", help="The model its agent is to use.")
@click.option("--permissions", metavar="P", help="ask, workspace, read-only or unattended.")
def spawn(
    call: Call,
    name: str,
    agent: str | None,
    agent_id: str | None,
    kind: str | None,
    model: str | None,
    permissions: str | None,
) -> None:
    """Register a member. Nothing is started; `interlock run` starts agents."""
    member = call.team().spawn(
        name, agent=agent, agent_id=agent_id, type=kind, model=model, permissions=permissions
    )  # fmt: skip
    call.answer(member.as_dict(), f"{words.strong(name)} joined as {member.session_key}")


@verb("list", example="interlock member list")
def list_(call: Call) -> None:
    """Who takes part, and on what."""
    found = [member.as_dict() for member in call.team().members()]
    call.answer({"members": found}, "" if call.json else listed(found))


@verb("remove", example="interlock member remove researcher")
@click.argument("name")
def remove(call: Call, name: str) -> None:
    """Take a member out of the team; its tasks go back to the queue."""
    team = call.team()
    shown = next((member.as_dict() for member in team.members() if member.name == name), {"name": name})
    released = team.remove(name)
    text = f"{words.strong(name)} removed"
    if released:
        text += f"; back in the queue: {', '.join(released)}"
    call.answer({**shown, "status": "removed", "current_task": None, "released": released}, text)


def listed(members: list[dict[str, Any]]) -> list[str]:
    """Members as a table."""
    rows = [
        [
            words.strong(member["name"]),
            member["role"],
            words.state(member["status"]),
            words.clean(member["agent"] or ""),
            words.clean(member["model"] or ""),
            words.clean(member["type"] or ""),
            member["current_task"] or "",
            words.ago(member["last_active_at"]),
            words.clean(member["session_key"]),
        ]
        for member in members
    ]
    lines = table(["MEMBER", "ROLE", "STATUS", "AGENT", "MODEL", "TYPE", "TASK", "ACTIVE", "SESSION KEY"], rows)
    if len(members) <= 1:
        lines += ["", "Nobody but the lead yet. Add one: interlock member spawn NAME"]
    return lines
