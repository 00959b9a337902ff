"""`interlock join` and `interlock leave`."""

from __future__ import annotations

import os
import shutil

import click

from interlock.errors import Conflict, InvalidRequest
from interlock.integrations.entries import PROGRAMS
from interlock.integrations.project import RECORD, Joined, join_project, joined_programs, leave_project
from interlock.model.names import LEAD, check_member_name
from interlock.surfaces.cli import words
from interlock.surfaces.cli.call import Call, verb


@verb("join", example="interlock join --team alpha-squad --name ada --agent claude")
@click.option("--name", metavar="M", help="What its first window is called by [default: the program's name].")
@click.option("--agent", metavar="A", type=click.Choice(list(PROGRAMS)), help="The program [default: the one found].")
def join(call: Call, name: str | None, agent: str | None) -> None:
    """Connect the agent program that you start in this directory to a team.

    It gets hooks and an MCP entry, in the settings of this directory; what else is in there stays as it is. From then
    on each of its windows is a member: the first NAME, the next NAME-2. `interlock leave` gives the files back.
    """
    call.home.need_person("let programs join")
    program = agent or _found(os.getcwd())
    team = call.team()
    called = name or program
    if called != LEAD:
        check_member_name(called)
    member = next((one for one in team.members() if one.name == called), None)
    if member is not None and member.agent is not None:
        raise Conflict(
            f"{called} is driven by Interlock itself ({member.agent}). Choose another --name for your own program.",
            member=called,
        )
    home = call.home.path
    usual = home == os.path.realpath(os.path.expanduser("~/.interlock"))
    joined = join_project(os.getcwd(), program, home=None if usual else home, team=team.name, name=called)
    call.home.note_joined(joined.project)
    if member is None:
        team.spawn(called, type=program)
    document = {
        "project": joined.project, "team": team.name, "name": called, "agent": program,
        "files": [{"path": path, "done": done, "tracked": path in joined.tracked} for path, done in joined.files],
        "record": RECORD,
    }  # fmt: skip
    call.answer(document, _told(joined, team.name, called, program))
    call.warn([f"{path} is tracked by git: do not commit what was put into it." for path in joined.tracked])


@verb("leave", example="interlock leave")
@click.option("--agent", metavar="A", type=click.Choice(list(PROGRAMS)), help="Only this program [default: all].")
@click.option("--all", "everywhere", is_flag=True, help="In every directory that joined a team of this home.")
def leave(call: Call, agent: str | None, everywhere: bool) -> None:
    """Take hooks and MCP entry out of this directory's settings again.

    A file that nobody edited since `join` is as it was, byte for byte; from others only our entries are taken. Members
    and their tasks stay in the team.
    """
    call.home.need_person("let programs leave")
    done = []
    for project in call.home.joined() if everywhere else [os.path.realpath(os.getcwd())]:
        done += [(project, *one) for one in leave_project(project, None if agent is None else [agent])]
        if not joined_programs(project):
            call.home.note_left(project)
    document = {
        "files": [{"project": project, "agent": one, "path": path, "done": what} for project, one, path, what in done]
    }
    lines = [
        f"{what}: {path if os.path.isabs(path) else os.path.join(project, path)}" for project, _, path, what in done
    ]
    call.answer(document, lines or "Nothing has joined here.")


def _told(joined: Joined, team: str, name: str, program: str) -> list[str]:
    lines = [f"{done}: {path}" for path, done in joined.files]
    return [
        *lines,
        f"{words.strong(program)} started in this directory is {words.strong(name)} in {words.strong(team)}; a second "
        f"window is {name if name != LEAD else program}-2. Windows that are open now join when they are restarted.",
        PROGRAMS[program].note,
        f"`interlock leave` gives the files back; {RECORD}/original has them as they were.",
    ]


def _found(directory: str) -> str:
    """The one program that this directory is set up for, or the only one that is installed.

    Raises:
        InvalidRequest: there is none, or several.
    """
    installed = [one.name for one in PROGRAMS.values() if any(shutil.which(command) for command in one.commands)]
    used = [
        one.name
        for one in PROGRAMS.values()
        if any(os.path.exists(os.path.join(directory, sign)) for sign in one.signs)
    ]
    for names in ([one for one in used if one in installed], installed, used):
        if len(names) == 1:
            return names[0]
    which = ", ".join(installed or PROGRAMS)
    raise InvalidRequest(f"Say which program is to join: --agent with one of {which}.", field="agent")
