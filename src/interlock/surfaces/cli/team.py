"""`interlock team …`, `member …` and `shutdown …`: teams, who takes part in them, and how members are stopped."""

from __future__ import annotations

import os
import sys

import click

from interlock.errors import InterlockError, InvalidRequest
from interlock.model.json import Json
from interlock.model.program import program
from interlock.model.question import StopRequest
from interlock.model.team import Member
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import TEXT, Call, verb

OPEN = ("backlog", "ready", "in-progress", "awaiting-response", "blocked", "review", "deadletter")


@verb("create", example="interlock team create alpha-squad --workdir .")
@click.argument("name")
@click.option("--lead", metavar="KEY", default="agent:main:main", show_default=True, help="Session key of the lead.")
@click.option(
    "--claim-policy", metavar="strict|soft", help="Whether a task with open blockers may be claimed, with a warning."
)
@click.option("--workdir", metavar="DIR", type=click.Path(), help="Where the team works [default: here].")
def create(call: Call, name: str, lead: str, claim_policy: str | None, workdir: str | None) -> None:
    """Create a team.

    Its lead is a member from the start; `interlock member spawn` adds others. Commands run inside its working
    directory find the team by themselves.
    """
    if not call.home.elsewhere:  # where this directory says nothing
        workdir = os.path.abspath(workdir or os.curdir)
    team = call.home.create_team(name, lead, claim_policy=claim_policy, workdir=workdir)
    lines = [
        f"{words.strong(name)} created in {team.directory}",
        f"Next: interlock member spawn NAME --team {name}, interlock task create SUBJECT --team {name}",
    ]
    call.answer(team.describe() if call.json else None, lines)


@verb("list", example="interlock team list")
def list_(call: Call) -> None:
    """All teams of this home."""
    found: list[Json] = []
    rows = []
    for name in call.home.teams():
        try:
            one = call.home.team(name).describe()
            members = sum(member.role != "person" for member in one.members)
            still = sum(one.task_counts.get(word, 0) for word in OPEN)
            numbers = [str(members), str(still), str(one.task_counts.get("done", 0))]
            rows.append([words.strong(name), one.team.status, *numbers, words.clean(one.team.workdir or "")])
            found.append(one.as_dict())
        except InterlockError as error:  # One damaged team must not hide the others.
            rows.append([name, words.state("blocked"), "", "", "", words.clean(error.message)])
            found.append({"name": name, **error.as_dict()})
    lines = words.table(["TEAM", "STATUS", "MEMBERS", "OPEN", "DONE", "DIRECTORY"], rows) if rows else []
    call.answer({"teams": found}, lines or f"No teams in {call.home.path} yet. Create one: interlock team create NAME")


@verb("show", reads=True, example="interlock team show alpha-squad")
@click.argument("name", required=False)
def show(call: Call, name: str | None) -> None:
    """One team with its members; without a name the team that is meant."""
    team = call.team_named(name) if name else call.team()
    found = team.describe()
    row = found.team
    counts = ", ".join(f"{number} {words.state(state)}" for state, number in found.task_counts.items() if number)
    fields = words.fields(
        [
            ("team", words.strong(row.name)),
            ("status", row.status),
            ("lead", words.clean(row.lead_session_key)),
            ("works in", words.clean(row.workdir or "")),
            ("settings", words.clean(", ".join(f"{name} = {value}" for name, value in row.settings.items()))),
            ("tasks", counts or "none yet: interlock task create SUBJECT"),
            ("created", words.ago(row.created_at)),
            ("files", team.directory),
        ]
    )
    call.answer(found, [*fields, "", *_listed(found.members)])


@verb("adopt", example="interlock team adopt alpha-squad --workdir ~/projects/squad")
@click.argument("name")
@click.option(
    "--workdir", metavar="DIR", type=click.Path(), default=".", help="The directory [default: the current one]."
)
def adopt(call: Call, name: str, workdir: str) -> None:
    """Say that a team which works elsewhere is to work in this directory from now on.

    A repository that was moved is recognised without it, by what Interlock left in it. This is for a project that shows
    nothing of the kind, and for another clone that is to take the team over: work that is not merged stays on branches
    of the repository that it was done in. No file is touched.
    """
    before = call.home.glance(name).workdir
    found = call.home.move_team(name, workdir).describe()
    place = found.team.workdir or ""
    was = f", no longer in {words.clean(before)}" if before not in (None, place) else ""
    call.answer(found, f"{words.strong(name)} works in {words.clean(place)}{was}")


