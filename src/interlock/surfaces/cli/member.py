"""`interlock member …`"""

from __future__ import annotations

import shlex
from typing import Any

import click

from interlock.errors import InvalidRequest
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.table import table


@verb("spawn", example="interlock member spawn researcher --agent claude")
@click.argument("name")
@click.option(
    "--agent",
    metavar="A",
    help="An agent such as claude, or a program with its arguments; without one, a person fills the seat.",
)
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
    agent, command = program(agent) if agent else (None, None)
    member = call.team().spawn(
        name, agent=agent, command=command, agent_id=agent_id, type=kind, model=model, permissions=permissions
    )
    call.answer(member.as_dict(), f"{words.strong(name)} joined as {member.session_key}")


def program(agent: str) -> tuple[str, list[str] | None]:
    """What `--agent` names: an agent that is known by its name, or any program, `acp` before one that speaks that.

    Raises:
        InvalidRequest: a quote is left open, or nothing is named.
    """
    try:
        said = shlex.split(agent)
    except ValueError as error:
        raise InvalidRequest(f"--agent {agent!r} cannot be split into words: {error}.", field="agent") from None
    if not said or said == ["acp"]:
        raise InvalidRequest("--agent names an agent such as claude, or a program with its arguments.", field="agent")
    if len(said) == 1 and "/" not in agent:
        return said[0], None
    return ("acp", said[1:]) if said[0] == "acp" else ("command", said)


@verb("list", reads=True, example="interlock member list")
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
