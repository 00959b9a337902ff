"""`interlock team …`"""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from interlock.errors import Forbidden, InterlockError, InvalidRequest
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call
from interlock.surfaces.cli.command import verb
from interlock.surfaces.cli.table import fields, table


@verb("create", example="interlock team create alpha-squad --workdir .")
@click.argument("name")
@click.option("--lead", metavar="KEY", default="agent:main:main", show_default=True, help="Session key of the lead.")
@click.option(
    "--claim-policy", metavar="strict|soft", help="Whether a task with open blockers may be claimed, with a warning."
)
@click.option("--workdir", metavar="DIR", type=click.Path(), help="Where the team works [default: here].")
def create(call: Call, name: str, lead: str, claim_policy: str | None, workdir: str | None) -> None:
    """Create a team.

    Its lead is a member from the start; `interlock member spawn` adds others. Commands given inside its working
    directory find the team by themselves.
    """
    team = call.home.create_team(name, lead, claim_policy=claim_policy, workdir=os.path.abspath(workdir or os.curdir))
    call.answer(
        team.describe() if call.json else None,
        [
            f"{words.strong(name)} created in {team.directory}",
            f"Next: interlock member spawn NAME --team {name}, interlock task create SUBJECT --team {name}",
        ],
    )


@verb("list", example="interlock team list")
def list_(call: Call) -> None:
    """All teams of this home."""
    found = [_described(call, name) for name in call.home.teams()]
    call.answer({"teams": found}, "" if call.json else _listed(call, found))


@verb("show", reads=True, example="interlock team show alpha-squad")
@click.argument("name", required=False)
def show(call: Call, name: str | None) -> None:
    """One team with its members; without a name the team that is meant."""
    team = call.team_named(name) if name else call.team()
    found = team.describe()
    call.answer(found, "" if call.json else _shown(found, team.directory))


@verb("delete", example="interlock team delete alpha-squad --yes")
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Do not ask, and end members that are at work.")
def delete(call: Call, name: str, yes: bool, force: bool) -> None:
    """Delete a team with everything in it: tasks, messages, history, logs.

    Members at work are asked to stop first, and the team is not deleted before they have. On a terminal you are asked;
    elsewhere it needs --yes.
    """
    found = call.team_named(name).describe()
    _must_lead(call, found)
    if not (yes or force):
        if call.json or not sys.stdin.isatty():
            raise InvalidRequest(
                f"Deleting {name} deletes its whole history, and nobody can be asked here. Add --yes.", field="yes"
            )
        tasks = sum(number for word, number in found["task_counts"].items() if word != "deleted")
        question = f"Delete {name} with {words.count(tasks, 'task')} and its whole history?"
        if not click.confirm(question, err=True):
            click.echo("Nothing was deleted.", err=True)
            raise click.exceptions.Exit(1)
    call.home.delete_team(name, force=force)
    call.answer({**found, "status": "deleted"}, f"{words.strong(name)} deleted")


def _must_lead(call: Call, found: dict[str, Any]) -> None:
    who = call.who.name
    plain = any(who in (one["name"], one["session_key"]) and one["role"] == "member" for one in found["members"])
    if plain:
        raise Forbidden(f"{who} may not delete {found['name']}; only the lead or a human may.", member=who)


def _described(call: Call, name: str) -> dict[str, Any]:
    try:
        return call.home.team(name).describe()
    except InterlockError as error:
        return {"name": name, **error.as_dict()}  # One damaged team must not hide the others.


def _listed(call: Call, found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return [f"No teams in {call.home.path} yet. Create one: interlock team create NAME"]
    rows = []
    for team in found:
        if "error" in team:
            rows.append([team["name"], words.state("blocked"), "", "", "", words.clean(team["message"])])
            continue
        counts = team["task_counts"]
        rows.append(
            [
                words.strong(team["name"]),
                team["status"],
                str(sum(1 for member in team["members"] if member["role"] != "person")),
                f"{sum(counts.get(word, 0) for word in OPEN)}",
                f"{counts.get('done', 0)}",
                words.clean(team["workdir"] or ""),
            ]
        )
    return table(["TEAM", "STATUS", "MEMBERS", "OPEN", "DONE", "DIRECTORY"], rows)


def _shown(team: dict[str, Any], directory: str) -> list[str]:
    from interlock.surfaces.cli.member import listed

    counts = ", ".join(f"{number} {words.state(name)}" for name, number in team["task_counts"].items() if number)
    settings = ", ".join(f"{name} = {value}" for name, value in team["settings"].items())
    return [
        *fields(
            [
                ("team", words.strong(team["name"])),
                ("status", team["status"]),
                ("lead", words.clean(team["lead_session_key"])),
                ("works in", words.clean(team["workdir"] or "")),
                ("settings", words.clean(settings)),
                ("tasks", counts or "none yet: interlock task create SUBJECT"),
                ("created", words.ago(team["created_at"])),
                ("files", directory),
            ]
        ),
        "",
        *listed(team["members"]),
    ]


OPEN = ("backlog", "ready", "in-progress", "awaiting-response", "blocked", "review", "deadletter")