@verb("delete", example="interlock team delete alpha-squad --yes")
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Do not ask, and end members that are at work.")
def delete(call: Call, name: str, yes: bool, force: bool) -> None:
    """Delete a team with everything in it: tasks, messages, history, logs.

    Members at work are asked to stop first, and the team is not deleted before they have. On a terminal you are asked;
    elsewhere it needs --yes.
    """
    found = call.home.deletable(call.team_named(name).name, by=call.who.name)
    if not (yes or force):
        if call.json or not sys.stdin.isatty():
            raise InvalidRequest(
                f"Deleting {name} deletes its whole history, and nobody can be asked here. Add --yes.", field="yes"
            )
        tasks = sum(number for word, number in found.task_counts.items() if word != "deleted")
        if not click.confirm(f"Delete {name} with {words.count(tasks, 'task')} and its whole history?", err=True):
            click.echo("Nothing was deleted.", err=True)
            raise click.exceptions.Exit(1)
    call.home.delete_team(name, force=force, by=call.who.name)
    call.answer({**found.as_dict(), "status": "deleted"}, f"{words.strong(name)} deleted")


@verb("spawn", example="interlock member spawn researcher --agent claude")
@click.argument("name")
@click.option(
    "--agent", metavar="A",
    help="An agent such as claude, or a program with its arguments; without one, a person fills the seat.",
)  # fmt: skip
@click.option("--agent-id", metavar="ID", help="What the session key names as the agent [default: the name].")
@click.option("--type", metavar="T", help="What kind of member it is, such as reviewer.")
@click.option("--model", metavar="M", help="The model its agent is to use.")
@click.option("--permissions", metavar="P", help="ask, workspace, read-only or unattended.")
def spawn(call: Call, name: str, agent: str | None, **given: str | None) -> None:
    """Add a member. Nothing is started; `interlock run` starts agents."""
    agent, command = program(agent) if agent else (None, None)
    member = call.team().spawn(name, agent=agent, command=command, **given)
    call.answer(member.as_dict(), f"{words.strong(name)} joined as {member.session_key}")


@verb("list", reads=True, example="interlock member list")
def members(call: Call) -> None:
    """Who takes part, and on what."""
    found = call.team().members()
    call.answer({"members": found}, _listed(found))


@verb("remove", example="interlock member remove researcher")
@click.argument("name")
def remove(call: Call, name: str) -> None:
    """Take a member out of the team; its tasks go back to the queue."""
    team = call.team()
    gone = next((member.as_dict() for member in team.members() if member.name == name), {"name": name})
    released = team.remove(name)
    text = f"{words.strong(name)} removed" + (f"; back in the queue: {', '.join(released)}" if released else "")
    call.answer({**gone, "status": "removed", "current_task": None, "released": released}, text)


def _listed(members: list[Member]) -> list[str]:
    rows = [
        [
            words.strong(one.name), one.role, words.state(one.status),
            *(words.clean(value or "") for value in (one.agent, one.model, one.type)), one.current_task or "",
            words.ago(one.last_active_at), words.clean(one.session_key),
        ]
        for one in members
    ]  # fmt: skip
    lines = words.table(["MEMBER", "ROLE", "STATUS", "AGENT", "MODEL", "TYPE", "TASK", "ACTIVE", "SESSION KEY"], rows)
    if len(members) <= 1:
        lines += ["", "Only the lead so far. Add a member: interlock member spawn NAME"]
    return lines


@verb("request", example='interlock shutdown request researcher --reason "work is done"')
@click.argument("member", required=False)
@click.option("--reason", type=TEXT, help="Why.")
def request_shutdown(call: Call, member: str | None, reason: str | None) -> None:
    """Ask MEMBER to stop; without one, announce my own shutdown to the lead and to whoever waits for my tasks."""
    _shutdown(call, call.team().request_shutdown(member, reason=reason))


@verb("approve", example="interlock shutdown approve --as researcher")
@click.argument("request", required=False)
@click.option("--reason", type=TEXT, help="A word on it.")
def approve_shutdown(call: Call, request: str | None, reason: str | None) -> None:
    """Agree to a shutdown: to REQUEST, or to the only open one that asks me."""
    _shutdown(call, call.team().answer_shutdown(request, approve=True, reason=reason))


@verb("reject", example='interlock shutdown reject --reason "tests are still running" --as researcher')
@click.argument("request", required=False)
@click.option("--reason", type=TEXT, required=True, help="Why not; - reads it from stdin.")
def reject_shutdown(call: Call, request: str | None, reason: str) -> None:
    """Refuse a shutdown: REQUEST, or the only open one that asks me."""
    _shutdown(call, call.team().answer_shutdown(request, approve=False, reason=reason))


def _shutdown(call: Call, found: StopRequest) -> None:
    silent = [name for name in found.asked if name not in found.answers]
    state = f"waits for {', '.join(silent)}" if found.state == "open" and silent else found.state
    call.answer(found, f"{words.strong(found.id)}: shutdown of {words.strong(found.subject)} {state}")
