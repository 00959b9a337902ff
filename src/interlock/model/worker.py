"""The processes that do a team's tasks, on whatever machine."""

from __future__ import annotations

from dataclasses import field

from interlock.lazy_dataclass import dataclass
from interlock.model.json import Json, fields_of

SHOWN = "name host version process labels members parallel load status alive began_at beat_at ended_at holds".split()
STATUSES = ("active", "paused", "draining")
FULL = "full"
"""The status of an active worker while the runs of other teams take all that its process may have open."""
PIECE_BYTES = 700 * 1024
"""Most bytes of a bundle or a file in one call: as base64 less than the MiB that nginx lets through by default."""
SAID_AT_ONCE = 65_536
"""Most characters of output that one beat, or report, carries."""


@dataclass(slots=True)
class WorkerRecord:
    """A worker: a runner of a plan, `interlock work`, or a server. Times are those of the ledger.

    Attributes:
        labels: what it offers to tasks that ask for it.
        members: the only members that it works for; None for all.
        parallel: with how many open runs in the team it begins no more; None: as the setting says.
        load: of its machine, as the average length of the queue for a processor over a minute.
        status: `active`; `full`: as many runs as its process may have open are those of other teams, too; `paused`: it
            starts nothing; `draining`: it finishes what it does, and ends.
        ended_at: since when it is no worker any more.
        alive: whether it works now, as far as is known; None where it was not asked.
        holds: the tasks that it is at.
    """

    name: str
    process: str
    host: str
    version: str
    labels: list[str]
    members: list[str] | None
    parallel: int | None
    load: float | None
    status: str
    status_at: str
    began_at: str
    beat_at: str
    ended_at: str | None = None
    alive: bool | None = None
    holds: list[str] = field(default_factory=list)

    def as_dict(self) -> Json:
        """The shape of `interlock workers`."""
        return fields_of(self, SHOWN)


@dataclass(slots=True, frozen=True, kw_only=True)
class WorkOffer:
    """A run that was begun for a worker elsewhere, with everything that it needs. Times are seconds, sizes bytes.

    Attributes:
        session: of the run; whoever knows it acts for the run.
        agent, command, model, permissions: how the member is `hired`.
        run: the command of a shell member's task.
        env: names of variables of the worker's environment that its programs may see.
        base: the commit that the work starts from; `onto`: one to merge into it first.
        repeated_calls, when_repeating: as the settings of these names say.
        commands: beginnings of commands that its agent may run unasked, one on a line.
        token: what lets its programs reach the team, as that run of that member, until it has ended.
        before: the commit before the work, where its check is to be run on that, too.
        branch: what the worker delivers, the run's own: no other run ever writes it.
        prefix: where in the repository the team works.
        review: whether it reviews what is at `base`, so that nothing of its checkout is delivered.
        lease: for how long the run may be silent.
    """

    team: str
    team_id: str
    task_id: str
    number: int
    subject: str
    member: str
    session: str
    agent: str
    command: list[str] | None
    model: str | None
    permissions: str
    kind: str | None
    prompt: str
    run: str | None
    verify: str | None
    setup: str | None
    env: list[str]
    base: str
    onto: str | None
    branch: str
    prefix: str
    lease: float
    time_limit: float
    setup_timeout: float
    verify_timeout: float
    git_timeout: float
    stop_grace: float
    output_bytes: int
    review: bool = False
    before: str | None = None
    token: str | None = None
    commands: str = ""
    repeated_calls: int = 0
    when_repeating: str = ""

    @property
    def run_id(self) -> str:
        """The run's id, `<task id>.<number>`."""
        return f"{self.task_id}.{self.number}"


@dataclass(slots=True, frozen=True)
class RefusedPermission:
    """What an agent elsewhere was refused, where nobody could be asked; `tool` is the kind of it."""

    tool: str
    title: str
    paths: list[str]
    why: str


@dataclass(slots=True, frozen=True)
class WorkerBeat:
    """What a remote worker hears when it shows that it lives: its status, and which of its runs are its no more.

    Attributes:
        lease: seconds for which its runs are its own if it is not heard of again.
        rest: seconds that it may wait until its next beat.
        work: whether there is work for it now.
        over: the sessions of its runs that are over a limit, so that their turns are to end.
    """

    status: str
    lost: list[str]
    lease: float = 0.0
    rest: float = 0.0
    work: bool = False
    over: list[str] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class WorkStep:
    """What a run elsewhere is to do next: `verify` the work by that command, work `again` at that prompt, or `end`."""

    kind: str
    text: str = ""
