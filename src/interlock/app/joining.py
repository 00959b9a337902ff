"""Joining: the agent program of a project gets our hooks and MCP entry, and gives them back.

A home remembers which projects joined, in a small file each (`joined/`), so that nobody has to wait for another.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from hashlib import sha256

from interlock.app.home import Home
from interlock.app.team import Team
from interlock.errors import Conflict, InvalidRequest, StorageError
from interlock.integrations import RECORD
from interlock.integrations.entries import PROGRAMS
from interlock.integrations.project import join_project, joined_programs, leave_project
from interlock.lazy_dataclass import dataclass
from interlock.model.names import JOINED, LEAD, check_member_name


@dataclass(slots=True, frozen=True)
class JoinedFile:
    """A settings file of a project: what was done to it, and whether git tracks it."""

    path: str
    done: str
    tracked: bool


@dataclass(slots=True, frozen=True)
class JoinedProgram:
    """A program that joined. `note` is what its users have to know, `record` where its files are as they were, and
    `plugin` says that its plugin brings hooks and tools, which are in no file of the project then."""

    project: str
    team: str
    name: str
    agent: str
    files: tuple[JoinedFile, ...]
    record: str
    note: str
    plugin: bool = False


@dataclass(slots=True, frozen=True)
class LeftFile:
    """A file of a project that a program left: its path, and what was done."""

    project: str
    agent: str
    path: str
    done: str


def join(home: Home, team: Team, directory: str, program: str | None = None, name: str | None = None) -> JoinedProgram:
    """Connect the agent program that is started in `directory` to the team; its first window is the member `name`.

    Args:
        program: by default the one that the directory is set up for, or the only one installed.
        name: by default the program's.

    Raises:
        Forbidden: this process belongs to a run, or the token does not act as that member.
        InvalidRequest, InvalidMemberName: the program cannot be told, the name makes no sense, or the home is elsewhere
            and no login is kept here.
        Conflict: Interlock itself drives that member, or an entry of somebody else is in the place of ours.
        ConfigParseError, StorageError: the files cannot be read or written.
    """
    home.need_person("let programs join")
    program = program or _found(directory)
    name = home.seat_name(name, program)
    if name != LEAD:
        check_member_name(name)
    member = next((one for one in team.members() if one.name == name), None)
    if member is not None and member.agent is not None:
        raise Conflict(
            f"{name} is driven by Interlock itself ({member.agent}). Choose another --name for your own program.",
            member=name,
        )
    usual = home.path == os.path.realpath(os.path.expanduser("~/.interlock"))
    joined = join_project(directory, program, home=None if usual else home.path, team=team.name, name=name)
    try:
        os.makedirs(os.path.join(home.local_path, JOINED), mode=0o700, exist_ok=True)
        with open(_note_of(home, joined.project), "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(joined.project)
    except OSError as error:
        raise StorageError(f"{home.local_path} cannot be written: {error}.", path=home.local_path) from error
    if member is None:
        team.spawn(name, type=program)
    files = tuple(JoinedFile(path, done, path in joined.tracked) for path, done in joined.files)
    return JoinedProgram(joined.project, team.name, name, program, files, RECORD, PROGRAMS[program].note, joined.plugin)


def leave(home: Home, directory: str | None, program: str | None = None) -> list[LeftFile]:
    """Take hooks and MCP entry out of the settings of `directory`, None for every one that joined; of all programs or
    one. A file that nobody edited is as it was before. Members and their tasks stay.

    Raises:
        Forbidden: this process belongs to a run.
        ConfigParseError, StorageError: the files cannot be read or written.
    """
    home.need_person("let programs leave")
    done: list[LeftFile] = []
    for project in joined_directories(home) if directory is None else [os.path.realpath(directory)]:
        done += [LeftFile(project, *one) for one in leave_project(project, None if program is None else [program])]
        if not joined_programs(project):
            try:
                with suppress(FileNotFoundError):
                    os.unlink(_note_of(home, project))
            except OSError as error:
                raise StorageError(f"{home.local_path} cannot be written: {error}.", path=home.local_path) from error
    return done


def joined_directories(home: Home) -> list[str]:
    """The directories that joined a team of this home. Raises StorageError."""
    where, found = os.path.join(home.local_path, JOINED), []
    try:
        for name in os.listdir(where) if os.path.isdir(where) else ():
            with open(os.path.join(where, name), encoding="utf-8", errors="surrogateescape") as file:
                found.append(file.read())
    except OSError as error:
        raise StorageError(f"{where} cannot be read: {error}.", path=where) from error
    return sorted(found)


def _note_of(home: Home, project: str) -> str:
    return os.path.join(home.local_path, JOINED, sha256(os.fsencode(project)).hexdigest()[:32])


def _found(directory: str) -> str:
    """The one program that this directory is set up for, or the only one that is installed."""
    known = PROGRAMS.values()
    installed = [one.name for one in known if any(shutil.which(command) for command in one.commands)]
    used = [one.name for one in known if any(os.path.exists(os.path.join(directory, sign)) for sign in one.signs)]
    for names in ([one for one in used if one in installed], installed, used):
        if len(names) == 1:
            return names[0]
    which = ", ".join(installed or PROGRAMS)
    raise InvalidRequest(f"Say which program is to join: --agent with one of {which}.", field="agent")
