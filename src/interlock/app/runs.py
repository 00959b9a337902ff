"""Running a team: from a plan to agents at work, and stopping them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from interlock import app
from interlock.app.teams import TEAM_FILE, TeamsOfHome, team_in
from interlock.core.unit_of_work import Workspace
from interlock.errors import AgentError, InterlockError, InvalidRequest
from interlock.model.names import check_team_name
from interlock.processes.ref import alive, current

UNTOLD = "plan"
"""The name of a plan file, without its ending, that says nothing of what it is for: every project has one."""


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

    _tool_calls: app.running.TracedCalls | None = None

    def stage(
        self,
        plan: str,
        *,
        team: str | None = None,
        redo: Collection[str] = (),
        new: bool = False,
        dry_run: bool = False,
    ) -> app.planning.StagedPlan:
        """Bring a team up to a plan file: members, tasks, dependencies, all or nothing.

        Args:
            team: the name of the team; by default the one in the plan, else one that is free or works there.
            redo: keys of finished tasks that are to be done again.
            new: start the whole plan over.

        Raises:
            PlanError: the plan cannot be run; `errors` lists every fault with its line.
            TeamExists: the team of that name works in another directory.
            AgentError: a member's agent cannot be run by this version.
            Forbidden: this process belongs to a run.
        """
        self.need_person("start a plan")
        # Everything that can be refused is refused before anything is made.
        found = self._examined(plan, team=team, new=new)
        name = found.plan.team
        fresh = name not in self.teams()
        if fresh:
            preview = app.planning.apply(None, found, redo=redo, new=new, dry_run=True)
            if dry_run:
                return preview
            self.create_team(name, workdir=found.plan.workdir)
        try:
            return app.planning.apply(self.workspace(name), found, redo=redo, new=new, dry_run=dry_run)
        except BaseException:
            if fresh:
                self.delete_team(name, force=True)
            raise

    def import_tasks(
        self, kind: str, path: str, *, team: str | None = None, agent: str | None = None, command: Sequence[str] = (),
        parallel: int | None = None, workdir: str | None = None, dry_run: bool = False,
    ) -> app.planning.ImportedPlan:  # fmt: skip
        """Make the open tasks of another program the plan of a team. Nothing is changed there, and nothing starts. Done
        again, the plan follows what has changed there.

        Args:
            kind: claude, backlog, taskmaster, beads or bmad.
            path: of its file, or of the project.
            team: by default one named after the project.
            agent: of every member, with its `command` where that is `command` or `acp`; by default one that is found.
            parallel: how many tasks are done at once.
            workdir: where the team works; by default the project.

        Raises:
            InvalidRequest: that is no kind, or the team carries out another plan.
            PlanError: nothing of it is there, or it makes no sense; `errors` lists every fault with file and line.
            AgentError, WorktreeRefused, GitFailed: as `stage`.
        """
        self.need_person("import tasks")

        def carried(name: str) -> str | None:
            if name not in self.teams():
                return None
            with self.workspace(name).look() as rows:
                last = rows.events.latest(None, 1, ["plan.started"])
                return str(last[0].payload.get("path") if last else "") if rows.tasks.planned() else None

        return app.importing.import_tasks(
            self.stage, carried, os.path.join(self.path, "imports"), kind, path, team=team, agent=agent,
            command=command, parallel=parallel, workdir=workdir, dry_run=dry_run,
        )  # fmt: skip

    def check_plan(self, plan: str, *, team: str | None = None) -> tuple[str, ...]:
        """What the person who runs that plan, with that `team`, should know before, in sentences; nothing is made.

        Raises:
            PlanError, TeamExists, AgentError, WorktreeRefused, GitFailed: it cannot be carried out.
        """
        return self._examined(plan, team=team).notes

    def first_plan(self, directory: str, agent: str | None = None) -> app.planning.FirstPlan:
        """Find agents, git and the commands that run in `directory`, and write a team's file and a plan into it, with a
        first task for `agent` (as in a plan: a name, or a mapping in JSON).

        Raises:
            InvalidRequest: there is no such directory, one of the files exists, or `agent` takes no task in words.
            StorageError: the file system refused; nothing was left behind.
            PlanError, AgentError: `agent` is not known, or not on this machine; nothing was left behind.
        """
        if agent == "shell":
            raise InvalidRequest(
                "shell carries out commands and takes no task in words: leave --agent out, or name an agent.",
                field="agent",
            )
        directory = os.path.abspath(directory)
        name = self._own_name(app.planning.team_name(os.path.basename(directory)), directory)
        found = app.planning.initialise(directory, agent, team=name)
        try:
            if agent is not None:
                self.check_plan(found.files[1])
        except InterlockError as error:
            for path in found.files:
                os.unlink(path)
            if isinstance(error, AgentError):  # The line would be one of a file that is gone.
                raise AgentError(error.details["errors"][0]["message"]) from None
            raise
        return found

    def read_plan(self, text: str, path: str, *, team: str | None = None) -> app.planning.Plan:
        """What the text of a plan that is, or will be, at `path` says, with the name of its team. Raises PlanError."""
        return self._meant(app.planning.parse(text, path), team).plan

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
        name: str | None = None,
        labels: Sequence[str] | None = None,
        members: Sequence[str] | None = None,
        only: Collection[str] | None = None,
        share: app.running.MachineShare | None = None,
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
            hold: seconds that sessions wait for people when nothing else is left to do; `hold_time` by default.
            shared: with `endless`: this process does more than that, and is not to be ended to stop the team.
            idle: also while no member has an agent that can be had here, to recover what nobody works on.
            name: under which it is listed as a worker.
            labels: what it offers to tasks that ask for it; what the setting says by default.
            members: the only members it works for.
            only: the plan keys of the only tasks that it begins.
            share: which its runs are bounded by, beside those of other teams.

        Raises:
            InvalidRequest: the name or a label is none.
            RunnerAlive: another living process drives this team.
            AgentError: no member has an agent that can be had here, and it is not `idle`.
        """
        self.need_person("run a team")
        config = app.running.RunnerConfig(
            parallel=parallel, until=until, take_over=take_over, endless=endless, limits=limits or {}, hold=hold,
            shared=shared, idle=idle, name=name, labels=labels, members=members, only=only,
            share=share,
        )  # fmt: skip
        runner = app.running.TeamRunner(
            self.workspace(team),
            self._executor_for,
            config,
            home=self.path,
            stop=stop,
            on_update=self._traced(team, on_update),
        )
        return app.running.run_async(runner.work)

    def machine_share(self) -> app.running.MachineShare | None:
        """What bounds the runs of all teams of one process together; None where nothing does."""
        limit = int(self._settings.get("machine_parallel"))
        return app.running.MachineShare(limit, lambda team: self._notifier.notify(team, {"tasks"})) if limit else None

    def driven(self, team: str) -> bool:
        """Whether a living process drives the team."""
        with self.workspace(team).look() as rows:
            runner = rows.team.get().runner
        return runner is not None and alive(runner) is not False

    def stop(self, team: str, *, member: str | None = None, now: bool = False) -> app.stopping.StopOutcome:
        """Ask a team's runner (or one member) to finish what runs and stop; with `now`, end it and all it started.

        A member that was stopped gets no work until it is resumed. A server works for other teams, too: for it the
        team is paused instead.

        Raises:
            InvalidTeamName, TeamNotFound.
            MemberNotFound: there is no such member.
        """
        self.need_person("stop a team or a member")
        workspace = self.workspace(team)
        if member is not None:
            return app.stopping.stop_member(workspace, member, now=now)
        return app.stopping.stop_runner(workspace, now=now)

    def recovery(self, team: str, *, interval: float) -> TeamRecovery:
        """What recovers tasks of the team that nobody works on; the caller polls it every `interval` seconds while
        anything is open. It reminds of questions as well.

        Raises:
            InvalidTeamName, TeamNotFound.
        """
        return TeamRecovery(self.workspace(team), interval)

    def notices(self, team: str | None = None, *, link: str | None = None) -> app.running.Notifications:
        """What tells people, by the settings `notify.*`, that something in the team, or in any, needs them, while its
        `with` block lasts. `link` is where the page is served; by default it is looked up."""

        def page() -> str | None:
            return link or app.server_lock.page(self.path, self.tokens())

        names = self.teams if team is None else lambda: [team]
        return app.running.Notifications(
            self.path, names, self.workspace, self._notification_settings, self._clock, page
        )

    def push_key(self) -> str | None:
        """The key that browsers need to subscribe to notices; None while the setting `notify.push` is off."""
        return app.running.public_key(self.path) if self._settings.get("notify.push") else None

    def push_to(self, endpoint: str, p256dh: str = "", auth: str = "", *, stop: bool = False) -> str | None:
        """Send notices of every team to this browser, or no more; whose push service delivers them.

        Raises:
            InvalidRequest: push is off, the service is not known, or the keys are none.
        """
        self.need_person("subscribe a browser")
        if stop:
            app.running.unsubscribe(self.path, endpoint)
            return None
        setting = str(self._settings.get("notify.push"))
        return app.running.subscribe(self.path, setting, endpoint, p256dh, auth)

    def telemetry(self, team: str | None = None) -> app.running.Telemetry:
        """What sends traces and metrics of the team, or of all, while its `with` block lasts and the setting `otel` is
        on."""
        names = self.teams if team is None else lambda: [team]
        on = bool(self._settings.get("otel"))
        return app.running.Telemetry(self.path, names, self.workspace, self._clock, self._heard_calls(), on=on)

    def _traced(
        self, team: str, on_update: Callable[[app.running.Update], None]
    ) -> Callable[[app.running.Update], None]:
        """`on_update`, and before it, where the setting `otel` is on, what takes note of tool calls."""
        calls = self._heard_calls() if self._settings.get("otel") else None

        def hear(update: app.running.Update) -> None:
            if calls is not None:
                calls.heard(team, update)
            on_update(update)

        return hear

    def _heard_calls(self) -> app.running.TracedCalls:
        """The tool calls that this process hears of, made at first."""
        if self._tool_calls is None:
            self._tool_calls = app.running.TracedCalls(self._clock)
        return self._tool_calls

    def _notification_settings(self, changes: Mapping[str, Any] | None = None) -> app.running.NotificationSettings:
        """As they are, or as they would be with these changes; raises InvalidRequest where they make no sense."""
        names = ("notify.command", "notify.webhook", "notify.email", "notify.secret")
        asked = {name: self._settings.get(name) for name in (*names, "notify.push", "notify.interval", "notify.digest")}
        asked |= {name: value for name, value in (changes or {}).items() if value is not None}
        found = app.running.targets(*(str(asked[name]) for name in names))
        found += app.running.browsers(self.path, str(asked["notify.push"]))
        return app.running.NotificationSettings(found, float(asked["notify.interval"]), str(asked["notify.digest"]))

    def _examined(self, path: str, *, team: str | None = None, new: bool = False) -> app.planning.ExaminedPlan:
        meant = partial(self._meant, team=team)
        return app.planning.examined(path, meant, self._settings, self._executor_for, new=new)

    def _meant(self, plan: app.planning.Plan, team: str | None) -> app.planning.MeantTeam:
        """Which team a plan is for: the one that is said (`team`, else in the plan), else one of its own, named after
        the file, or, of a `plan.yaml`, as the `interlock.toml` beside it says."""
        place, said = app.planning.place, team or ("team" in plan.lines and plan.team)
        base = said or plan.team
        if not said and plan.team == UNTOLD:
            base = team_in(os.path.join(os.path.dirname(plan.path), TEAM_FILE)) or base
        if base != plan.team:
            check_team_name(base)
        plan = replace(plan, team=said or self._own_name(base, plan.workdir, plan.path))
        if plan.team not in self.teams():
            new = f"there is another team {base}, so this is for a new one: {plan.team}"
            return app.planning.MeantTeam(plan, notes=(new,) * (plan.team != base))
        workspace = self.workspace(plan.team)
        team_found = place.look(workspace)
        where = place.place_of(team_found, plan.workdir, plan.path)
        if where not in place.OWN and team_found.begun:  # An empty team is of no place yet.
            another = self._own_name(plan.team, plan.workdir, plan.path)
            return app.planning.MeantTeam(plan, refused=place.refusal(team_found, plan.workdir, where, another))
        moved = f"the team {plan.team} has moved from {team_found.workdir} to {plan.workdir}"
        return app.planning.MeantTeam(plan, workspace, team_found.workdir, notes=(moved,) * (where == "moved"))
