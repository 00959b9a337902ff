"""`interlock agents …`"""

from __future__ import annotations

import os
from typing import Any

import click

from interlock.errors import AgentError
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
    "resume": "goes on with an earlier session",
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
    lines = [line for one in found for line in _shown(one)]
    call.answer(found[0] if name else {"agents": found}, lines)
    return 0 if all(one["works"] for one in found) else 1


def _driven(one: dict[str, Any]) -> str:
    """The program that is started, which may be an adapter with a copy of the agent's own program."""
    return f"{words.clean(os.path.basename(one['path']))} (ACP)" if one["how"] == "acp" else HOW[one["how"]]


def _shown(found: dict[str, Any]) -> list[str]:
    checked = found["checked"]
    version = f" {words.clean(found['version'])}" if found["version"] else ""
    verdict = click.style("works", fg="green") if found["works"] else click.style("cannot take part", fg="red")
    lines = [f"{words.strong(found['title'])}{version}, {_driven(found)}: {verdict} ({checked['seconds']} s)"]
    marks = {True: click.style("yes", fg="green"), False: click.style("no ", fg="red"), None: words.faint("?  ")}
    for name, worked in checked["abilities"].items():
        detail = words.clean(checked["details"].get(name, ""))
        lines.append(f"  {marks[worked]}  {ABILITIES.get(name, name)}{f': {detail}' if detail else ''}")
    if found["lacks"]:
        lines.append(f"  {marks[False]}  {words.clean(found['lacks'])}")
    return lines
