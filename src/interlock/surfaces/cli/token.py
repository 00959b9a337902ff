"""`interlock token`: who may come in over HTTP, and as what."""

from __future__ import annotations

import click

from interlock.core.tokens import ROLES, Tokens
from interlock.errors import InvalidRequest
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.table import table


@verb("create", example="interlock token create --member researcher\ninterlock token create --person eva --role viewer")
@click.option("--member", metavar="M", help="A token for a member of the team: it acts as that one.")
@click.option("--person", metavar="P", help="A token for a person: in all teams.")
@click.option("--role", type=click.Choice(list(ROLES)), help="What it allows [default: worker, operator].")
def create(call: Call, member: str | None, person: str | None, role: str | None) -> None:
    """Make a token, and show it this once.

    viewer: read; operator: chat, answer and work on tasks; admin: everything; worker: a member at work.
    """
    if (member is None) is (person is None):
        raise InvalidRequest("Say whose token it is: `--member M` or `--person P`.", field="member")
    call.home.need_person("make a token")
    tokens = Tokens(call.home.path)
    if member is not None:
        team = call.team()
        known = next((one for one in team.members() if member in (one.name, one.session_key)), None)
        if known is None:
            team.history(member=member, limit=1)  # Says who is near.
        made, secret = tokens.create(known.name if known else member, team=team.name, role=role or "worker")
    else:
        made, secret = tokens.create(str(person), role=role or "operator")
    lines = [secret, f"{made.id}: {made.name}, {made.role}. It is shown this once; `interlock token revoke {made.id}`."]
    call.answer({**made.as_dict(), "token": secret}, lines)


@verb("list", example="interlock token list")
def list_(call: Call) -> None:
    """Every token: whose it is, and what it allows. What opens the door is not kept."""
    found = Tokens(call.home.path).list()
    rows = [(token.id, token.name, token.team or "all teams", token.role, token.created_at) for token in found]
    shown = table(["ID", "NAME", "TEAM", "ROLE", "MADE"], rows) if rows else ["There is none but the home's own."]
    call.answer({"tokens": [token.as_dict() for token in found]}, shown)


@verb("revoke", example="interlock token revoke 1f2e3d4c")
@click.argument("id")
def revoke(call: Call, id: str) -> None:
    """Take a token back. It opens nothing from now on, and streams that it opened end within seconds."""
    call.home.need_person("revoke a token")
    gone = Tokens(call.home.path).revoke(id)
    call.answer(gone.as_dict(), f"{gone.id} of {gone.name} opens nothing any more.")
