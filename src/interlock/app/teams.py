"""The teams of a home: creating, opening and deleting them."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from interlock import app, core, settings
from interlock.app.base import calling, free_name
from interlock.app.mail import Mailing
from interlock.app.team import Team
from interlock.app.windows import WindowVerbs
from interlock.clock import iso
from interlock.core.unit_of_work import Principal
from interlock.errors import (
    ConfigParseError,
    DirectoryNotFound,
    Forbidden,
    InterlockError,
    MembersRunning,
    StorageError,
    TeamExists,
    TeamLimit,
    TeamNotFound,
)
from interlock.model.json import Json
from interlock.model.names import HUMAN, NAME_LIMIT, check_session_key, check_team_name, check_text
from interlock.model.team import TeamOverview
from interlock.model.text import count

LEAD_KEY = "agent:main:main"
"""The session key of a lead, where none is said."""
PATH_LIMIT = 4096
TEAM_FILE = "interlock.toml"


def team_in(path: str) -> str | None:
    """The `team` that the team file at `path` names; None where it names none, or is not there.

    Raises:
        ConfigParseError: it cannot be read.
    """
    import tomllib

    try:
        with open(path, "rb") as file:
            value = tomllib.load(file).get("team")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        message = f"{path} cannot be read: {error}. Fix it, or name the team with --team."
        raise ConfigParseError(message, path=path) from error
    if value is not None and (not isinstance(value, str) or not value):
        raise ConfigParseError(f'{path}: team must be a name, as in team = "alpha-squad".', path=path)
    return value


class TeamsOfHome(WindowVerbs):
    """The teams of a home."""

    def create_team(
        self,
        name: str,
        lead: str = LEAD_KEY,
        *,
        claim_policy: str | None = None,
        workdir: str | None = None,
    ) -> Team:
        """Create a team. Nothing is left behind when that fails.

        Raises:
            InvalidTeamName, InvalidRequest: a value makes no sense.
            DirectoryNotFound: there is no directory `workdir`.
            TeamExists, TeamLimit: the name is taken, or the home is full.
            StorageError: the home cannot be written.
        """
        if workdir is not None:
            workdir = os.path.abspath(os.path.expanduser(check_text(workdir, "workdir", limit=PATH_LIMIT)))
            if not os.path.isdir(workdir):
                raise DirectoryNotFound(
                    f"The directory {workdir!r} does not exist: make it, or correct workdir.", field="workdir"
                )
        return self._founded(name, lead, claim_policy, workdir)

    def _founded(self, name: str, lead: str, claim_policy: str | None, workdir: str | None) -> Team:
        """A new team, in a directory that is there or is made next."""
        self.need_person("create a team")
        check_team_name(name)
        check_session_key(lead)
        values: Json = {}
        if claim_policy is not None:
            values["claim_policy"] = settings.known("claim_policy").parse(claim_policy, "team create")
        existing = self.teams()
        if name in existing:
            raise TeamExists(f"Team {name!r} exists already. Choose another name, or delete it first.", team=name)
        limit = self._settings.get("team_limit")
        if len(existing) >= limit:
            raise TeamLimit(
                f"This home has {count(len(existing), 'team')}, and may have {limit}. Delete one, or raise the setting "
                "team_limit.",
                limit=limit,
                setting="team_limit",
            )
        at = iso(self._catalog.now())
        team, first = core.teams.founded(self._clock.new_id(), name, lead, workdir, values, at)
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            self._catalog.create(team, first, at)
        except OSError as error:
            raise StorageError(
                f"{self._teams} cannot be made or written: {error.strerror or error}. Name another home with --home or "
                "INTERLOCK_HOME.",
                path=self._teams,
            ) from error
        self.workspace(name).settle()
        return self.team(name)

    def team(self, name: str) -> Team:
        """Open the team of that name. Raises InvalidTeamName, TeamNotFound."""
        workspace, found = self.workspace(name), self.managed(name)
        caller = Principal(HUMAN) if found is None else Principal(*found)
        return Team(workspace, caller, self._open_memory, self._why_idle)

    def team_of_project(self, root: str, preferred: str | None = None) -> Team:
        """The team that works in that directory, `preferred` where it does; made where there is none yet.

        Raises:
            As `create_team`.
        """
        names = self.teams()
        for name in sorted(names, key=lambda one: one != preferred):
            with suppress(InterlockError):  # A team that cannot be opened is no reason to refuse work on another.
                workdir = self.glance(name).workdir
                if workdir is not None and os.path.realpath(workdir) == os.path.realpath(root):
                    return self.team(name)
        for name in names:
            if self._place(name, root) == "moved":
                with self.workspace(name).act(Principal()) as act:
                    core.teams.work_in(act, root)
                return self.team(name)
        base = re.sub(r"[^a-z0-9_-]+", "-", os.path.basename(root).lower()).strip("-_")[:40] or "workflows"
        return self.create_team(free_name(base, names), workdir=root)

    def move_team(self, name: str, workdir: str) -> Team:
        """Have a team work in another directory, whatever it worked in before: it was moved, or is meant all the same.

        Raises:
            InvalidTeamName, TeamNotFound.
            DirectoryNotFound: there is no such directory.
            MembersRunning: it is being driven.
        """
        self.need_person("move a team")
        workspace, workdir = self.workspace(name), os.path.abspath(workdir)
        if not os.path.isdir(workdir):
            raise DirectoryNotFound(f"There is no directory {workdir}. Name the one that {name} is to work in.")
        if app.stopping.is_driven(workspace):
            raise MembersRunning(f"{name} is at work. `interlock stop --team {name}` first, then move it.")
        with workspace.act(Principal()) as act:
            core.teams.work_in(act, workdir, moved=True)
        return self.team(name)

    def misplaced(self, name: str, directory: str) -> str | None:
        """Why the team of that name, which a file in `directory` names, is not the one of that directory, with what to
        do, in sentences; None where it is.

        Raises:
            InvalidTeamName, TeamNotFound, LedgerUnusable.
        """
        place = app.planning.place
        team = place.look(self.workspace(name))
        where = place.place_of(team, directory)
        beside = team.plan is not None and os.path.realpath(team.plan).startswith(f"{os.path.realpath(directory)}/")
        # A team by hand was made wherever its maker happened to be: the file says where it belongs.
        if beside or where in place.OWN or team.plan is None:
            return None
        return (
            f"{place.reason(team, directory, where)} `--team {name}` speaks to it from here. To start one here: "
            f"`interlock run PLAN --team {self._own_name(name, directory)}`. {place.remedy(team, directory)}"
        )

    def _own_name(self, base: str, directory: str, plan: str | None = None) -> str:
        """The name of the team among `base`, `base-2`, … that works in `directory` and carries out no other plan than
        the one at `plan`; where there is none, the first of these that is free."""
        names = self.teams()
        family = re.compile(rf"{re.escape(base)}|{re.escape(base[: NAME_LIMIT - 4])}-[1-9][0-9]*")
        for name in sorted(filter(family.fullmatch, names), key=lambda one: (len(one), one)):
            if self._place(name, directory, plan) in ("here", "moved"):
                return name
        return free_name(base, names)

    def _place(self, name: str, directory: str, plan: str | None = None) -> str | None:
        """How `directory` stands to that team; None where it carries out another plan, or cannot be opened: nothing is
        started in it then."""
        place = app.planning.place
        with suppress(InterlockError):
            team = place.look(self.workspace(name))
            if plan is None or not team.carries_another(plan, directory):
                return place.place_of(team, directory, plan)
        return None

    def _refuse_elsewhere(self, name: str, directory: str) -> None:
        """Raise TeamExists where that team works in another directory."""
        place = app.planning.place
        team = place.look(self.workspace(name))
        where = place.place_of(team, directory)
        if where not in place.OWN:
            raise place.refusal(team, directory, where, self._own_name(name, directory))

    def mailing(
        self, name: str, member: str, *, session: str | None = None, run: int | None = None, face: str = "python"
    ) -> Mailing:
        """Open only the mail of a team, as `member` sees it. Raises InvalidTeamName, TeamNotFound."""
        return Mailing(self.workspace(name), calling(member, session, run, face))

    def export_ledger(self, team: str, path: str) -> str:
        """Write everything in a team's ledger to a new file; the SHA-256 of its rows.

        Raises:
            StorageError: it cannot be written, or is there already.
        """
        self.need_person("copy a ledger")
        return self.workspace(team).ledger.export(os.path.abspath(path))

    def import_ledger(self, path: str, name: str | None = None) -> Team:
        """Make a team from a file that `export_ledger` wrote, with all its ids and events, and by default its name.
        Under another name it is a team of its own: what is at work in the original is not at work in it.

        Raises:
            InvalidTeamName, TeamExists: the name cannot be that of a new team.
            StorageError: the file is damaged or of another version, or the ledger cannot be made.
        """
        self.need_person("take a ledger in")
        from interlock.doctor.team import separate  # here, since few commands read an archive
        from interlock.storage.sql import archive

        path = os.path.abspath(path)
        own = archive.read(path)[0].team
        name = check_team_name(own if name is None else name)
        self._catalog.take_in(path, name)
        if name != own:
            separate(self._in_directory(name))
        return self.team(name)

    def deletable(self, name: str, *, by: str = HUMAN) -> TeamOverview:
        """What would be deleted with a team.

        Raises:
            Forbidden: `by` is a plain member.
        """
        self.need_person("delete a team")
        with self.workspace(name).ledger.snapshot() as rows:
            address = rows.team.address(by)
        if address is not None and address[2] == "member":
            raise Forbidden(f"{by} may not delete {name}; only the lead or a human may.", member=by)
        return self.team(name).describe()

    def delete_team(self, name: str, *, force: bool = False, by: str = HUMAN) -> None:
        """Delete a team with all its directories. Members at work are asked to stop first, and it is refused.

        Raises:
            Forbidden: as `deletable`.
            MembersRunning: somebody is at work; `force` ends them.
        """
        self.deletable(name, by=by)
        workspace = self.workspace(name)
        if force:
            app.stopping.stop_runner(workspace, now=True)
        else:
            running = app.stopping.ask_running(workspace)
            if running:
                raise MembersRunning(
                    f"{', '.join(running)} {'is' if len(running) == 1 else 'are'} at work in {name!r} and got a "
                    f"shutdown request. `interlock stop --team {name}` lets them finish, with --now it ends them; then "
                    "delete the team. --force does both.",
                    members=running,
                )
        forget = app.running.forgetting(workspace)
        try:
            self._catalog.delete(name, iso(self._catalog.now()))
        except TeamNotFound:
            raise self._not_found(name) from None  # Somebody else deleted it at the same time.
        self._workspaces.pop(name, None)
        self._notifier.notify(name, {"events"})
        self.tokens().forget_team(name)
        forget()
