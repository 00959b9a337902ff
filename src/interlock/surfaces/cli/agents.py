"""`interlock agents …`, `join` and `leave`: agent programs, and how those of a project take part in a team."""

from __future__ import annotations

import os
from typing import Any

import click

from interlock.app import joining
from interlock.errors import AgentError
from interlock.model.names import LEAD, PROGRAMS
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, verb

HOW = {"headless": "one prompt at a time", None: "not installed"}
ABILITIES = {
    "session": "opens a session",
    "prompt": "ends its turn",
    "updates": "tells what it does",
    "mcp": "uses our tools",
    "permission": "asks before it acts",
    "sandbox": "its commands reach the team",
    "cancel": "stops when asked",
    "resume": "resumes an earlier session",
}


@verb("list", example="interlock agents list")
def list_(call: Call) -> None:
    """Every kind of agent: whether it is installed, how it is driven, and what is known to work.

    What is known comes from a check on this machine, else from Interlock's own tests with the real program; an agent
    that has neither is untested.
    """
    found = call.home.agents()
    rows = [
        [
            words.strong(one["name"]),
            _driven(one) if one["installed"] else words.faint(HOW[None]),
            words.clean(f"{one['name']} {one['version']}" if one["version"] else ""),
            one["tested"] if one["installed"] else "",
            words.clean(" ".join(one["guarantees"]) if one["installed"] else one["install"]),
        ]
        for one in found
    ]
    lacking = [words.clean(f"{one['name']}: {one['lacks']}.") for one in found if one["lacks"]]
    lines = words.table(["AGENT", "DRIVEN BY", "PROGRAM", "TESTED", "GUARANTEES"], rows)
    if lacking:
        lines += ["", *lacking]
    if any(one["installed"] and one["tested"] != "checked" for one in found):
        lines += ["", "To try one here, for a few requests of its model: interlock agents check NAME"]
    call.answer({"agents": found}, lines)


@verb("check", example="interlock agents check claude")
@click.argument("name", required=False)
@click.option("--model", metavar="M", help="The model it is to use, in its own words.")
def check(call: Call, name: str | None, model: str | None) -> int:
    """Try an agent with one small task in a team of its own, and say what worked; without NAME, all that are installed.

    It is told to take the task over our MCP tools, to run one harmless command from its own shell, and to report; that
    costs a few requests of its model. The exit code is 1 when one cannot take part.
    """
    names = [name] if name else [one["name"] for one in call.home.agents() if one["installed"]]
    if not names:
        raise AgentError("No agent program is installed here. `interlock agents list` says how to install one.")
    found = []
    for one in names:
        if not call.json:
            click.echo(f"{words.strong(one)}: trying it with one small task …", err=True)
        found.append(call.home.check_agent(one, model=model))
    lines = []
    marks = {True: click.style("yes", fg="green"), False: click.style("no ", fg="red"), None: words.faint("?  ")}
    for one in found:
        checked = one["checked"]
        version = f" {words.clean(one['version'])}" if one["version"] else ""
        verdict = click.style("works", fg="green") if one["works"] else click.style("cannot take part", fg="red")
        lines.append(f"{words.strong(one['title'])}{version}, {_driven(one)}: {verdict} ({checked['seconds']} s)")
        for ability, worked in checked["abilities"].items():
            detail = words.clean(checked["details"].get(ability, ""))
            told = f"{ABILITIES.get(ability, ability)}{f': {detail}' if detail else ''}"
            lines.append(f"  {marks[worked]}  {told}")
        lines += [f"  {marks[False]}  {words.clean(one['lacks'])}"] if one["lacks"] else []
    call.answer(found[0] if name else {"agents": found}, lines)
    return 0 if all(one["works"] for one in found) else 1


def _driven(one: dict[str, Any]) -> str:
    """The program that is started, which may be an adapter with a copy of the agent's own program."""
    return f"{words.clean(os.path.basename(one['path']))} (ACP)" if one["how"] == "acp" else HOW[one["how"]]


@verb("join", example="interlock join --team alpha-squad --name ada --agent claude")
@click.option("--name", metavar="M", help="Name of its first window [default: the program's name].")
@click.option("--agent", metavar="A", type=click.Choice(PROGRAMS), help="The program [default: the one found].")
def join(call: Call, name: str | None, agent: str | None) -> None:
    """Connect the agent program that you start in this directory to a team.

    It gets hooks and an MCP entry, in the settings of this directory; what else is in there stays as it is. From then
    on each of its windows is a member: the first NAME, the next NAME-2. `interlock leave` gives the files back.
    """
    found = joining.join(call.home, call.team(), os.getcwd(), agent, name)
    files = [{"path": one.path, "done": one.done, "tracked": one.tracked} for one in found.files]
    document = {"project": found.project, "team": found.team, "name": found.name, "agent": found.agent}
    second = f"{found.name if found.name != LEAD else found.agent}-2"
    who = f"{words.strong(found.agent)} started in this directory is {words.strong(found.name)}"
    lines = [
        *(f"{one.done}: {one.path}" for one in found.files),
        f"{who} in {words.strong(found.team)}; a second window is {second}. Windows that are open now join when they "
        "are restarted.",
        found.note,
        f"`interlock leave` gives the files back; {found.record}/original has them as they were.",
    ]
    call.answer({**document, "files": files, "record": found.record}, lines)
    call.warn(
        [f"{one.path} is tracked by git: do not commit what was put into it." for one in found.files if one.tracked]
    )


@verb("leave", example="interlock leave")
@click.option("--agent", metavar="A", type=click.Choice(PROGRAMS), help="Only this program [default: all].")
@click.option("--all", "everywhere", is_flag=True, help="In every directory that joined a team of this home.")
def leave(call: Call, agent: str | None, everywhere: bool) -> None:
    """Take hooks and MCP entry out of this directory's settings again.

    A file that nobody edited since `join` is as it was, byte for byte; from others only our entries are taken. Members
    and their tasks stay in the team.
    """
    found = joining.leave(call.home, None if everywhere else os.getcwd(), agent)
    files = [{"project": one.project, "agent": one.agent, "path": one.path, "done": one.done} for one in found]
    lines = [f"{one.done}: {os.path.join(one.project, one.path)}" for one in found]
    call.answer({"files": files}, lines or "Nothing has joined here.")
