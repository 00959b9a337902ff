"""Who calls, and which team is meant, by the rules of the contract (Command line).

*Team*: `--team`, `INTERLOCK_TEAM`, the nearest `interlock.toml` upward unless the team of that name belongs to another
directory, the only team whose working directory, or own one, contains the current one, else the only one that the
program around us has joined; for what only reads, the only team. *Actor*: `--as`, `INTERLOCK_MEMBER`, the joined
program that the caller runs in or whose session its environment names, else `human`. *Session*: `INTERLOCK_SESSION`,
the one of the joined program, and `INTERLOCK_RUN` the number of the run under way.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from interlock.app.home import Home
from interlock.app.mail import Mailing
from interlock.app.teams import TEAM_FILE, team_in
from interlock.app.windows import TeamGlance, in_run
from interlock.errors import Forbidden, InterlockError, InvalidRequest, TeamNotFound
from interlock.model.names import HUMAN, LEAD


class Identity(NamedTuple):
    """Whom the caller acts as; `given` says whether the name was, or is what goes without saying."""

    name: str
    session: str | None
    run: int | None
    given: bool = True


def identify(member: str | None = None, session: str | None = None) -> Identity:
    """The actor: `member` and `session` where given (`--as`, `--session`), else what the environment says.

    Raises:
        Forbidden: a session is set, and `member` is another than the one it belongs to.
        InvalidRequest: `INTERLOCK_RUN` is not a number.
    """
    own, set_session, run = (os.environ.get(f"INTERLOCK_{name}") or None for name in ("MEMBER", "SESSION", "RUN"))
    # Within a run, the first verb that is more than a look refuses that, and notes it.
    if set_session and own and member not in (None, own) and not in_run():
        raise Forbidden(
            f"This session belongs to {own} and cannot act as {member}. Leave --as out, or act as {member} from a "
            "terminal of your own, outside the session.",
            member=member,
        )
    if run and not (run.isascii() and run.isdigit()):
        raise InvalidRequest(f"INTERLOCK_RUN must be the number of a run, not {run[:40]!r}.", field="INTERLOCK_RUN")
    return Identity(
        member or own or HUMAN, session or set_session, int(run) if run else None, given=bool(member or own)
    )


def _joined(team: TeamGlance, who: Identity) -> Identity:
    """`who`, or, within a run or a program that has joined the team, the member that this run or program is."""
    if team.run is not None:
        # Whoever names somebody else is refused by the first verb that is more than a look.
        member, session = team.run
        other = who.given and who.name != member
        return who if other else Identity(member, who.session or session, who.run)
    # A session that is named is another program's, within the window; it makes nobody a person.
    if team.seat is None or (who.session is not None and who.name not in (HUMAN, LEAD)):
        return who
    member, session = team.seat
    if who.given and who.name != member:
        raise Forbidden(
            f"This program joined {team.name} as {member} and cannot act as {who.name}. Leave --as out, or act as "
            f"{who.name} from a terminal of your own that this program has not started.",
            member=who.name,
        )
    return Identity(member, session, who.run)


def look_up(home: Home, team: str | None, who: Identity, *, reads: bool = False) -> tuple[TeamGlance, Identity]:
    """The team that is meant, and as whom the caller acts in it; `reads` as in `choose_team`.

    Raises:
        TeamNotFound, InvalidTeamName, ConfigParseError: see `choose_team`.
        Forbidden: the program around us joined the team as another member.
    """
    seen: dict[str, TeamGlance] = {}
    name = team or choose_team(home, reads=reads, seen=seen)
    try:
        found = seen.get(name) or home.glance(name)
    except TeamNotFound as error:
        if team or os.environ.get("INTERLOCK_TEAM"):
            raise
        raise TeamNotFound(
            f"{TEAM_FILE} names the team {name!r}, which does not exist yet. `interlock run PLAN --team {name}` makes "
            f"it from a plan, `interlock team create {name}` an empty one.",
            team=name,
        ) from error
    return found, _joined(found, who)


def open_mail(home: Home, team: str | None, who: Identity, *, reads: bool) -> Mailing:
    """Only the mail of the team that is meant, which opens faster. Raises as `look_up`."""
    found, who = look_up(home, team, who, reads=reads)
    return home.mailing(found.name, who.name, session=who.session, run=who.run, face="cli")


def choose_team(
    home: Home, *, reads: bool = False, seen: dict[str, TeamGlance] | None = None, directory: str | None = None
) -> str:
    """The name of the team that is meant in `directory`, by default the current one, when `--team` does not say. What
    only `reads` takes the only team there is; what changes something never reaches a team that was neither named nor is
    at work around there. `seen` keeps the teams that were looked at.

    Raises:
        TeamNotFound: nothing decides between several teams, or there is none; `teams` lists them. Or the nearest
            `interlock.toml` names one that works in another directory.
        ConfigParseError: the nearest `interlock.toml` cannot be read.
    """
    named = os.environ.get("INTERLOCK_TEAM")
    if named:
        return named
    try:
        here = os.path.realpath(directory or os.getcwd())
    except OSError:
        here = None  # It was removed under us.
    looked = {} if seen is None else seen
    found, path = _team_of_file(here) if here is not None else (None, "")
    why = None if found is None else _misplaced(home, found, os.path.dirname(path), looked)
    if found is not None and why is None:
        return found
    teams = home.teams()
    if len(teams) == 1 and reads and why is None:
        return teams[0]
    for name in teams:
        with suppress(InterlockError):  # A team that cannot be opened is no reason to refuse work on another.
            looked[name] = home.glance(name)
    around = [
        name for name, one in looked.items() if here is not None and _contains((one.directory, one.workdir), here)
    ]
    if why is not None:  # The file stands nearer than a team that works above its directory.
        around = [name for name in around if _is_near(looked[name], here or "", os.path.dirname(path))]
    around = around or [name for name, one in looked.items() if one.seat is not None]
    if len(around) == 1:
        return around[0]
    if why is not None:
        raise TeamNotFound(f"{path} names a team that is not this directory's. {why}", team=found, teams=teams)
    if not teams:
        message = "There is no team yet. Create one: `interlock team create NAME`, or `interlock init` in a project."
    elif len(teams) == 1:
        message = (
            f"The only team, {teams[0]}, does not work in this directory, and this changes something. Say that it is "
            f"meant: --team {teams[0]} or INTERLOCK_TEAM={teams[0]}."
        )
    else:
        message = f"Choose one of the {len(teams)} teams with --team NAME or INTERLOCK_TEAM: {', '.join(teams)}."
    raise TeamNotFound(message, teams=teams)


def _team_of_file(directory: str) -> tuple[str | None, str]:
    """The `team` of the nearest `interlock.toml` at or above `directory`, and its path; `None` if there is none."""
    path = os.path.join(directory, TEAM_FILE)
    while not os.path.exists(path):
        above = os.path.dirname(directory)
        if above == directory:
            return None, ""
        directory, path = above, os.path.join(above, TEAM_FILE)
    return team_in(path), path


def _misplaced(home: Home, name: str, project: str, looked: dict[str, TeamGlance]) -> str | None:
    """Why the team that the file in `project` names is not the one that works there; `None` where it is, or nobody can
    tell from here."""
    if home.elsewhere:
        return None
    try:
        one = looked[name] = home.glance(name)
        if one.workdir is None or _contains((one.directory, one.workdir), project):
            return None
        return None if _contains((project,), os.path.realpath(one.workdir)) else home.misplaced(name, project)
    except InterlockError:  # It is not there yet, or cannot be opened, as whoever speaks to it is told.
        return None


def _is_near(team: TeamGlance, here: str, project: str) -> bool:
    """Whether the team works in that project, or `here` is in one of its worktrees."""
    inside = team.workdir is not None and _contains((project,), os.path.realpath(team.workdir))
    return inside or _contains((team.directory,), here)


def _contains(places: Sequence[str | None], here: str) -> bool:
    roots = (os.path.realpath(place).rstrip("/") for place in places if place is not None)
    return any(f"{here}/".startswith(f"{root}/") for root in roots)
