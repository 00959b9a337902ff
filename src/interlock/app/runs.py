"""Running a team: from a plan to agents at work, and stopping them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from interlock import app
from interlock.app import stopping
from interlock.app.stopping import StopOutcome
from interlock.app.teams import TeamsOfHome
from interlock.core.unit_of_work import Workspace
from interlock.processes.ref import alive, current


class TeamRecovery:
    """Takes up, again and again, what nobody works on any more in a team."""

    def __init__(self, workspace: Workspace, interval: float) -> None:
        probe = app.running.LivenessProbe()
        probe.own = current().as_text()
        self._scheduler = app.running.Scheduler(workspace, interval=interval, probe=probe)

    def poll(self) -> None:
        """Recover what can be recovered now."""
        self._scheduler.written_down(self._scheduler.carry_out(self._scheduler.look()))

    @property
    def left(self) -> bool:
        """Whether there are checks or merges to do, which take as long as they take."""
        return bool(self._scheduler.verifies() or self._scheduler.next_merge())

    @property
    def rests(self) -> bool:
        """Whether nothing can be taken up before something happens in the team."""
        return self._scheduler.rests()


class RunVerbs(TeamsOfHome):
    """Plans, runners, and what tells people that something needs them."""

    def stage(
        self, plan: str, *, redo: Collection[str] = (), new: bool = False, dry_run: bool = False
    ) -> app.planning.StagedPlan:
        """Bring a team up to a plan file: members, tasks, dependencies, all or nothing.

        Args:
            redo: keys of finished tasks that are to be done again.
            new: start the whole plan over.

        Raises:
            PlanError: the plan cannot be run; `errors` lists every fault with its line.
            AgentError: a member's agent cannot be run by this version.
            Forbidden: this process belongs to a run.
        """
        self.need_person("start a plan")
        # Everything that can be refused is refused before anything is made.
        found = self._examined(plan, new=new)
        name = found[0].team
        fresh = name not in self.teams()
        if fresh:
            preview = app.planning.apply(None, found, redo=redo, new=new, dry_run=True)
            if dry_run:
                return preview
            self.create_team(name, workdir=found[0].workdir)
        try:
            return app.planning.apply(self.workspace(name), found, redo=redo, new=new, dry_run=dry_run)
        except BaseException:
            if fresh:
                self.delete_team(name, force=True)
            raise

    def check_plan(self, plan: str) -> tuple[str, ...]:
        """What the person who runs that plan should know before, in sentences; nothing is made.

        Raises:
            PlanError, AgentError, WorktreeRefused, GitFailed: it cannot be carried out.
        """
        return self._examined(plan)[2]

    def first_plan(self, directory: str) -> app.planning.FirstPlan:
        """Find agents, git and the commands that run in `directory`, and write a team's file and a plan into it.

        Raises:
            InvalidRequest: there is no such directory, or one of the files exists; nothing was written.
            StorageError: the file system refused; nothing was left behind.
        """
        return app.planning.initialise(directory)

    def read_plan(self, text: str, path: str) -> app.planning.Plan:
        """What the text of a plan that is, or will be, at `path` says. Raises PlanError."""
        return app.planning.parse(text, path)

    def plan_schema(self) -> dict[str, Any]:
        """The JSON Schema of plans."""
        return app.planning.json_schema()

    def plan_path(self, goal: str, directory: str) -> str:
        """A file in `directory` for a plan with that goal, which does not exist yet; nor does a team of its name."""
        return app.planning.file_name(goal, directory, self.teams())

    def default_agent(self) -> str:
        """The agent program on this machine that is asked for plans. Raises InvalidRequest where there is none."""
        return app.planning.default_agent()

    def propose(
        self, goal: str, *, agent: str, command: Sequence[str] = (), directory: str, path: str,
        on_update: Callable[[app.running.Update], None] = lambda update: None,
    ) -> str:  # fmt: skip
        """Ask an agent for a plan that reaches `goal`, to be written at `path`; returns its text, which can be run.
        Nothing is written, nothing is created. `agent` and `command` are as in a plan's member.

        Raises:
            AgentError: the agent is unknown, not installed, or did not answer.
            PlanError: what it proposed cannot be used, also after it was told why.
            InvalidRequest: the goal is empty or too long.
        """
        self.need_person("ask for a plan")
        return app.planning.propose(
            self._executor_for, self._settings, goal, agent=agent, command=tuple(command), directory=directory,
            path=path, on_update=on_update,
        )  # fmt: skip

    def drive(
        self,
        team: str,
        *,
        parallel: int | None = None,
        until: float | None = None,
        stop: app.running.Stop | None = None,
        on_update: Callable[[app.running.Update], None] = lambda update: None,
        take_over: bool = False,
        endless: bool = False,
        limits: Mapping[str, float] | None = None,
        hold: float | None = None,
        shared: bool = False,
        idle: bool = False,
    ) -> str:
        """Run the team's agents until nothing can proceed without a person; returns why it ended.

        Args:
            parallel: runs open at once; the team's setting by default.
            until: seconds since the epoch after which nothing new starts.
            stop: how others ask it to end.
            on_update: hears everything the agents say, and what concerns the run as a whole. If it raises it is called
                no more, and `drive` raises that in the end.
            take_over: replace a runner on another machine, of which nobody here can tell whether it lives.
            endless: wait for new work until stopped; several processes may do so at once in one team.
            limits: what this run may use before nothing new starts: `turns`, `tokens`, `cost_usd`.
            hold: seconds that sessions wait for people when nothing else is left to do; until `hold_time` is over by
                default.
            shared: with `endless`: this process does more than that, and is not to be ended to stop the team.
            idle: also while no member has an agent that can be had here, to recover what nobody works on.

        Raises:
            RunnerAlive: another living process drives this team.
            AgentError: no member has an agent that can be had here, and it is not `idle`.
        """
        self.need_person("run a team")
        config = app.running.RunnerConfig(
            parallel=parallel, until=until, take_over=take_over, endless=endless, limits=limits or {}, hold=hold,
            shared=shared, idle=idle,
        )  # fmt: skip
        runner = app.running.TeamRunner(
            self.workspace(team), self._executor_for, config, home=self.path, stop=stop, on_update=on_update
        )
        return app.running.run_async(runner.work)

    def driven(self, team: str) -> bool:
        """Whether a living process drives the team."""
        with self.workspace(team).look() as rows:
            runner = rows.team.get().runner
        return runner is not None and alive(runner) is not False

    def stop(self, team: str, *, member: str | None = None, now: bool = False) -> StopOutcome:
        """Ask a team's runner (or one member) to finish what runs and stop; with `now`, end it and all it started.

        A member that was stopped gets no work until it is resumed. A server works for other teams, too: for it the
        team is paused instead.
        """
        self.need_person("stop a team or a member")
        workspace = self.workspace(team)
        if member is not None:
            return stopping.stop_member(workspace, member, now=now)
        return stopping.stop_runner(workspace, now=now)

    def recovery(self, team: str, *, interval: float) -> TeamRecovery:
        """What recovers tasks of the team that nobody works on; the caller polls it every `interval` seconds while
        anything is open. It reminds of questions as well.

        Raises:
            InvalidTeamName, TeamNotFound.
        """
        return TeamRecovery(self.workspace(team), interval)

    def notices(self, team: str | None = None, *, link: str | None = None) -> app.running.Notifications:
        """What tells people, by `notify.command` and `notify.webhook`, that something in the team, or in any, needs
        them, while its `with` block lasts. `link` is where the page is served; by default it is looked up."""

        def set_now() -> tuple[list[app.running.NotificationTarget], float]:
            settings = self._settings
            found = app.running.targets(str(settings.get("notify.command")), str(settings.get("notify.webhook")))
            return found, float(settings.get("notify.interval"))

        def page() -> str | None:
            return link or app.server_lock.page(self.path)

        names = self.teams if team is None else lambda: [team]
        return app.running.Notifications(self.path, names, self.workspace, set_now, self._clock, page)

    def _examined(self, path: str, *, new: bool = False) -> tuple[app.planning.Plan, str, tuple[str, ...]]:
        existing = lambda team: self.workspace(team) if team in self.teams() else None  # noqa: E731
        return app.planning.examined(path, existing, self._settings, self._executor_for, new=new)
