"""PORT: every public verb, as the command line, MCP and Python users call it.

`Home` is a directory of teams; `Team` is one team, seen by one caller. Verbs raise `InterlockError`s, whose `code` is
stable. The implementation in `clients/local.py` works on the ledgers of this machine; one over HTTP comes later and
changes no command.

Every verb of `Team` acts as the caller of `acting(...)`; `by=` names another member for a single call, which a caller
with a session of its own may not do. Tasks are named by id, by a unique suffix (`003`), or by their key in a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from interlock.agents.session import Update
from interlock.client_verbs import Mail, Mailing, People, Speech, Tasks
from interlock.client_views import Views
from interlock.client_workflow import WorkflowQueue, WorkflowRuns
from interlock.joined import Windows
from interlock.model.event import Event
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.processes.ancestry import RunOrigin
from interlock.runner.notifications import Notifications
from interlock.runner.plan_apply import StagedPlan
from interlock.runner.stop import Stop

if TYPE_CHECKING:
    from interlock.runner.scheduler import Scheduler
    from interlock.wakeup.notifier import Waiter

__all__ = ["Home", "Mail", "Mailing", "People", "Speech", "Tasks", "Team"]


class Team(Tasks, Mailing, People, Speech, Views, WorkflowQueue, WorkflowRuns, Protocol):
    """One team, seen by one caller."""

    @property
    def name(self) -> str:
        """The team's name."""

    @property
    def directory(self) -> str:
        """Where the team's files lie."""

    def acting(
        self, name: str, *, session: str | None = None, run: int | None = None, face: str = "python",
        person: bool = False, origin: RunOrigin | None = None,
    ) -> Team:  # fmt: skip
        """The same team, seen by another caller; by a `person`, who gets a place in the team with the first act.
        `origin` is the run that a caller over the wire belongs to."""

    def end_session(self) -> None:
        """The caller's session is over; what it was given and never acknowledged is offered to the next one."""

    def describe(self) -> dict[str, Any]:
        """The team with its members, as in `config.json`, plus `task_counts`."""

    def members(self) -> list[Member]:
        """Members, the lead first."""

    def spawn(
        self,
        name: str,
        *,
        agent: str | None = None,
        command: Sequence[str] | None = None,
        agent_id: str | None = None,
        type: str | None = None,
        model: str | None = None,
        permissions: str | None = None,
        by: str | None = None,
    ) -> Member:
        """Register a member."""

    def remove(self, name: str, *, by: str | None = None) -> list[str]:
        """Take a member out; answers the ids of the tasks it gave back."""

    def pause(self, member: str | None = None, *, reason: str | None = None, by: str | None = None) -> None:
        """Let runners start nothing new, in the team or of one member. What runs is finished."""

    def resume(self, member: str | None = None, *, by: str | None = None) -> None:
        """Go on after a pause; a member that was stopped is given work again."""

    def configure(self, changes: Mapping[str, Any], *, by: str | None = None) -> dict[str, Any]:
        """Set, or with null unset, the team's own settings; answers them all."""

    def setting(self, name: str) -> tuple[Any, str]:
        """A setting's value for this team, and where it comes from."""

    def events(self, since: int = 0, *, limit: int | None = None) -> tuple[list[Event], int]:
        """Events after `since`, and the sequence number to go on from."""

    def head(self) -> int:
        """The number of the newest event."""

    def waiter(self) -> Waiter:
        """Register for every change of the team, for servers; see `notifier.woken`. The caller closes it."""

    def follow(self, since: int = 0) -> Iterator[Event]:
        """Events after `since`, as they come, for ever."""

    def status(self) -> dict[str, Any]:
        """What needs a human, what runs since when with its last words, what is next, counts; whether a runner drives
        it (`driven`), and which other processes work on its tasks, servers among them (`workers`); `unable` are the
        members whose agent cannot be had on this machine, and why."""

    def report(self, since: str | None = None) -> dict[str, Any]:
        """What needs you, what is done with its evidence, what failed and why, what it cost."""

    def output(self, task: str, run: int | None = None) -> tuple[str, int]:
        """(path, run number) of the log of a run's output, the newest by default. Raises RunNotFound without one."""

    def verify_pending(self) -> list[Task]:
        """Run the verify of tasks whose verifier is gone; answers those tasks."""

    def poll(self, *, dry_run: bool = False) -> dict[str, Any]:
        """Take up, once, what nobody works on any more (AOF-61); `dry_run` only says what that would be.

        Returns:
            `{"actions": [{"type", "task_id", "reason"}], "actions_executed": n}`, `stale_heartbeat` not counted.

        Raises:
            LedgerBusy: what was done stands; the next poll does the rest.
        """

    def worktree(self, task: str, *, hear: Callable[[str], None] | None = None, by: str | None = None) -> Task:
        """Give a task that the caller works on a git worktree of its own; `worktree["directory"]` is where to work.

        In a team with `isolation: worktree`. Where it has one it is kept, and brought up to date where the task came
        back from its merge. `hear` is told what takes long, and what it prints.

        Raises:
            Forbidden, StaleRun, TaskAlreadyClaimed, InvalidTransition: the caller does not work on it.
            WorktreeRefused, GitFailed: git does not allow it, or the team does not work in worktrees.
            AgentError: its setup failed.
        """

    def diff(self, task: str, *, stat: bool = False, color: bool = False) -> dict[str, Any]:
        """What a task that works in a worktree of its own has changed: `{"task_id", "branch", "base", "merged",
        "diff"}`; with `stat` only the files."""

    def merge(
        self,
        tasks: Sequence[str] = (),
        *,
        everything: bool = False,
        into: str | None = None,
        dry_run: bool = False,
        by: str | None = None,
    ) -> dict[str, Any]:
        """Merge the work of these tasks, or all that is on the integration branch, into the branch that is checked out
        in the team's directory, or into another one of the user's.

        Returns:
            `{"into", "before", "after", "merged", "commits", "tasks", "conflicts", "dirty", "stat"}`; with `dry_run`
            what would be done, and what is in the way.

        Raises:
            Forbidden: the caller is no person, or runs inside a run.
            WorktreeRefused: conflicts, changes of the user's in the way, or nothing there; nothing was changed.
        """

    def doctor(self, *, repair: bool = False, adopt: bool = False) -> dict[str, Any]:
        """Check ledger, files and mirror: `{"healthy": bool, "findings": [{"level", "what", "path", "repaired",
        "team"}]}`; `level` is error, warning or info. `repair` puts right what needs no guess, `adopt` takes edited
        task files over."""


