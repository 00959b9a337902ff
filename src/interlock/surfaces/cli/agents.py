"""`interlock agents …`, `join` and `leave`: agent programs, and how those of a project take part in a team."""

from __future__ import annotations

import os

import click

from interlock import app
from interlock.app import joining
from interlock.errors import AgentError
from interlock.model.names import LEAD, PROGRAMS
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, verb

HOW = {"headless": "one prompt at a time", None: "not installed"}
NO_REGISTRY = "No registry is kept here. `interlock agents registry FILE|URL` takes one over."
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
            words.strong(one.info.name),
            _driven(one),
            words.clean(f"{one.info.name} {one.info.version or 'unknown'}"),
            one.tested,
            words.clean(" ".join(one.guarantees)),
        ]
        for one in found
        if one.installed
    ]
    missing = [one.info for one in found if not (one.installed or one.info.listed)]
    lacking = [words.clean(f"{one.info.name}: {one.info.lacks}.") for one in found if one.info.lacks]
    lines = words.table(["AGENT", "DRIVEN BY", "PROGRAM", "TESTED", "GUARANTEES"], rows) if rows else []
    if missing:
        lines += [""] * bool(rows) + words.table(
            ["NOT INSTALLED", "TO INSTALL IT"], [[one.name, words.clean(one.install)] for one in missing]
        )
    if lacking:
        lines += ["", *lacking]
    if any(one.installed and one.tested != "checked" for one in found):
        lines += ["", "To try one here, for a few requests of its model: interlock agents check NAME"]
    call.answer({"agents": found}, lines)


@verb("registry", example="interlock agents registry\ninterlock agents registry registry.json")
@click.argument("source", required=False)
def registry(call: Call, source: str | None) -> None:
    """The agents of the ACP registry that there are for this machine.

    SOURCE is the registry's file, or its address: a copy of it is kept in the home, and every agent in it works under
    its id, in plans as `agent: ID`, once its program is installed. Nothing is fetched without SOURCE. An entry says
    which program is started, so take it from where you trust it.
    """
    found = call.home.agent_registry(source)
    rows = [
        [
            words.strong(words.clean(one.info.name)),
            words.clean(one.info.title),
            words.clean(one.info.version or "installed") if one.installed else words.faint(HOW[None]),
            "" if one.installed else words.clean(f"to install it: {one.info.install}"),
        ]
        for one in found
    ]
    lines = words.table(["AGENT", "NAME", "PROGRAM", ""], rows)
    call.answer({"agents": found}, lines if found else NO_REGISTRY)


@verb("check", example="interlock agents check claude")
@click.argument("name", required=False)
@click.option("--model", metavar="M", help="The model it is to use, in its own words.")
def check(call: Call, name: str | None, model: str | None) -> int:
    """Try an agent with one small task in a team of its own, and say what worked; without NAME, all that are installed.

    It is told to take the task over our MCP tools, to run one harmless command from its own shell, and to report; that
    costs a few requests of its model. The exit code is 1 when one cannot take part.
    """
    names = [name] if name else [one.info.name for one in call.home.agents() if one.installed]
    if not names:
        raise AgentError("No agent program is installed here. `interlock agents list` says how to install one.")
    found = []
    for agent in names:
        if not call.json:
            click.echo(f"{words.strong(agent)}: trying it with one small task …", err=True)
        found.append(call.home.check_agent(agent, model=model))
    lines, shown = [], []
    marks = {True: click.style("yes", fg="green"), False: click.style("no ", fg="red"), None: words.faint("?  ")}
    for one in found:
        checked, info = one.checked, one.info
        assert checked is not None  # It has just been tried.
        version = f" {words.clean(info.version)}" if info.version else ""
        verdict = click.style("works", fg="green") if checked.works else click.style("cannot take part", fg="red")
        lines.append(f"{words.strong(info.title)}{version}, {_driven(one)}: {verdict} ({checked.seconds} s)")
        for ability, worked in checked.abilities.items():
            detail = words.clean(checked.details.get(ability, ""))
            told = f"{ABILITIES.get(ability, ability)}{f': {detail}' if detail else ''}"
            lines.append(f"  {marks[worked]}  {told}")
        lines += [f"  {marks[False]}  {words.clean(info.lacks)}"] if info.lacks else []
        shown.append({**one.as_dict(), "works": checked.works})
    call.answer(shown[0] if name else {"agents": shown}, lines)
    return 0 if all(one["works"] for one in shown) else 1


def _driven(one: app.running.AgentSummary) -> str:
    """The program that is started, which may be an adapter with a copy of the agent's own program."""
    path, how = os.path.basename(one.info.path or ""), one.info.how
    version = f" {one.info.adapter.rpartition(' ')[2]}" if one.info.adapter else ""
    return f"{words.clean(path + version)} (ACP)" if how == "acp" else HOW[how]


@verb("join", example="interlock join --team alpha-squad --name ada --agent claude")
@click.option("--name", metavar="M", help="Name of its first window [default: the program's name].")
@click.option("--agent", metavar="A", type=click.Choice(PROGRAMS), help="The program [default: the one found].")
def join(call: Call, name: str | None, agent: str | None) -> None:
    """Connect the agent program that you start in this directory to a team.

    It gets hooks and an MCP entry, in the settings of this directory; what else is in there stays as it is. From then
    on each of its windows is a member: the first NAME, the next NAME-2. `interlock leave` gives the files back.

    With a home elsewhere, each window is the member whose token `interlock login` keeps here. The files get the
    address, and no token.
    """
    found = joining.join(call.home, call.team(), os.getcwd(), agent, name)
    second = f"a second window is {found.name if found.name != LEAD else found.agent}-2"
    if call.home.elsewhere:
        second = "each of its windows is, in a session of its own"
    who = f"{words.strong(found.agent)} started in this directory is {words.strong(found.name)}"
    lines = [
        *(f"{one.done}: {one.path}" for one in found.files),
        f"{who} in {words.strong(found.team)}; {second}. Windows that are open now join when they are restarted.",
        *(
            ["Its plugin brings hooks and tools, so that none were put into the settings of this directory."]
            if found.plugin
            else [found.note, f"`interlock leave` gives the files back; {found.record}/original has them as they were."]
        ),
    ]
    call.answer(found, lines)
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
    lines = [f"{one.done}: {os.path.join(one.project, one.path)}" for one in found]
    call.answer({"files": found}, lines or "Nothing has joined here.")
