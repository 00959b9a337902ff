"""A home on this machine: a directory with one directory per team."""

from __future__ import annotations

import os

from interlock import settings as settings_module
from interlock.clients.local.agents import LocalAgents
from interlock.clients.local.base import calling
from interlock.clients.local.memories import LocalMemories
from interlock.clients.local.project_verbs import LocalProjects
from interlock.clients.local.windows import LocalWindows
from interlock.core.unit_of_work import Principal, Workspace
from interlock.errors import LedgerUnusable, MembersRunning, StorageError, TeamExists, TeamLimit, TeamNotFound
from interlock.model.names import HUMAN, check_session_key, check_team_name, check_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any, Self

    from interlock.agents.session import Update
    from interlock.clients.local.mail import LocalMailing
    from interlock.clients.local.team import LocalTeam
    from interlock.clock import Clock
    from interlock.model.team import Member
    from interlock.plan.document import Plan
    from interlock.runner.executor import Executor
    from interlock.runner.notifications import Notifications
    from interlock.runner.plan_apply import StagedPlan
    from interlock.runner.scheduler import Scheduler
    from interlock.runner.stop import Stop
    from interlock.settings import Settings
    from interlock.storage.catalog import Catalog
    from interlock.wakeup.notifier import Notifier

SETTINGS_FILE = "settings.json"
PATH_LIMIT = 4096


