"""Who calls, and which team is meant, by the rules of the contract (Command line).

*Team*: `--team`, `INTERLOCK_TEAM`, the nearest `interlock.toml` upward, the only team whose working directory, or own
one, contains the current one, else the only one that the program around us has joined; for what only reads, the only
team. *Actor*: `--as`, `INTERLOCK_MEMBER`, the joined program that the caller runs in, else `human`. *Session*:
`INTERLOCK_SESSION`, the one of the joined program, and `INTERLOCK_RUN` the number of the run under way.

The hook command loads this module at each start: it imports only what is needed.
"""

from __future__ import annotations

import os

from interlock.errors import ConfigParseError, Forbidden, InterlockError, InvalidRequest, TeamNotFound
from interlock.model.names import HUMAN
from interlock.processes.groups import RUN_TOKEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock.client import Home, Mailing, Team

TEAM_FILE = "interlock.toml"


class Identity:
    """Whom the caller acts as."""

    __slots__ = ("given", "name", "run", "session")

    def __init__(self, name: str, session: str | None, run: int | None, given: bool = True) -> None:
        self.name = name
        self.session = session
        self.run = run
        self.given = given
        """Whether the name was said; else it is what goes without saying."""


def identify(
    member: str | None = None, session: str | None = None, environment: Mapping[str, str] = os.environ
) -> Identity:
    """The actor: `member` and `session` where given (`--as`, `--session`), else what the environment says.

    Raises:
        Forbidden: a session is set, and `member` is another than the one it belongs to.
        InvalidRequest: `INTERLOCK_RUN` is not a number.
    """
    own = environment.get("INTERLOCK_MEMBER") or None
    set_session = environment.get("INTERLOCK_SESSION") or None
    # Within a run, the first verb that is more than a look refuses that, and notes it.
    if set_session and own and member not in (None, own) and RUN_TOKEN not in environment:
        raise Forbidden(
            f"This session belongs to {own} and cannot act as {member}. Leave --as out, or act as {member} from a "
            "terminal of your own, outside the session.",
            member=member,
        )
    number = _run_number(environment.get("INTERLOCK_RUN"))
    return Identity(member or own or HUMAN, session or set_session, number, given=bool(member or own))


def joined(home: Home, team: str, who: Identity) -> Identity:
    """`who`, or, within a run or a program that has joined the team, the member that this run or program is.

    Raises:
        Forbidden: within such a program, for another member than that one, or for a human.
    """
    run = home.managed(team)
    if run is not None:
        # Whoever names somebody else is refused by the first verb that is more than a look.
        member, session = run
        other = who.given and who.name != member
        return who if other else Identity(member, who.session or session, who.run)
    if who.session is not None:
        return who
    seat = home.seated(team)
    if seat is None:
        return who
    member, session = seat
    if who.given and who.name != member:
        raise Forbidden(
            f"This program joined {team} as {member} and cannot act as {who.name}. Leave --as out, or act as "
            f"{who.name} from a terminal of your own.",
            member=who.name,
        )
    return Identity(member, session, who.run)


def open_team(home: Home, team: str | None, who: Identity, *, reads: bool = False) -> Team:
    """The team that is meant, as `who` sees it; `reads` as in `choose_team`.

    Raises:
        TeamNotFound, InvalidTeamName, ConfigParseError: see `choose_team`.
    """
    name = team or choose_team(home, reads=reads)
    try:
        found = home.team(name)
    except TeamNotFound as error:
        raise error if team or os.environ.get("INTERLOCK_TEAM") else _not_made_yet(name) from None
    who = joined(home, name, who)
    return found.acting(who.name, session=who.session, run=who.run, face="cli")


def _not_made_yet(name: str) -> TeamNotFound:
    return TeamNotFound(
        f"{TEAM_FILE} names the team {name!r}, which does not exist yet. `interlock run PLAN` makes it from its plan, "
        f"`interlock team create {name}` an empty one.",
        team=name,
    )


def open_mail(home: Home, team: str | None, who: Identity, *, reads: bool) -> Mailing:
    """Only the mail of the team that is meant, which opens faster.

    Raises:
        InterlockError: as `open_team`.
    """
    name = team or choose_team(home, reads=reads)
    try:
        who = joined(home, name, who)
        return home.mailing(name, who.name, session=who.session, run=who.run, face="cli")
    except TeamNotFound as error:
        raise error if team or os.environ.get("INTERLOCK_TEAM") else _not_made_yet(name) from None


def choose_team(home: Home, environment: Mapping[str, str] = os.environ, *, reads: bool = False) -> str:
    """The name of the team that is meant when `--team` does not say. What only `reads` takes the only team there is;
    what changes something never reaches a team that was neither named nor is at work around here.

    Raises:
        TeamNotFound: nothing decides between several teams, or there is none; `teams` lists them.
        ConfigParseError: the nearest `interlock.toml` cannot be read.
    """
    named = environment.get("INTERLOCK_TEAM")
    if named:
        return named
    here = _current_directory()
    found = team_of_file(here) if here is not None else None
    if found is not None:
        return found
    teams = home.teams()
    if len(teams) == 1 and reads:
        return teams[0]
    around = [name for name in teams if here is not None and _works_around(home, name, here)]
    around = around or [name for name in teams if _has_joined(home, name)]
    if len(around) == 1:
        return around[0]
    if not teams:
        raise TeamNotFound(
            "There is no team here yet. Create one: `interlock team create NAME`, or `interlock init` in a project.",
            teams=[],
        )
    if len(teams) == 1:
        raise TeamNotFound(
            f"The only team, {teams[0]}, does not work in this directory, and this changes something. Say that it is "
            f"meant: --team {teams[0]} or INTERLOCK_TEAM={teams[0]}.",
            teams=teams,
        )
    raise TeamNotFound(
        f"There are {len(teams)} teams; say which with --team NAME or INTERLOCK_TEAM: {', '.join(teams)}.", teams=teams
    )


def team_of_file(directory: str) -> str | None:
    """The `team` of the nearest `interlock.toml` at or above `directory`; null where there is none.

    Raises:
        ConfigParseError: the file is not TOML, or its `team` is not a text.
    """
    while True:
        path = os.path.join(directory, TEAM_FILE)
        if os.path.exists(path):
            return _read_team(path)
        above = os.path.dirname(directory)
        if above == directory:
            return None
        directory = above


def _read_team(path: str) -> str | None:
    import tomllib

    try:
        with open(path, "rb") as file:
            value = tomllib.load(file).get("team")
    except (OSError, ValueError) as error:
        message = f"{path} cannot be read: {error}. Mend it, or name the team with --team."
        raise ConfigParseError(message, path=path) from error
    if value is not None and (not isinstance(value, str) or not value):
        raise ConfigParseError(f'{path}: team must be a name, as in team = "alpha-squad".', path=path)
    return value


def _works_around(home: Home, name: str, here: str) -> bool:
    try:
        roots = [os.path.realpath(place) for place in home.places(name)]
    except InterlockError:
        return False  # A team that cannot be opened is no reason to refuse work on another.
    return any(here == root or here.startswith(root.rstrip("/") + "/") for root in roots)


def _has_joined(home: Home, name: str) -> bool:
    try:
        return home.seated(name) is not None
    except InterlockError:
        return False


def _current_directory() -> str | None:
    try:
        return os.path.realpath(os.getcwd())
    except OSError:
        return None  # It was removed under us.


def _run_number(text: str | None) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise InvalidRequest(f"INTERLOCK_RUN must be the number of a run, not {text[:40]!r}.", field="INTERLOCK_RUN")
    return int(text)
