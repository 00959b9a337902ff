"""What the parts of a runner share: how it was started, where it works, who hears it, and the run that is under way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace
from typing import Any, Literal

from interlock.agents.session import Update
from interlock.core.unit_of_work import Principal, UnitOfWork, Workspace
from interlock.core.waiting import HumanWait
from interlock.gitwork.isolation import Isolation
from interlock.lazy_dataclass import dataclass
from interlock.model.driving import Stop
from interlock.model.task import Task
from interlock.model.team import Member
from interlock.model.worker import WorkerRecord
from interlock.runner.machine_share import MachineShare
from interlock.runner.usage import UsageMeter
from interlock.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerConfig:
    """How a runner drives a team.

    Attributes:
        parallel: runs open at once; the team's setting by default.
        until: seconds since the epoch after which nothing new starts.
        take_over: replace a runner on another machine, of which nobody here can tell whether it lives.
        endless: wait for new work where there is none; several such runners may be in one team, beside one that drives
            its plan.
        limits: what this run may use before nothing new starts: `turns`, `tokens`, `cost_usd`.
        hold: seconds that sessions wait for people when nothing else is left to do; `hold_time` by default.
        shared: its process is a server, which stopping one team must not end.
        name: under which it is listed as a worker; that of its machine by default.
        labels: what it offers to tasks that ask for it; by default what the setting of that name says.
        members: the only members that it works for; None for all.
        only: the plan keys of the only tasks that it begins; None for all.
        share: which the team's runs are bounded by, beside those of other teams.
        idle: run also while no member has an agent that can be had here, to recover what nobody works on.
    """

    parallel: int | None = None
    until: float | None = None
    take_over: bool = False
    endless: bool = False
    limits: Mapping[str, float] = field(default_factory=dict)
    hold: float | None = None
    shared: bool = False
    idle: bool = False
    name: str | None = None
    labels: Sequence[str] | None = None
    members: Sequence[str] | None = None
    only: Collection[str] | None = None
    share: MachineShare | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class RunnerContext:
    """One runner of one team, as its parts see it.

    `home` is passed to agents, so that they find the same ledger; `bin` is where they find our command; `workdir` is
    where members without a worktree of their own work; `process` is this process as the ledger names it. `wake` makes
    the runner look again at what may start. As of its last look: `settings` are the team's, `isolation` is how it has
    its worktrees, and `worker` is how the ledger lists this process.
    """

    workspace: Workspace
    config: RunnerConfig
    home: str
    stop: Stop
    process: str
    bin: str
    workdir: str
    on_update: Callable[[Update], None]
    wake: Callable[[], None]
    settings: Settings
    isolation: Isolation = field(init=False)
    asks: bool = False
    """Whether, at its last look, a run had to wait for those of other teams."""
    worker: WorkerRecord | None = None
    listener_error: Exception | None = None

    @property
    def labels(self) -> Collection[str]:
        """What it offers to tasks that ask for some."""
        return () if self.worker is None else self.worker.labels

    def publish(self, member: str, task_id: str, update: Update) -> None:
        """Pass on what was said. A listener that fails once is not called again: the work must not suffer from it."""
        if self.listener_error is None:
            try:
                self.on_update(replace(update, member=member, task_id=task_id))
            except Exception as error:  # boundary: foreign code; `TeamRunner.work` raises it in the end
                self.listener_error = error

    def notice(self, text: str, member: str = "", task_id: str = "") -> None:
        self.publish(member, task_id, Update("notice", text))

    def principal(self, member: str, session: str | None) -> Principal:
        """The member as it acts through this runner."""
        return Principal(member, session, face="runner", process=self.process)


@dataclass(slots=True, eq=False)
class ActiveRun:
    """A run under way: of `task`, by `caller`, in `workdir`."""

    context: RunnerContext
    member: Member
    task: Task
    caller: Principal
    wait: HumanWait
    workdir: str
    meter: UsageMeter = field(default_factory=UsageMeter)

    @property
    def workspace(self) -> Workspace:
        return self.context.workspace

    def act(self) -> AbstractContextManager[UnitOfWork]:
        """Open a transaction as this run, which acknowledges no mail."""
        return self.workspace.act(self.caller)

    def say(self, text: str, kind: Literal["text", "notice"] = "notice") -> None:
        self.context.publish(self.member.name, self.task.id, Update(kind, text))


def setting(workspace: Workspace, name: str) -> Any:
    """Read a setting of the team as it is now."""
    with workspace.ledger.snapshot() as rows:
        return workspace.settings(rows).get(name)