class LocalHome(LocalProjects, LocalWindows, LocalAgents, LocalMemories):
    """See `client.Home`."""

    def __init__(
        self,
        path: str,
        settings: Settings,
        clock: Clock,
        catalog: Catalog,
        notifier: Notifier,
        executor_for: Callable[[Member], Executor],
    ) -> None:
        self.path = path
        self._settings = settings
        self._clock = clock
        self._catalog = catalog
        self._notifier = notifier
        self._executor_for = executor_for
        self._workspaces: dict[str, Workspace] = {}

    def __repr__(self) -> str:
        return f"<Home {self.path}>"

    def create_team(
        self,
        name: str,
        lead: str = "agent:main:main",
        *,
        claim_policy: str | None = None,
        workdir: str | None = None,
    ) -> LocalTeam:
        from interlock.clock import iso
        from interlock.core.teams import founded

        self.need_person("create a team")
        check_team_name(name)
        check_session_key(lead)
        if workdir is not None:
            check_text(workdir, "workdir", limit=PATH_LIMIT)
        values: dict[str, Any] = {}
        if claim_policy is not None:
            values["claim_policy"] = settings_module.known("claim_policy").parse(claim_policy, "team create")
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
        team, first = founded(self._clock.new_id(), name, lead, workdir, values, at)
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            self._catalog.create(team, first, at)
            os.makedirs(os.path.join(self._teams, name), mode=0o700, exist_ok=True)
        except OSError as error:
            raise StorageError(f"Cannot create a team in {self._teams}: {error}.", path=self._teams) from error
        made = self.team(name)
        made._workspace.settle()
        return made

    def team(self, name: str) -> LocalTeam:
        from interlock.clients.local.team import LocalTeam

        workspace, found = self.workspace(name), self.managed(name)
        caller = Principal(HUMAN) if found is None else Principal(*found)
        return LocalTeam(workspace, caller, self.open_memory, self.why_idle)

    def mailing(
        self, name: str, member: str, *, session: str | None = None, run: int | None = None, face: str = "python"
    ) -> LocalMailing:
        # Mail alone: a hook that pays for this at every turn loads nothing of tasks.
        from interlock.clients.local.mail import LocalMailing

        return LocalMailing(self.workspace(name), calling(member, session, run, face))

    def teams(self) -> list[str]:
        return self._catalog.names()

    def places(self, team: str) -> list[str]:
        workspace = self.workspace(team)
        with workspace.ledger.snapshot() as rows:
            workdir = rows.team.get().workdir
        return [workspace.directory] if workdir is None else [workspace.directory, workdir]

    def delete_team(self, name: str, *, force: bool = False) -> None:
        from interlock.clients.local.copies import forgetting
        from interlock.clients.local.ending import ask_running, stop_runner
        from interlock.clock import iso
        from interlock.core.tokens import Tokens

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
        forget = forgetting(workspace)
        files = _inode(workspace.directory)
        try:
            self._catalog.delete(name, iso(self._clock.now()))
        except TeamNotFound:
            raise self._not_found(name) from None  # Somebody else deleted it at the same time.
        self._workspaces.pop(name, None)
        self._notifier.notify(name, {"events"})
        if _inode(workspace.directory) == files:  # Still the deleted team's, where its ledger is kept elsewhere.
            _remove_tree(workspace.directory)
        Tokens(self.path).forget_team(name)
        forget()

    def stage(self, plan: str, *, redo: Collection[str] = (), new: bool = False, dry_run: bool = False) -> StagedPlan:
        from interlock.plan.comparing import compare
        from interlock.runner import plan_apply

        self.need_person("start a plan")
        # Everything that can be refused is refused before anything is made.
        found, written, notes = self._examined(plan, new=new)
        fresh = found.team not in self.teams()
        if fresh:
            changes = compare(found, {}, redo)
            if dry_run:
                return plan_apply.staged(found, changes, notes)
            self.create_team(found.team, workdir=found.workdir)
        workspace = self.workspace(found.team)
        try:
            if dry_run:
                return plan_apply.staged(found, plan_apply.preview(workspace, found, redo=redo, new=new), notes)
            return plan_apply.staged(found, plan_apply.stage(workspace, found, written, redo=redo, new=new), notes)
        except BaseException:
            if fresh:
                self.delete_team(found.team, force=True)
            raise

    def check_plan(self, plan: str) -> tuple[str, ...]:
        return self._examined(plan)[2]

    def _examined(self, path: str, *, new: bool = False) -> tuple[Plan, str, tuple[str, ...]]:
        from interlock.clients.local.plans import examined

        existing = lambda team: self.workspace(team) if team in self.teams() else None  # noqa: E731
        return examined(path, existing, self._settings, self._executor_for, new=new)

    def drive(
        self,
        team: str,
        *,
        parallel: int | None = None,
        until: float | None = None,
        stop: Stop | None = None,
        on_update: Callable[[str, str, Update], None] = lambda member, task, update: None,
        take_over: bool = False,
        endless: bool = False,
        limits: Mapping[str, float] | None = None,
        hold: float | None = None,
        shared: bool = False,
        idle: bool = False,
    ) -> str:
        import anyio

        from interlock.runner.context import RunnerConfig
        from interlock.runner.team_runner import TeamRunner

        self.need_person("run a team")
        config = RunnerConfig(
            parallel=parallel, until=until, take_over=take_over, endless=endless, limits=limits or {}, hold=hold,
            shared=shared, idle=idle,
        )  # fmt: skip
        runner = TeamRunner(
            self.workspace(team), self._executor_for, config, home=self.path, stop=stop, on_update=on_update
        )
        return anyio.run(runner.work)

    def scheduler(self, team: str, *, interval: float) -> Scheduler:
        from interlock.processes import ref
        from interlock.runner.recovery_scan import LivenessProbe
        from interlock.runner.scheduler import Scheduler

        eyes = LivenessProbe()
        eyes.own = ref.current().as_text()
        return Scheduler(self.workspace(team), interval=interval, probe=eyes)

    def notices(self, team: str | None = None, *, link: Callable[[], str | None] = lambda: None) -> Notifications:
        from interlock.clients.local.telling import notices

        return notices(self, self._settings, self._clock, team, link)

    def propose(
        self, goal: str, *, agent: str, command: Sequence[str] = (), directory: str, path: str,
        on_update: Callable[[Update], None] = lambda update: None,
    ) -> str:  # fmt: skip
        from interlock.clients.local.proposals import propose

        self.need_person("ask for a plan")
        return propose(self._executor_for, self._settings, goal, agent, tuple(command), directory, path, on_update)

    def driven(self, team: str) -> bool:
        from interlock.processes.ref import alive

        with self.workspace(team).look() as rows:
            runner = rows.team.get().runner
        return runner is not None and alive(runner) is not False

    def stop(self, team: str, *, member: str | None = None, now: bool = False) -> dict[str, Any]:
        from interlock.clients.local import ending

        self.need_person("stop a team or a member")
        workspace = self.workspace(team)
        if member is not None:
            return ending.stop_member(workspace, member, now=now)
        return ending.stop_runner(workspace, now=now)

    def settings(self) -> list[dict[str, Any]]:
        from interlock.clients.local import configuration

        return configuration.shown(self._settings)

    def configure(self, changes: Mapping[str, Any]) -> None:
        from interlock.clients.local import configuration

        self.need_person("change settings")
        configuration.change(os.path.join(self.path, SETTINGS_FILE), changes)

    def doctor(self, team: str | None = None, *, repair: bool = False, adopt: bool = False) -> dict[str, Any]:
        from interlock.doctor.team import examine_all

        if repair or adopt:
            self.need_person("repair anything")
        return examine_all(
            self.path, self.teams() if team is None else [team], self._in_directory, self._catalog.inspect,
            lambda name, remove: self._notifier.leftovers(name, remove=remove),
            whole_home=team is None, repair=repair, adopt=adopt, why_idle=self.why_idle,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def warnings(self) -> list[str]:
        found: dict[str, None] = {}
        for workspace in list(self._workspaces.values()):
            unsaid, workspace.unsaid = workspace.unsaid, {}
            found |= unsaid
        return list(found)

    def close(self) -> None:
        for workspace in list(self._workspaces.values()):
            workspace.closes += 1
        self._catalog.close()
        self._workspaces.clear()

    @property
    def _teams(self) -> str:
        return os.path.join(self.path, "teams")

    def workspace(self, name: str) -> Workspace:
        """The team of that name, open for work.

        Raises:
            InvalidTeamName, TeamNotFound: there is none of that name.
            LedgerUnusable: it cannot be opened, or its directory holds the ledger of another team.
        """
        known = self._in_directory(name)
        if not known.named:
            with known.ledger.snapshot() as rows:
                own = rows.team.get().name
            if own != name:
                raise LedgerUnusable(
                    f"{known.directory} holds the ledger of team {own!r}: it was copied or renamed. Nothing was "
                    f"changed. Move it back, or make it a team of its own: `interlock doctor --repair --team {name}`.",
                    team=name,
                    ledger_of=own,
                )
            known.named = True
        return known

    def _in_directory(self, name: str) -> Workspace:
        """The team in the directory of that name, whatever it calls itself."""
        check_team_name(name)
        directory = os.path.join(self._teams, name)
        known = self._workspaces.get(name)
        try:
            ledger = self._catalog.open(name)
        except TeamNotFound:
            self._workspaces.pop(name, None)
            raise self._not_found(name) from None
        if known is None or known.ledger is not ledger:
            known = Workspace(name, directory, ledger, self._notifier, self._settings, self._clock)
            self._workspaces[name] = known
        return known

    def _not_found(self, name: str) -> TeamNotFound:
        from difflib import get_close_matches

        names = self.teams()
        near = get_close_matches(name, names, n=1)
        if near:
            hint = f"Did you mean {near[0]}?"
        elif names:
            hint = f"Teams here: {', '.join(names[:10])}."
        else:
            hint = f"`interlock run PLAN` makes the team of a plan, `interlock team create {name}` an empty one."
        return TeamNotFound(f"Team {name!r} not found. {hint}", team=name)


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def _remove_tree(path: str) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)