class Home(Windows, Protocol):
    """A directory of teams."""

    @property
    def path(self) -> str:
        """That directory."""

    def create_team(
        self,
        name: str,
        lead: str = "agent:main:main",
        *,
        claim_policy: str | None = None,
        workdir: str | None = None,
    ) -> Team:
        """Make a team. Nothing is left behind when that fails."""

    def team(self, name: str) -> Team:
        """The team of that name. Raises InvalidTeamName, TeamNotFound."""

    def mailing(
        self, name: str, member: str, *, session: str | None = None, run: int | None = None, face: str = "python"
    ) -> Mailing:
        """Only the mail of a team, as `member` sees it: quick to open, for hooks."""

    def teams(self) -> list[str]:
        """Names of all teams, sorted."""

    def delete_team(self, name: str, *, force: bool = False) -> None:
        """Delete a team with all its directories. Members at work are asked to stop first, and it is refused.

        Raises:
            MembersRunning: somebody is at work; `force` ends them.
        """

    def stage(self, plan: str, *, redo: Collection[str] = (), new: bool = False, dry_run: bool = False) -> StagedPlan:
        """Bring a team up to a plan file: members, tasks, dependencies, all or nothing.

        Raises:
            PlanError: the plan cannot be run as it stands; `errors` lists every fault with its line.
            AgentError: a member's agent cannot be run by this version.
        """

    def check_plan(self, plan: str) -> tuple[str, ...]:
        """What whoever runs that plan should know before, in sentences; nothing is made.

        Raises:
            PlanError, AgentError, WorktreeRefused, GitFailed: it cannot be carried out.
        """

    def drive(
        self,
        team: str,
        *,
        parallel: int | None = None,
        until: float | None = None,
        stop: Stop | None = None,
        on_update: Callable[[str, str, Update], None] = ...,
        take_over: bool = False,
        endless: bool = False,
        limits: Mapping[str, float] | None = None,
        hold: float | None = None,
        shared: bool = False,
        idle: bool = False,
    ) -> str:
        """Run the team's agents until nothing can proceed without a person; answers why it ended.

        Args:
            parallel: runs open at once; the team's setting by default.
            until: seconds since the epoch after which nothing new starts.
            stop: how others ask it to end.
            on_update: hears (member, task id, update) of everything the agents say, and, with empty names, what
                concerns the run as a whole. If it raises it is called no more, and `drive` raises that in the end.
            take_over: take the place of a runner on another machine, of which nobody here can tell whether it lives.
            endless: wait for new work until stopped; several processes may do so at once in one team.
            limits: what this run may use before nothing new starts: `turns`, `tokens`, `cost_usd`.
            hold: seconds that sessions wait for people when nothing else is left to do; until `hold_time` is over by
                default.
            shared: with `endless`: this process does more than that, and is not to be ended to stop the team.
            idle: also while no member has an agent that can be had here, to take up what nobody works on.

        Raises:
            RunnerAlive: another living process drives this team.
            AgentError: no member has an agent that can be had here, and it is not `idle`.
        """

    def scheduler(self, team: str, *, interval: float) -> Scheduler:
        """What takes up what nobody works on in the team; the caller polls it every `interval` seconds while anything
        is open. It reminds of questions as well.

        Raises:
            InvalidTeamName, TeamNotFound.
        """

    def notices(self, team: str | None = None, *, link: Callable[[], str | None] = ...) -> Notifications:
        """What tells people, by `notify.command` and `notify.webhook`, that something in the team, or in any, needs
        them; `link` answers where the page is served. The caller starts and stops it."""

    def propose(
        self, goal: str, *, agent: str, command: Sequence[str] = (), directory: str, path: str,
        on_update: Callable[[Update], None] = ...,
    ) -> str:  # fmt: skip
        """Ask an agent for a plan that reaches `goal`, to stand at `path`; answers its text, which can be run. Nothing
        is written, nothing is created. `agent` and `command` are as in a plan's member.

        Raises:
            AgentError: the agent is unknown, not installed, or did not answer.
            PlanError: what it proposed cannot be used, also after it was told why.
            InvalidRequest: the goal is empty or too long.
        """

    def driven(self, team: str) -> bool:
        """Whether a living process drives the team."""

    def stop(self, team: str, *, member: str | None = None, now: bool = False) -> dict[str, Any]:
        """Ask a team's runner (or one member) to stop, or end it: `{"team", "asked", "ended", "gone"}`."""

    def settings(self) -> list[dict[str, Any]]:
        """Every setting with its value, source, default and help."""

    def configure(self, changes: Mapping[str, Any]) -> None:
        """Set, or with null unset, settings of the home."""

    def doctor(self, team: str | None = None, *, repair: bool = False, adopt: bool = False) -> dict[str, Any]:
        """Examine one team, or the home with all its teams, as `Team.doctor`. A ledger that cannot be opened is a
        finding, no error.

        Raises:
            InvalidTeamName, TeamNotFound.
        """

    def agents(self) -> list[dict[str, Any]]:
        """Every kind of agent: `{"name", "title", "installed", "how", "path", "version", "install", "own", "tested",
        "guarantees", "checked"}`; `tested` is `checked` (here, see `check_agent`), `proven` (by Interlock's own tests)
        or `untested`.

        Raises:
            ConfigParseError: `agents.toml` cannot be read.
        """

    def check_agent(self, name: str, *, model: str | None = None) -> dict[str, Any]:
        """Try an agent with one small task, which costs a few requests of its model. As in `agents`, with `checked`:
        `{"abilities", "details", "seconds", …}`, and `works`, whether it can take part.

        Raises:
            AgentError: it is unknown, or not installed.
            ConfigParseError: `agents.toml` cannot be read.
        """

    def memory_status(self, directory: str | None = None) -> dict[str, Any]:
        """How the memory of the project at that directory (the current one by default) is, when it is asked: `{"kind",
        "where", "status", "since", "problem", "queued", "queue", "project"}`; `status` is AVAILABLE, UNAVAILABLE or
        PERMANENTLY_UNAVAILABLE."""

    def memories(
        self, query: str = "", *, directory: str | None = None, project: str | None = None, limit: int = 20
    ) -> dict[str, Any]:
        """What memory knows about `query`, or without one the latest: `{"project", "source", "stale", "memories":
        [{"id", "title", "content", "importance", "keywords", "tags", "project_id", "created_at", "relevance",
        "linked"}], "problems"}`.

        Raises:
            MemoryUnavailable: the local memory cannot be read.
        """

    def flush_memory(self, directory: str | None = None) -> dict[str, Any]:
        """Ask memory again, also one that was given up, and hand over what waits for it. As `memory_status`, with
        `handed_over`."""

    def __enter__(self) -> Self:
        """Use it in a `with` block, which closes it."""

    def __exit__(self, *_: object) -> None:
        """Close it."""

    def warnings(self) -> list[str]:
        """What verbs that only read met since the last call: `mirror_pending`, `ledger_restored`."""

    def close(self) -> None:
        """Give files and connections back."""

    def projects(self) -> list[dict[str, Any]]:
        """Projects, which are teams with a working directory: `{"id", "workdir", "created_at", "task_counts"}`."""

    def create_project(self, id: str, workdir: str | None = None) -> dict[str, Any]:
        """Make a project, and its team. Raises as `create_team`."""

    def chat(
        self,
        project: str,
        content: str,
        *,
        session_id: str | None = None,
        task_type: str | None = None,
        by: str | None = None,
        face: str = "python",
    ) -> dict[str, Any]:
        """Take in a chat message: exactly one task in the group of its chat session, in one transaction.

        Returns:
            `{"task_id", "task_group_id", "session_id", "status"}`.

        Raises:
            ProjectNotFound: there is no such project.
            SessionInOtherProject: the chat session belongs to another one.
            InvalidRequest: no content, or an unknown type.
        """

    def task_groups(
        self, project: str | None = None, *, offset: int = 0, limit: int = 50
    ) -> tuple[list[dict[str, Any]], int]:
        """A page of chat sessions with their tasks counted, the one with the newest news first, and how many there
        are."""

    def group_tasks(self, group: str, *, project: str | None = None) -> list[Task]:
        """The tasks of a chat session, oldest first. Raises GroupNotFound, AmbiguousId."""

    def locate(self, task: str, *, project: str | None = None) -> Team:
        """The team that has the task of that id. Raises TaskNotFound, and AmbiguousId where several have."""
