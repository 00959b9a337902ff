"""The teams of a home: creating, opening and deleting them."""

from __future__ import annotations

import os
from typing import Any

from interlock import app, core, settings
from interlock.app.base import calling
from interlock.app.mail import Mailing
from interlock.app.stopping import ask_running, stop_runner
from interlock.app.team import Team
from interlock.app.windows import WindowVerbs
from interlock.clock import iso
from interlock.core.unit_of_work import Principal
from interlock.errors import MembersRunning, StorageError, TeamExists, TeamLimit, TeamNotFound
from interlock.model.names import HUMAN, check_session_key, check_team_name, check_text

PATH_LIMIT = 4096


class TeamsOfHome(WindowVerbs):
    """The teams of a home."""

    def create_team(
        self,
        name: str,
        lead: str = "agent:main:main",
        *,
        claim_policy: str | None = None,
        workdir: str | None = None,
    ) -> Team:
        """Create a team. Nothing is left behind when that fails.

        Raises:
            InvalidTeamName, InvalidRequest: a value makes no sense.
            TeamExists, TeamLimit: the name is taken, or the home is full.
            StorageError: the home cannot be written.
        """
        self.need_person("create a team")
        check_team_name(name)
        check_session_key(lead)
        if workdir is not None:
            check_text(workdir, "workdir", limit=PATH_LIMIT)
        values: dict[str, Any] = {}
        if claim_policy is not None:
            values["claim_policy"] = settings.known("claim_policy").parse(claim_policy, "team create")
        existing = self.teams()
        if name in existing:
            raise TeamExists(f"Team {name!r} exists already. Choose another name, or delete it first.", team=name)
        limit = self._settings.get("team_limit")
        if len(existing) >= limit:
            raise TeamLimit(
                f"This home has {limit} teams, which is the limit. Delete one, or raise the setting team_limit.",
                limit=limit,
                setting="team_limit",
            )
        at = iso(self._clock.now())
        workdir = os.path.abspath(workdir) if workdir is not None else None
        team, first = core.teams.founded(self._clock.new_id(), name, lead, workdir, values, at)
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            self._catalog.create(team, first, at)
            os.makedirs(os.path.join(self._teams, name), mode=0o700, exist_ok=True)
        except OSError as error:
            raise StorageError(f"Cannot create a team in {self._teams}: {error}.", path=self._teams) from error
        self.workspace(name).settle()
        return self.team(name)

    def team(self, name: str) -> Team:
        """Open the team of that name. Raises InvalidTeamName, TeamNotFound."""
        workspace, found = self.workspace(name), self.managed(name)
        caller = Principal(HUMAN) if found is None else Principal(*found)
        return Team(workspace, caller, self._open_memory, self._why_idle)

    def mailing(
        self, name: str, member: str, *, session: str | None = None, run: int | None = None, face: str = "python"
    ) -> Mailing:
        """Open only the mail of a team, as `member` sees it. Raises InvalidTeamName, TeamNotFound."""
        return Mailing(self.workspace(name), calling(member, session, run, face))

    def delete_team(self, name: str, *, force: bool = False) -> None:
        """Delete a team with all its directories. Members at work are asked to stop first, and it is refused.

        Raises:
            MembersRunning: somebody is at work; `force` ends them.
        """
        self.need_person("delete a team")
        workspace = self.workspace(name)
        if force:
            stop_runner(workspace, now=True)
        else:
            running = ask_running(workspace)
            if running:
                raise MembersRunning(
                    f"{', '.join(running)} {'is' if len(running) == 1 else 'are'} at work in {name!r} and got a "
                    f"shutdown request. `interlock stop --team {name}` lets them finish, with --now it ends them; then "
                    "delete the team. --force does both.",
                    members=running,
                )
        forget = app.running.forgetting(workspace)
        files = _inode(workspace.directory)
        try:
            self._catalog.delete(name, iso(self._clock.now()))
        except TeamNotFound:
            raise self._not_found(name) from None  # Somebody else deleted it at the same time.
        self._workspaces.pop(name, None)
        self._notifier.notify(name, {"events"})
        if _inode(workspace.directory) == files:  # Still the deleted team's, where its ledger is kept elsewhere.
            app.running.rmtree(workspace.directory, ignore_errors=True)
        self.tokens().forget_team(name)
        forget()


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None
