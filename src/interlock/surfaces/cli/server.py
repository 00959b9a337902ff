"""What runs in a home, paused, stopped, opened or polled, and MCP and ACP over stdio."""

from __future__ import annotations

import os

import click

from interlock import app
from interlock.app import server_lock
from interlock.app.team import Team
from interlock.hooks_team import plugin_options
from interlock.model.names import PROGRAMS
from interlock.surfaces.acp import serve as serve_acp
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import TEXT, Call, verb
from interlock.surfaces.cli.caller import choose_team
from interlock.surfaces.mcp import serve as serve_mcp
from interlock.surfaces.mcp import serve_no_tools


@verb("open", example="interlock open\ninterlock open --browser")
@click.option("--browser", "browse", is_flag=True, help="Open the page in a browser.")
def open_(call: Call, browse: bool) -> None:
    """A fresh link to the page of the running server. It lets one browser in, once, and expires within the hour."""
    call.home.need_here("open")
    call.home.need_person("open the page")
    server = server_lock.need(call.home.path)
    link = server_lock.link_to(server.url, call.home.tokens())
    call.answer({"url": server.url, "link": link}, link)
    if browse:
        show_in_browser(call, link)


def show_in_browser(call: Call, link: str) -> None:
    if not server_lock.open_in_browser(call.home.path, link):
        click.echo("No browser could be opened; open the link yourself.", err=True)


@verb("down", example="interlock down")
def down(call: Call) -> int:
    """End everything that runs in this home, and check that it is gone."""
    call.home.need_here("down")
    call.home.need_person("end what runs in this home")
    server = server_lock.end(call.home.path)
    stopped = [call.home.stop(name, now=True) for name in call.home.teams()]
    lines = [] if server is None else [f"Ended the server at {server}."]
    lines += [line for found in stopped if found.ended or found.left or not found.gone for line in _stopped(found)]
    call.answer({"server": server, "teams": [found.as_dict() for found in stopped]}, lines or ["Nothing runs here."])
    return 0 if all(found.gone for found in stopped) else 1


@verb("stop", example="interlock stop\ninterlock stop --now --member bob")
@click.option("--now", is_flag=True, help="End processes instead of asking.")
@click.option("--member", metavar="M", help="Only this member.")
def stop(call: Call, now: bool, member: str | None) -> int:
    """Stop a team's runner: it finishes current tasks and starts nothing new. With --now everything is ended.

    With --member that member is asked to shut down; with --now its run is ended and its task returned to the queue.
    """
    found = call.home.stop(call.team().name, member=member, now=now)
    call.answer(found.as_dict(), _stopped(found, member))
    return 0 if found.gone or not now else 1


def _stopped(found: app.stopping.StopOutcome, member: str | None = None) -> list[str]:
    team, asked, lines = found.team, found.asked, []
    now = f"`interlock stop --now {f'--member {member} ' if member else ''}--team {team}`"
    if asked and member:
        return [f"{team}: asked {member} to finish and shut down. {now} ends its run at once."]
    if asked == ("server",):
        return [f"{team}: paused; the server finishes current tasks. `interlock resume --team {team}` resumes."]
    if asked:
        return [f"{team}: the runner finishes current tasks and starts nothing new. {now} ends it at once."]
    if found.ended:
        lines.append(f"{team}: stopped {', '.join(found.ended)}.")
    if found.left:
        lines.append(
            f"{team}: its runner is dead, and the programs of {', '.join(found.left)} still run. {now} ends them."
        )
    if not found.gone:
        lines.append(f"{team}: not everything is gone yet; `interlock status --team {team}` shows what runs.")
    return lines or [f"{team}: {f'{member} runs nothing' if member else 'nothing runs'}."]


@verb("pause", example='interlock pause\ninterlock pause --member bob --reason "it needs a key"')
@click.option("--member", metavar="M", help="Only this member.")
@click.option("--reason", type=TEXT, help="Why.")
def pause(call: Call, member: str | None, reason: str | None) -> None:
    """Pause the team, or one member: no new task starts. What runs is finished; runners stay and wait."""
    team = call.team()
    team.pause(member, reason=reason)
    said = f"{words.strong(words.clean(member or team.name))} paused."
    call.answer({"team": team.name, "member": member, "status": "paused"}, said)


@verb("resume", example="interlock resume --member bob")
@click.option("--member", metavar="M", help="Only this member, also one that was stopped.")
def resume(call: Call, member: str | None) -> None:
    """Resume after a pause. A member that was paused by itself, or stopped, has to be named."""
    team = call.team()
    team.resume(member)
    said = f"{words.strong(words.clean(member or team.name))} resumed."
    call.answer({"team": team.name, "member": member, "status": "active"}, said)


@verb("poll", example="interlock scheduler poll --dry-run")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
def poll(call: Call, dry_run: bool) -> None:
    """Recover abandoned tasks, once: those whose run died, stopped sending heartbeats, or ran out of time.

    A result that such a run has left behind is applied; a task without one returns to the queue. A check that was
    under way is run here. Several may poll at the same time.
    """
    found = call.team().poll(dry_run=dry_run)
    lines = [f"{words.strong(one.type)}  {one.task_id or ''}  {one.reason}" for one in found.actions]
    call.answer(found, lines or [words.faint("Nothing would be done." if dry_run else "There was nothing to do.")])


@verb("mcp", example="interlock mcp --team alpha-squad --as researcher")
@click.option("--joined", type=click.Choice(PROGRAMS), help="Serve the window of this program that started it.")
@click.option("--name", metavar="M", help="With --joined: name of a new window [default: the program].")
@click.option("--plugin", is_flag=True, help="With --joined: started by the program's plugin, see `interlock join`.")
def mcp(call: Call, joined: str | None, name: str | None, plugin: bool) -> None:
    """MCP over stdio for one member: what an agent program starts to take part in a team.

    The lead may connect before the team exists, and create it through the connection. `interlock join` writes the
    line with --joined, which serves each window of a program as a member of its own. With --plugin it offers no tools
    where the project of the program has not joined by its plugin.
    """
    if plugin and joined is not None:
        found = plugin_options(joined)
        if found is None:
            serve_no_tools()
            return
        call.asked.home = found.get("--home", call.asked.home)
        call.asked.team = found.get("--team", call.asked.team)
        name = found.get("--name", name)
    who = call.who
    team = call.asked.team or choose_team(call.home)
    if joined is not None and not os.environ.get("INTERLOCK_SESSION"):
        serve_mcp(call.home, team, name or joined, None, joined)
    else:
        serve_mcp(call.home, team, who.name, who.session)


@verb("acp", example="interlock acp --team alpha-squad")
def acp(call: Call) -> None:
    """The team as one agent of the Agent Client Protocol, over stdio: what an editor starts as an agent of its own.

    What you write there is a chat message to the team, as on the page; its questions are asked there. Without --team it
    is the team of the directory that the editor names. Somebody has to do the tasks: `interlock up`, say.
    """
    call.home.need_person("lead a team from an editor")
    who = call.who

    def team_in(directory: str | None) -> Team:
        name = call.asked.team or choose_team(call.home, directory=directory)
        return call.home.team(name).acting(who.name, face="acp")

    serve_acp(call.home, team_in, who.name)
